"""A background photo -> its part of one frame: a plane at infinity that only the camera's rotation moves. Source: synthetic spec, section 1.

Why `warp` samples as it does: root mean square error of a frame, in steps of 255, against the box average of a scene twice as fine as the photo.
View: of a real panorama, 2048 x 1024. Noise: smooth over half a photo pixel. Stripes: two photo pixels a period. Reduced: at most, as `reduction` says.

| scene   | turned | reduced | bilinear | bicubic | Lanczos | `warp` |
| ------- | -----: | ------: | -------: | ------: | ------: | -----: |
| view    |  0 deg |    0.87 |     2.80 |    2.19 |    2.15 |   2.07 |
| view    | 15 deg |    1.22 |     2.72 |    2.16 |    2.12 |   1.99 |
| view    | 30 deg |    2.14 |     2.39 |    2.12 |    2.09 |   1.72 |
| noise   |  0 deg |    0.87 |     4.44 |    3.20 |    3.05 |   3.14 |
| noise   | 15 deg |    1.22 |     4.26 |    3.19 |    3.10 |   3.01 |
| noise   | 30 deg |    2.14 |     3.82 |    3.59 |    3.73 |   2.66 |
| stripes |  0 deg |    0.87 |     5.87 |   11.67 |   12.70 |   5.02 |
| stripes | 15 deg |    1.22 |     9.00 |   16.20 |   17.14 |   4.39 |
| stripes | 30 deg |    2.14 |    24.48 |   32.95 |   33.77 |   5.07 |

OpenCV's INTER_AREA is its bilinear one in warpPerspective. CPU of a frame: 5 ms bilinear, 10 bicubic, 40 Lanczos, 30 to 150 `warp`; rendering it takes seconds.
"""

from __future__ import annotations

import math
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from sam3dvid.backgrounds.images import Rgb
from sam3dvid.conventions import HEIGHT, WIDTH, compose

Float = NDArray[np.float64]

LEAST_SAMPLES, MOST_SAMPLES = 2, 8
"""Samples a frame pixel's side. Never one: its sharpness differs from that of two, and a clip's frames would change it on the way."""


def homography(R_cw: Float, R_cw_ref: Float, K: Float, K_bg: Float) -> Float:
    """Return what maps photo pixels to frame pixels: K R_cw R_cw_ref^T inv(K_bg).

    R_cw, R_cw_ref : (3, 3), world to camera, of the frame and of the camera that the photo is aligned to.   K, K_bg : (3, 3) intrinsics of frame and photo.
    Returns (3, 3) float64 for homogeneous (u, v, 1), pixel centres at integers.
    """
    return compose(compose(K, compose(R_cw, R_cw_ref.T)), _inverse(K_bg))


def _inverse(matrix: Float) -> Float:
    """Return the inverse of a (3, 3) matrix, written out: rounded alike on any processor, as whether a background covers a frame must be."""
    (a, b, c), (d, e, f), (g, h, i) = matrix.tolist()
    p, q, r = e * i - f * h, f * g - d * i, d * h - e * g
    adjugate = np.array([[p, c * h - b * i, b * f - c * e], [q, a * i - c * g, c * d - a * f], [r, b * g - a * h, a * e - b * d]])
    return cast(Float, adjugate / (a * p + b * q + c * r))


def covers(H: Float, photo_width: int, photo_height: int, width: int = WIDTH, height: int = HEIGHT) -> bool:
    """Return whether a photo covers every pixel of a frame. Exact: the frame is convex, and so is the photo, so its four corner pixels decide.

    H : (3, 3), photo pixel to frame pixel.   A corner must come from before the photo's camera (z > 0) and from within [0, W - 1] x [0, H - 1].
    """
    x, y, z = _seen_from(_inverse(H), width, height)
    if not (z > 0).all():
        return False
    x, y = x / z, y / z
    return bool((x >= 0).all() and (x <= photo_width - 1).all() and (y >= 0).all() and (y <= photo_height - 1).all())


def _seen_from(back: Float, width: int, height: int) -> Float:
    """Return where the four corner pixels of a frame come from: (3, 4) float64, homogeneous.   back : (3, 3), frame pixel to photo pixel."""
    u, v = np.array([0, width - 1, 0, width - 1], np.float64), np.array([0, 0, height - 1, height - 1], np.float64)
    points: Any = back[:, 0:1] * u + back[:, 1:2] * v + back[:, 2:3]
    return cast(Float, points)


def reduction(H: Float, width: int = WIDTH, height: int = HEIGHT) -> float:
    """Return how many photo pixels, at most, lie along one frame pixel in any direction: the largest stretch of the inverse map over the frame's corners.

    The stretch of a homography grows towards the line at infinity, so no pixel inside has more than the corners.
    """
    back = _inverse(H)
    largest = 0.0
    for x, y, z in _seen_from(back, width, height).T.tolist():
        (a, b), (c, d) = ((back[:2, :2] * z - np.array([[x], [y]]) * back[2, :2]) / (z * z)).tolist()
        squares, area = a * a + b * b + c * c + d * d, a * d - b * c
        # the larger singular value of the Jacobian
        largest = max(largest, math.sqrt((squares + math.sqrt(max(0.0, squares * squares - 4 * area * area))) / 2))
    return largest


def warp(photo: Rgb, H: Float, width: int = WIDTH, height: int = HEIGHT) -> Rgb:
    """Return a frame's background: (height, width, 3) uint8.

    photo : (PH, PW, 3) uint8.   H : (3, 3), photo pixel to frame pixel, as `homography` returns it. It goes to cv2.warpPerspective without the inverse flag.
    Raises ValueError unless the photo covers the frame.

    Sampled bicubically, with n x n samples averaged for each pixel where the photo is reduced by up to n. A photo of 130 degrees is reduced most at
    its edges: a view of 2048 px by up to 3.5 where a corner looks 60 degrees aside, and one sample a pixel would shimmer there. The table above compares.
    """
    if not covers(H, photo.shape[1], photo.shape[0], width, height):
        raise ValueError("the photo does not cover the frame")
    n = samples(reduction(H, width, height))
    # the n x n samples of pixel u lie at u + (i + 0.5) / n - 0.5
    fine = np.array([[n, 0, (n - 1) / 2], [0, n, (n - 1) / 2], [0, 0, 1]], np.float64) @ H
    many = cv2.warpPerspective(photo, fine, (n * width, n * height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return cast(Rgb, cv2.resize(many, (width, height), interpolation=cv2.INTER_AREA))


def samples(reduced_by: float) -> int:
    """Return how many samples a frame pixel's side are taken where a photo is reduced by so much."""
    return min(MOST_SAMPLES, max(LEAST_SAMPLES, math.ceil(reduced_by - 0.05)))
