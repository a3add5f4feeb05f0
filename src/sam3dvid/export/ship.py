"""A split as one tar: its clips, the assets that they use, its lines of the manifest, and the configuration. The same dataset gives the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.composite.rendered import frame_names
from sam3dvid.export.clips import bad_clip, read_clip, read_clip_ids
from sam3dvid.export.rights import Rights
from sam3dvid.export.run import check_apart
from sam3dvid.export.settings import ExportSettings
from sam3dvid.stage import CONFIG, MANIFEST, asset_of
from shardwork.errors import DataError
from shardwork.files import retract, write_bytes
from shardwork.jsonio import dumps, read_jsonl
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


def ship_split(dataset: Path, split: str, out: Path, settings: ExportSettings) -> Shipped:
    """Write FILE.tar and FILE.tar.sha256, each atomically, the digest last.

    settings : which clips are taken; what concerns shards has no part in it.
    The tar is not compressed: its pictures are already. Members are sorted by path, with fixed fields; links are followed.
    Raises DataError (bad_argument), AssetRefused (bad_clip, bad_asset) for what is missing or does not belong into a clip's folder.
    """
    if out.suffix != ".tar":
        raise DataError("bad_argument", "--out", str(out), "a name that ends in .tar", "name the file to write")
    check_apart(out, dataset)
    clips, assets, refused, left_out = _choose(dataset, split, settings)
    retract(checksum := out.with_name(f"{out.name}.sha256"))
    written = write_tar(out, _members(dataset, split, clips, sorted(assets)))
    write_bytes(checksum, f"{written.sha256}  {out.name}\n".encode())
    return Shipped(written, len(clips), len(assets), refused, left_out)


def _choose(dataset: Path, split: str, settings: ExportSettings) -> tuple[dict[str, list[str]], set[str], dict[str, list[str]], dict[str, list[str]]]:
    """Return the clips with the names of their files, the assets they use, those that may not be released, and those left out for it."""
    clips: dict[str, list[str]] = {}
    assets: set[str] = set()
    refused: dict[str, list[str]] = {}
    left_out: dict[str, list[str]] = {}
    rights = Rights(dataset, split, settings.release_licenses)
    for clip_id in read_clip_ids(dataset, split):
        clip = read_clip(dataset, split, clip_id, settings.any_size)
        _, why = rights.of(clip)
        if why and settings.releasable_only:
            left_out[clip_id] = why
            continue
        if why:
            refused[clip_id] = why
        names = [*RECORDS, *(f"rgb/{t:03d}.png" for t in range(clip.frames)), *frame_names(clip.frames, clip.num_objects)]
        clips[clip_id] = _checked(clip.folder, names)
        assets.update(clip.assets)
    if not clips:
        raise DataError("license_refused", dataset, f"no clip of {split} may be released", "one at least", "leave --releasable-only out")
    return clips, assets, refused, left_out


def _checked(folder: Path, names: list[str]) -> list[str]:
    """Return the names of a folder's files, sorted, if there are these and no others. Raises AssetRefused (bad_clip)."""
    there = {Path(base, name).relative_to(folder).as_posix() for base, _, files in os.walk(folder, followlinks=True) for name in files}
    if differ := sorted(there ^ set(names)):
        found = f"{differ[0]} {'is no file of a clip' if differ[0] in there else 'is missing'}"
        raise bad_clip(folder, found, f"{len(names)} files, those of the format")
    return sorted(names)


def _members(dataset: Path, split: str, clips: dict[str, list[str]], assets: list[str]) -> Iterator[Member]:
    """Yield the members, sorted by path."""
    for asset_id in assets:
        for name in ASSET_FILES:
            yield Member(f"{ROOT}/assets/{split}/{asset_id}/{name}", asset_of(dataset, asset_id, split) / name)
    for clip_id, names in sorted(clips.items()):
        for name in names:
            yield Member(f"{ROOT}/clips/{split}/{clip_id}/{name}", dataset / "clips" / split / clip_id / name)
    if (dataset / CONFIG).is_file():
        yield Member(f"{ROOT}/{CONFIG}", dataset / CONFIG)
    lines = [line for line in read_jsonl(dataset / MANIFEST) if line["split"] == split and line["clip_id"] in clips]
    lines.sort(key=lambda line: line["path"])
    yield Member(f"{ROOT}/{MANIFEST}", "".join(dumps(line) + "\n" for line in lines).encode())
