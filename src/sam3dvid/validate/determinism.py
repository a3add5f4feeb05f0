"""T4: a clip made again from its seed is the same clip, file by file. Source: format v0.1, 6; synthetic spec, section 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from sam3dvid.validate.dataset import Unreadable, parse_json, read_bytes, read_depth, read_json
from sam3dvid.validate.kinds import LARGEST, Values, shown
from sam3dvid.validate.layout import RECORDS, listed
from sam3dvid.validate.png import read_png
from sam3dvid.validate.report import DETERMINISM, LAYOUT, Found
from sam3dvid.validate.schema import Size, look_at_cameras
from shardwork.errors import DataError
from shardwork.jsonio import Json

T = TypeVar("T")
FREE = ("timing", "git_commit")
"""Keys of meta.json that may differ: what the machine and the day make of a run."""
DEPTH_RELATIVE = 1e-5
MOST_FOLDERS = 2
"""Within one another in a clip: mask_amodal/obj1. Links may lead in circles, so no deeper ones are looked into."""
COLOURS = ("rgb", "rgba_fg")
MODES = {"rgb": "RGB", "rgba_fg": "RGBA", "mask_visible": "L", "mask_amodal": "L"}
"""Folder of a clip -> the kind of its pictures."""


@dataclass(frozen=True, slots=True)
class Again:
    """What clips are compared with.   root : the dataset that they were made again in.   rgb_noise : by how much colours may differ, of 255."""

    root: Path
    rgb_noise: int = 0

    def clips_of(self, root: Path, chosen: Sequence[tuple[str, str]], named: bool) -> list[tuple[str, str]]:
        """Return which of the chosen clips, (split, id), of a dataset were made again.

        named : whether each of them must have been.   Raises DataError (bad_argument) if one was not, or none at all, or if one is the same folder.
        """
        there = [name for name in chosen if (self.root / "clips" / name[0] / name[1]).is_dir()]
        if named and (gone := sorted(set(chosen) - set(there))):
            hint = "make it again there: scripts/regenerate_clips.py; or choose other clips"
            raise DataError("bad_argument", self.root, f"no clip {gone[0][1]}", "the chosen clips, made again", hint)
        if not there:
            hint = "make one of its clips again there: scripts/regenerate_clips.py"
            raise DataError("bad_argument", self.root, "no clip that the dataset has too", "at least one, under the same name", hint)
        for split, name in there:
            if (self.root / "clips" / split / name).samefile(root / "clips" / split / name):
                raise DataError("bad_argument", self.root, f"the clip {name} itself", "one that was made again", "name another dataset with --again")
        return there


@dataclass(slots=True)
class Difference:
    """How much a clip differs from the one made again.

    same_bytes, files : how many files are the same to the byte, and how many were compared.   depth_relative : greatest |a - b| / a.
    colour, colour_px : greatest difference of colour or alpha, of 255, and in how many pixels of all frames there is one.
    """

    clip: str
    files: int = 0
    same_bytes: int = 0
    depth_relative: float = 0.0
    colour: int = 0
    colour_px: int = 0


def differences_of(compared: Sequence[Difference]) -> Json:
    """Return the greatest differences ready for JSON."""
    return {
        "clips": [one.clip for one in compared],
        "colour_most": max((one.colour for one in compared), default=0),
        "colour_px": sum(one.colour_px for one in compared),
        "depth_limit": DEPTH_RELATIVE,
        "depth_relative_most": max((one.depth_relative for one in compared), default=0.0),
        "files": sum(one.files for one in compared),
        "files_same_bytes": sum(one.same_bytes for one in compared),
    }


def line_of(figures: Json) -> str:
    """Return those differences in one line for people."""
    return (
        f"{len(figures['clips'])} clips made again, {figures['files_same_bytes']} of {figures['files']} files the same to the byte; "
        f"depth differs by at most {figures['depth_relative_most']:.1e} of itself, colours by {figures['colour_most']} in {figures['colour_px']} px"
    )


def look_at_again(root: Path, again: Again, clip: str, tell: bool = False) -> tuple[Found, Difference]:
    """Return how a clip differs from the one made again.

    clip : path of its folder in both datasets.   tell : whether T1 was not asked for, so that what it would say of files that block T4 is told here.
    Raises OSError.
    """
    look = _Look(root, again, clip, tell)
    ours, theirs = (set(_files(base / clip)) for base in (root, again.root))
    for names, said in ((ours - theirs, "missing in the clip made again"), (theirs - ours, "only in the clip made again")):
        if names:
            look.found.add(DETERMINISM, clip, f"{said}: {listed(names)}", "the same files")
    for name in sorted(ours & theirs):
        look.compare(name)
    if not ours:
        look.found.block(DETERMINISM, clip)
        if tell:
            look.found.add(LAYOUT, clip, "no files", "the files of a clip")
    return look.found, look.difference


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files in a clip's folder, links followed, as deep as the format has folders, and of whatever lies there in place of a file.

    Raises OSError for a folder that cannot be read, which else would pass for an empty one.
    """
    for base, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
        if len(Path(base).relative_to(folder).parts) == MOST_FOLDERS:
            names = [*names, *folders]
            folders.clear()
        for name in names:
            yield str((Path(base) / name).relative_to(folder))


def _raise(error: OSError) -> None:
    raise error


