"""The step validate_clips, as `shardwork` runs it: it reads every finished clip whole and sets aside those that break the format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sam3dvid.codes import HINTS, AssetRefused, stale
from sam3dvid.stage import CLIP_STEPS, VALIDATE_CLIPS_VERSION, clip_of
from sam3dvid.validate.clips import look_at_clip
from sam3dvid.validate.report import PASSED, USUAL, report_of
from shardwork.errors import Fault
from shardwork.journal import look, name_of
from shardwork.place import Place
from shardwork.step import Fields, Item, Step, upstream

SUITES = USUAL
"""What is looked at of each clip by itself; what holds between clips and assets is for a look at the whole dataset."""


def validate_step(dataset: Path, any_size: bool = False) -> Step:
    """Return the step that validates a clip.   any_size : whether other sizes than 32 frames of 512 x 512 are in order, for tests."""
    settings = {"any_size": any_size, "suites": list(SUITES)}
    return Step(CLIP_STEPS[1], VALIDATE_CLIPS_VERSION, settings, partial(_validate, dataset=dataset, any_size=any_size), guards=True)


def clip_items(rows: Sequence[Fields], place: Place, split: str) -> list[Item]:
    """Return an item for every row of a shard manifest of composite_clips; what the earlier steps refused comes with its verdict."""
    items = []
    for row in rows:
        if row["status"] == "ok":
            folder = clip_of(place.home or place.stage, row["id"], split)
            items.append(Item(row["id"], {"split": split, "digest": digest_of(row, folder, place)}, watched=(folder,)))
        else:
            items.append(Item(row["id"], None, verdict=upstream(row, CLIP_STEPS[0])))
    return items


def digest_of(row: Fields, folder: Path, place: Place) -> str:
    """Return the digest of a clip's folder, as the manifest row of composite_clips has it."""
    return str(row["files"][name_of(folder, place.stage)]["digest"])


def check_digest(folder: Path, digest: str) -> None:
    """Raise Fault (fault_stale) unless a clip's folder has the digest that was noted when it was written."""
    seen = look(folder, True)
    found = "no such folder" if seen is None else f"digest {seen.get('digest')}"
    if seen is None or seen.get("digest") != digest:
        raise stale(folder.name, found, f"{digest} as written")


def _validate(item: Item, dataset: Path, any_size: bool) -> Fields:
    (folder,), split = item.watched, item.inputs["split"]
    check_digest(folder, item.inputs["digest"])
    found, _ = look_at_clip(dataset, split, item.id, SUITES, any_size)
    if found.not_looked:
        raise found.not_looked[0]
    report = report_of([found], SUITES, [], [])
    for part in report.suites:
        if part.faults:
            more = f" and {len(part.faults) - 1} more" if len(part.faults) > 1 else ""
            raise AssetRefused("invalid_clip", f"{split}/{item.id}", f"{part.suite}: {part.faults[0]}{more}", "the format of the dataset")
    for part in report.suites:
        if part.verdict != PASSED:  # what blocks it, and is no fault of the clip, lies outside of its folder: the clip stays
            blocked = f"{part.suite} could not look at {part.blocked[0]}"
            raise Fault("bad_asset", item.id, blocked, "the finished assets that it was rendered with", HINTS["bad_asset"])
    return {"split": split, "suites": list(SUITES)}
