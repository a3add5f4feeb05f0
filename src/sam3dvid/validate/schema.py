"""T1, cameras.json and objects.json of a clip: exact keys, kinds, lengths and values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sam3dvid.validate.bounds import HFOV_DEG, MOST_OBJECTS, SCALES
from sam3dvid.validate.kinds import Float, Values
from shardwork.jsonio import Json

ID = r"[A-Za-z0-9_-]{1,100}"
CLIP_ID = r"[0-9]{8}"
WORD = ID
"""Where an asset comes from: gso, objaverse or any other word. Source: asset tables."""
SPLITS = ("eval", "train")
FRAMES, WIDTH, HEIGHT = 32, 512, 512
LARGEST_SIDE, MOST_FRAMES = 4096, 1000
"""Bounds of what is looked at when other sizes than the format's are allowed."""
OBJECT_KEYS = ("k", "asset_id", "source", "mesh", "voxels", "R_wo", "t_wo", "s_wo")


@dataclass(frozen=True, slots=True)
class Size:
    """What frames there are of what size."""

    frames: int = FRAMES
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Cameras:
    """What cameras.json says, as far as it is in order.

    size : None unless it can be used.   T_cw : (F, 4, 4), None unless that of every frame is a rigid motion.   K : (3, 3), None unless it is the format's.
    """

    size: Size | None
    T_cw: Float | None
    K: Float | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """One object of objects.json.   R_wo : (3, 3).   t_wo : (3,).   scale : s_wo's one number.   Any is None that is not in order."""

    asset_id: str | None
    source: str | None
    t_wo: Float | None
    scale: float | None
    R_wo: Float | None = None


def pinhole(width: int, height: int, hfov_deg: float) -> Float:
    """Return the intrinsics of a picture: (3, 3), pixel centres at integers, focal length (W / 2) / tan(hfov / 2)."""
    focal = (width / 2) / math.tan(math.radians(hfov_deg) / 2)
    return np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])


def look_at_cameras(values: Values, content: Json, any_size: bool) -> Cameras:
    """Return what cameras.json says; faults are noted.   any_size : whether other sizes than 32 frames of 512 x 512 are allowed."""
    record = values.record("", content, ("convention", "width", "height", "K", "frames"))
    if "convention" in record:
        values.same("convention", record["convention"], "opencv")
    width = values.whole("width", record["width"], 16, LARGEST_SIDE) if "width" in record else None
    height = values.whole("height", record["height"], 16, LARGEST_SIDE) if "height" in record else None
    frames = (values.listed("frames", record["frames"]) if "frames" in record else None) or []
    if "frames" in record and not 2 <= len(frames) <= MOST_FRAMES:
        values.fault("frames", f"{len(frames)} frames", FRAMES if not any_size else f"from 2 to {MOST_FRAMES} frames")
        frames = []
    size = Size(len(frames), width, height) if width and height and frames else None
    if size is not None and not any_size and size != Size():
        values.fault("", f"{size.frames} frames of {size.width} x {size.height}", f"{FRAMES} frames of {WIDTH} x {HEIGHT}")
    K = None
    if "K" in record and width and height:
        wanted = pinhole(width, height, HFOV_DEG)
        K = wanted if values.near("K", values.array("K", record["K"], (3, 3)), wanted) else None
    return Cameras(size, _poses(values, frames), K)


def _poses(values: Values, frames: list[Json]) -> Float | None:
    """Return T_cw of all frames, (F, 4, 4), or None if one is not in order."""
    poses = []
    for t, frame in enumerate(frames):
        record = values.record(f"frames[{t}]", frame, ("t", "T_cw"))
        if "t" in record:
            values.same(f"frames[{t}].t", record["t"], t)
        pose = values.array(f"frames[{t}].T_cw", record["T_cw"], (4, 4), "T_cw") if "T_cw" in record else None
        if pose is not None and rigid(values, f"frames[{t}].T_cw", pose):
            poses.append(pose)
    return np.stack(poses) if frames and len(poses) == len(frames) else None


def rigid(values: Values, at: str, pose: Float) -> bool:
    """Return whether a (4, 4) matrix is a rigid motion."""
    if pose[3].tolist() != [0, 0, 0, 1]:
        values.fault(at, f"the last row {pose[3].tolist()}", "[0, 0, 0, 1]", "last row")
        return False
    return values.rotation(at, pose[:3, :3], "rotation")


def look_at_objects(values: Values, content: Json, split: str) -> list[Placed]:
    """Return what objects.json says, an empty list unless it lists 1 to 4 objects; faults are noted."""
    entries = values.listed("", content)
    if entries is None:
        return []
    if not 1 <= len(entries) <= MOST_OBJECTS:
        values.fault("", f"{len(entries)} objects", f"1 to {MOST_OBJECTS}")
        return []
    placed = [_object(values, f"[{index}]", index + 1, entry, split, len(entries)) for index, entry in enumerate(entries)]
    ids = [one.asset_id for one in placed if one.asset_id is not None]
    for asset_id in sorted({one for one in ids if ids.count(one) > 1}):
        values.fault("", f"asset {asset_id} {ids.count(asset_id)} times", "different assets in a clip")
    return placed


def _object(values: Values, at: str, k: int, entry: Json, split: str, num_objects: int) -> Placed:
    record = values.record(at, entry, OBJECT_KEYS)
    if "k" in record:
        values.same(f"{at}.k", record["k"], k)
    asset_id = values.text(f"{at}.asset_id", record["asset_id"], ID) if "asset_id" in record else None
    source = values.text(f"{at}.source", record["source"], WORD) if "source" in record else None
    for key, name in (("mesh", "mesh.glb"), ("voxels", "voxels.npy")):
        if key in record and (path := values.text(f"{at}.{key}", record[key])) is not None and asset_id is not None:
            values.same(f"{at}.{key}", path, f"assets/{split}/{asset_id}/{name}")
    rotation = values.array(f"{at}.R_wo", record["R_wo"], (3, 3)) if "R_wo" in record else None
    if rotation is not None and not values.rotation(f"{at}.R_wo", rotation):
        rotation = None
    t_wo = values.array(f"{at}.t_wo", record["t_wo"], (3,)) if "t_wo" in record else None
    if t_wo is not None and (away := float(np.linalg.norm(t_wo))) > math.cbrt(num_objects) + 1e-9:
        values.fault(f"{at}.t_wo", f"{away:.6g} from the world's origin", f"within a ball of radius {num_objects}^(1/3)")
    scale = _scale(values, f"{at}.s_wo", record["s_wo"]) if "s_wo" in record else None
    return Placed(asset_id, source, t_wo, scale, rotation)


def _scale(values: Values, at: str, value: Json) -> float | None:
    scales = values.array(at, value, (3,))
    if scales is None:
        return None
    if len(set(scales.tolist())) != 1:
        values.fault(at, f"the scales {scales.tolist()}", "three equal numbers")
        return None
    if not SCALES[0] <= scales[0] <= SCALES[1]:
        values.fault(at, f"the scale {scales[0]:g}", f"from {SCALES[0]} to {SCALES[1]}")
        return None
    return float(scales[0])
