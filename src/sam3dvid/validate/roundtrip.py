"""T5: what a training export holds is what the dataset holds, sample by sample. Source: format v0.1, 9; synthetic spec, section 6."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.export_reader import FRAMES, ExportError, iter_members, iter_samples, load_voxels, open_voxels
from sam3dvid.validate.dataset import Unreadable, parse_array, read_bytes, read_json
from sam3dvid.validate.determinism import first_other
from sam3dvid.validate.jpegform import form_fault
from sam3dvid.validate.kinds import Float, Values, shown
from sam3dvid.validate.layout import listed
from sam3dvid.validate.png import read_png
from sam3dvid.validate.report import EXPORT, LAYOUT, Found
from sam3dvid.validate.schema import Size, look_at_cameras, look_at_objects
from shardwork.errors import DataError
from shardwork.jsonio import Json

SHARD = re.compile(r"(eval|train)-[0-9]{6,}\.tar")
GRID = (64, 64, 64)
FROM_META = ("clip_id", "split", "seed", "num_objects", "generator_version", "git_commit")
OPTIONAL = ("blender_version", "background")
"""Keys of a sample that are there if the clip's meta.json has them, with its values: the background with its provenance. Source: format v0.1, its update."""
OBJECT_KEYS = ("k", "asset_id", "R_wo", "t_wo", "s_wo")
POSE = 1e-12
"""How far a pose in the camera may lie from what is worked out here: the order of sums may differ."""
PSNR_DB = 40.0
"""What a JPEG keeps to for usual pictures; of a noisy one, 36 is measured. Below it a frame is counted, no fault. Source: synthetic spec, section 6."""
SAME_DB = 100.0
OTHER_DB = 1.0
"""By how much a JPEG must be closer to a frame beside its own to be taken for that one's: what it loses of fine noise may bring it a little closer."""
LEAST_DB = 30.0
"""No JPEG of quality 95 and full chroma comes down here: one step of its table is at most 12, so what is below is another picture."""

Picture = NDArray[np.uint8]


@dataclass(slots=True)
class ShardMeasures:
    """What T5 measured of a shard.   clips : ids in their order.   assets : those they use.   psnr_db : of each clip's frames, the least."""

    shard: str
    clips: list[str] = field(default_factory=list)
    assets: set[str] = field(default_factory=set)
    psnr_db: dict[str, float] = field(default_factory=dict)
    below: int = 0


@dataclass(frozen=True, slots=True)
class Exported:
    """The export of a split beside its dataset.   root, folder : of the dataset and of the export.   clips : ids to compare, all if empty.

    tell : whether T1 was not asked for, so that what it would say of files that block T5 is told here.
    """

    root: Path
    folder: Path
    split: str
    clips: Collection[str] = ()
    tell: bool = False

    def takes(self, clip_id: str) -> bool:
        """Return whether a clip is compared."""
        return not self.clips or clip_id in self.clips


def shards_of(export: Path, splits: Collection[str]) -> list[tuple[str, str]]:
    """Return (split, file name) of the shards in an export's folder, in order.   Raises DataError (bad_argument) unless all are of one chosen split."""
    if not export.is_dir():
        raise DataError("bad_argument", export, "no such folder", "the folder of an export", "name the folder with index.json")
    # a millionth shard has a digit more than those before it
    names = sorted((path.name for path in export.iterdir()), key=lambda name: (len(name), name))
    found = [(match[1], name) for name in names if (match := SHARD.fullmatch(name))]
    if len({split for split, _ in found}) != 1 or found[0][0] not in splits:
        said = f"shards of {' and '.join(sorted({split for split, _ in found})) or 'no split'}"
        raise DataError("bad_argument", export, said, f"shards of {' or '.join(splits)}", "name the folder of one split's export, with index.json")
    return found


def look_at_shard(pair: Exported, shard: str) -> tuple[Found, ShardMeasures]:
    """Return how the samples of a shard differ from the dataset; of clips that were not chosen no picture is decoded.   Raises OSError."""
    found, seen = Found(), ShardMeasures(shard)
    path = pair.folder / shard
    try:
        for clip_id, rgb, visible, info in iter_samples(path, lambda clip_id: range(FRAMES) if pair.takes(clip_id) else ()):
            seen.clips.append(clip_id)
            if pair.takes(clip_id):
                _Sample(pair, found, f"{shard}: {clip_id}", f"clips/{pair.split}/{clip_id}").compare(rgb, visible, info, seen)
    except ExportError as error:
        found.add(EXPORT, error.where.replace(str(path), shard, 1), error.found, error.expected)
    else:
        _look_at_forms(pair, found, shard)
    found.counts["samples"] += len(seen.clips)
    return found, seen


def _look_at_forms(pair: Exported, found: Found, shard: str) -> None:
    """Note JPEGs of another form than the format's: of what quality and sampling they are, their pixels do not tell."""
    for name, data in iter_members(pair.folder / shard):
        clip_id, _, member = name.partition(".")
        if member.endswith(".jpg") and pair.takes(clip_id):
            wrong, wanted = form_fault(data)
            if wrong:
                found.add(EXPORT, f"{shard}: {clip_id}: {member}", wrong, wanted, f"{shard}: {clip_id}: form")


