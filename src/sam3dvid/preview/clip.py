"""A clip as its files say it is: cameras, objects with their voxels, and the pictures of one frame at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sam3dvid.codes import AssetRefused
from sam3dvid.validate.bounds import MOST_OBJECTS
from sam3dvid.validate.dataset import LARGEST_JSON_BYTES, Unreadable, parse_array, read_bytes, read_depth
from sam3dvid.validate.kinds import Values
from sam3dvid.validate.png import read_png
from sam3dvid.validate.report import Found
from sam3dvid.validate.schema import CLIP_ID, ID, LARGEST_SIDE, MOST_FRAMES, SPLITS, Size
from shardwork.errors import DataError
from shardwork.jsonio import Json, loads

Rgb = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Float = NDArray[np.float64]
T = TypeVar("T")

GRID = 64
NAME = r".{1,200}"
"""Texts that are drawn: longer ones take a font minutes."""
"""Voxels along each side of the canonical cube."""
SMALLEST_SIDE = 16
"""Pixels. Validation asks for as many."""
META_KEYS = ("seed", "arc_span_deg", "arc_direction", "background")


@dataclass(frozen=True, slots=True)
class Placed:
    """One object of objects.json.

    R_wo : (3, 3), t_wo, s_wo : (3,) float64, world frame, scene units.   centres : (V, 3) float64, its occupied voxels' centres, canonical frame.
    """

    k: int
    asset_id: str
    source: str
    R_wo: Float
    t_wo: Float
    s_wo: Float
    centres: Float


@dataclass(frozen=True, slots=True)
class Frame:
    """The pictures of one frame.

    rgb : (H, W, 3) uint8.   mask : (H, W) uint8, 0 or k.   amodal : (N, H, W) bool.   depth : (H, W) float32, scene units, camera z, NaN where nothing is.
    """

    rgb: Rgb
    mask: NDArray[np.uint8]
    amodal: Mask
    depth: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip's records.

    root : the dataset.   split, clip_id : from the folder's name.   K : (3, 3) float64, px.   T_cw : (F, 4, 4) float64, world to camera.
    seed, arc_span_deg (signed by the direction), image_id : as meta.json says.
    """

    root: Path
    split: str
    clip_id: str
    size: Size
    K: Float
    T_cw: Float
    objects: tuple[Placed, ...]
    seed: int
    arc_span_deg: float
    image_id: str

    @property
    def path(self) -> str:
        """Return the clip's folder, relative to the dataset."""
        return f"clips/{self.split}/{self.clip_id}"

    def frame(self, t: int) -> Frame:
        """Return the pictures of a frame. Raises DataError (missing_file, bad_clip), OSError where the machine does not let us look."""
        amodal = [self._png(f"mask_amodal/obj{one.k}", t, "L") > 0 for one in self.objects]
        depth = _clear(lambda: read_depth(self.root, f"{self.path}/depth/{t:03d}.npz", self.size.width, self.size.height))
        return Frame(self._png("rgb", t, "RGB"), self._png("mask_visible", t, "L"), np.stack(amodal), depth)

    def foreground(self, t: int) -> Rgb:
        """Return rgba_fg of a frame: (H, W, 4) uint8, straight alpha. Raises as `frame` does."""
        return self._png("rgba_fg", t, "RGBA")

    def _png(self, folder: str, t: int, mode: str) -> Rgb:
        return _clear(lambda: read_png(self.root, f"{self.path}/{folder}/{t:03d}.png", mode, self.size.width, self.size.height))


def read_clip(folder: Path) -> Clip:
    """Return the records of a clip.

    folder : DATASET/clips/SPLIT/CLIP_ID; the dataset is found from it.
    Poses need not be rigid nor lengths in order: what is drawn from them shows what is wrong.
    Raises DataError: bad_argument for a folder that is no clip's, missing_file, bad_json, and AssetRefused (bad_clip) for values of another kind or shape.
    """
    root, split, clip_id = _find(folder)
    path = f"clips/{split}/{clip_id}"
    size, K, T_cw = _read(root, f"{path}/cameras.json", _cameras)
    entries = _read(root, f"{path}/objects.json", _objects)
    seed, span, image_id = _read(root, f"{path}/meta.json", _meta)
    objects = tuple(_with_voxels(root, *entry) for entry in entries)
    return Clip(root, split, clip_id, size, K, T_cw, objects, seed, span, image_id)


def _find(folder: Path) -> tuple[Path, str, str]:
    # no links are followed: a clip that is one still belongs to the dataset that it stands in
    whole = Path(os.path.abspath(folder))
    clips, split, clip_id = ("", "", "", *whole.parts)[-3:]
    if clips != "clips" or split not in SPLITS or re.fullmatch(CLIP_ID, clip_id) is None:
        raise DataError("bad_argument", folder, "a path that is no clip's", "DATASET/clips/SPLIT/CLIP_ID, eight digits", "name the folder of one clip")
    if not whole.is_dir():
        raise DataError("bad_argument", folder, "no such folder", "the folder of a clip", "correct the path")
    return whole.parents[2], split, clip_id


