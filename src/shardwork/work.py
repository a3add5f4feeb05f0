"""What a worker does with one item: look whether it is there and whole, else make it. Nothing that is raised leaves here."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from shardwork.errors import DataError, Fault, fault_from
from shardwork.files import make_folder
from shardwork.journal import Entry, Seen, look, name_of
from shardwork.jsonio import dumps
from shardwork.place import Place, move, set_aside
from shardwork.step import ROW_KEYS, Fields, Item, Step

R = TypeVar("R")


def guarded(make: Callable[[], R], where: str) -> R | DataError:
    """Return what `make` does, or the error it raised. The one place that catches everything: what is no verdict becomes a Fault."""
    try:
        return make()
    except DataError as error:
        return error
    except Exception as error:  # noqa: BLE001 (around an item: any other error is this item's fault, and the others go on)
        if not isinstance(error, OSError | MemoryError):
            traceback.print_exc()
        return fault_from(error, where)


@dataclass(frozen=True, slots=True)
class Done:
    """A finished item. how : made, adopted (found whole without a journal entry) or kept.   notes : what was set aside on the way, for the log."""

    entry: Entry
    how: str
    notes: tuple[str, ...] = ()


Outcome = Done | DataError
"""A finished item, its verdict (DataError) or a Fault."""


@dataclass(frozen=True, slots=True)
class Task:
    """An item and what the journal says of it."""

    item: Item
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Work:
    """The work on one item of a step; called in another process, so it must be picklable."""

    step: Step
    place: Place

    @property
    def stage(self) -> Path:
        """The folder that paths in rows are relative to."""
        return self.place.stage

    def __call__(self, task: Task) -> Outcome:
        """Return the outcome of one item."""
        return guarded(lambda: self._outcome(task), task.item.id)

    def _outcome(self, task: Task) -> Done:
        item, entry = task.item, task.entry
        if (found := self._find(task)) is not None:
            return found
        # what was made with other settings, or from another source, is replaced in one rename; anything else is not ours
        outdated = entry is not None and not self._for(item, entry) and entry.unchanged(item.outputs, self.stage)
        notes = [] if outdated else self._clear(item, expected=entry is not None)
        _refuse_changed(item)
        fields = self.step.run_item(item)
        _refuse_changed(item)  # replaced while it was read: the result belongs to no row
        return Done(self._entry(item, fields), "made", tuple(notes))

    def _find(self, task: Task) -> Done | None:
        """Return the item if its outputs are there and whole, in their place or set aside by an earlier run."""
        item, entry = task.item, task.entry
        asides = tuple(self.place.aside(path) for path in item.outputs)
        at = next((paths for paths in (item.outputs, asides) if paths and all(path.exists() for path in paths)), None)
        if at is asides and any(path.exists() for path in item.outputs):
            return None
        if at is None:
            return None
        if entry is not None and self._for(item, entry):
            fields: Fields | None = dict(entry.fields) if entry.same_bytes(item.outputs, at, self.stage) else None
        else:
            fields = self.step.adopt(replace(item, outputs=at)) if self.step.adopt else None
        if fields is None:
            return None
        if entry is not None and self._for(item, entry) and entry.unchanged(item.outputs + item.watched, self.stage):
            return Done(entry, "kept")
        for path, final in zip(at, item.outputs, strict=True) if at is asides else ():
            make_folder(final.parent)
            move(path, final)
        return Done(self._entry(item, fields), "adopted")

    def _for(self, item: Item, entry: Entry) -> bool:
        return self.step.made_for(item, entry.fingerprint, entry.fields)

    def _clear(self, item: Item, expected: bool) -> list[str]:
        """Set aside what stands in the item's places and is not ours, and return what to say of it.   expected : the journal knows the item.

        What others have too stands until the item's own is published in its place.
        """
        present = [path for path in item.outputs if path.exists()]
        missing = [path for path in item.outputs if path not in present] if present or expected else []
        notes = [f"{path.name}: was missing: made again" for path in missing]
        others = self.place.others() if present else {}
        for path in present:
            if path.name in others:
                notes.append(f"{path.name}: is not what {self.step.name} writes now: made again in its place, which {others[path.name]} names too")
                continue
            set_aside(path, self.place)
            reason = "goes with it" if notes else f"is not what {self.step.name} writes now (cut, changed or foreign)"
            notes.append(f"{path.name}: {reason}: set aside in {self.place.quarantine}, made again")
        return notes

    def _entry(self, item: Item, fields: Fields) -> Entry:
        """Return the item's journal entry. Raises Fault (fault_bug) for a step that did not publish, or said what no row can hold."""
        files, watched = self._look(item, item.outputs, digest=True), self._look(item, item.watched, digest=False)
        if taken := ROW_KEYS & fields.keys():
            raise self._bug(item, f"fields {sorted(taken)} are taken")
        try:
            dumps(fields)
        except DataError as error:
            raise self._bug(item, error.found) from error
        return Entry(item.id, item.fingerprint, files, watched, fields)

    def _look(self, item: Item, paths: tuple[Path, ...], digest: bool) -> dict[str, Seen]:
        seen = {}
        for path in paths:
            if (found := look(path, digest)) is None:
                raise self._bug(item, f"{path.name} is not there")
            seen[name_of(path, self.stage)] = found
        return seen

    def _bug(self, item: Item, found: str) -> Fault:
        return Fault("fault_bug", item.id, f"after {self.step.name}: {found}", "published files and plain fields", "report it with the log")


def _refuse_changed(item: Item) -> None:
    if (change := item.source_change()) is not None:
        raise change