class _Sample:
    """One sample beside its clip.   where : shard and id, for faults.   clip : path of its folder in the dataset."""

    def __init__(self, pair: Exported, found: Found, where: str, clip: str) -> None:
        self.root, self.found, self.where, self.clip, self.tell = pair.root, found, where, clip, pair.tell

    def compare(self, rgb: Picture, visible: Picture, info: Json, seen: ShardMeasures) -> None:
        if not (self.root / self.clip).is_dir():
            self._fault("", "no such clip in the dataset", "clips of the dataset")
            return
        try:
            cameras, objects, meta = (read_json(self.root, f"{self.clip}/{name}.json") for name in ("cameras", "objects", "meta"))
            wanted, poses, size = expected(cameras, objects, meta, self.clip)
            seen.assets |= {str(one["asset_id"]) for one in objects}
            self._json(info, wanted, poses)
            if rgb.shape[:3] != (size.frames, size.height, size.width):
                said = f"{size.frames} frames of {size.width} x {size.height}, as cameras.json has them"
                self._fault("", f"{len(rgb)} frames of {rgb.shape[2]} x {rgb.shape[1]}", said)
            else:
                self._pictures(rgb, visible, seen)
        except Unreadable as error:
            self.found.block(EXPORT, self.clip)
            if self.tell:
                self.found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)

    def _fault(self, at: str, found: str, expected: str, alike: str = "") -> None:
        self.found.add(EXPORT, f"{self.where}: {at}" if at else self.where, found, expected, alike and f"{self.where}: {alike}")

    def _json(self, info: Json, wanted: Json, poses: Sequence[dict[str, Float]]) -> None:
        """Compare the sample's JSON.   poses : those in the camera of each object, which may differ by rounding."""
        if info.keys() != wanted.keys():
            extra, missing = listed(info.keys() - wanted.keys()), listed(wanted.keys() - info.keys())
            self._fault("json", f"keys beyond the format's: {extra}" if extra else f"no key {missing}", f"the keys {', '.join(sorted(wanted))}")
        elif (other := first_other(wanted, _bare(info))) is not None:
            place, ours, theirs = other
            self._fault(f"json: {place}", shown(theirs), shown(ours))
        else:
            for index, pose in enumerate(poses):
                for key, values in pose.items():
                    self._pose(f"objects[{index}].{key}", info["objects"][index].get(key), values)

    def _pose(self, at: str, stored: Json, wanted: Float) -> None:
        values = Values(self.where, Found()).array(at, stored, wanted.shape)
        if values is None:
            self._fault(f"json: {at}", shown(stored), f"finite numbers of shape {wanted.shape}")
        elif (off := float(np.abs(values - wanted).max())) > POSE:
            self._fault(f"json: {at}", f"off by {off:.3g}", f"that of T_cw and the object's pose, to {POSE:g}")

    def _pictures(self, rgb: Picture, visible: Picture, seen: ShardMeasures) -> None:
        frames, height, width = visible.shape
        pictures = [read_png(self.root, f"{self.clip}/rgb/{t:03d}.png", "RGB", width, height) for t in range(frames)]
        masks = [read_png(self.root, f"{self.clip}/mask_visible/{t:03d}.png", "L", width, height) for t in range(frames)]
        seen.psnr_db[self.clip] = SAME_DB
        for t in range(frames):
            if apart := int(np.count_nonzero(masks[t] != visible[t])):
                self._fault(f"visible.{t:03d}.png", f"{apart} pixels differ", "the pixels of mask_visible", "mask")
            own, (beside, u) = psnr_db(rgb[t], pictures[t]), max((psnr_db(rgb[t], pictures[u]), u) for u in (t - 1, t + 1) if 0 <= u < frames)
            seen.psnr_db[self.clip] = min(own, seen.psnr_db[self.clip])
            seen.below += own < PSNR_DB
            if own < LEAST_DB:
                self._fault(f"rgb.{t:03d}.jpg", f"a PSNR of {own:.1f} dB", f"more than {LEAST_DB:g} dB against rgb/{t:03d}.png", "rgb")
            elif beside > own + OTHER_DB:
                self._fault(f"rgb.{t:03d}.jpg", f"closer to rgb/{u:03d}.png than to its own frame, {beside:.1f} dB to {own:.1f}", "its own frame", "frame")


def expected(cameras: Json, objects: Json, meta: Json, clip: str) -> tuple[Json, list[dict[str, Float]], Size]:
    """Return the JSON that a clip's sample must have, less R_co and t_co, these for each object, (F, 3, 3) and (F, 3), and the frames' size.

    Raises Unreadable where the clip's records are not in order, whatever is wrong with them.
    """
    said = Found()
    known = look_at_cameras(Values(f"{clip}/cameras.json", said), cameras, any_size=True)
    placed = look_at_objects(Values(f"{clip}/objects.json", said), objects, clip.split("/")[1])
    if said.faults or known.T_cw is None or known.size is None or not placed:
        problem = said.faults[0][1]
        raise Unreadable(problem.where, problem.found, problem.expected)
    absent = [key for key in (*FROM_META, "visibility") if not isinstance(meta, dict) or key not in meta]
    if absent:
        raise Unreadable(f"{clip}/meta.json", f"no key {absent[0]!r}", "the keys of the format")
    info = {
        **{key: meta[key] for key in (*FROM_META, *OPTIONAL) if key in meta},
        "K": cameras["K"],
        "T_cw": [frame["T_cw"] for frame in cameras["frames"]],
        "objects": [{**{key: one[key] for key in OBJECT_KEYS}, "s_co": [one["s_wo"]] * len(known.T_cw)} for one in objects],
        "visibility": meta["visibility"],
    }
    return info, [_pose_in_camera(known.T_cw, one) for one in objects], known.size