def _clear(read: Callable[[], T]) -> T:
    """Return what is read. Raises DataError in place of Unreadable."""
    try:
        return read()
    except Unreadable as error:
        problem = error.problem
        if problem.found == "no such file":
            hint = "write the clip again, or restore the file from a copy"
            raise DataError("missing_file", problem.where, problem.found, problem.expected, hint) from error
        raise AssetRefused("bad_clip", problem.where, problem.found, problem.expected) from error


def _read(root: Path, name: str, look: Callable[[Values, Json], T | None]) -> T:
    """Return what a look at a JSON file returns. Raises AssetRefused (bad_clip) for the first fault that it notes."""
    content = loads(_clear(lambda: read_bytes(root, name, LARGEST_JSON_BYTES)), name)
    found = Found()
    seen = look(Values(name, found), content)
    if found.faults or seen is None:
        problem = found.faults[0][1]
        raise AssetRefused("bad_clip", problem.where, problem.found, problem.expected)
    return seen


def _cameras(values: Values, content: Json) -> tuple[Size, Float, Float] | None:
    record = values.record("", content, ("width", "height", "K", "frames"), others=True)
    width, height = (values.whole(name, record.get(name), SMALLEST_SIDE, LARGEST_SIDE) for name in ("width", "height"))
    K = values.array("K", record.get("K"), (3, 3))
    if K is not None and not (K[0, 0] > 0 and K[1, 1] > 0):
        values.fault("K", f"the focal lengths {K[0, 0]:g} and {K[1, 1]:g}", "focal lengths above 0")
    frames = values.listed("frames", record.get("frames")) or []
    if not 1 <= len(frames) <= MOST_FRAMES:
        values.fault("frames", f"{len(frames)} frames", f"1 to {MOST_FRAMES}")
    poses = []
    for t, frame in enumerate(frames):
        one = values.record(f"frames[{t}]", frame, ("t", "T_cw"), others=True)
        values.same(f"frames[{t}].t", one.get("t"), t)
        poses.append(values.array(f"frames[{t}].T_cw", one.get("T_cw"), (4, 4), "T_cw"))
    T_cw = [pose for pose in poses if pose is not None]
    if width is None or height is None or K is None or not poses or len(T_cw) != len(poses):
        return None
    return Size(len(T_cw), width, height), K, np.stack(T_cw)


def _objects(values: Values, content: Json) -> list[tuple[Placed, str]] | None:
    """Return the objects, still without voxels, and the path of each one's voxels."""
    entries = values.listed("", content) or []
    if not 1 <= len(entries) <= MOST_OBJECTS:
        values.fault("", f"{len(entries)} objects", f"1 to {MOST_OBJECTS}")
        return None
    placed = [_object(values, f"[{index}]", index + 1, entry) for index, entry in enumerate(entries)]
    return [one for one in placed if one is not None]


def _object(values: Values, at: str, k: int, entry: Json) -> tuple[Placed, str] | None:
    record = values.record(at, entry, ("k", "asset_id", "source", "voxels", "R_wo", "t_wo", "s_wo"), others=True)
    values.same(f"{at}.k", record.get("k"), k)
    asset_id, source = values.text(f"{at}.asset_id", record.get("asset_id"), ID), values.text(f"{at}.source", record.get("source"), NAME)
    voxels = values.text(f"{at}.voxels", record.get("voxels"), rf"assets/({'|'.join(SPLITS)})/{ID}/voxels\.npy")
    R_wo = values.array(f"{at}.R_wo", record.get("R_wo"), (3, 3))
    t_wo, s_wo = (values.array(f"{at}.{name}", record.get(name), (3,)) for name in ("t_wo", "s_wo"))
    if asset_id is None or source is None or voxels is None or R_wo is None or t_wo is None or s_wo is None:
        return None
    return Placed(k, asset_id, source, R_wo, t_wo, s_wo, np.empty((0, 3))), voxels


def _with_voxels(root: Path, placed: Placed, name: str) -> Placed:
    grid = _clear(lambda: parse_array(read_bytes(root, name), name, np.dtype(np.bool_), (GRID, GRID, GRID)))
    centres = (np.argwhere(grid) + 0.5) / GRID - 0.5
    return Placed(placed.k, placed.asset_id, placed.source, placed.R_wo, placed.t_wo, placed.s_wo, centres)


def _meta(values: Values, content: Json) -> tuple[int, float, str] | None:
    record = values.record("", content, META_KEYS, others=True)
    seed, direction = values.whole("seed", record.get("seed")), values.whole("arc_direction", record.get("arc_direction"), -1, 1)
    span = values.number("arc_span_deg", record.get("arc_span_deg"))
    background = values.record("background", record.get("background"), ("image_id",), others=True)
    image_id = values.text("background.image_id", background.get("image_id"), NAME)
    return None if seed is None or direction is None or span is None or image_id is None else (seed, direction * span, image_id)
