"""A whole dataset: which clips and assets there are, a task for each in worker processes, and what they found put together in a fixed order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sam3dvid.validate import convention, export_index, roundtrip
from sam3dvid.validate.assets import AssetFacts, look_at_asset
from sam3dvid.validate.clips import ClipFacts, look_at_clip
from sam3dvid.validate.determinism import Again, differences_of, look_at_again
from sam3dvid.validate.layout import ROOT_FILES, ROOT_FOLDERS, look_at_names, names_in, note_extra
from sam3dvid.validate.leaks import look_for_leaks
from sam3dvid.validate.measures import TYPICAL, TYPICAL_SHARE, Measures, figures_of, typical_share
from sam3dvid.validate.report import CONVENTION, DETERMINISM, EXPORT, GEOMETRY, LAYOUT, USUAL, VISIBILITY, Found, Report, report_of
from sam3dvid.validate.schema import CLIP_ID, ID, SPLITS
from sam3dvid.validate.splits import look_at_config, look_at_manifest, look_at_objects_assets
from shardwork.errors import DataError, Fault, fault_from
from shardwork.jsonio import Json
from shardwork.pool import run_tasks
from shardwork.progress import Progress


@dataclass(frozen=True, slots=True)
class Choice:
    """What is looked at.

    suites : of SUITES; T4 needs `again`, T5 `export`.   splits : of eval and train.   clips : ids, all if empty; then only their assets are looked at.
    any_size : whether clips of other sizes than 32 frames of 512 x 512 are in order; for tests and demonstrations.
    exact : whether T3 has the limits of exact renders.   again : what T4 compares with.   export : folder of the training export that T5 compares with.
    """

    suites: tuple[str, ...] = USUAL
    splits: tuple[str, ...] = SPLITS
    clips: tuple[str, ...] = ()
    any_size: bool = False
    exact: bool = False
    again: Again | None = None
    export: Path | None = None


BLOCKS = {"clip": (*USUAL, CONVENTION), "asset": (LAYOUT,), "again": (DETERMINISM,), "shard": (EXPORT,), "voxels": (EXPORT,)}
"""Kind of task -> suites that cannot look at all they must where the machine does not let it be done."""
Task = tuple[str, str, str]
"""("clip", "asset" or "again", split, id), or ("shard" or "voxels", split, name of a file of the export)."""


def validate_dataset(root: Path, choice: Choice = Choice(), workers: int = 0, progress: bool = False) -> Report:
    """Return what is wrong with a dataset, nothing if it keeps the format.

    workers : processes; 0 works in this one. The report does not depend on it.   progress : whether to count on stderr.
    Raises DataError (bad_argument) if there is no such folder or clip, OSError where the machine does not let us look at the folders themselves.
    """
    if not root.is_dir():
        raise DataError(
            "bad_argument", root, "not a folder" if root.exists() else "no such folder", "the folder of a dataset", "name the folder with manifest.jsonl"
        )
    check_suites(choice)
    whole = Found()
    look_at_names(whole, root, "", ROOT_FILES, ROOT_FOLDERS)
    clips = _folders(whole, root, "clips", CLIP_ID)
    assets = _folders(whole, root, "assets", ID)
    chosen = [name for name in clips if name[0] in choice.splits and (not choice.clips or name[1] in choice.clips)]
    if unknown := set(choice.clips) - {clip_id for _, clip_id in chosen}:
        raise DataError("bad_argument", root, f"no clip {min(unknown)}", "ids of clips in the chosen splits", "see the folders under clips/")
    if not choice.clips and not chosen:
        for suite in (VISIBILITY, GEOMETRY, CONVENTION):
            whole.block(suite, "clips")
        whole.add(LAYOUT, "clips", f"no clips in {' or '.join(choice.splits)}", "at least one clip")
    looker = _Looker(root, choice, workers, progress)
    tasks: list[Task] = [("clip", *name) for name in chosen if set(choice.suites) & {*USUAL, CONVENTION}]
    looked: dict[Task, Any] = looker.look(tasks)
    facts: list[ClipFacts] = [result[1] for task in tasks if not isinstance(result := looked[task], Fault)]
    asset_tasks: list[Task] = []
    if LAYOUT in choice.suites:
        used = {(one.split, asset_id) for one in facts for asset_id, _ in one.objects}
        asset_tasks = [("asset", *name) for name in assets if name[0] in choice.splits and (not choice.clips or name in used)]
        looked |= looker.look(asset_tasks)
    again_tasks: list[Task] = []
    if DETERMINISM in choice.suites and choice.again is not None:
        again_tasks = [("again", *name) for name in choice.again.clips_of(root, chosen, named=bool(choice.clips))]
        looked |= looker.look(again_tasks)
    export_tasks: list[Task] = []
    exchanged: Json = None
    if EXPORT in choice.suites and choice.export is not None:
        of_export, exchanged = _look_at_export(whole, looker, choice.export, chosen)
        export_tasks = list(of_export)
        looked |= of_export
    asset_facts: list[AssetFacts] = [result[1] for task in asset_tasks if not isinstance(result := looked[task], Fault)]
    whole.counts["files"] += sum((root / name).is_file() for name in ROOT_FILES)
    if LAYOUT in choice.suites:
        look_at_config(whole, root)
        look_at_manifest(whole, root, clips, facts)
        look_at_objects_assets(whole, facts, set(assets), asset_facts)
        look_for_leaks(whole, facts, set(assets), asset_facts)
    measures = [one.measures for one in facts if one.measures is not None]
    if choice.exact:
        look_at_share(whole, measures)
    compared = [result[1] for task in again_tasks if not isinstance(result := looked[task], Fault)]
    agreements = [one.agreement for one in facts if one.agreement is not None]
    figures = {GEOMETRY: figures_of(measures), DETERMINISM: differences_of(compared), EXPORT: exchanged, CONVENTION: convention.figures_of(agreements)}
    every = (*asset_tasks, *tasks, *again_tasks, *export_tasks)
    for task in every:
        if isinstance(looked[task], Fault):
            for suite in BLOCKS[task[0]]:
                whole.block(suite, _name(task))
    parts = [whole, *(result[0] for task in every if not isinstance(result := looked[task], Fault))]
    faults = [result for task in every if isinstance(result := looked[task], Fault)]
    names = sorted({*(one.clip for one in (*facts, *compared)), *(exchanged["clips"] if exchanged else ())})
    return report_of(parts, choice.suites, names, faults, figures)


def _look_at_export(whole: Found, looker: _Looker, export: Path, chosen: Sequence[tuple[str, str]]) -> tuple[dict[Task, Any], Json]:
    """Return for each task of T5 what it found, or the fault that kept it from looking, and T5's figures. What concerns the whole export is noted."""
    tasks: list[Task] = [("shard", *name) for name in roundtrip.shards_of(export, looker.choice.splits)]
    split, looked = tasks[0][1], looker.look(tasks)
    measured = [result[1] for task in tasks if not isinstance(result := looked[task], Fault)]
    roundtrip.look_at_order(whole, measured)
    named = export_index.read_shards(whole, export, split)
    if named is not None:
        export_index.look_at_index(whole, named, [name for *_, name in tasks], {one.shard: one.clips for one in measured})
    exported = {clip_id for one in measured for clip_id in one.clips}
    missing = sum(name not in exported for of_split, name in chosen if of_split == split)
    used = {asset_id for one in measured for asset_id in one.assets}
    voxels: Task = ("voxels", split, f"voxels_{split}.npz")
    whole_export = not looker.choice.clips and len(measured) == len(tasks)
    try:
        looked[voxels] = roundtrip.look_at_voxels(_exported(looker.root, looker.choice, export, split), voxels[2], used, whole_export), None
    except OSError as error:
        looked[voxels] = fault_from(error, voxels[2])
    return looked, roundtrip.figures_of(measured, missing)