def _pose_in_camera(T_cw: Float, one: Json) -> dict[str, Float]:
    """Return an object's poses in the camera, worked out by homogeneous matrices."""
    T_wo = np.eye(4)
    T_wo[:3, :3], T_wo[:3, 3] = one["R_wo"], one["t_wo"]
    T_co = T_cw @ T_wo
    return {"R_co": T_co[:, :3, :3], "t_co": T_co[:, :3, 3]}


def _bare(info: Json) -> Json:
    """Return a sample's JSON without R_co and t_co."""
    if not isinstance(info["objects"], list):
        return info
    objects = [{key: value for key, value in one.items() if key not in ("R_co", "t_co")} if isinstance(one, dict) else one for one in info["objects"]]
    return {**info, "objects": objects}


def psnr_db(one: Picture, other: Picture) -> float:
    """Return the peak signal-to-noise ratio of two pictures of 8 bits and one size, 100 where they are the same."""
    square = float(np.mean(np.square(one.astype(np.int16) - other, dtype=np.int32)))
    return SAME_DB if square == 0 else 10 * math.log10(255**2 / square)


def look_at_voxels(pair: Exported, name: str, assets: Collection[str], whole: bool) -> Found:
    """Return how voxels_<split>.npz differs from the assets that the exported clips use.   whole : whether all clips were looked at.   Raises OSError."""
    found = Found()
    if not (pair.folder / name).is_file():
        found.add(EXPORT, name, "no such file", "the voxels of the split's assets")
        return found
    try:
        with open_voxels(pair.folder / name) as archive:
            keys = set(archive.files)
            if whole and (extra := keys - set(assets)):
                found.add(EXPORT, name, f"assets that no exported clip uses: {listed(extra)}", "those of the exported clips")
            for asset_id in sorted(assets):
                _look_at_grid(pair, found, archive, f"{name}: {asset_id}", asset_id)
    except ExportError as error:
        found.add(EXPORT, name, error.found, error.expected)
    return found


def _look_at_grid(pair: Exported, found: Found, archive: Mapping[str, Any], where: str, asset_id: str) -> None:
    path = f"assets/{pair.split}/{asset_id}/voxels.npy"
    found.counts["voxels"] += 1
    try:
        grid = parse_array(read_bytes(pair.root, path), path, np.dtype(bool), GRID)
        if apart := int(np.count_nonzero(load_voxels(archive, asset_id) != grid)):
            found.add(EXPORT, where, f"{apart} voxels differ", f"those of {path}")
    except ExportError as error:
        found.add(EXPORT, where, error.found, error.expected)
    except Unreadable as error:
        found.block(EXPORT, path)
        if pair.tell:
            found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)


def look_at_order(found: Found, measured: Sequence[ShardMeasures]) -> None:
    """Note clips that stand in several places or out of order."""
    every = [(clip_id, one.shard) for one in measured for clip_id in one.clips]
    for (before, first), (clip_id, shard) in pairwise(every):
        if clip_id <= before:
            found.add(EXPORT, f"{shard}: {clip_id}", f"after clip {before} of {first}", "clips sorted by id, each once")


def figures_of(measured: Sequence[ShardMeasures], not_exported: int) -> Json:
    """Return what was measured ready for JSON, null where nothing was.   not_exported : how many of the chosen clips of the split no shard holds."""
    psnr = {clip: value for one in measured for clip, value in one.psnr_db.items()}
    worst = min(psnr, key=lambda clip: psnr[clip], default=None)
    return {
        "clips": sorted(psnr),
        "frames_below": sum(one.below for one in measured),
        "not_exported": not_exported,
        "psnr_db_least": None if worst is None else psnr[worst],
        "psnr_db_least_clip": worst,
        "psnr_db_wanted": PSNR_DB,
        "shards": len(measured),
    }


def line_of(figures: Json) -> str:
    """Return those figures in one line for people."""
    if not figures["clips"]:
        return "nothing compared"
    text = (
        f"{len(figures['clips'])} clips in {figures['shards']} shards, PSNR of rgb at least {figures['psnr_db_least']:.1f} dB ({figures['psnr_db_least_clip']})"
    )
    if figures["frames_below"]:
        text += f", WARNING: {figures['frames_below']} frames below {figures['psnr_db_wanted']:g} dB"
    return text + (f"; {figures['not_exported']} clips of the dataset are not in the export" if figures["not_exported"] else "")
