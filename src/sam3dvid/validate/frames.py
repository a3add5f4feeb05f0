"""T1, the pictures of a clip: formats, values, and what holds between the files of one frame. Every file is read once, for T2's counts too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sam3dvid.validate.colours import look_at_alpha, look_at_blend
from sam3dvid.validate.dataset import Unreadable, read_depth
from sam3dvid.validate.edges import look_at_edges
from sam3dvid.validate.kinds import Float
from sam3dvid.validate.png import read_png
from sam3dvid.validate.report import LAYOUT, Found
from sam3dvid.validate.schema import Size

Picture = NDArray[np.uint8]
LOOSE_DEPTH = 1e-5
"""How far a depth may lie beyond an object's sphere, of the depth and of a scene unit: float32 keeps a hundredth of that."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the masks show.   visible_px, amodal_px : (F, N) int64, -1 where a mask is missing or not in order."""

    visible_px: NDArray[np.int64]
    amodal_px: NDArray[np.int64]


class FrameFiles:
    """The files of one frame.   clip : path of its folder in the dataset.   present : files that are there; a missing one is T1's fault already."""

    def __init__(self, root: Path, clip: str, size: Size, present: Collection[str], found: Found) -> None:
        self.root, self.clip, self.size, self.present, self.found = root, clip, size, present, found

    def fault(self, name: str, found: object, expected: object, alike: str = "") -> None:
        """Note a fault of T1; the same in other frames of the folder is only counted."""
        folder = name.rpartition("/")[0]
        self.found.add(LAYOUT, f"{self.clip}/{name}", found, expected, f"{self.clip}/{folder}: {alike or expected}")

    def png(self, name: str, mode: str) -> Picture | None:
        """Return a picture, or None if it is not there or not in order."""
        if name not in self.present:
            return None
        self.found.counts["files"] += 1
        try:
            return read_png(self.root, f"{self.clip}/{name}", mode, self.size.width, self.size.height)
        except Unreadable as error:
            self.fault(name, error.problem.found, error.problem.expected)
        except OSError as error:
            self.found.miss(error, f"{self.clip}/{name}")
        return None

    def depth(self, name: str) -> NDArray[np.float32] | None:
        """Return a depth array, or None if it is not there or not in order."""
        if name not in self.present:
            return None
        self.found.counts["files"] += 1
        try:
            return read_depth(self.root, f"{self.clip}/{name}", self.size.width, self.size.height)
        except Unreadable as error:
            self.fault(name, error.problem.found, error.problem.expected)
        except OSError as error:
            self.found.miss(error, f"{self.clip}/{name}")
        return None


Compare = Callable[[int, Picture | None, Sequence[NDArray[np.bool_] | None], NDArray[np.float32] | None], None]
"""What else looks at a frame: its number, mask_visible, the silhouettes and depth, each None that is missing or not in order."""


def look_at_frames(files: FrameFiles, num_objects: int, pixels: bool, reach: Float | None = None, compare: Compare | None = None) -> Seen:
    """Return what the masks show; faults are noted.

    pixels : whether colours and depth are looked at too.   reach : (F, N, 2), least and greatest depth that an object can have, None if it is not known.
    compare : is given every frame.
    """
    shape = (files.size.frames, num_objects)
    seen = Seen(np.full(shape, -1, np.int64), np.full(shape, -1, np.int64))
    for t in range(files.size.frames):
        mask = _mask(files, f"mask_visible/{t:03d}.png", num_objects)
        wholes = [_amodal(files, f"mask_amodal/obj{k}/{t:03d}.png") for k in range(1, num_objects + 1)]
        for k, whole in enumerate(wholes, 1):
            if whole is not None:
                seen.amodal_px[t, k - 1] = np.count_nonzero(whole)
            if mask is not None:
                own = mask == k
                seen.visible_px[t, k - 1] = np.count_nonzero(own)
                if whole is not None and (outside := int(np.count_nonzero(own & ~whole))):
                    name = f"mask_amodal/obj{k}/{t:03d}.png"
                    files.fault(name, f"{outside} visible pixels of object {k} outside its silhouette", "visible pixels within the silhouette")
                    seen.visible_px[t, k - 1] = seen.amodal_px[t, k - 1] = -1
        if pixels:
            known = [whole for whole in wholes if whole is not None]
            _look_at_colours(files, t, mask, np.logical_or.reduce(known) if len(known) == num_objects else None)
        if pixels or compare is not None:
            depth = _look_at_depth(files, t, mask, None if reach is None else reach[t])
            if compare is not None:
                compare(t, mask, wholes, depth)
    return seen


