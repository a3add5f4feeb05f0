"""The shape of a stage: items in, one verdict for each out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shardwork.digests import digest_value
from shardwork.errors import DataError
from shardwork.jsonio import Json
from shardwork.tables import Row, whole_number

Fields = dict[str, Json]
"""What a step has to say of one finished item; stands in its manifest row."""

ROW_KEYS = frozenset(("id", "status", "code", "files"))
"""Keys of a manifest row that are not a step's to give."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that an item is made from, as its table row describes it.

    path : where it is.   name : how the table writes it (used in messages).   bytes, mtime_ns : int, what it was when the table was made.
    """

    path: Path
    name: str
    bytes: int
    mtime_ns: int

    @classmethod
    def from_row(cls, row: Row, table: Path) -> Source:
        """Return the source of a table row; a relative path counts from the table's folder. Raises DataError (bad_table)."""
        where = f"{table}: {row['path']}"
        return cls(table.parent / row["path"], row["path"], whole_number(row, "bytes", where), whole_number(row, "mtime_ns", where))

    def change(self) -> DataError | None:
        """Return why the file is not what its row says (missing_file, source_changed), or None. Raises OSError where the machine is at fault."""
        try:
            now = self.path.stat()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
                raise
            return DataError("missing_file", self.name, "no such file", "the file that the table names", "put it back, or make the table again")
        if (now.st_size, now.st_mtime_ns) == (self.bytes, self.mtime_ns):
            return None
        found, expected = f"{now.st_size} bytes, time {now.st_mtime_ns}", f"{self.bytes} bytes, time {self.mtime_ns} as in the table"
        return DataError("source_changed", self.name, found, expected, "make the table again, then run again")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to work on.

    id : str.   inputs : what the result depends on beyond settings and sources (goes into the fingerprint).   outputs : final paths, each a file
    or a folder that `run_item` publishes atomically.   watched : files of earlier steps that must be unchanged for the item to be skipped.
    sources : the raw files.   verdict : set where the item is decided before any work (an earlier step's quarantine).
    fingerprint : filled in by `run_shard`.
    """

    id: str
    inputs: Json
    outputs: tuple[Path, ...] = ()
    watched: tuple[Path, ...] = ()
    sources: tuple[Source, ...] = ()
    verdict: Fields | None = None
    fingerprint: str = ""

    def source_change(self) -> DataError | None:
        """Return why a source is not what its row says, or None."""
        return next((change for source in self.sources if (change := source.change()) is not None), None)


@dataclass(frozen=True, slots=True)
class Hazard:
    """What a foreign program may do to an item of a step, so that it becomes the item's verdict instead of a fault. The item is tried
    once more, alone.

    crashed : the verdict's code where its worker crashed both times.   late : where it was not finished in time.   seconds : that time.
    items : after so many the worker is replaced, as a guard against what the program leaves in memory.   hints : code -> what to do.
    """

    crashed: str
    late: str
    seconds: float
    items: int
    hints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """What a stage does to one item.

    name : verb_noun, as its rule.   version : int, raised when a change of code changes bytes.   settings : everything configured that changes bytes.
    run_item : publishes the item's outputs and returns its fields; a DataError is the item's verdict, a Fault or anything else a fault.
    Runs in another process, so it must be picklable.   adopt : verifies existing outputs whole and returns the fields that `run_item` would,
    or None if they are not what this step would make.   guards : a step that checks its items' watched files; those it refuses are set aside.
    Its items have no sources, which would bring a refused one back.
    hazard : what a program that the step runs may do to an item, or None.   whole : a quick look at a finished output of the right size and time, beyond
    both: one that it refuses is compared by its digest and made again; None for none.   note : where the step keeps a note of an item elsewhere than among
    its outputs: what a killed run left half-written there is cleared as theirs is; None for none.   holds : whether what `run_item` said of an item is what
    it would say now, as far as the fingerprint leaves that open: for a setting that decides the bytes of some items only, which shows once they are made.
    None: it does.
    """

    name: str
    version: int
    settings: Mapping[str, Json]
    run_item: Callable[[Item], Fields]
    adopt: Callable[[Item], Fields | None] | None = None
    guards: bool = False
    hazard: Hazard | None = None
    whole: Callable[[Path], bool] | None = None
    note: Callable[[Item], Path] | None = None
    holds: Callable[[Item, Mapping[str, Json]], bool] | None = None

    def written(self, item: Item) -> tuple[Path, ...]:
        """Return the final names of all that is written of an item: its outputs, and its note if there is one."""
        return (*item.outputs, self.note(item)) if self.note else item.outputs

    def fingerprint(self, item: Item, redo: int) -> str:
        """Return the digest of all that decides the item's bytes: step, version, settings, inputs, sources, redo."""
        # the base name too: other tools make files of equal size and time, and a table's path may be corrected
        sources = [[Path(source.name).name, source.bytes, source.mtime_ns] for source in item.sources]
        return digest_value([self.name, self.version, dict(self.settings), item.inputs, sources, redo])

    def made_for(self, item: Item, fingerprint: str, fields: Mapping[str, Json]) -> bool:
        """Return whether something finished is what this step would make of an item.   fingerprint, fields : as they were noted when it was finished."""
        return fingerprint == item.fingerprint and (self.holds is None or self.holds(item, fields))


def quarantined(item_id: str, error: DataError) -> Fields:
    """Return the manifest row of an item that was refused."""
    return {
        **error.facts(),
        "id": item_id,
        "status": "quarantined",
        "code": error.code,
        "where": error.where,
        "found": error.found,
        "expected": error.expected,
        "hint": error.hint,
    }


def upstream(row: Fields, step: str) -> Fields:
    """Return the manifest row of an item that an earlier step refused: it names that step and code, and the gate counts it once."""
    return {"id": row["id"], "status": "upstream", "code": row["code"], "step": row.get("step", step)}
