"""Run one step over one work shard: decide, work, journal, and write the manifest last."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardwork.errors import DataError, Fault
from shardwork.files import make_folder, remove_path, temp_owner
from shardwork.ids import check_id
from shardwork.journal import Journal, open_journal
from shardwork.jsonio import dumps, write_jsonl
from shardwork.pool import run_items
from shardwork.progress import Progress
from shardwork.step import Fields, Item, Step, quarantined


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stage keeps its files.

    stage : results/<run>/<stage>.   folders : those below it that hold published items.   id_of : the id in a file name, or None for a name
    that is none of the stage's.
    """

    stage: Path
    folders: tuple[Path, ...]
    id_of: Callable[[str], str | None]

    @property
    def quarantine(self) -> Path:
        """Where files go that must not be found among the good ones."""
        return self.stage / "quarantine"

    def aside(self, path: Path) -> Path:
        """Return where a published file or folder is set aside to."""
        return self.quarantine / path.relative_to(self.stage)

    def manifest(self, step: str, shard: str) -> Path:
        """Return the shard manifest of a step: the file that says the shard is done."""
        return self.stage / "shards" / step / f"{shard}.jsonl"

    def journal(self, step: str, shard: str) -> Path:
        """Return the journal of a step and shard."""
        return self.stage / ".journal" / f"{step}-{shard}.jsonl"


@dataclass(frozen=True, slots=True)
class Options:
    """How a shard is run: nothing here changes a byte.

    workers : processes.   redo : raised to recompute everything.   full : compare digests of finished files, not only size and time.
    prune : delete files that no item names, instead of setting them aside.
    """

    workers: int = 1
    redo: int = 0
    full: bool = False
    prune: bool = False


@dataclass(frozen=True, slots=True)
class Shard:
    """One work shard of a step. owns : whether an id belongs to this shard (so that files of removed ids are found)."""

    name: str
    items: Sequence[Item]
    owns: Callable[[str], bool]


def run_shard(step: Step, shard: Shard, place: Place, options: Options) -> list[Fields]:
    """Return the manifest rows of a shard after every item has its verdict and the manifest is written.

    Raises Fault if any item has none (disk, memory, kill, bug): the manifest is not written, finished items are kept, and the same command
    goes on from there. Raises DataError (duplicate_id) before any work.
    """
    _check_unique(shard.items)
    shard = replace(shard, items=[replace(item, fingerprint=step.fingerprint(item, options.redo)) for item in shard.items])
    with open_journal(place.journal(step.name, shard.name), place.stage) as journal:
        run = _Run(step, place, options, journal)
        run.tidy(shard)
        rows = run.work(shard)
    write_manifest(place.manifest(step.name, shard.name), rows, [item.id for item in shard.items])
    run.report(shard, rows)
    return rows


def write_manifest(path: Path, rows: Sequence[Fields], ids: Sequence[str]) -> None:
    """Write a manifest sorted by id, atomically. Raises Fault (manifest_mismatch) unless it holds exactly one row for every id."""
    if sorted(row["id"] for row in rows) != sorted(ids):
        raise Fault("manifest_mismatch", path, f"{len(rows)} rows", f"one for each of {len(ids)} items", "this is a fault of the program: report it")
    write_jsonl(path, sorted(rows, key=lambda row: row["id"]))


def _check_unique(items: Sequence[Item]) -> None:
    repeated = [item_id for item_id, count in Counter(item.id for item in items).items() if count > 1]
    if repeated:
        raise DataError("duplicate_id", repr(repeated[0]), "more than one item with this id", "one", "rename or take out one of them")


def set_aside(path: Path, place: Place) -> None:
    """Move a published file or folder into quarantine/, replacing what an earlier run put there."""
    target = place.aside(path)
    make_folder(target.parent)
    remove_path(target)
    os.rename(path, target)


def sweep(place: Place, owns: Callable[[str], bool], expected: set[Path], prune: bool) -> list[Path]:
    """Set aside (or with `prune` delete) published files that no item names, delete left temporary ones, and return the former.

    A trainer globs a folder and would train on them. Only names whose id `owns` accepts are touched.
    """
    stale = []
    for folder in place.folders:
        for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
            owner = temp_owner(entry.name)
            item_id = place.id_of(owner or entry.name)
            if item_id is None or not owns(item_id) or entry in expected:
                continue
            if owner or prune:
                remove_path(entry)
            else:
                set_aside(entry, place)
            stale += [] if owner else [entry]
    return stale


def sweep_dead(place: Place, live: Collection[str], shard_of: Callable[[str], str], prune: bool) -> list[Path]:
    """Clear what shards left that hold no item any more and so have no job: their files, manifests and journals. Return the files.

    live : names of the shards that hold items.   shard_of : the shard of an id.
    """
    stale = sweep(place, lambda item_id: shard_of(item_id) not in live, set(), prune)
    for path in [*place.stage.glob("shards/*/*.jsonl"), *place.stage.glob(".journal/*")]:
        if path.stem.rpartition("-")[2] not in live:
            path.unlink(missing_ok=True)
    return stale


STOPPING = {"fault_disk", "fault_killed", "fault_memory"}
"""Faults of the machine: going on would only add to the trouble. After others the rest of the shard is still worked on."""


