"""Export one split: plan, pack, voxels, index. One folder holds one split; nothing else that lies there is overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sam3dvid.codes import HINTS
from sam3dvid.export.clips import bad_clip, fingerprint_of, read_clip, read_clip_ids
from sam3dvid.export.index import FORMAT_VERSION, Contents, index_of, read_index, voxels_name
from sam3dvid.export.rights import Rights
from sam3dvid.export.settings import FAIL, LEAST_PSNR_DB, ExportSettings
from sam3dvid.export.shards import ShardWriter, all_encoders
from sam3dvid.export.voxels import voxels_path, write_voxels
from sam3dvid.stage import EXPORT_INDEX, EXPORT_VERSION, SPLITS
from shardwork.digests import seal, sha256_file
from shardwork.errors import DataError
from shardwork.jsonio import Json, write_json
from shardwork.pack import RECORD_NAME, PackOptions, Unit, cut_plan, pack_shards, say
from shardwork.tarball import Written

OWN = re.compile(r"(?P<split>{0})-[0-9]{{6,}}\.tar|voxels_(?P<other>{0})\.npz".format("|".join(SPLITS)))
"""Names of the files of an export, of any split, the index apart."""
NAMED = 5
"""Clips that a message names."""


def export_split(dataset: Path, split: str, out: Path, settings: ExportSettings, options: PackOptions) -> dict[str, Json]:
    """Return what index.json says after the export of a split stands in `out`, whole.

    A shard that exists is kept only where size and sha256 are those noted when it was written, for the same clips as they are now.
    Raises DataError: bad_argument, other_plan, other_split, foreign_export, member_changed, low_psnr; AssetRefused: bad_clip, bad_asset; Fault.
    """
    check_apart(out, dataset)
    check_folder(out, split)
    contents, units = gather(dataset, split, settings)
    voxels = voxels_name(split)
    # voxels stand in a file beside the shards, which they do not change, and decide the export as clips do
    others = [FORMAT_VERSION, {asset_id: sha256_file(voxels_path(dataset, split, asset_id)) for asset_id in contents.assets}]
    plan = replace(cut_plan(split, units, settings.clips_per_shard, EXPORT_VERSION, beside=(EXPORT_INDEX, voxels)), others=others)
    index: dict[str, Json] = {}

    def finish(packed: dict[str, Written]) -> None:
        _judge(packed, settings.psnr)
        write_voxels(out / voxels, dataset, split, contents.assets)
        index.update(index_of(plan, packed, contents, settings, out / voxels))
        write_json(out / EXPORT_INDEX, seal(index))

    # resume by content: a tar cut between two members reads as a whole one
    pack_shards(plan, out, ShardWriter(dataset, split, settings.any_size), replace(options, full=True), out / EXPORT_INDEX, finish)
    return index


def check_apart(out: Path, dataset: Path) -> None:
    """Raise DataError (bad_argument) for results that would lie in the dataset, in which nothing else may."""
    if out.resolve().is_relative_to(dataset.resolve()):
        raise DataError("bad_argument", out, "within the dataset", "another place", "name one outside")


def check_folder(out: Path, split: str) -> None:
    """Raise DataError for a folder with an export of another split (other_split), or with files of our names that no export wrote (foreign_export)."""
    if not out.exists():
        return
    if not out.is_dir():
        raise DataError("bad_argument", out, "not a folder", "a folder for the export", "name another")
    names = sorted(path.name for path in out.iterdir())
    ours = [name for name in names if OWN.fullmatch(name)]
    for name in ours:
        match = OWN.fullmatch(name)
        if match is not None and (found := match["split"] or match["other"]) != split:
            raise _other_split(out / name, found, split)
    index = _index_if_ours(out)
    if index is not None and index["split"] != split:
        raise _other_split(out / EXPORT_INDEX, index["split"], split)
    if index is None and RECORD_NAME not in names and (ours or EXPORT_INDEX in names):
        path = out / (ours[0] if ours else EXPORT_INDEX)
        raise DataError("foreign_export", path, f"there without {RECORD_NAME}", "a folder of an export, or an empty one", HINTS["foreign_export"])


def _other_split(where: Path, found: str, split: str) -> DataError:
    return DataError("other_split", where, f"split {found}", f"split {split} alone", HINTS["other_split"])


def _index_if_ours(out: Path) -> dict[str, Json] | None:
    try:
        return read_index(out)
    except DataError:
        return None


def gather(dataset: Path, split: str, settings: ExportSettings) -> tuple[Contents, list[Unit]]:
    """Return what the index says of the clips that are exported, and their units. No picture is read whole. Raises as `export_split`."""
    rights = Rights(dataset, split, settings.release_licenses)
    encoders = all_encoders()
    clips: dict[str, dict[str, Json]] = {}
    left_out: dict[str, list[str]] = {}
    units, frames = [], 0
    for clip_id in read_clip_ids(dataset, split, settings.empty):
        clip = read_clip(dataset, split, clip_id, settings.any_size)
        image_id, refused = rights.of(clip)
        if refused and settings.releasable_only:
            left_out[clip_id] = refused
            continue
        if frames not in (0, clip.frames):
            raise bad_clip(clip.folder, f"{clip.frames} frames", f"{frames} as the clips before")
        fingerprint, frames = fingerprint_of(clip), clip.frames
        clips[clip_id] = {"assets": list(clip.assets), "background": image_id, "fingerprint": fingerprint, "refusals": refused, "releasable": not refused}
        # another encoder makes other bytes, so a folder with some of each is refused
        units.append(Unit(clip_id, [fingerprint, encoders]))
    if left_out and not units and not settings.empty:
        first, why = next(iter(left_out.items()))
        hint = "leave --releasable-only out, or see the licences"
        raise DataError("license_refused", dataset, f"no clip of {split} may be released: {first}: {why[0]}", "one at least", hint)
    used = {asset_id for clip in clips.values() for asset_id in clip["assets"]}
    shown = {clip["background"] for clip in clips.values()}
    assets = {asset_id: facts for asset_id, facts in rights.assets.items() if asset_id in used}
    backgrounds = {image_id: facts for image_id, facts in rights.backgrounds.items() if image_id in shown}
    return Contents(split, frames, clips, assets, backgrounds, left_out), units


def _judge(packed: Mapping[str, Written], psnr: str) -> None:
    """Name the clips whose JPEGs come less near than is expected. Raises DataError (low_psnr) where that fails the export."""
    facts = {clip_id: fact for written in packed.values() for clip_id, fact in written.facts.items()}
    low = sorted((fact["psnr_min_db"], clip_id) for clip_id, fact in facts.items() if fact["psnr_min_db"] < LEAST_PSNR_DB)
    if not low:
        return
    told = f"{len(low)} of {len(facts)} clips below {LEAST_PSNR_DB:g} dB: {_some([f'{clip_id} {db} dB' for db, clip_id in low])}"
    if psnr == FAIL:
        raise DataError("low_psnr", "JPEG against PNG", told, f"{LEAST_PSNR_DB:g} dB or more in every frame", HINTS["low_psnr"])
    say(f"warning: {told}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