def _exported(root: Path, choice: Choice, export: Path, split: str) -> roundtrip.Exported:
    return roundtrip.Exported(root, export, split, choice.clips, LAYOUT not in choice.suites)


def check_suites(choice: Choice) -> None:
    """Raise DataError (bad_argument) for suites that lack what they need."""
    if DETERMINISM in choice.suites and choice.again is None:
        hint = "make some of its clips again in another results folder (the same configuration, another name of the run), and name its dataset with --again"
        raise DataError("bad_argument", f"--suite {DETERMINISM}", "no other dataset", "the folder of a dataset with the same clips, made again", hint)
    if choice.again is not None and DETERMINISM not in choice.suites:
        raise DataError("bad_argument", "--again", f"suites {', '.join(choice.suites)}", f"suite {DETERMINISM} among them", f"add --suite {DETERMINISM}")
    if EXPORT in choice.suites and choice.export is None:
        hint = "name the folder that python -m sam3dvid.export wrote with --export"
        raise DataError("bad_argument", f"--suite {EXPORT}", "no export", "the folder of a training export of the dataset", hint)
    if choice.export is not None and EXPORT not in choice.suites:
        raise DataError("bad_argument", "--export", f"suites {', '.join(choice.suites)}", f"suite {EXPORT} among them", f"add --suite {EXPORT}")
    if choice.exact and GEOMETRY not in choice.suites:
        raise DataError("bad_argument", "--exact", f"suites {', '.join(choice.suites)}", f"suite {GEOMETRY} among them", f"add --suite {GEOMETRY}")
    if GEOMETRY in choice.suites and find_spec("numba") is None:
        hint = "pip install 'reelmill[clips]', or name suites without it"
        raise DataError("bad_argument", f"--suite {GEOMETRY}", "the package numba is not installed", "what casts rays", hint)


