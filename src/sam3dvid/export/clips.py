"""A clip as the export sees it: what its JSON files give to the sample, and a digest of all that decides the sample's bytes."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import FRAMES, HEIGHT, WIDTH, pose_in_camera
from sam3dvid.stage import MANIFEST, SPLITS, clip_of, is_clip_id
from shardwork.digests import digest_value
from shardwork.errors import DataError
from shardwork.ids import is_id
from shardwork.jsonio import Json, read_json, read_jsonl

META_KEYS = ("clip_id", "split", "seed", "num_objects", "generator_version", "git_commit", "visibility", "background")
OPTIONAL_KEYS = ("blender_version",)
VISIBILITY_KEYS = ("visible_px", "amodal_px", "visible_frac")
WORLD_POSE = {"R_wo": (3, 3), "t_wo": (3,), "s_wo": (3,)}
LARGEST = sys.float_info.max
"""A whole number may be larger in JSON, and then is no float64. Compared, NaN is no number either."""
LARGEST_SEED = 2**63 - 1
ORTHONORMAL = 1e-6
"""How far R^T R of a pose may lie from 1. The format's validator asks for less; this keeps out what is no pose at all."""
TAIL_BYTES = 4096
"""Of the end of a PNG file, one page: there the checksum of all its pixels stands (Adler-32), and behind it at most what a program notes of itself."""


def bad_clip(where: object, found: str, expected: str) -> AssetRefused:
    """Return the error for a clip, or a file of one, that cannot be exported."""
    return AssetRefused("bad_clip", where, found, expected)


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip's records.   folder : of the clip.   frames, width, height : int, px.   given : what enters the sample, before poses are worked out."""

    folder: Path
    clip_id: str
    split: str
    frames: int
    width: int
    height: int
    given: dict[str, Json]

    @property
    def num_objects(self) -> int:
        """Return N."""
        return len(self.given["objects"])

    @property
    def assets(self) -> tuple[str, ...]:
        """Return the ids of the clip's assets, in the order of its objects."""
        return tuple(one["asset_id"] for one in self.given["objects"])

    def pictures(self) -> Iterator[tuple[str, str]]:
        """Yield the field and the path in the clip's folder of every picture of the sample, in the sample's order."""
        for t in range(self.frames):
            yield f"rgb.{t:03d}.jpg", f"rgb/{t:03d}.png"
        for t in range(self.frames):
            yield f"visible.{t:03d}.png", f"mask_visible/{t:03d}.png"

    def fingerprint(self, ends: Sequence[tuple[int, str]]) -> str:
        """Return the digest of all that decides the sample, encoders apart.   ends : of each picture, as `pictures` yields them, what `end_of` says."""
        return digest_value([self.frames, self.width, self.height, self.given, [list(end) for end in ends]])


def read_clip_ids(dataset: Path, split: str, empty: bool = False) -> list[str]:
    """Return the clips of a split that the dataset's manifest names, sorted.

    empty : whether there may be none.   Raises DataError (bad_argument, bad_json), AssetRefused (bad_clip).
    """
    path = dataset / MANIFEST
    if not path.is_file():
        raise DataError("bad_argument", dataset, f"no {MANIFEST}", "the folder of a dataset", f"name the folder that holds {MANIFEST}")
    ids: dict[str, None] = {}
    for number, line in enumerate(read_jsonl(path), 1):
        where = f"{path}:{number}"
        if not (isinstance(line, dict) and isinstance(line.get("clip_id"), str) and is_clip_id(line["clip_id"]) and line.get("split") in SPLITS):
            raise bad_clip(where, "no clip_id of 8 digits, or no split", "the line of a clip")
        if line["split"] == split:
            if line.get("path") != f"clips/{split}/{line['clip_id']}":
                raise bad_clip(where, f"the path {line.get('path')!r}", f"clips/{split}/{line['clip_id']}")
            if line["clip_id"] in ids:
                raise bad_clip(where, f"clip {line['clip_id']} of {split} again", "each clip once")
            ids[line["clip_id"]] = None
    if not ids and not empty:
        raise DataError("bad_argument", path, f"no clip of split {split}", "at least one", "name the split that the dataset has")
    return sorted(ids)


