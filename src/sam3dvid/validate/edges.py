"""T1, the edges of a frame: alpha stands where the masks do to a part of a pixel, and soft pixels have the colour of what they belong to."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Truth = NDArray[np.bool_]
Float = NDArray[np.float64]
Note = Callable[[str, str, str], None]
"""As in `colours`."""
SHIFT_PX = 0.2
"""How far alpha may lie off the masks, px: renders of scans are off by 0.08 at most, the least fault worth a name by half a pixel."""
FEW_EDGE_PX = 100
"""Edge pixels below which a shift is not known so well: it may then be larger by the root of their number."""
LEAST_EDGE_PX = 20
"""Edge pixels below which nothing is said."""
FEW_SOFT_PX, FEW_CODES = 50, 15.0
"""Soft pixels, and codes by which their colours would be darker if multiplied by alpha, that are needed to tell."""


def look_at_edges(rgba: Picture, mask: Picture, note: Note) -> None:
    """Note alpha that is shifted against the mask, and colours that were multiplied by alpha.

    rgba : (H, W, 4) uint8.   mask : (H, W) uint8, mask_visible.
    """
    box = _box_of((mask > 0) | (rgba[..., 3] > 0))
    if box is None:
        return
    shift = _shift(rgba[box][..., 3], mask[box] > 0)
    if shift is not None:
        (x, y), limit = shift
        if max(abs(x), abs(y)) > limit:
            note(f"alpha lies {x:+.2f} px in x and {y:+.2f} px in y off mask_visible", f"at most {limit:.2g} px", "shift")
    straight, multiplied = _fit(rgba[box])
    if multiplied < straight / 2:
        found = f"soft pixels have their neighbours' colour times alpha (off by {multiplied:.0f} codes), not that colour (off by {straight:.0f})"
        note(f"premultiplied: {found}", "straight alpha: colours that are not multiplied by it", "premultiplied")


def _box_of(shape: Truth) -> tuple[slice, slice] | None:
    """Return the rows and columns of a shape and two more around it, or None if it is empty."""
    rows, columns = (np.flatnonzero(shape.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return None
    return slice(max(rows[0] - 2, 0), rows[-1] + 3), slice(max(columns[0] - 2, 0), columns[-1] + 3)


def _shift(alpha: Picture, visible: Truth) -> tuple[tuple[float, float], float] | None:
    """Return by how many px alpha lies off a mask in x and y, and how many are in order; None where the mask's edges do not tell.

    Least squares: alpha is the mask, blurred by 3 x 3 pixels, and its slope times the shift.
    """
    wide = np.pad(visible.astype(np.float64), 2, mode="edge")
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    blurred = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    middle = blurred[1:-1, 1:-1]
    slope_x, slope_y = (blurred[1:-1, 2:] - blurred[1:-1, :-2]) / 2, (blurred[2:, 1:-1] - blurred[:-2, 1:-1]) / 2
    off = middle - alpha / 255.0
    xx, xy, yy = (float((one * other).sum()) for one, other in ((slope_x, slope_x), (slope_x, slope_y), (slope_y, slope_y)))
    determinant = xx * yy - xy * xy
    edge = int(np.count_nonzero((middle > 0) & (middle < 1))) / 2
    if edge < LEAST_EDGE_PX or determinant <= 1e-3 * (xx + yy) ** 2:
        return None
    bx, by = float((slope_x * off).sum()), float((slope_y * off).sum())
    shift = (yy * bx - xy * by) / determinant, (xx * by - xy * bx) / determinant
    return shift, SHIFT_PX * max(1.0, math.sqrt(FEW_EDGE_PX / edge))


def _fit(rgba: Picture) -> tuple[float, float]:
    """Return by how many codes the soft pixels beside solid ones differ from these, and from these times alpha; (0, 0) where they do not tell."""
    alpha = rgba[..., 3]
    solid = np.pad(alpha == 255, 1)
    soft = np.argwhere((alpha > 64) & (alpha < 191))
    if len(soft) < FEW_SOFT_PX:
        return 0.0, 0.0
    colours = np.pad(rgba[..., :3].astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    total, count = np.zeros((len(soft), 3)), np.zeros((len(soft), 1))
    for row, column in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)):
        at = soft[:, 0] + row, soft[:, 1] + column
        there = solid[at][:, None]
        total += colours[at] * there
        count += there
    known = count[:, 0] > 0
    if np.count_nonzero(known) < FEW_SOFT_PX:
        return 0.0, 0.0
    beside, own = total[known] / count[known], rgba[soft[known, 0], soft[known, 1]].astype(np.float64)
    parts = own[:, 3:] / 255
    if float((beside * (1 - parts)).mean()) < FEW_CODES:
        return 0.0, 0.0
    return float(np.abs(own[:, :3] - beside).mean()), float(np.abs(own[:, :3] - beside * parts).mean())
