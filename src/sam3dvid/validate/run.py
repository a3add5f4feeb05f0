"""A whole dataset: which clips and assets there are, a task for each in worker processes, and what they found put together in a fixed order."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sam3dvid.validate.assets import AssetFacts, look_at_asset
from sam3dvid.validate.clips import ClipFacts, look_at_clip
from sam3dvid.validate.layout import ROOT_FILES, ROOT_FOLDERS, look_at_names, names_in, note_extra
from sam3dvid.validate.leaks import look_for_leaks
from sam3dvid.validate.report import LAYOUT, SUITES, VISIBILITY, Found, Report, report_of
from sam3dvid.validate.schema import CLIP_ID, ID, SPLITS
from sam3dvid.validate.splits import look_at_config, look_at_manifest, look_at_objects_assets
from shardwork.errors import DataError, Fault, fault_from
from shardwork.pool import run_tasks
from shardwork.progress import Progress


@dataclass(frozen=True, slots=True)
class Choice:
    """What is looked at.

    suites : of SUITES.   splits : of eval and train.   clips : ids, all if empty; then only their assets are looked at.
    any_size : whether clips of other sizes than 32 frames of 512 x 512 are in order; for tests and demonstrations.
    """

    suites: tuple[str, ...] = tuple(SUITES)
    splits: tuple[str, ...] = SPLITS
    clips: tuple[str, ...] = ()
    any_size: bool = False


Task = tuple[str, str, str]
"""("clip" or "asset", split, id)."""


def validate_dataset(root: Path, choice: Choice = Choice(), workers: int = 0, progress: bool = False) -> Report:
    """Return what is wrong with a dataset, nothing if it keeps the format.

    workers : processes; 0 works in this one. The report does not depend on it.   progress : whether to count on stderr.
    Raises DataError (bad_argument) if there is no such folder or clip, OSError where the machine does not let us look at the folders themselves.
    """
    if not root.is_dir():
        raise DataError(
            "bad_argument", root, "not a folder" if root.exists() else "no such folder", "the folder of a dataset", "name the folder with manifest.jsonl"
        )
    whole = Found()
    look_at_names(whole, root, "", ROOT_FILES, ROOT_FOLDERS)
    clips = _folders(whole, root, "clips", CLIP_ID)
    assets = _folders(whole, root, "assets", ID)
    chosen = [name for name in clips if name[0] in choice.splits and (not choice.clips or name[1] in choice.clips)]
    if unknown := set(choice.clips) - {clip_id for _, clip_id in chosen}:
        raise DataError("bad_argument", root, f"no clip {min(unknown)}", "ids of clips in the chosen splits", "see the folders under clips/")
    if not choice.clips and not chosen:
        whole.block(VISIBILITY, "clips")
        whole.add(LAYOUT, "clips", f"no clips in {' or '.join(choice.splits)}", "at least one clip")
    tasks: list[Task] = [("clip", *name) for name in chosen]
    looked: dict[Task, Any] = _look(root, choice, tasks, workers, progress)
    facts: list[ClipFacts] = [result[1] for task in tasks if not isinstance(result := looked[task], Fault)]
    asset_tasks: list[Task] = []
    if LAYOUT in choice.suites:
        used = {(one.split, asset_id) for one in facts for asset_id, _ in one.objects}
        asset_tasks = [("asset", *name) for name in assets if name[0] in choice.splits and (not choice.clips or name in used)]
        looked |= _look(root, choice, asset_tasks, workers, progress)
    asset_facts: list[AssetFacts] = [result[1] for task in asset_tasks if not isinstance(result := looked[task], Fault)]
    whole.counts["files"] += sum((root / name).is_file() for name in ROOT_FILES)
    if LAYOUT in choice.suites:
        look_at_config(whole, root)
        look_at_manifest(whole, root, clips, facts)
        look_at_objects_assets(whole, facts, set(assets), asset_facts)
        look_for_leaks(whole, facts, set(assets), asset_facts)
    parts = [whole, *(result[0] for task in (*asset_tasks, *tasks) if not isinstance(result := looked[task], Fault))]
    faults = [result for task in (*asset_tasks, *tasks) if isinstance(result := looked[task], Fault)]
    return report_of(parts, choice.suites, [one.clip for one in facts], faults)


def _folders(found: Found, root: Path, top: str, pattern: str) -> list[tuple[str, str]]:
    """Return (split, name) of every folder below clips or assets, sorted; other names are noted."""
    splits = names_in(root, top, found) or {}
    note_extra(found, top, {name for name, folder in splits.items() if name not in SPLITS or not folder}, " and ".join(f"{split}/" for split in SPLITS))
    folders = []
    for split in sorted(set(SPLITS) & {name for name, folder in splits.items() if folder}):
        names = names_in(root, f"{top}/{split}", found) or {}
        right = sorted(name for name, folder in names.items() if folder and re.fullmatch(pattern, name))
        note_extra(found, f"{top}/{split}", names.keys() - set(right), f"folders named {pattern}")
        folders += [(split, name) for name in right]
    return folders


def _look_at(root: Path, suites: Collection[str], any_size: bool, task: Task) -> Any:
    kind, split, name = task
    try:
        return look_at_clip(root, split, name, suites, any_size) if kind == "clip" else look_at_asset(root, split, name)
    except OSError as error:
        return fault_from(error, f"{kind}s/{split}/{name}")


def _look(root: Path, choice: Choice, tasks: Sequence[Task], workers: int, progress: bool) -> dict[Task, Any]:
    """Return for each task what it found with its facts, or the fault that kept it from looking."""
    if not tasks:
        return {}
    work = partial(_look_at, root, choice.suites, choice.any_size)
    if not progress:
        return dict(run_tasks(work, tasks, workers, _name))
    results = {}
    with Progress(len(tasks), "validate", tasks[0][0]) as bar:
        for task, result in run_tasks(work, tasks, workers, _name):
            results[task] = result
            bar.step()
    return results


def _name(task: Task) -> str:
    return f"{task[0]}s/{task[1]}/{task[2]}"
