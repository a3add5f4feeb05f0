"""An exported sample against the clip that it was made from, decoded by Pillow alone."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sam3dvid.export.clips import Clip, fingerprint_of, read_clip, sample_json
from sam3dvid.export.pictures import psnr_db
from sam3dvid.export.rights import Rights, asset_rights
from sam3dvid.export.voxels import packed_voxels, voxels_path
from sam3dvid.export_reader import NO_PICTURE
from sam3dvid.stage import EXPORT_INDEX
from shardwork.errors import DataError, Problem, plain
from shardwork.jsonio import Json, dumps, loads

NEAR_DB = 0.01
"""By how much a PSNR may differ from that noted: decoders of other versions round otherwise."""
SHOWN = 120


def against_clip(dataset: Path, index: Mapping[str, Json], clip_id: str, sample: Mapping[str, bytes], info: Mapping[str, Json] | None) -> Iterator[Problem]:
    """Yield what differs between a sample and its clip: the fingerprint, rights, JSON values, mask pixels, and the least PSNR from that noted.

    sample : member name -> bytes, complete.   info : its JSON, None if it is none.   Raises OSError where the machine fails.
    """
    noted = index["clips"][clip_id]
    try:
        clip = read_clip(dataset, index["split"], clip_id, any_size=True)
        now = fingerprint_of(clip)
    except DataError as error:
        yield Problem(f"{clip_id}: the dataset's clip", error.found, error.expected)
        return
    if now != noted["fingerprint"]:
        yield Problem(clip_id, f"the dataset's clip has the fingerprint {now[:12]}", f"{noted['fingerprint'][:12]} as exported: the export is stale")
        return
    yield from _against_rights(dataset, index, clip, noted)
    if info is not None:
        wanted = loads(dumps(sample_json(clip)))
        for key in sorted(wanted):
            if key in info and info[key] != wanted[key]:
                yield Problem(f"{clip_id}.json: {key}", _difference(info[key], wanted[key]), "the value of the dataset's clip")
    least = []
    for field, name in clip.pictures():
        member, data = f"{clip_id}.{field}", (clip.folder / name).read_bytes()
        try:
            source, exported = _pixels(data, "PNG"), _pixels(sample[member], "JPEG" if field.startswith("rgb.") else "PNG")
        except NO_PICTURE as error:
            yield Problem(member, f"cannot be compared with {name} ({error})", "pictures that can be decoded")
            continue
        if source.shape != exported.shape:
            yield Problem(member, f"pixels of shape {exported.shape}", f"{source.shape} as in {name}")
        elif field.startswith("rgb."):
            least.append((psnr_db(source, sample[member]), member))
        elif not np.array_equal(source, exported):
            yield Problem(member, f"{int((source != exported).sum())} pixels differ from {name}", "the same pixels")
    if least and len(least) == clip.frames and abs(min(least)[0] - noted["psnr_min_db"]) > NEAR_DB:
        yield Problem(min(least)[1], f"{min(least)[0]:.3f} dB against the dataset", f"{noted['psnr_min_db']:.3f} dB at least, as in the index")


def _against_rights(dataset: Path, index: Mapping[str, Json], clip: Clip, noted: Mapping[str, Json]) -> Iterator[Problem]:
    try:
        _, why = Rights(dataset, index["split"], index["release_licenses"]).of(clip)
    except DataError as error:
        yield Problem(f"{clip.clip_id}: rights", error.found, error.expected)
        return
    if why != noted["refusals"] or noted["releasable"] is not (not why):
        yield Problem(f"{clip.clip_id}: refusals", _listed(noted["refusals"]), f"{_listed(why)}, as the dataset says now: the export is stale")


def _listed(reasons: Json) -> str:
    return plain(dumps(reasons))[:SHOWN] if reasons else "none"


def against_assets(index: Mapping[str, Json], dataset: Path) -> Iterator[Problem]:
    """Yield the assets whose rights are other ones in the dataset than the index tells."""
    for asset_id, noted in sorted(index["assets"].items()):
        try:
            now = asset_rights(dataset, index["split"], asset_id, index["release_licenses"])
        except DataError as error:
            yield Problem(f"{EXPORT_INDEX}: assets: {asset_id}", error.found, error.expected)
            continue
        for key in sorted(now.keys() | noted.keys()):
            if now.get(key) != noted.get(key):
                expected = f"{_said(now, key)} as in the dataset: the export is stale"
                yield Problem(f"{EXPORT_INDEX}: assets: {asset_id}: {key}", _said(noted, key), expected)


def _said(rights: Mapping[str, Json], key: str) -> str:
    return plain(dumps(rights[key]))[:SHOWN] if key in rights else "nothing"


def against_left_out(index: Mapping[str, Json], dataset: Path) -> Iterator[Problem]:
    """Yield the clips that were left out for other reasons than the dataset gives now, among them those that may be released."""
    rights = Rights(dataset, index["split"], index["release_licenses"])
    for clip_id, noted in sorted(index["left_out"].items()):
        where = f"{EXPORT_INDEX}: left_out: {clip_id}"
        try:
            _, why = rights.of(read_clip(dataset, index["split"], clip_id, any_size=True))
        except DataError as error:
            yield Problem(where, error.found, error.expected)
            continue
        if why != noted:
            yield Problem(where, _listed(noted), f"{_listed(why)}, as the dataset says now: the export is stale")


def _pixels(data: bytes, form: str) -> NDArray[Any]:
    with Image.open(io.BytesIO(data), formats=[form]) as image:
        return np.asarray(image)


def _difference(found: Json, wanted: Json) -> str:
    try:
        return f"numbers that differ by up to {np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64)).max():.3g}"
    except (TypeError, ValueError, OverflowError):
        return dumps(found)[:60]


def against_voxels(packed: Mapping[str, NDArray[np.uint8]], dataset: Path, split: str, where: str) -> Iterator[Problem]:
    """Yield the assets whose exported voxels are not those of the dataset."""
    for asset_id, bits in packed.items():
        try:
            wanted = packed_voxels(voxels_path(dataset, split, asset_id))
        except DataError as error:
            yield Problem(f"{where}: {asset_id}", error.found, error.expected)
            continue
        if not np.array_equal(bits, wanted):
            yield Problem(f"{where}: {asset_id}", f"{int(np.unpackbits(bits ^ wanted).sum())} voxels differ", "the voxels of the dataset")
