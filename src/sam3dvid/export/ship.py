"""A split as one tar: its clips, the assets that they use, its lines of the manifest, and the configuration. The same dataset gives the same bytes."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sam3dvid.codes import HINTS, AssetRefused
from sam3dvid.composite.rendered import frame_names
from sam3dvid.export.clips import Clip, bad_clip, read_clip, read_clip_ids
from sam3dvid.export.pins import Look, changed
from sam3dvid.export.rights import Rights
from sam3dvid.export.run import check_out
from sam3dvid.export.settings import ExportSettings
from sam3dvid.stage import CONFIG, MANIFEST, asset_of, clip_of
from shardwork.digests import xxh3_file
from shardwork.errors import DataError
from shardwork.files import retract, write_bytes
from shardwork.jsonio import Json, dumps, loads
from shardwork.locks import held_lock
from shardwork.place import clear_temporary
from shardwork.tarball import Member, Written, write_tar

ROOT = "dataset"
"""The folder that the tar unpacks to."""
ASSET_FILES = ("mesh.glb", "meta.json", "voxels.npy")
RECORDS = ("cameras.json", "meta.json", "objects.json")


@dataclass(frozen=True, slots=True)
class Shipped:
    """A tar that stands in its place.   clips, assets : how many.   refused : clips in it that may not be released.   left_out : those left out."""

    written: Written
    clips: int
    assets: int
    refused: dict[str, list[str]]
    left_out: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class _Taken:
    """A clip that is packed.   frames, num_objects : which say what its files are called.   pin : of its files."""

    frames: int
    num_objects: int
    pin: str

    def names(self) -> list[str]:
        """Return the names of its files, sorted."""
        return sorted([*RECORDS, *(f"rgb/{t:03d}.png" for t in range(self.frames)), *frame_names(self.frames, self.num_objects)])


@dataclass(slots=True)
class _Chosen:
    """What is packed, as it was looked at.   clips, assets : id -> clip, and the pin of an asset's files.   lines : of the manifest.   config : its bytes.

    refused, left_out : as in Shipped.
    """

    dataset: Path
    split: str
    lines: list[Json]
    config: bytes | None
    clips: dict[str, _Taken] = field(default_factory=dict)
    assets: dict[str, str] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def look(self, folder: Path, clip: bool) -> Look:
        """Return what looks at a folder's files.   clip : whether it is a clip's, else an asset's."""
        return Look(self.dataset.resolve(), folder, bad_clip if clip else _bad_asset)

    def members(self) -> Iterator[Member]:
        """Yield the members, sorted by path. Raises DataError (member_changed) for what is no longer as it was looked at."""
        for asset_id, pin in sorted(self.assets.items()):
            look = self.look(asset_of(self.dataset, asset_id, self.split), clip=False)
            yield from look.members(ASSET_FILES, pin, f"{ROOT}/assets/{self.split}/{asset_id}")
        for clip_id, clip in sorted(self.clips.items()):
            look = self.look(clip_of(self.dataset, clip_id, self.split), clip=True)
            yield from look.members(_checked(look.folder, clip.names()), clip.pin, f"{ROOT}/clips/{self.split}/{clip_id}")
        if self.config is not None:
            yield Member(f"{ROOT}/{CONFIG}", self.config)
        lines = sorted((line for line in self.lines if line["split"] == self.split and line["clip_id"] in self.clips), key=lambda line: str(line["path"]))
        yield Member(f"{ROOT}/{MANIFEST}", "".join(dumps(line) + "\n" for line in lines).encode())


def _bad_asset(where: Path, found: str, expected: str) -> AssetRefused:
    return AssetRefused("bad_asset", where, found, expected)


def ship_split(dataset: Path, split: str, out: Path, settings: ExportSettings) -> Shipped:
    """Write FILE.tar and FILE.tar.sha256, each atomically, the digest last.

    settings : which clips are taken; what concerns shards has no part in it.
    The tar is not compressed: its pictures are already. Members are sorted by path, with fixed fields; links within the dataset are followed.
    What is packed is what was looked at: JSON to the byte, of other files the size, time and inode.
    Raises DataError (bad_argument, member_changed, foreign_export for a file in its place that is no shipped split), AssetRefused (bad_clip, bad_asset) for
    what is missing, empty, leads out of the dataset or does not belong into a clip's folder, Fault (fault_busy).
    """
    if out.suffix != ".tar":
        raise DataError("bad_argument", "--out", ascii(str(out)), "a name that ends in .tar", "name the file to write")
    check_out(out, dataset)
    chosen = _choose(dataset, split, settings)
    checksum = out.with_name(f"{out.name}.sha256")
    with held_lock(out.with_name(f".{out.name}.lock"), out, "tar"):
        _check_ours(out, checksum)
        clear_temporary(out.parent, lambda name: name in (out.name, checksum.name))
        retract(checksum)
        written = write_tar(out, chosen.members())
        write_bytes(checksum, f"{written.sha256}  {out.name}\n".encode())
    return Shipped(written, len(chosen.clips), len(chosen.assets), chosen.refused, chosen.left_out)


