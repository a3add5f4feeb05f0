"""The payload of a release: the passing event files of a split as tar shards, their lists, and the checksum file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from eventvox.codes import HINTS
from eventvox.stage import PACK_VERSION, SPLITS, checksums_of, manifest_of, shards_of
from shardwork.errors import DataError
from shardwork.files import write_bytes
from shardwork.ids import is_id
from shardwork.jsonio import Json, loads, write_json
from shardwork.pack import Declared, PackOptions, Plan, Unit, cut_plan, pack_shards, tar_name, write_members
from shardwork.tarball import Member, Written

SUFFIX = ".h5"
DATA = "data"
KIND = "eventvox.release"
"""What the record of a folder of these shards says that they are."""
HEX32 = re.compile(r"[0-9a-f]{32}")
HEX64 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Video:
    """What packing needs of a manifest row.

    id, split : str.   size_bytes : of the event file.   file_xxh3 : digest of its bytes, hex.   values_xxh3 : digest of its voxels, hex.
    """

    id: str
    split: str
    size_bytes: int
    file_xxh3: str
    values_xxh3: str

    @property
    def member(self) -> str:
        """Return the name of its file in a tar."""
        return f"{self.id}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class ListedMember:
    """A member as a list of shards has it. name : in the tar.   size_bytes : int.   xxh3 : of its bytes, hex."""

    name: str
    size_bytes: int
    xxh3: str


@dataclass(frozen=True, slots=True)
class ListedShard:
    """A tar as a list of shards has it. path : relative to the release.   size_bytes : int.   sha256 : hex.   members : in order."""

    path: str
    size_bytes: int
    sha256: str
    members: tuple[ListedMember, ...]


def bad_release(where: object, found: str, expected: str) -> DataError:
    """Return the error for a list or manifest that is not what its step writes."""
    return DataError("bad_release", where, found, expected, HINTS["bad_release"])


def _is_size(value: Json) -> bool:
    return type(value) is int and value >= 0


def _is_hex(value: Json, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def video_from(row: Json, where: object) -> Video:
    """Return the video of a manifest row. Raises DataError (bad_release) for a value that is missing or of the wrong kind."""
    if not isinstance(row, dict):
        raise bad_release(where, f"a {type(row).__name__}", "an object")
    checks: Mapping[str, tuple[bool, str]] = {
        "video_id": (isinstance(row.get("video_id"), str) and is_id(row["video_id"]), "an id"),
        "split": (row.get("split") in SPLITS, " or ".join(SPLITS)),
        "bytes": (_is_size(row.get("bytes")), "a whole number"),
        "file_xxh3": (_is_hex(row.get("file_xxh3"), HEX32), "32 hex digits"),
        "values_xxh3": (_is_hex(row.get("values_xxh3"), HEX32), "32 hex digits"),
    }
    for key, (holds, expected) in checks.items():
        if not holds:
            raise bad_release(f"{where}: {key}", ascii(row[key]) if key in row else "missing", expected)
    return Video(row["video_id"], row["split"], row["bytes"], row["file_xxh3"], row["values_xxh3"])


def read_videos(path: Path) -> list[Video]:
    """Return the videos of a manifest in file order. Raises DataError (bad_release, bad_json) for anything but strict JSONL sorted by id."""
    if not path.is_file():
        raise bad_release(path, "no such file", "a manifest (JSONL)")
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        raise bad_release(path, "no newline at its end", "whole lines")
    videos = [video_from(_line(line, f"{path}:{number}"), f"{path}:{number}") for number, line in enumerate(data.split(b"\n")[:-1], 1)]
    for number, (one, two) in enumerate(pairwise(videos), 2):
        if one.id == two.id and one.split != two.split:
            raise bad_release(f"{path}:{number}", f"{two.id} in both splits", "one split an id")
        if one.id >= two.id:
            raise bad_release(f"{path}:{number}", f"{two.id} after {one.id}", "one row an id, sorted")
    return videos


def _line(line: bytes, where: str) -> Json:
    if line.endswith(b"\r"):
        raise bad_release(where, "a line that ends in CR LF", "LF alone")
    return loads(utf8(line, where), where)


def utf8(data: bytes, where: object) -> str:
    """Return the text of a file. Raises DataError (bad_release)."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_release(where, f"byte {error.start} is not UTF-8", "UTF-8") from error


def event_plan(videos: list[Video], split: str, members_per_shard: int) -> Plan:
    """Return the plan of a split's shards: its videos sorted by id, so many in each. Raises DataError (bad_argument, duplicate_id)."""
    units = [Unit(video.id, [video.size_bytes, video.file_xxh3]) for video in videos if video.split == split]
    return replace(cut_plan(split, units, members_per_shard, PACK_VERSION), kind=KIND)