def read_clip(dataset: Path, split: str, clip_id: str, any_size: bool) -> Clip:
    """Return a clip's records. Raises AssetRefused (bad_clip) for what no sample can be made of, OSError where the machine is at fault."""
    folder = clip_of(dataset, clip_id, split)
    cameras, objects, meta = (_record(folder / f"{name}.json", kind) for name, kind in (("cameras", dict), ("objects", list), ("meta", dict)))
    where = folder / "meta.json"
    given = {key: _key(meta, key, where) for key in META_KEYS} | {key: meta[key] for key in OPTIONAL_KEYS if key in meta}
    for key, wanted in (("clip_id", clip_id), ("split", split), ("num_objects", len(objects))):
        if given[key] != wanted:
            raise bad_clip(f"{where}: {key}", repr(given[key]), repr(wanted))
    if not isinstance(given["background"], dict):
        raise bad_clip(f"{where}: background", repr(given["background"])[:60], "an object")
    _check_origin(given, where)
    where = folder / "cameras.json"
    width, height, frames = (_key(cameras, key, where) for key in ("width", "height", "frames"))
    if not (isinstance(frames, list) and frames and all(isinstance(one, dict) and one.get("t") == t for t, one in enumerate(frames))):
        raise bad_clip(f"{where}: frames", "not numbered from 0", "frames in order")
    size, wanted_size = (len(frames), width, height), (FRAMES, WIDTH, HEIGHT)
    if not all(type(one) is int and one > 0 for one in size) or (size != wanted_size and not any_size):
        raise bad_clip(where, "{} frames of {} x {}".format(*size), "{} of {} x {}".format(*wanted_size))
    given["K"] = _numbers(_key(cameras, "K", where), (3, 3), f"{where}: K")
    given["T_cw"] = _numbers([_key(one, "T_cw", where) for one in frames], (len(frames), 4, 4), f"{where}: T_cw")
    _check_poses(given["T_cw"], f"{where}: T_cw")
    given["objects"] = [_object(one, k, f"{folder / 'objects.json'}: [{k - 1}]") for k, one in enumerate(objects, 1)]
    where = folder / "meta.json"
    visibility = given["visibility"]
    if not isinstance(visibility, dict) or set(visibility) != set(VISIBILITY_KEYS):
        raise bad_clip(f"{where}: visibility", "other keys", ", ".join(VISIBILITY_KEYS))
    for key in VISIBILITY_KEYS:
        _numbers(visibility[key], (len(frames), len(objects)), f"{where}: visibility.{key}")
    return Clip(folder, clip_id, split, len(frames), width, height, given)


def _check_origin(given: dict[str, Json], where: Path) -> None:
    """Raise AssetRefused (bad_clip) unless seed and versions are what they should be."""
    if type(given["seed"]) is not int or not 0 <= given["seed"] <= LARGEST_SEED:
        raise bad_clip(f"{where}: seed", repr(given["seed"])[:60], f"a whole number up to {LARGEST_SEED}")
    for key in ("generator_version", "git_commit", *OPTIONAL_KEYS):
        if key in given and not (isinstance(given[key], str) and given[key]):
            raise bad_clip(f"{where}: {key}", repr(given[key])[:60], "text")


def _check_poses(T_cw: Json, where: str) -> None:
    """Raise AssetRefused (bad_clip) unless every (4, 4) matrix is a rigid motion."""
    for t, pose in enumerate(np.array(T_cw, np.float64)):
        if pose[3].tolist() != [0, 0, 0, 1]:
            raise bad_clip(f"{where}[{t}]", f"the last row {pose[3].tolist()}", "[0, 0, 0, 1]")
        _check_rotation(pose[:3, :3], f"{where}[{t}]")


def _check_rotation(R: Any, where: str) -> None:
    """Raise AssetRefused (bad_clip) unless a (3, 3) matrix turns and does nothing else."""
    bounded = np.abs(R).max() <= 2
    off = np.abs(R.T @ R - np.eye(3)).max() if bounded else np.inf
    if off > ORTHONORMAL or np.linalg.det(R) < 0:
        raise bad_clip(where, f"R^T R off by {off:.3g}" if off > ORTHONORMAL else "a mirrored matrix", "a rotation")