class _Look:
    """The comparison of one clip."""

    def __init__(self, root: Path, again: Again, clip: str, tell: bool) -> None:
        self.root, self.again, self.clip, self.tell = root, again, clip, tell
        self.found, self.difference = Found(), Difference(clip)
        self._size: Size | None = None

    def compare(self, name: str) -> None:
        """Compare a file of both clips.   name : its path in the clip's folder."""
        self.difference.files += 1
        path = f"{self.clip}/{name}"
        try:
            one = read_bytes(self.root, path)
            other = self._theirs(path, lambda: read_bytes(self.again.root, path))
            if one == other:
                self.difference.same_bytes += 1
            elif other is not None:
                self._compare(name, path, one, other)
        except Unreadable as error:
            self.found.block(DETERMINISM, path)
            if self.tell:
                self.found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)

    def _fault(self, path: str, found: str, expected: str) -> None:
        """Note a fault; of the same in other frames of a folder the first is told, the others are counted."""
        folder = path.rpartition("/")[0]
        self.found.add(DETERMINISM, path, found, expected, f"{folder}: {expected}" if folder != self.clip else "")

    def _theirs(self, path: str, read: Callable[[], T]) -> T | None:
        """Return a file of the clip made again, or None with a fault noted."""
        try:
            return read()
        except Unreadable as error:
            self._fault(path, f"made again, {error.problem.found}", error.problem.expected)
            return None

    def _compare(self, name: str, path: str, one: bytes, other: bytes) -> None:
        """Compare files whose bytes differ. Raises Unreadable for ours."""
        folder = name.partition("/")[0]
        if name in RECORDS:
            self._json(name, path, one, other)
        elif folder == "depth":
            self._depth(path)
        elif folder in MODES:
            self._picture(path, folder)
        else:
            self._fault(path, "other bytes", "the same bytes")

    def _json(self, name: str, path: str, one: bytes, other: bytes) -> None:
        ours, theirs = parse_json(one, path), self._theirs(path, lambda: parse_json(other, path))
        if theirs is None:
            return
        if name == "meta.json":
            ours, theirs = ({key: value for key, value in meta.items() if key not in FREE} if isinstance(meta, dict) else meta for meta in (ours, theirs))
        at = first_other(ours, theirs)
        if at is not None:
            place, mine, its = at
            self._fault(f"{path}: {place}" if place else path, f"made again, {shown(its)}", shown(mine))
        elif name != "meta.json":
            self._fault(path, "made again, the same values in other bytes", "the same bytes")

    def _depth(self, path: str) -> None:
        size = self._frame_size()
        one = read_depth(self.root, path, size.width, size.height)
        other = self._theirs(path, lambda: read_depth(self.again.root, path, size.width, size.height))
        if other is None:
            return None
        if apart := int(np.count_nonzero(np.isnan(one) != np.isnan(other))):
            return self._fault(path, f"{apart} pixels with a depth in one clip alone", "NaN in the same pixels")
        differ = (one != other) & ~np.isnan(one)
        ours, theirs = one[differ].astype(np.float64), other[differ]
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(ours - theirs) / np.abs(ours)
        # an infinite depth of ours divides to NaN, a zero to infinity
        most = min(float(np.where(np.isnan(off), LARGEST, off).max(initial=0.0)), LARGEST)
        self.difference.depth_relative = max(self.difference.depth_relative, most)
        if most > DEPTH_RELATIVE:
            self._fault(path, f"depth differs by up to {most:.3g} of itself", f"at most {DEPTH_RELATIVE:g}")
        return None

    def _picture(self, path: str, folder: str) -> None:
        size = self._frame_size()
        one = read_png(self.root, path, MODES[folder], size.width, size.height)
        other = self._theirs(path, lambda: read_png(self.again.root, path, MODES[folder], size.width, size.height))
        if other is None:
            return
        off = np.abs(one.astype(np.int16) - other)
        pixels, most = int(np.count_nonzero(off.reshape(*off.shape[:2], -1).any(axis=2))), int(off.max())
        if folder not in COLOURS:
            if pixels:
                self._fault(path, f"{pixels} pixels differ", "the same mask")
            return
        self.difference.colour = max(self.difference.colour, most)
        self.difference.colour_px += pixels
        if most > self.again.rgb_noise:
            noise = self.again.rgb_noise
            self._fault(path, f"{pixels} pixels differ, by up to {most}", f"at most {noise}" if noise else "the same pixels")

    def _frame_size(self) -> Size:
        """Return the size of a frame, as our cameras.json has it. Raises Unreadable."""
        if self._size is None:
            name = f"{self.clip}/cameras.json"
            self._size = look_at_cameras(Values(name, Found()), read_json(self.root, name), any_size=True).size
            if self._size is None:
                raise Unreadable(name, "no size of frames that can be used", "width, height and frames")
        return self._size


def first_other(one: Json, other: Json, at: str = "") -> tuple[str, Json, Json] | None:
    """Return the first place where two JSON values differ and what stands there in each, None if they are the same, to the kind of every number."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        inner = ((one[key], other[key], f"{at}.{key}" if at else key) for key in sorted(one))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        inner = ((a, b, f"{at}[{index}]") for index, (a, b) in enumerate(zip(one, other, strict=True)))
    else:
        # as text, since -0.0 is 0.0 and 1 is true to Python
        return None if repr(one) == repr(other) else (at, one, other)
    return next((found for a, b, place in inner if (found := first_other(a, b, place)) is not None), None)
