"""An equirectangular panorama -> a perspective view of it. Source: synthetic spec, section 4."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam3dvid.backgrounds.images import Rgb
from sam3dvid.backgrounds.panorama import Pixels, reduced
from sam3dvid.conventions import BACKGROUND_HFOV_DEG, focal_px, pinhole

Float = NDArray[np.float64]
Index = NDArray[np.int64]

BLOCK_ROWS = 64


def view(panorama: Rgb, yaw_deg: float, width: int = 2048, height: int = 1024, hfov_deg: float = BACKGROUND_HFOV_DEG) -> Rgb:
    """Return the view of a level pinhole camera that stands in a panorama's centre and is turned right by `yaw_deg`.

    panorama : (EH, 2 EH, 3) uint8, equirectangular, row 0 is straight up, its middle is yaw 0.   width, height : px of the view.
    Returns (height, width, 3) uint8, pixel centres at integers, principal point in the middle, K = conventions.K_bg(width, height) for 130 degrees.
    Sampled bilinearly, seamless across the panorama's left and right edge, from what `prefilter` makes of it.
    """
    small = prefilter(panorama, width, hfov_deg)
    K = pinhole(width, height, focal_px(width, hfov_deg))
    x, y = panorama_px(np.arange(width), np.arange(height), K, yaw_deg, small.shape[1])
    packed = np.zeros((*small.shape[:2], 4), np.uint8)  # four bytes a pixel are gathered as one number, three times as fast
    packed[..., :3] = small
    out = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, BLOCK_ROWS):
        rows = slice(top, top + BLOCK_ROWS)
        out[rows] = np.rint(_bilinear(packed.view(np.uint32)[..., 0], x, y[rows]))[..., :3]
    return out


def prefilter(panorama: Pixels, width: int = 2048, hfov_deg: float = BACKGROUND_HFOV_DEG) -> Pixels:
    """Return a panorama averaged down to `prefilter_width`, or as it is if it is no wider.

    Without it, a view of an 8K panorama would take one pixel of seven and shimmer from frame to frame. Done once for several views, it is not done again.
    """
    return reduced(panorama, prefilter_width(width, hfov_deg))


def prefilter_width(width: int = 2048, hfov_deg: float = BACKGROUND_HFOV_DEG) -> int:
    """Return the width of a panorama that has the resolution of a view's middle: 3,000 px for 2048 px and 130 degrees.

    It is a multiple of four, so that views a quarter turn apart see the same cells.
    """
    return 4 * round(2 * math.pi * focal_px(width, hfov_deg) / 4)


def panorama_px(u: ArrayLike, v: ArrayLike, K: Float, yaw_deg: float, pano_width: int) -> tuple[Float, Float]:
    """Return where in a panorama of 2 EH x EH pixels a view looks at its columns u and its rows v.

    u : (w,), v : (h,), px of the view.   K : (3, 3) intrinsics of the view.   pano_width : 2 EH.
    Returns x (1, w) and y (h, w) float64, panorama px with pixel centres at integers; x may lie beyond either edge and wraps.
    """
    across = (np.asarray(u, np.float64)[None, :] - K[0, 2]) / K[0, 0]
    down = (np.asarray(v, np.float64)[:, None] - K[1, 2]) / K[1, 1]
    lon = np.arctan(across) + math.radians(yaw_deg)  # z is 1, so this is atan2(x, z)
    lat = -np.arctan(down / np.sqrt(across**2 + 1))  # and this -asin(y) of the unit vector
    x = (lon + math.pi) / (2 * math.pi) * pano_width - 0.5
    y = (math.pi / 2 - lat) / math.pi * (pano_width / 2) - 0.5
    return x, y


def _bilinear(packed: NDArray[np.uint32], x: Float, y: Float) -> NDArray[np.float32]:
    """Return values at (x, y), x round the sphere, y kept between the poles.

    packed : (EH, EW), the four bytes of each pixel.   x : (1, w), y : (h, w), px.   Returns (h, w, 4) float32.
    cv2.remap would round positions to 1/32 pixel, which shows at the edges of a view, where a panorama's pixel covers many.
    """
    tall, wide = packed.shape
    y = np.clip(y, 0, tall - 1)
    first, top = np.floor(x).astype(np.int64), np.minimum(y.astype(np.int64), tall - 2)
    right_part, low_part = (part.astype(np.float32)[..., None] for part in (x - first, y - top))
    left, right = first % wide, (first + 1) % wide
    upper = _between(_values(packed, top, left), _values(packed, top, right), right_part)
    lower = _between(_values(packed, top + 1, left), _values(packed, top + 1, right), right_part)
    return _between(upper, lower, low_part)


def _values(packed: NDArray[np.uint32], row: Index, column: Index) -> NDArray[np.float32]:
    at = row * packed.shape[1] + column
    found = np.take(packed.reshape(-1), at, mode="clip")  # all are inside; "clip" spares the check
    values: NDArray[np.float32] = found.view(np.uint8).reshape(*at.shape, 4).astype(np.float32)
    return values


def _between(one: NDArray[np.float32], other: NDArray[np.float32], part: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return one + (other - one) * part. Overwrites both."""
    other -= one
    other *= part
    one += other
    return one