def _mask(files: FrameFiles, name: str, num_objects: int) -> Picture | None:
    mask = files.png(name, "L")
    if mask is not None and (most := int(mask.max())) > num_objects:
        files.fault(name, f"the value {most}", f"0 to {num_objects}")
        return None
    return mask


def _amodal(files: FrameFiles, name: str) -> NDArray[np.bool_] | None:
    """Return a silhouette as truth values."""
    pixels = files.png(name, "L")
    if pixels is None:
        return None
    whole: NDArray[np.bool_] = pixels == 255
    if np.count_nonzero(whole) + np.count_nonzero(pixels == 0) != pixels.size:
        other = pixels[(pixels != 0) & ~whole]
        files.fault(name, f"the value {int(other[0])}", "0 and 255 alone")
        return None
    return whole


def _look_at_depth(files: FrameFiles, t: int, mask: Picture | None, reach: Float | None) -> NDArray[np.float32] | None:
    """Return depth, or None unless it and the mask are there and every value is NaN or finite and above 0."""
    name = f"depth/{t:03d}.npz"
    depth = files.depth(name)
    if depth is None or mask is None:
        return None
    empty, background = np.isnan(depth), mask == 0
    if (odd := int(np.count_nonzero(empty & ~background))) != 0:
        files.fault(name, f"{odd} pixels of objects without depth", "finite depth wherever mask_visible is above 0", "hole")
    if (odd := int(np.count_nonzero(~empty & background))) != 0:
        files.fault(name, f"{odd} pixels of the background with a depth", "NaN wherever mask_visible is 0", "background")
    wrong = ~empty & ~((depth > 0) & (depth < np.inf))
    if (odd := int(np.count_nonzero(wrong))) != 0:
        files.fault(name, f"{odd} depths such as {depth[wrong][0]}", "finite depths above 0", "value")
        return None
    if reach is not None:
        _look_at_reach(files, name, depth, mask, reach)
    return depth


def _look_at_reach(files: FrameFiles, name: str, depth: NDArray[np.float32], mask: Picture, reach: Float) -> None:
    """Note depths that no point of the object has: those of its bounding sphere bound them.   reach : (N, 2)."""
    for k, (least, greatest) in enumerate(reach, 1):
        values = depth[mask == k]
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if low < least or high > greatest:
            files.fault(name, f"depths of object {k} from {low:.6g} to {high:.6g}", f"from {least:.6g} to {greatest:.6g}, as its pose has it", f"reach {k}")


def _look_at_colours(files: FrameFiles, t: int, mask: Picture | None, silhouettes: NDArray[np.bool_] | None) -> None:
    """Look at rgb and rgba_fg.   silhouettes : (H, W), the union of all objects', None unless all are in order."""
    name = f"rgba_fg/{t:03d}.png"
    rgb, rgba = files.png(f"rgb/{t:03d}.png", "RGB"), files.png(name, "RGBA")
    if rgba is None:
        return
    alpha = rgba[..., 3]
    # a pixel as one number: 0 only if colour and alpha are all 0
    whole = np.ascontiguousarray(rgba).view(np.uint32)[..., 0]
    if (odd := int(np.count_nonzero((alpha == 0) & (whole != 0)))) != 0:
        files.fault(name, f"{odd} pixels with a colour but without alpha", "0 wherever alpha is 0", "colour")
    if mask is not None and silhouettes is not None:
        look_at_alpha(alpha, mask, silhouettes, partial(files.fault, name))
        look_at_edges(rgba, mask, partial(files.fault, name))
    if rgb is not None:
        look_at_blend(rgb, rgba, partial(files.fault, f"rgb/{t:03d}.png"))
