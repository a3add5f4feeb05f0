"""Whether an export holds together, and whether it is that of a dataset: each fault by shard and member, with what was found and expected."""

from __future__ import annotations

import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sam3dvid.export.clips import VISIBILITY_KEYS, WORLD_POSE, is_array, read_clip_ids
from sam3dvid.export.compare import against_assets, against_clip, against_left_out, against_voxels
from sam3dvid.export.index import read_index, voxels_name
from sam3dvid.export.shards import member_names
from sam3dvid.export.voxels import read_packed
from sam3dvid.stage import EXPORT_INDEX
from shardwork.digests import sha256_file
from shardwork.errors import DataError, Problem, plain
from shardwork.jsonio import Json, loads
from shardwork.packrecord import RECORD_NAME
from shardwork.pool import run_tasks
from shardwork.tarscan import posix_header, scan_tar

SAMPLE_KEYS = frozenset("K T_cw background clip_id generator_version git_commit num_objects objects seed split visibility".split())
OPTIONAL_KEYS = frozenset(("blender_version",))
OBJECT_KEYS = frozenset("k asset_id R_wo t_wo s_wo R_co t_co s_co".split())
SHOWN = 60
HIDDEN = (RECORD_NAME, f"{RECORD_NAME}.lock")


def verify_export(out: Path, dataset: Path | None = None, workers: int = 0) -> list[Problem]:
    """Return every fault of an export, none if it holds together; they do not depend on the number of workers.

    dataset : compared with it too: clips, poses, masks, PSNR, voxels and rights.   Raises DataError (bad_argument) for a folder that is none, Fault or OSError
    where the machine does not let us look.
    """
    for folder in (out, *([dataset] if dataset is not None else [])):
        if not folder.is_dir():
            found = "not a folder" if folder.exists() else "no such folder"
            raise DataError("bad_argument", folder, found, "a folder", "correct the path")
    try:
        index = read_index(out)
    except DataError as error:
        return [Problem(EXPORT_INDEX, error.found, error.expected)]
    problems = [*_look_at_names(out, index), *_look_at_index(index), *_look_at_voxels(out, index, dataset)]
    if dataset is not None:
        problems += [*_look_at_manifest(index, dataset), *against_assets(index, dataset), *against_left_out(index, dataset)]
    shards = [shard for shard in index["shards"] if (out / shard["name"]).is_file()]
    looked: dict[str, list[Problem]] = {}
    for shard, result in run_tasks(partial(_look_at_shard, out, index, dataset), shards, workers, lambda shard: str(shard["name"])):
        if isinstance(result, DataError):
            raise result
        looked[shard["name"]] = result
    return [*problems, *(problem for name in sorted(looked) for problem in looked[name])]


def _look_at_names(out: Path, index: Mapping[str, Json]) -> Iterator[Problem]:
    """All that the index names is there, and nothing else: a trainer takes every tar of a folder."""
    wanted = {EXPORT_INDEX, voxels_name(index["split"]), *(shard["name"] for shard in index["shards"])}
    there = {path.name: path for path in out.iterdir() if path.name not in HIDDEN}
    for name in sorted(wanted - there.keys()):
        yield Problem(name, "missing", "a file that the index names")
    for name in sorted(there.keys() - wanted):
        yield Problem(plain(name), "not named by the index", "the files of this export alone")
    for name in sorted(wanted & there.keys()):
        if not there[name].is_file():
            yield Problem(name, "not a file", "a file that the index names")


def _look_at_index(index: Mapping[str, Json]) -> Iterator[Problem]:
    ids = [clip_id for shard in index["shards"] for clip_id in shard["clip_ids"]]
    if ids != sorted(set(ids)):
        yield Problem(f"{EXPORT_INDEX}: shards", "clips repeated or out of order", "each clip once, sorted by id")
    if sorted(ids) != sorted(index["clips"]):
        yield Problem(f"{EXPORT_INDEX}: clips", "other clips than its shards have", "the clips of the shards")