def _check_ours(out: Path, checksum: Path) -> None:
    """Raise DataError (foreign_export) where a file to write is there already and is none that `ship_split` wrote, or began to."""
    for path, ours in ((out, _is_shipped), (checksum, _is_checksum)):
        if os.path.lexists(path) and not ours(path):
            raise DataError("foreign_export", path, "there, and not written by ship", "a new name, or that of an earlier ship", HINTS["foreign_export"])


def _is_shipped(path: Path) -> bool:
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
    except (tarfile.TarError, FileNotFoundError, IsADirectoryError):  # a link that leads nowhere is not found
        return False
    return first is not None and first.name.startswith(f"{ROOT}/")


def _is_checksum(path: Path) -> bool:
    named = path.name.removesuffix(".sha256").encode()
    return path.is_file() and re.fullmatch(rb"[0-9a-f]{64}  " + re.escape(named) + rb"\n", path.read_bytes()) is not None


def _choose(dataset: Path, split: str, settings: ExportSettings) -> _Chosen:
    """Return the clips with what their files are, the assets they use, those that may not be released, and those left out for it."""
    path = dataset / MANIFEST
    manifest = path.read_bytes() if path.is_file() else b""
    ids = read_clip_ids(dataset, split)
    if path.read_bytes() != manifest:
        raise changed(path)
    lines = [loads(line, path) for line in manifest.split(b"\n") if line.strip()]
    chosen = _Chosen(dataset, split, lines, (dataset / CONFIG).read_bytes() if (dataset / CONFIG).is_file() else None)
    rights, pins = Rights(dataset, split, settings.release_licenses), dict[str, str]()
    for clip_id in ids:
        before = _digests(clip_of(dataset, clip_id, split))
        clip = read_clip(dataset, split, clip_id, settings.any_size)
        # what is judged is pinned before it is judged
        for asset_id in set(clip.assets) - pins.keys():
            pins[asset_id] = _pin_asset(chosen, asset_id)
        _, why = rights.of(clip)
        if why and settings.releasable_only:
            chosen.left_out[clip_id] = why
            continue
        if why:
            chosen.refused[clip_id] = why
        chosen.clips[clip_id] = _taken(chosen, clip)
        if _digests(clip.folder) != before:
            raise changed(clip.folder)
        chosen.assets |= {asset_id: pins[asset_id] for asset_id in clip.assets}
    if not chosen.clips:
        raise DataError("license_refused", dataset, f"no clip of {split} may be released", "one at least", "leave --releasable-only out")
    return chosen


def _digests(folder: Path) -> list[str]:
    """Return digests of a clip's records, of those that are there: what is missing is named by its reader."""
    return [xxh3_file(path) for name in RECORDS if (path := folder / name).is_file()]


def _pin_asset(chosen: _Chosen, asset_id: str) -> str:
    return chosen.look(asset_of(chosen.dataset, asset_id, chosen.split), clip=False).pin(ASSET_FILES)


def _taken(chosen: _Chosen, clip: Clip) -> _Taken:
    taken = _Taken(clip.frames, clip.num_objects, "")
    pin = chosen.look(clip.folder, clip=True).pin(_checked(clip.folder, taken.names()))
    return _Taken(clip.frames, clip.num_objects, pin)


def _checked(folder: Path, names: Sequence[str]) -> Sequence[str]:
    """Return the names of a folder's files if there are these and no others. Raises AssetRefused (bad_clip)."""
    there = {Path(base, name).relative_to(folder).as_posix() for base, _, files in os.walk(folder, followlinks=True) for name in files}
    if differ := sorted(there ^ set(names)):
        found = f"{differ[0]} {'is no file of a clip' if differ[0] in there else 'is missing'}"
        raise bad_clip(folder, found, f"{len(names)} files, those of the format")
    return names
