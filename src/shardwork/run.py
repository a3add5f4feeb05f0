"""Run one step over one work shard: decide, work, journal, and write the manifest last."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from shardwork.errors import DataError, Fault, fault_from
from shardwork.ids import check_id
from shardwork.journal import REFUSED, Entry, Journal, open_journal
from shardwork.jsonio import dumps, write_jsonl
from shardwork.place import UNNAMED, Place, clear_temporary, retract_manifests, set_aside, the_manifest
from shardwork.pool import Limits, run_tasks
from shardwork.progress import Progress
from shardwork.step import Fields, Item, Step, quarantined
from shardwork.work import Done, Outcome, Task, Work

STOPPING = frozenset(("fault_disk", "fault_killed", "fault_library", "fault_memory"))
"""Faults of the machine: going on would only add to the trouble. After others the rest of the shard is still worked on."""
DEATHS = frozenset(("fault_crashed", "fault_killed", "fault_timeout"))
"""Ends of a worker that leave temporary files."""
SAME_FAULTS = 5
"""So many faults in a row mean that the program fails alike on every item."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a shard is run; none of it changes a published value.

    workers : processes.   redo : raised to recompute everything.   full : compare digests of finished files, not only size and time.
    key : digest of what the shard is made for, part of the manifest's name.
    """

    workers: int = 1
    key: str = "by-hand"
    redo: int = 0
    full: bool = False


def run_shard(step: Step, shard: str, items: Sequence[Item], place: Place, options: Options) -> list[Fields]:
    """Return the manifest rows of a shard after every item has its verdict and the manifest is written; those under other keys are removed.

    shard : its name.   items : all of its items.
    Raises Fault if any item has none (disk, memory, kill, bug): the manifest is not written, finished items are kept, and the same command
    goes on from there. Raises DataError (duplicate_id) before any work.
    """
    _check_unique(items)
    items = [replace(item, fingerprint=step.fingerprint(item, options.redo)) for item in items]
    with open_journal(place.journal(step.name, shard)) as journal:
        run = _Run(step, shard, place, options, journal)
        run.tidy(items)
        rows = run.work(items)
        retract_manifests(place, step.name, shard)
        write_manifest(place.manifest(step.name, shard, options.key), rows, [item.id for item in items])
    run.say(run.summary(rows))
    return rows


def run_guard(step: Step, shard: str, items_of: Callable[[list[Fields]], Sequence[Item]], earlier: str, place: Place, options: Options) -> list[Fields]:
    """Run a step that checks the files of an earlier one, as `run_shard` does.

    earlier : that step's name, of this stage or of the one before.   items_of : makes the items from the rows of its shard manifest.
    Where a file is missing or not what the manifest says, the manifest is taken away, so that the same command makes the file again.
    Raises Fault (fault_stale) then.
    """
    there = place.before or place
    items = items_of(the_manifest(there, earlier, shard))
    try:
        return run_shard(step, shard, items, place, options)
    except Fault as fault:
        if fault.code == "fault_stale":
            retract_manifests(there, earlier, shard)
        raise


def write_manifest(path: Path, rows: Sequence[Fields], ids: Sequence[str]) -> None:
    """Write a manifest sorted by id, atomically. Raises Fault (manifest_mismatch) unless it holds exactly one row for every id."""
    if sorted(row["id"] for row in rows) != sorted(ids):
        raise Fault("manifest_mismatch", path, f"{len(rows)} rows", f"one for each of {len(ids)} items", "this is a fault of the program: report it")
    write_jsonl(path, sorted(rows, key=lambda row: row["id"]))


def name_of(task: Task) -> str:
    """Return what a fault calls a task."""
    return task.item.id


def _clear_temporary_of(paths: Iterable[Path]) -> None:
    """Delete the temporary files of some final names, which no process writes any more."""
    held = set(paths)
    names = {path.name for path in held}
    for folder in {path.parent for path in held}:
        clear_temporary(folder, names.__contains__)


def _check_unique(items: Sequence[Item]) -> None:
    repeated = [item_id for item_id, count in Counter(item.id for item in items).items() if count > 1]
    if repeated:
        raise DataError("duplicate_id", repr(repeated[0]), "more than one item with this id", "one", "rename or take out one of them")


class _Run:
    """One pass over a shard. Rows are collected here; everything that lasts is in the journal, the files and the manifest."""

    def __init__(self, step: Step, shard: str, place: Place, options: Options, journal: Journal) -> None:
        self.step, self.shard, self.place, self.options, self.journal = step, shard, place, options, journal
        self.counts: Counter[str] = Counter()
        self.faults: list[Fault] = []

    def tidy(self, items: Sequence[Item]) -> None:
        """Clear what an earlier run left: temporary files of a killed one, files that no item makes any more."""
        outputs = {path for item in items for path in item.outputs}
        gone = {Path(os.path.normpath(self.place.stage / name)) for entry in self.journal.entries.values() for name in entry.files} - outputs
        others = self.place.others()
        for path in sorted(path for path in gone if path.exists()):
            if path.name in others:
                self.say(f"{path.name}: {UNNAMED} here, but {others[path.name]} names it: it stays")
                continue
            set_aside(path, self.place)
            self.say(f"{path.name}: {UNNAMED}: set aside in {self.place.quarantine}")
        _clear_temporary_of({path for item in items for path in self.step.written(item)} | gone)
        clear_temporary(self.place.manifest(self.step.name, self.shard, "").parent, lambda name: name.startswith(self.shard))

    def work(self, items: Sequence[Item]) -> list[Fields]:
        """Return a row for every item, or raise the first fault once nothing more can be done."""
        rows: list[Fields] = []
        todo: list[Task] = []
        for item in items:
            try:
                row = self.settle(item)
            except OSError as error:
                self.fault(fault_from(error, item.id))
                continue
            if row is None:
                todo.append(Task(item, self.finished(item)))
            else:
                rows.append(row)
        self.say(f"{self.step.name} {self.shard}: {len(items)} items, {self.counts['kept']} up to date, {len(todo)} to do")
        with Progress(len(todo), f"{self.step.name} {self.shard}") as progress:
            for task, outcome in self.outcomes(todo):
                progress.step()
                if isinstance(outcome, Done):
                    for note in outcome.notes:
                        progress.say(note)
                    rows.append(self.finish(outcome.entry, outcome.how))
                elif not isinstance(outcome, Fault):
                    progress.say(f"quarantined: {task.item.id}: {outcome}")
                    rows.append(self.refuse(task.item, outcome))
                elif self.fault(outcome, task.item):
                    break
        if self.faults:
            raise next((fault for fault in self.faults if fault.code == "fault_stale"), self.faults[0])
        return rows

    def outcomes(self, todo: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Yield every task with its outcome. Where the step has a hazard, a task that ran into it is tried once more, alone; the second time is its verdict."""
        work, hazard, again = Work(self.step, self.place), self.step.hazard, list[Task]()
        verdicts = {"fault_crashed": hazard.crashed, "fault_timeout": hazard.late} if hazard else {}
        limits = Limits(hazard.seconds, hazard.items) if hazard else Limits()
        for task, outcome in self.heard(work, todo, self.options.workers, limits):
            if isinstance(outcome, Fault) and outcome.code in verdicts:
                self.say(f"{outcome.where}: {outcome.found}: tried once more, alone")
                again.append(task)
            else:
                yield task, outcome
        for task, outcome in self.heard(work, again, min(1, self.options.workers), limits):
            if isinstance(outcome, Fault) and hazard and outcome.code in verdicts:
                code = verdicts[outcome.code]
                yield task, DataError(code, outcome.where, f"twice: {outcome.found}", "an item that the step gets through", hazard.hints[code])
            else:
                yield task, outcome

    def heard(self, work: Work, tasks: Sequence[Task], workers: int, limits: Limits) -> Iterator[tuple[Task, Outcome]]:
        """Yield every task with its outcome. What a worker that died left of its task is cleared at once, of one that had to be killed at the end too."""
        try:
            with closing(run_tasks(work, tasks, workers, name_of, limits)) as found:
                for task, outcome in found:
                    if isinstance(outcome, Fault) and outcome.code in DEATHS:
                        _clear_temporary_of(self.step.written(task.item))
                    yield task, outcome
        except BaseException:
            _clear_temporary_of(path for task in tasks for path in self.step.written(task.item))
            raise

    def fault(self, fault: Fault, item: Item | None = None) -> bool:
        """Note a fault and return whether it is time to stop."""
        self.say(f"fault: {fault}")
        if fault.code == "fault_stale" and item is not None:
            self.clear_places(item)
        self.faults.append(fault)
        alike = [last.code for last in self.faults[-SAME_FAULTS:]] == ["fault_bug"] * SAME_FAULTS
        return fault.code in STOPPING or (alike and not self.counts)

    def settle(self, item: Item) -> Fields | None:
        """Return the row of an item that needs no work, or None if it does. Costs a few looks at file sizes and times."""
        if item.verdict is not None:
            self.clear_places(item)
            return item.verdict
        try:
            check_id(item.id)
        except DataError as error:
            return quarantined(item.id, error)
        if (refused := self.refused_before(item)) is not None:
            return refused
        entry = self.finished(item)
        kept = (
            entry is not None and self.step.made_for(item, entry.fingerprint, entry.fields) and entry.unchanged(item.outputs + item.watched, self.place.stage)
        )
        kept = kept and (self.step.whole is None or all(map(self.step.whole, item.outputs)))
        change = item.source_change()
        if change is not None and not (kept and change.code == "missing_file"):
            return self.refuse(item, change)
        if entry is None or not kept or (self.options.full and (item.outputs or item.watched)):
            return None
        self.counts["kept"] += 1
        return self.row(entry)

    def finished(self, item: Item) -> Entry | None:
        """Return the journal's entry of an item that was finished once, or None."""
        entry = self.journal.entries.get(item.id)
        return None if entry is None or entry.refused is not None else entry

    def refused_before(self, item: Item) -> Fields | None:
        """Return the row of an item whose files this guard has refused and set aside: they are not missing. None where one is in its place again."""
        entry = self.journal.entries.get(item.id)
        if entry is None or entry.fingerprint != item.fingerprint or any(path.exists() for path in item.watched):
            return None
        return entry.refused

    def finish(self, entry: Entry, how: str) -> Fields:
        """Journal a finished item and return its row."""
        if self.journal.entries.get(entry.id) != entry:
            self.journal.add(entry)
        self.counts[how] += 1
        return self.row(entry)

    def refuse(self, item: Item, error: DataError) -> Fields:
        """Return the row of a refused item, whose files are set aside.

        What a guard sets aside it notes before, so that the next run does not miss it; what it has made of the item before is then known by `adopt` alone.
        """
        row = quarantined(item.id, error)
        if self.step.guards and item.watched:
            self.journal.add(Entry(item.id, item.fingerprint, {}, {}, {REFUSED: row}))
        self.clear_places(item)
        return row

    def clear_places(self, item: Item) -> None:
        """Set aside what a refused item must not leave among the good files: its outputs, but for those that others have too, and what a guard refused."""
        others = self.place.others() if any(path.exists() for path in item.outputs) else {}
        for path in (*(path for path in item.outputs if path.name not in others), *(item.watched if self.step.guards else ())):
            if path.exists():
                set_aside(path, self.place)

    def row(self, entry: Entry) -> Fields:
        """Return the manifest row of a finished item: its fields and files, no times, so that every run gives the same bytes."""
        files = {name: {key: value for key, value in seen.items() if key != "mtime_ns"} for name, seen in entry.files.items()}
        return {**entry.fields, "id": entry.id, "status": "ok", "code": "ok", "files": files}

    def say(self, text: str) -> None:
        """Print a line for the log."""
        print(text, file=sys.stderr, flush=True)

    def summary(self, rows: Sequence[Fields]) -> str:
        """Return one line that counts what became of the shard."""
        verdicts = Counter(row["status"] for row in rows)
        parts = [f"{verdicts['ok']} ok ({', '.join(f'{count} {how}' for how, count in sorted(self.counts.items())) or 'none'})"]
        parts += [f"{count} {status}" for status, count in sorted(verdicts.items()) if status != "ok"]
        codes = Counter(row["code"] for row in rows if row["status"] == "quarantined")
        return f"{self.step.name} {self.shard}: {', '.join(parts)}{' ' + dumps(codes) if codes else ''}"