def _look_at_voxels(out: Path, index: Mapping[str, Json], dataset: Path | None) -> Iterator[Problem]:
    entry = index["voxels"]
    path = out / voxels_name(index["split"])
    if not path.is_file():
        return
    if (size := path.stat().st_size) != entry["bytes"]:
        yield Problem(path.name, f"{size} bytes", f"{entry['bytes']} as in the index")
    elif (digest := sha256_file(path)) != entry["sha256"]:
        yield Problem(path.name, f"sha256 {digest}", f"{entry['sha256']} as in the index")
    packed, problems = read_packed(path)
    yield from problems
    if packed is None:
        return
    if list(packed) != sorted(index["assets"]):
        differ = sorted(packed.keys() ^ index["assets"].keys())
        found = f"{differ[0]} {'is too many' if differ[0] in packed else 'is missing'}" if differ else "another order"
        yield Problem(path.name, found, "the assets of the index, sorted")
    if dataset is not None:
        yield from against_voxels(packed, dataset, index["split"], path.name)


def _look_at_manifest(index: Mapping[str, Json], dataset: Path) -> Iterator[Problem]:
    now = set(read_clip_ids(dataset, index["split"], empty=True))
    for clip_id in sorted((index["clips"].keys() | index["left_out"].keys()) - now):
        yield Problem(f"{EXPORT_INDEX}: {clip_id}", "not in the dataset's manifest", "clips that the dataset has: the index is stale")
    for clip_id in sorted(now - index["clips"].keys() - index["left_out"].keys()):
        yield Problem(f"{EXPORT_INDEX}: {clip_id}", "in the dataset, not in the index", "every clip of the split: the index is stale")


@dataclass(slots=True)
class _Shard:
    """One look at one tar."""

    entry: Mapping[str, Json]
    index: Mapping[str, Json]
    dataset: Path | None
    found: list[Problem] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    def add(self, where: str, found: str, expected: str) -> None:
        self.found.append(Problem(f"{self.name}: {where}" if where else self.name, found, expected))


def _look_at_shard(out: Path, index: Mapping[str, Json], dataset: Path | None, entry: Mapping[str, Json]) -> list[Problem]:
    look = _Shard(entry, index, dataset)
    path = out / look.name
    scan = scan_tar(path, True, posix_header)
    if scan.size_bytes != entry["bytes"]:
        look.add("", f"{scan.size_bytes} bytes", f"{entry['bytes']} as in the index")
    elif scan.sha256 is not None and scan.sha256 != entry["sha256"]:
        look.add("", f"sha256 {scan.sha256}", f"{entry['sha256']} as in the index")
    for problem in scan.problems:
        look.add(problem.where, problem.found, problem.expected)
    names = [member.name for member in scan.members]
    _look_at_members(look, names)
    if scan.complete or scan.members:
        _look_at_samples(look, path)
    return look.found