def look_at_share(whole: Found, measures: Sequence[Measures]) -> None:
    """Note too few object-frames that fit as well as exact renders do."""
    share = typical_share(measures)
    if share is not None and share < TYPICAL_SHARE:
        whole.add(GEOMETRY, "clips", f"{share:.2%} of object-frames with a mismatch of at most {TYPICAL}", f"at least {TYPICAL_SHARE:.0%} (exact)")


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


def _look_at(root: Path, choice: Choice, task: Task) -> Any:
    kind, split, name = task
    try:
        if kind == "again" and choice.again is not None:
            return look_at_again(root, choice.again, f"clips/{split}/{name}", LAYOUT not in choice.suites)
        if kind == "shard" and choice.export is not None:
            return roundtrip.look_at_shard(_exported(root, choice, choice.export, split), name)
        if kind == "clip":
            return look_at_clip(root, split, name, choice.suites, choice.any_size, choice.exact)
        return look_at_asset(root, split, name)
    except OSError as error:
        return fault_from(error, _name(task))


@dataclass(frozen=True, slots=True)
class _Looker:
    """What looks at the tasks of a dataset.   root, choice, workers, progress : as of `validate_dataset`."""

    root: Path
    choice: Choice
    workers: int
    progress: bool

    def look(self, tasks: Sequence[Task]) -> dict[Task, Any]:
        """Return for each task what it found with its facts, or the fault that kept it from looking."""
        if not tasks:
            return {}
        work = partial(_look_at, self.root, self.choice)
        if not self.progress:
            return dict(run_tasks(work, tasks, self.workers, _name))
        results = {}
        with Progress(len(tasks), "validate", tasks[0][0]) as bar:
            for task, result in run_tasks(work, tasks, self.workers, _name):
                results[task] = result
                bar.step()
        return results


def _name(task: Task) -> str:
    return task[2] if task[0] in ("shard", "voxels") else f"{'assets' if task[0] == 'asset' else 'clips'}/{task[1]}/{task[2]}"
