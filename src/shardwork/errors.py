"""One error for everything a user can mend: what, where, what was expected, what to do."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass
from typing import TextIO

EXIT_OK = 0
EXIT_FAULT = 1
EXIT_BAD_INPUT = 2
EXIT_SOME_FAILED = 3

CODES = {
    "bad_argument": "A value on the command line or in a call is not usable.",
    "bad_id": "An id breaks the rule: 1 to 100 of the characters A-Z a-z 0-9 _ -.",
    "bad_json": "A JSON or JSONL file cannot be read, repeats a key, or holds NaN or Infinity.",
    "bad_table": "A table is missing, unreadable, lacks a column, or holds a value of the wrong kind.",
    "duplicate_id": "Two rows of a table have the same id.",
    "fault_stale": "A file of an earlier step is missing or is not what that step wrote; the same command makes it again.",
    "foreign_shards": "Release shards of another product stand in the folder.",
    "manifest_mismatch": "A shard manifest does not hold exactly one row for every item of its shard.",
    "member_changed": "A file that belongs into a release shard is missing, or is not what its manifest says.",
    "missing_file": "A source that the table names is not there.",
    "not_published": "A file could not be put in its place, or is not what was written when looked at again.",
    "other_plan": "Release shards of another plan stand in the folder: other members, another number of them in a shard, or another version.",
    "source_changed": "A source differs in size or time from its row in the table, or a file changed after it was opened.",
    "too_many_quarantined": "More items are quarantined than the gate allows.",
    "unwritable": "A folder for results cannot be written to.",
    "upstream": "An earlier step quarantined this item; the row names that step and its code.",
    "fault_bug": "An unexpected error inside a step: a fault of the program, never a verdict on the item.",
    "fault_busy": "Another process is working on the same work shard or release shards.",
    "fault_crashed": "A library crashed its worker process while on this item.",
    "fault_disk": "The disk is full, read-only or failing.",
    "fault_file": "A file could not be read or written for another reason, such as its permissions.",
    "fault_killed": "A worker process was killed, most often for want of memory.",
    "fault_timeout": "A worker process was not finished with this item in time, and was ended.",
    "fault_library": "A package does not load, most often for want of a system library.",
    "fault_memory": "The machine or the job ran out of memory.",
}
"""Codes of this package and what they mean; each library has such a table for its own."""


class DataError(Exception):
    """An input that cannot be used. Raised inside an item it becomes that item's verdict.

    code : str, stable name, also in rows, logs and docs.   where : str, the file, id or key.   found, expected, hint : str, for people.
    Source: STYLE, "Errors".
    """

    def __init__(self, code: str, where: object, found: str, expected: str, hint: str) -> None:
        super().__init__(code, str(where), found, expected, hint)
        self.code, self.where, self.found, self.expected, self.hint = code, str(where), found, expected, hint

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes whatever arguments a subclass takes."""
        return _rebuild, (type(self), self.args, self.__dict__)

    def each(self) -> tuple[DataError, ...]:
        """Return the single errors that this one stands for; a library's own error may hold several."""
        return (self,)

    def facts(self) -> dict[str, object]:
        """Return further values for the item's row; a library's own error adds its counts here."""
        return {}

    def __str__(self) -> str:
        return f"{self.where}: {self.found}, expected {self.expected}: {self.hint} [{self.code}]"


def _rebuild(kind: type[DataError], args: tuple[object, ...], values: dict[str, object]) -> DataError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(values)
    return error


class Fault(DataError):
    """Trouble with the machine or the program (disk, memory, kill, bug). Never a verdict: the step fails and may be retried."""


DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENFILE}


def fault_from(error: BaseException, where: object) -> Fault:
    """Return the fault that an unexpected exception stands for.

    error : what was raised.   where : the item or file at hand.   Returns a Fault whose code says disk, memory or bug.
    """
    if isinstance(error, Fault):
        return error
    if isinstance(error, MemoryError):
        return Fault("fault_memory", where, "ran out of memory", "enough memory", "give the job more memory or fewer workers, then run the same command")
    if isinstance(error, OSError):
        what = f"{type(error).__name__}: {error}"
        disk = error.errno in DISK_ERRNOS
        hint = "free or mend the disk" if disk else "see that this path can be read and written"
        code = "fault_disk" if disk else "fault_file"
        return Fault(code, where, what, "files that can be read and written", f"{hint}, then run the same command; finished items are kept")
    what = f"{type(error).__name__}: {error}"
    return Fault("fault_bug", where, what, "no error", "this is a fault of the program: report it with the log; finished items are kept")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault that a validator found.   where : the file or the part of it.   found, expected : for people."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: {self.found}, expected {self.expected}"


def plain(text: str) -> str:
    """Return text on one line that no id or file name in it can break or colour: what cannot be printed is written as an escape."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def print_error(error: DataError, stream: TextIO | None = None) -> None:
    """Print one error on one line: the only place that does."""
    print("error: " + plain(str(error)), file=stream or sys.stderr, flush=True)
