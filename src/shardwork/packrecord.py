"""What a folder of release shards says of itself, `.plan.json`: whose it is, by which plan, and what is finished. One process at a time works there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shardwork.digests import seal, unseal
from shardwork.errors import DataError, plain
from shardwork.files import make_folder
from shardwork.jsonio import Json, read_json, write_json
from shardwork.locks import held_lock
from shardwork.place import clear_temporary

if TYPE_CHECKING:
    from shardwork.pack import Plan

RECORD_NAME = ".plan.json"
SAVE_SECONDS = 5.0


@dataclass(slots=True)
class Record:
    """What `.plan.json` says, sealed: the kind of product, the plan, and of each finished shard the digest of its units, its size and its sha256.

    stale : shards that the plan does not have.   same : whether the folder is this plan's already, and nothing in it is stale.
    """

    plan: Plan
    folder: Path
    done: dict[str, Json] = field(default_factory=dict)
    stale: list[Path] = field(default_factory=list)
    same: bool = False
    _saved: float = 0.0
    _changed: bool = False
    _plan_json: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plan_json = self.plan.as_json()

    @property
    def path(self) -> Path:
        """Where the record stands."""
        return self.folder / RECORD_NAME

    def load(self, replan: bool) -> None:
        """Read the record and look at what lies in the folder.

        Raises DataError: other_plan where neither may be replaced, foreign_shards for those of another product, which never are.
        """
        before = self._read()
        names = {shard.name for shard in self.plan.shards}
        self.stale = [path for path in sorted(self.folder.iterdir()) if self.plan.owns(path.name) and path.name not in names]
        if before is not None:
            if before.get("kind", self.plan.kind) != self.plan.kind:
                hint = "pack into another folder: nothing was changed"
                raise DataError("foreign_shards", self.path, f"shards of {before['kind']}", f"those of {self.plan.kind}", hint)
            if before["plan"] != self._plan_json and not replan:
                raise other_plan(self.folder, before["plan"], self._plan_json)
            if before["plan"]["version"] == self._plan_json["version"]:
                fits = {shard.name: shard.digest() for shard in self.plan.shards}
                self.done = {name: entry for name, entry in before["done"].items() if entry["units"] == fits.get(name)}
        if self.stale and not replan:
            raise other_plan(self.folder, f"{self.stale[0].name}, which this plan does not have", self._plan_json)
        self.same = before is not None and before["plan"] == self._plan_json and not self.stale

    def _read(self) -> dict[str, Json] | None:
        try:
            found = read_record(self.folder)
        except FileNotFoundError:
            return None
        if found is None:
            say(f"{self.path}: spoilt: every shard is made again")
        return found

    def begin(self) -> None:
        """Make the folder this plan's: note the plan, then remove shards of another one and what a kill left; name the rest."""
        if not self.same:
            self.save()
        clear_temporary(self.folder, lambda name: self.plan.owns(name) or name in (RECORD_NAME, *self.plan.beside))
        for path in sorted(self.folder.iterdir()):
            if path in self.stale:
                path.unlink()
                say(f"{path.name}: not in this plan: removed")
            elif not (self.plan.owns(path.name) or path.name.startswith(RECORD_NAME) or path.name in self.plan.beside):
                say(f"{path}: is none of this step's files: left as it is, a fault for whoever verifies this folder")

    def add(self, name: str, entry: Json) -> None:
        """Note a finished shard."""
        if self.done.get(name) != entry:
            self.done[name], self._changed = entry, True
            if time.monotonic() - self._saved > SAVE_SECONDS:  # the whole record each time: a kill costs the shards of some seconds
                self.save()

    def save(self) -> None:
        """Write the record, atomically."""
        write_json(self.path, seal({"kind": self.plan.kind, "plan": self._plan_json, "done": self.done}))
        self._saved, self._changed = time.monotonic(), False

    def close(self) -> None:
        """Write the record if it changed since it was written."""
        if self._changed:
            self.save()


def read_record(folder: Path) -> dict[str, Json] | None:
    """Return what the record of a folder says, None for one that is spoilt or none. Raises FileNotFoundError where there is no such file."""
    try:
        found = unseal(read_json(folder / RECORD_NAME))
    except DataError:
        return None
    return found if found is not None and found.keys() >= {"plan", "done"} else None


def other_plan(folder: Path, found: str | Json, plan: Json) -> DataError:
    """Return the error for a folder of another plan.   found : that plan as its record says it, or what shows that there is one.   plan : of now."""
    hint = "give --replan to make the shards that differ again and remove those that are too many, or pack into another folder"
    return DataError("other_plan", folder, found if isinstance(found, str) else _words(found), _words(plan), hint)


def _words(plan: Mapping[str, Json]) -> str:
    return f"the plan {plan['digest'][:8]} (version {plan['version']}): {plan['units']} items in tars of {plan['per_shard']}"


@contextmanager
def open_record(plan: Plan, folder: Path, replan: bool, check: Callable[[], None]) -> Iterator[Record]:
    """Yield the record of a folder of release shards, locked.   check : called once it is locked, before anything is read.

    Raises DataError (other_plan, foreign_shards), what `check` raises, Fault (fault_busy).
    """
    make_folder(folder)
    with held_lock(folder / f"{RECORD_NAME}.lock", folder, "folder of release shards"):
        check()
        record = Record(plan, folder)
        record.load(replan)
        yield record


def say(text: str) -> None:
    """Print a line for people."""
    print(plain(text), file=sys.stderr, flush=True)