def event_members(unit: Unit, folder: Path) -> Iterator[Member]:
    """Yield the one member of a video. folder : where the split's event files are."""
    size_bytes, file_xxh3 = unit.inputs
    yield Member(f"{unit.id}{SUFFIX}", folder / f"{unit.id}{SUFFIX}", size_bytes, file_xxh3)


def pack_split(release: Path, stage: Path, split: str, members_per_shard: int, options: PackOptions) -> None:
    """Pack the passing videos of a split below `release`, and write the list of its shards last.

    release : results/<run>/events_release, with its manifests.   stage : results/<run>/events.   Raises as shardwork.pack.pack_shards, and
    DataError (bad_release) for a manifest that is none.
    """
    plan = event_plan(read_videos(manifest_of(release, "large")), split, members_per_shard)
    write = partial(write_members, members=partial(event_members, folder=stage / split))
    packed = pack_shards(plan, release / DATA / split, write, options, Declared(shards_of(release, split)))
    write_json(shards_of(release, split), shard_list(plan, split, packed))


def shard_list(plan: Plan, split: str, packed: Mapping[str, Written]) -> Json:
    """Return what metadata/shards_<split>.json holds: every tar with its size, sha256 and members."""
    shards = [
        {
            "bytes": packed[shard.name].size_bytes,
            "members": [{"bytes": unit.inputs[0], "name": f"{unit.id}{SUFFIX}", "xxh3": unit.inputs[1]} for unit in shard.units],
            "path": f"{DATA}/{split}/{shard.name}",
            "sha256": packed[shard.name].sha256,
        }
        for shard in plan.shards
    ]
    return {"members_per_shard": plan.per_shard, "shards": shards, "split": split}


def read_shard_list(path: Path, split: str) -> tuple[int, list[ListedShard]]:
    """Return members per shard, and the shards that a list names. Raises DataError (bad_release, bad_json) for anything that pack_events did not write."""
    if not path.is_file():
        raise bad_release(path, "no such file", "the list that pack_events writes")
    found = loads(utf8(path.read_bytes(), path), path)
    if not (isinstance(found, dict) and set(found) == {"members_per_shard", "shards", "split"} and isinstance(found["shards"], list)):
        raise bad_release(path, "another layout", "members_per_shard, shards and split")
    if found["split"] != split:
        raise bad_release(path, f"split {found['split']!a}", split)
    per_shard = found["members_per_shard"]
    if not (_is_size(per_shard) and per_shard):
        raise bad_release(path, f"members_per_shard {per_shard!a}", "1 or more")
    return per_shard, [_listed(row, f"{path}: shard {index}", f"{DATA}/{split}/{tar_name(split, index)}") for index, row in enumerate(found["shards"])]


def _listed(row: Json, where: str, expected_path: str) -> ListedShard:
    if not (isinstance(row, dict) and set(row) == {"bytes", "members", "path", "sha256"} and isinstance(row["members"], list)):
        raise bad_release(where, "another layout", "bytes, members, path and sha256")
    if row["path"] != expected_path:
        raise bad_release(where, f"path {row['path']!a}", expected_path)
    if not (_is_size(row["bytes"]) and _is_hex(row["sha256"], HEX64)):
        raise bad_release(where, "a size or sha256 that is none", "a whole number and 64 hex digits")
    for member in row["members"]:
        if not (isinstance(member, dict) and set(member) == {"bytes", "name", "xxh3"} and isinstance(member["name"], str)):
            raise bad_release(where, "a member of another layout", "bytes, name and xxh3")
        if not (_is_size(member["bytes"]) and _is_hex(member["xxh3"], HEX32)):
            raise bad_release(f"{where}: {member['name']!a}", "a size or xxh3 that is none", "a whole number and 32 hex digits")
    return ListedShard(row["path"], row["bytes"], row["sha256"], tuple(ListedMember(m["name"], m["bytes"], m["xxh3"]) for m in row["members"]))


def checksum_lines(shards: list[ListedShard]) -> str:
    """Return the checksum file of these shards, as `sha256sum -c` reads it from the release's root: two spaces, sorted, LF."""
    return "".join(f"{shard.sha256}  {shard.path}\n" for shard in sorted(shards, key=lambda shard: shard.path))


def write_checksums(release: Path) -> int:
    """Write metadata/shard_checksums.sha256 from the lists of both splits, and return how many shards it names. Raises DataError (bad_release)."""
    shards = [shard for split in SPLITS for shard in read_shard_list(shards_of(release, split), split)[1]]
    write_bytes(checksums_of(release), checksum_lines(shards).encode())
    return len(shards)
