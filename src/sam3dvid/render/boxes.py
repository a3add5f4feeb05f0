"""Where in a frame the objects of a clip are: boxes of pixels, so that nothing else is rendered.

A box is (first_u, end_u, first_v, end_v) in pixels, ends excluded, u to the right and v down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.conventions import project, rotate

Float = NDArray[np.float64]
Box = tuple[int, int, int, int]

MARGIN_PX = 2
"""Around the projected vertices: more than float32 moves a vertex, and what the pixel filter spreads."""
CONTEXT_PX = 8
"""Further pixels around all objects, for the denoiser to see that nothing is there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Where one object is in one frame.   box : of its vertices and MARGIN_PX, cut to the frame, None if it is outside.   far : its largest z, scene units."""

    box: Box | None
    far: float


def find_object(vertices: Float, T_cw: Float, K: Float, width: int, height: int) -> Seen:
    """Return where an object is.   vertices : (V, 3) float64, world.   T_cw : (4, 4).   K : (3, 3).

    An object that reaches behind the camera has the whole frame for its box: the projection of its vertices says nothing then.
    """
    x_c = rotate(T_cw[:3, :3], vertices) + T_cw[:3, 3]
    near, far = float(x_c[:, 2].min()), float(x_c[:, 2].max())
    if near <= 0:
        return Seen((0, width, 0, height) if far > 0 else None, far)
    uv = project(K, x_c)
    (low_u, low_v), (high_u, high_v) = uv.min(axis=0).tolist(), uv.max(axis=0).tolist()
    # pixel u covers u - 0.5 to u + 0.5
    box = (math.floor(low_u + 0.5), math.floor(high_u + 0.5) + 1, math.floor(low_v + 0.5), math.floor(high_v + 0.5) + 1)
    return Seen(grown(box, MARGIN_PX, width, height), far)


def grown(box: Box, margin: int, width: int, height: int) -> Box | None:
    """Return a box with a margin around it, cut to the frame, or None if nothing of it is in the frame."""
    first_u, end_u = max(box[0] - margin, 0), min(box[1] + margin, width)
    first_v, end_v = max(box[2] - margin, 0), min(box[3] + margin, height)
    return (first_u, end_u, first_v, end_v) if first_u < end_u and first_v < end_v else None


def around(boxes: Sequence[Box | None]) -> Box | None:
    """Return the smallest box around all boxes, or None if there is none."""
    found = [box for box in boxes if box is not None]
    if not found:
        return None
    return min(box[0] for box in found), max(box[1] for box in found), min(box[2] for box in found), max(box[3] for box in found)


def around_pixels(chosen: NDArray[np.bool_]) -> Box | None:
    """Return the smallest box around the pixels that are true, or None if none is.   chosen : (H, W) bool."""
    rows, columns = np.flatnonzero(chosen.any(axis=1)), np.flatnonzero(chosen.any(axis=0))
    return (int(columns[0]), int(columns[-1]) + 1, int(rows[0]), int(rows[-1]) + 1) if len(rows) else None


def inside(box: Box) -> tuple[slice, slice]:
    """Return what picks a box from an (H, W, ...) array."""
    return slice(box[2], box[3]), slice(box[0], box[1])


def hidden_pixels(k: int, seen: Seen, mask: NDArray[np.uint8], depth: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the pixels at which the visible mask and the depth do not settle whether object k is on the ray: (H, W) bool.

    A pixel that shows k is k's, and one that shows nothing is not. One that shows another object may have k behind it: within k's box, and only where
    k reaches farther back than what is seen. All others need no rendering.   mask : (H, W), 0..N.   depth : (H, W), NaN where the mask is 0.
    """
    hidden = np.zeros(mask.shape, np.bool_)
    if seen.box is not None:
        at = inside(seen.box)
        hidden[at] = (mask[at] != 0) & (mask[at] != k) & (depth[at] < seen.far * (1 + 1e-5))
    return hidden
