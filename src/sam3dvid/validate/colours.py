"""T1, the colours of a frame: rgba_fg against the masks, and rgb against rgba_fg, as far as that goes without the photo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Truth = NDArray[np.bool_]
Note = Callable[[str, str, str], None]
"""Takes what was found, what was expected, and a name for the same fault in other frames."""
LOOSE_LSB = 1
"""By how much rgb may differ from what it must be: one step of rounding."""
REACH_PX = 2
"""How far antialiasing carries alpha beyond a silhouette: a pixel filter of 1.5 pixels covers 1 pixel beyond it, and rounding may add one."""
LOOSE_SHARE = 0.05
"""Pixels of a silhouette's border that may be otherwise: a ray through a pixel's centre meets a sliver that its samples miss, and the other way round.

Source: what format v0.1, 6 allows masks by the same reason.
"""


def look_at_alpha(alpha: Picture, mask: Picture, silhouettes: Truth, note: Note) -> None:
    """Note alpha that is not where the objects are.

    alpha, mask : (H, W) uint8.   silhouettes : (H, W) bool, the union of all objects' silhouettes.
    Inside the mask every pixel has alpha; on its border, and beyond the silhouettes, a twentieth of the border's pixels may be otherwise.
    """
    visible, covered = mask > 0, alpha > 0
    bare = visible & ~covered
    if bare.any():
        inner = shrunk(visible)
        if (odd := int(np.count_nonzero(bare & inner))) != 0:
            note(f"{odd} pixels inside objects without alpha", "alpha above 0 wherever mask_visible is", "bare")
        elif (odd := int(np.count_nonzero(bare))) > (allowed := LOOSE_SHARE * np.count_nonzero(visible & ~inner)):
            note(f"{odd} pixels on the border of objects without alpha", f"alpha above 0 wherever mask_visible is, but for {allowed:.0f}", "bare")
    far = covered & ~grown(silhouettes, REACH_PX)
    if not far.any():
        return
    beyond = f"alpha of 0 more than {REACH_PX} pixels from mask_amodal"
    if (odd := int(np.count_nonzero(alpha[far] == 255))) != 0:
        note(f"{odd} solid pixels away from every object", beyond, "far")
        return
    allowed = LOOSE_SHARE * int(np.count_nonzero(silhouettes & ~shrunk(silhouettes)))
    if (weight := float(alpha[far].sum(dtype=np.int64)) / 255) > allowed:
        odd = int(np.count_nonzero(far))
        note(f"{odd} pixels away from every object, of {weight:.1f} whole ones' alpha", f"{beyond}, but for slivers of {allowed:.1f}", "far")


def look_at_blend(rgb: Picture, rgba: Picture, note: Note) -> None:
    """Note colours of rgb that no photo makes of rgba_fg: fg a where the photo is black, to fg a + 255 (1 - a) where it is white.

    rgb : (H, W, 3) uint8.   rgba : (H, W, 4) uint8, straight alpha.   Source: format v0.1, 4: rgb = fg a + bg (1 - a).
    """
    alpha = rgba[..., 3].ravel()
    some = np.flatnonzero(alpha)
    if not len(some):
        return
    parts = alpha[some].astype(np.int32)[:, None]
    # 255 times what is compared, so that all of it is whole
    shines = rgb.reshape(-1, 3)[some].astype(np.int32) * 255 - rgba.reshape(-1, 4)[some, :3].astype(np.int32) * parts
    slack = 255 * LOOSE_LSB
    off = np.maximum(-shines, shines - 255 * (255 - parts)).max(axis=1)
    wrong = off > slack
    for at, said, alike in (
        (parts[:, 0] == 255, "solid objects in another colour", "solid"),
        (parts[:, 0] < 255, "borders in a colour that no background makes", "border"),
    ):
        if (odd := int(np.count_nonzero(wrong & at))) != 0:
            most = float(off[wrong & at].max()) / 255
            note(f"{odd} pixels of {said}, by up to {most:.0f}", "rgba_fg's colour with the background's behind it, rgba_fg's alone where alpha is 255", alike)


def grown(shape: Truth, px: int) -> Truth:
    """Return the pixels at most `px` from a shape's, diagonals counted as one."""
    for _ in range(px):
        for axis in (0, 1):
            shape = _either(shape, axis)
    return shape


def shrunk(shape: Truth) -> Truth:
    """Return the pixels of a shape whose eight neighbours in the picture are its own too."""
    return ~grown(~shape, 1)


def _either(shape: Truth, axis: int) -> Truth:
    """Return the pixels of a shape and their two neighbours along an axis."""
    wide = shape.copy()
    ahead, behind = (slice(1, None), slice(None, -1)) if axis == 0 else ((slice(None), slice(1, None)), (slice(None), slice(None, -1)))
    wide[ahead] |= shape[behind]
    wide[behind] |= shape[ahead]
    return wide