def _record(path: Path, kind: type) -> Any:
    try:
        value = read_json(path)
    except FileNotFoundError as error:
        raise bad_clip(path, "no such file", "a file of the clip") from error
    except DataError as error:
        raise bad_clip(path, error.found, error.expected) from error
    if not isinstance(value, kind) or not value:
        raise bad_clip(path, f"a {type(value).__name__} of {str(value)[:40]!r}", f"a {kind.__name__} that is not empty")
    return value


def _key(record: Any, key: str, where: object) -> Any:
    if not isinstance(record, dict) or key not in record:
        raise bad_clip(where, f"no key {key!r}", "the format's keys")
    return record[key]


def _numbers(value: Json, shape: tuple[int, ...], where: object) -> Json:
    """Return nested lists of finite numbers if they are of this shape."""
    if not is_array(value, shape):
        raise bad_clip(where, repr(value)[:60], f"finite numbers of shape {shape}")
    return value


def is_array(value: Json, shape: tuple[int, ...]) -> bool:
    """Return whether a value is nested lists of finite numbers, of this shape."""
    if not shape:
        return type(value) in (int, float) and -LARGEST <= value <= LARGEST
    return isinstance(value, list) and len(value) == shape[0] and all(is_array(one, shape[1:]) for one in value)


def _object(record: Any, k: int, where: str) -> dict[str, Json]:
    if _key(record, "k", where) != k:
        raise bad_clip(f"{where}.k", repr(record["k"]), f"{k}, in order")
    asset_id = _key(record, "asset_id", where)
    if not isinstance(asset_id, str) or not is_id(asset_id):
        raise bad_clip(f"{where}.asset_id", repr(asset_id)[:60], "an id")
    pose = {key: _numbers(_key(record, key, where), shape, f"{where}.{key}") for key, shape in WORLD_POSE.items()}
    _check_rotation(np.array(pose["R_wo"], np.float64), f"{where}.R_wo")
    return {"k": k, "asset_id": asset_id, **pose}


def sample_json(clip: Clip) -> dict[str, Json]:
    """Return what a sample says of itself: the keys of seed 002, 9.2, and the background with its provenance.

    R_co (F, 3, 3), t_co (F, 3) and s_co (F, 3) of each object, scene units, camera in OpenCV axes: x_c = R_co (s_co * x_o) + t_co.
    """
    T_cw = np.array(clip.given["T_cw"], np.float64)
    objects = []
    for one in clip.given["objects"]:
        R_co, t_co, s_co = pose_in_camera(T_cw, one["R_wo"], one["t_wo"], one["s_wo"])
        posed = {"R_co": R_co.tolist(), "t_co": t_co.tolist(), "s_co": np.broadcast_to(s_co, t_co.shape).tolist()}
        objects.append({**one, **posed})
    return {**clip.given, "objects": objects}


def end_of(data: bytes, size: int) -> tuple[int, str]:
    """Return size and sha256 of the end of a picture.   data : its last bytes, TAIL_BYTES or more where it has so many.   size : of the whole."""
    return size, hashlib.sha256(data[-TAIL_BYTES:]).hexdigest()


def read_end(path: Path) -> tuple[int, str]:
    """Return size and sha256 of the end of a picture; no more of it is read. Raises AssetRefused (bad_clip) if there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise bad_clip(path, "no such file", "a picture of the clip") from error
    try:
        size = os.fstat(file).st_size
        return end_of(os.pread(file, TAIL_BYTES, max(0, size - TAIL_BYTES)), size)
    except IsADirectoryError as error:
        raise bad_clip(path, "a folder", "a picture of the clip") from error
    finally:
        os.close(file)


def fingerprint_of(clip: Clip) -> str:
    """Return the clip's fingerprint from its files as they are now. No picture is read whole: at its end a PNG file has a checksum of its pixels."""
    return clip.fingerprint([read_end(clip.folder / name) for _, name in clip.pictures()])