def _keys_in(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _look_at_members(look: _Shard, names: Sequence[str]) -> None:
    """The members are those of the index's clips, once each, in the pinned order."""
    ids = look.entry["clip_ids"]
    wanted = [name for clip_id in ids for name in member_names(clip_id, look.index["frames"])]
    if names == wanted:
        return
    there = _keys_in(names)
    homes = {clip_id: shard["name"] for shard in look.index["shards"] for clip_id in shard["clip_ids"]}
    if there and not set(there) & set(ids):
        whose = next((homes[key] for key in there if key in homes), None)
        found = f"holds the clips of {whose}" if whose else "holds clips of another plan"
        look.add("", f"{found}: {_ends(there)}", _ends(ids))
        return
    seen, known = Counter(names), set(wanted)
    for name, count in seen.items():
        key = name.partition(".")[0]
        if count > 1:
            look.add(plain(name), f"stands {count} times", "once")
        if name not in known:
            home = homes.get(key)
            look.add(plain(name), "a member of this tar" if home in (None, look.name) else f"a clip of {home}", "only members that the index's clips have")
    missing = [name for name in wanted if name not in seen]
    if missing:
        look.add("", f"{len(missing)} members are missing, {missing[0]} first", f"{len(wanted)} members")
    elif set(names) == known and len(names) == len(wanted):
        first = next(index for index, pair in enumerate(zip(names, wanted, strict=True)) if pair[0] != pair[1])
        look.add(plain(names[first]), f"stands as member {first}", f"{wanted[first]} there: JSON, frames, masks, clips sorted by id")


def _ends(ids: Sequence[str]) -> str:
    return f"{len(ids)} clips, {plain(ids[0])} to {plain(ids[-1])}" if ids else "no clips"


def _look_at_samples(look: _Shard, path: Path) -> None:
    """Read the payloads, a sample at a time."""
    ids = set(look.entry["clip_ids"])
    sample: dict[str, bytes] = {}
    current = ""
    try:
        with tarfile.open(path, "r:", ignore_zeros=False) as tar:
            for member in tar:
                key = member.name.partition(".")[0]
                if key != current:
                    _look_at_sample(look, current, sample)
                    current, sample = key, {}
                file = tar.extractfile(member) if member.isfile() and key in ids else None
                if file is not None:
                    sample[member.name] = file.read()
    except (tarfile.TarError, ValueError, OverflowError):
        return  # what is wrong with it was named when it was scanned
    _look_at_sample(look, current, sample)


def _look_at_sample(look: _Shard, clip_id: str, sample: Mapping[str, bytes]) -> None:
    clip = look.index["clips"].get(clip_id)
    if clip is None or not sample:
        return
    names = member_names(clip_id, look.index["frames"])
    digests = dict(zip(names, (clip["crc32"][at : at + 8] for at in range(0, len(clip["crc32"]), 8)), strict=False))
    owners = {digest: name for name, digest in digests.items()}
    for name, data in sample.items():
        if name in digests and (digest := f"{zlib.crc32(data):08x}") != digests[name]:
            whose = f", the payload of {owners[digest]}" if digest in owners else ""
            look.add(name, f"CRC-32 {digest}{whose}", f"{digests[name]} as in the index")
    head = f"{clip_id}.json"
    info = _look_at_json(look, clip_id, head, sample[head]) if head in sample else None
    if look.dataset is not None and list(sample) == names:
        for problem in against_clip(look.dataset, look.index, clip_id, sample, info):
            look.add(problem.where, problem.found, problem.expected)


def _look_at_json(look: _Shard, clip_id: str, where: str, data: bytes) -> dict[str, Json] | None:
    """Return a sample's JSON if it is one; its keys and shapes are looked at."""
    try:
        info: Any = loads(data, where)
    except DataError as error:
        look.add(where, error.found, error.expected)
        return None
    if not isinstance(info, dict):
        look.add(where, f"a {type(info).__name__}", "an object")
        return None
    for key in sorted((SAMPLE_KEYS - info.keys()) | (info.keys() - SAMPLE_KEYS - OPTIONAL_KEYS)):
        look.add(where, f"{'an extra' if key in info else 'no'} key {key!r}", f"the keys {', '.join(sorted(SAMPLE_KEYS))}")
    objects, visibility, frames = info.get("objects"), info.get("visibility"), look.index["frames"]
    if not isinstance(objects, list) or not isinstance(visibility, dict) or visibility.keys() != set(VISIBILITY_KEYS):
        look.add(f"{where}: objects, visibility", "another layout", f"a list, and an object with {', '.join(VISIBILITY_KEYS)}")
        return info
    for key, wanted in (("clip_id", clip_id), ("split", look.index["split"]), ("num_objects", len(objects))):
        if key in info and info[key] != wanted:
            look.add(f"{where}: {key}", plain(repr(info[key])[:SHOWN]), repr(wanted))
    _look_at_arrays(look, where, info, {"K": (3, 3), "T_cw": (frames, 4, 4)})
    _look_at_arrays(look, f"{where}: visibility", visibility, dict.fromkeys(VISIBILITY_KEYS, (frames, len(objects))))
    for number, one in enumerate(objects):
        at = f"{where}: objects[{number}]"
        if not isinstance(one, dict) or one.keys() != OBJECT_KEYS or one["k"] != number + 1:
            look.add(at, "another layout", f"k = {number + 1} and the keys {', '.join(sorted(OBJECT_KEYS))}")
            continue
        if not isinstance(one["asset_id"], str) or one["asset_id"] not in look.index["assets"]:
            look.add(at, f"asset {plain(str(one['asset_id'])[:SHOWN])}", "an asset of the index")
        _look_at_arrays(look, at, one, {**WORLD_POSE, "R_co": (frames, 3, 3), "t_co": (frames, 3), "s_co": (frames, 3)})
    return info


def _look_at_arrays(look: _Shard, where: str, record: Mapping[str, Json], shapes: Mapping[str, tuple[int, ...]]) -> None:
    for key, shape in shapes.items():
        if key in record and not is_array(record[key], shape):
            look.add(f"{where}: {key}", plain(repr(record[key])[:SHOWN]), f"finite numbers of shape {shape}")
