"""Export one split: plan, pack, voxels, index. One folder holds one split; nothing else that lies there is overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sam3dvid.codes import HINTS
from sam3dvid.export.clips import bad_clip, fingerprint_of, read_clip, read_clip_ids
from sam3dvid.export.index import FORMAT_VERSION, KIND, Contents, index_of, read_index, voxels_name
from sam3dvid.export.rights import Rights
from sam3dvid.export.settings import FAIL, LEAST_PSNR_DB, ExportSettings
from sam3dvid.export.shards import ShardWriter, all_encoders
from sam3dvid.export.voxels import voxels_path, write_voxels
from sam3dvid.stage import EXPORT_INDEX, EXPORT_VERSION, SPLITS
from shardwork.digests import digest_value, seal, sha256_file
from shardwork.errors import DataError
from shardwork.jsonio import Json, write_json
from shardwork.pack import Declared, PackOptions, Plan, Unit, cut_plan, pack_shards
from shardwork.packrecord import RECORD_NAME, other_plan, read_record, say
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
    check_out(out, dataset)
    check_folder(out, split)
    contents, units = gather(dataset, split, settings)
    voxels = voxels_name(split)
    beside = (EXPORT_INDEX, voxels)
    plan = replace(cut_plan(split, units, settings.clips_per_shard, EXPORT_VERSION, beside), others=_others(dataset, contents, settings), kind=KIND)
    index: dict[str, Json] = {}

    def finish(packed: dict[str, Written]) -> None:
        _judge(packed, settings.psnr)
        write_voxels(out / voxels, dataset, split, contents.assets)
        index.update(index_of(plan, packed, contents, settings, out / voxels))
        write_json(out / EXPORT_INDEX, seal(index))

    # looked at once more under the lock: another process may have begun an export here meanwhile
    declared = Declared(out / EXPORT_INDEX, partial(check_folder, out, split, plan, options.replan), finish)
    # resume by content: a tar cut between two members reads as a whole one
    pack_shards(plan, out, ShardWriter(dataset, split, settings.any_size), replace(options, full=True), declared)
    return index


def _others(dataset: Path, contents: Contents, settings: ExportSettings) -> Json:
    """Return what decides the files beside the shards, which it does not change: the format, voxels, and what may be released."""
    voxels = {asset_id: sha256_file(voxels_path(dataset, contents.split, asset_id)) for asset_id in contents.assets}
    refused = {clip_id: clip["refusals"] for clip_id, clip in contents.clips.items()}
    rights = [contents.assets, contents.backgrounds, refused, contents.left_out, settings.releasable_only, settings.release_licenses]
    return [FORMAT_VERSION, voxels, digest_value(rights)]


def check_out(out: Path, dataset: Path) -> None:
    """Raise DataError (bad_argument) for results that would lie in the dataset, in which nothing else may, and for a name that breaks lines of text."""
    if not str(out).isprintable():
        raise DataError("bad_argument", "--out", ascii(str(out)), "a path without line breaks and other characters that cannot be printed", "name another")
    if out.resolve().is_relative_to(dataset.resolve()):
        raise DataError("bad_argument", out, "within the dataset", "another place", "name one outside")


def check_folder(out: Path, split: str, plan: Plan | None = None, replan: bool = True) -> None:
    """Raise DataError for a folder that holds what this export must not replace.

    plan, replan : of the export, once it is known.
    other_split: an export of another split.   foreign_export: files of our names that no export wrote.   other_plan: a finished export of another plan,
    which its index tells, whatever became of its record.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise DataError("bad_argument", out, "not a folder", "a folder for the export", "name another")
    names = sorted(path.name for path in out.iterdir())
    ours = [name for name in names if OWN.fullmatch(name)]
    record = read_record(out) if RECORD_NAME in names else None
    if record is not None and record.get("kind", KIND) != KIND:
        raise _foreign(out / RECORD_NAME, f"the record of shards of {record['kind']}")
    for name in ours:
        match = OWN.fullmatch(name)
        if match is not None and (found := match["split"] or match["other"]) != split:
            raise _other_split(out / name, found, split)
    index = _index_if_ours(out)
    if index is not None and index["split"] != split:
        raise _other_split(out / EXPORT_INDEX, index["split"], split)
    claimed = [*ours, *(name for name in (EXPORT_INDEX, RECORD_NAME) if name in names)]
    if index is None and record is None and claimed:
        found = "there, and no export wrote it" if RECORD_NAME not in names else f"there with a {RECORD_NAME} that cannot be read"
        raise _foreign(out / claimed[0], found)
    if index is not None and plan is not None and not replan and index["plan"] != plan.as_json():
        raise other_plan(out, index["plan"], plan.as_json())


def _foreign(where: Path, found: str) -> DataError:
    return DataError("foreign_export", where, found, "a folder of an export, or an empty one", HINTS["foreign_export"])


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