class _Run:
    """One pass over a shard. Rows are collected here; everything that lasts is in the journal, the files and the manifest."""

    def __init__(self, step: Step, place: Place, options: Options, journal: Journal) -> None:
        self.step, self.place, self.options, self.journal = step, place, options, journal
        self.counts: Counter[str] = Counter()

    def tidy(self, shard: Shard) -> None:
        """Clear what an earlier run left: temporary files of a killed one, files of ids that the table no longer has."""
        expected = {path for item in shard.items for path in item.outputs}
        for path in sweep(self.place, shard.owns, expected, self.options.prune):
            where = "deleted" if self.options.prune else f"set aside in {self.place.quarantine}"
            self.say(f"{path.name}: no row of the table names it: {where}")

    def work(self, shard: Shard) -> list[Fields]:
        """Return a row for every item, or raise the first fault once nothing more can be done."""
        rows = [row for item in shard.items if (row := self.settle(item)) is not None]
        settled = {row["id"] for row in rows}
        todo = [item for item in shard.items if item.id not in settled]
        faults: list[Fault] = []
        with Progress(len(todo), f"{self.step.name} {shard.name}") as progress:
            for item, outcome in run_items(self.step.run_item, todo, self.options.workers):
                progress.step()
                if isinstance(outcome, Fault):
                    progress.say(f"fault: {outcome}")
                    faults.append(outcome)
                    if outcome.code in STOPPING:
                        break
                elif isinstance(outcome, DataError):
                    progress.say(f"quarantined: {item.id}: {outcome}")
                    rows.append(self.refuse(item, outcome))
                else:
                    rows.append(self.finish(item, outcome, "made"))
        if faults:
            raise faults[0]
        return rows

    def settle(self, item: Item) -> Fields | None:
        """Return the row of an item that needs no work, or None if it does."""
        if item.verdict is not None:
            self.drop_outputs(item)
            return item.verdict
        try:
            check_id(item.id)
        except DataError as error:
            return quarantined(item.id, error)
        kept = self.journal.matches(item.id, item.fingerprint, item.outputs + item.watched, self.options.full)
        change = item.source.change() if item.source else None
        if change is not None and not (kept and change.code == "missing_file"):
            return self.refuse(item, change)
        if kept:
            self.counts["kept"] += 1
            return self.row(item)
        return self.adopt(item)

    def adopt(self, item: Item) -> Fields | None:
        """Return the row of an item whose files are whole though no journal row says so; else clear the way and return None."""
        ours = self.journal.unchanged(item.id, item.outputs, self.options.full)
        if ours or not item.outputs:
            return None  # made with other settings or from another source: the new result replaces it in one rename
        present = [path for path in item.outputs if path.exists()]
        asides = tuple(self.place.aside(path) for path in item.outputs)
        if not present and all(path.exists() for path in asides):
            fields = self.verified(item, asides)
            if fields is not None:
                for path, final in zip(asides, item.outputs, strict=True):
                    make_folder(final.parent)
                    os.rename(path, final)
                return self.finish(item, fields, "adopted")
        if present:
            fields = self.verified(item, item.outputs) if len(present) == len(item.outputs) else None
            if fields is not None:
                return self.finish(item, fields, "adopted")
            for path in present:
                self.say(f"{path.name}: is not what {self.step.name} wrote (cut, changed or foreign): set aside in {self.place.quarantine}, made again")
                set_aside(path, self.place)
        return None

    def verified(self, item: Item, at: tuple[Path, ...]) -> Fields | None:
        """Return the fields of an item whose outputs stand `at`, whole: by the journal's digests, else by what the step itself can check."""
        equal = self.journal.equals(item.id, item.fingerprint, item.outputs, at)
        if equal is not None:
            fields: Fields = self.journal.rows[item.id]["fields"]
            return fields if equal else None
        return self.step.adopt(replace(item, outputs=at)) if self.step.adopt else None

    def finish(self, item: Item, fields: Fields, how: str) -> Fields:
        self.journal.add(item.id, item.fingerprint, item.outputs + item.watched, fields)
        self.counts[how] += 1
        return self.row(item)

    def refuse(self, item: Item, error: DataError) -> Fields:
        self.drop_outputs(item)
        return quarantined(item.id, error)

    def drop_outputs(self, item: Item) -> None:
        """Set aside what an item that is refused must not leave among the good files."""
        for path in item.outputs + (item.watched if self.step.guards else ()):
            if path.exists():
                set_aside(path, self.place)

    def row(self, item: Item) -> Fields:
        """Return the manifest row of a finished item: its fields and files, no times, so that every run gives the same bytes."""
        done = self.journal.rows[item.id]
        files = {name: {key: value for key, value in seen.items() if key != "mtime_ns"} for name, seen in done["files"].items()}
        return {**done["fields"], "id": item.id, "status": "ok", "code": "ok", "files": files}

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def report(self, shard: Shard, rows: Sequence[Fields]) -> None:
        verdicts = Counter(row["status"] for row in rows)
        parts = [f"{verdicts['ok']} ok ({', '.join(f'{count} {how}' for how, count in sorted(self.counts.items())) or 'none'})"]
        parts += [f"{count} {status}" for status, count in sorted(verdicts.items()) if status != "ok"]
        codes = Counter(row["code"] for row in rows if row["status"] == "quarantined")
        self.say(f"{self.step.name} {shard.name}: {len(rows)} items: {', '.join(parts)}{' ' + dumps(codes) if codes else ''}")
