"""The journal of a work shard: what is finished, so that a run after a kill goes on where it stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from shardwork.digests import seal, sha256_file, unseal, xxh3_file
from shardwork.errors import DataError
from shardwork.jsonio import Json, dumps, loads
from shardwork.locks import held_lock
from shardwork.step import Fields

REFUSED = "refused row"
"""Key of a refused item's row, which no step can give."""
Seen = dict[str, Json]
"""Size, newest mtime_ns and (if asked) digest of a published file or folder."""


def look(path: Path, digest: bool) -> Seen | None:
    """Return what a published file or folder is like; None if it is not there.

    A file's digest is its xxh3; a folder's is the sha256 over its sorted relative paths and their sha256.
    """
    if path.is_dir():
        files = sorted(found for found in path.rglob("*") if found.is_file())
        stats = [found.stat() for found in files]
        seen: Seen = {"files": len(files), "bytes": sum(s.st_size for s in stats), "mtime_ns": max((s.st_mtime_ns for s in stats), default=0)}
        if digest:
            lines = "".join(f"{sha256_file(found)}  {found.relative_to(path).as_posix()}\n" for found in files)
            seen["digest"] = hashlib.sha256(lines.encode()).hexdigest()
        return seen
    if not path.is_file():
        return None
    stat = path.stat()
    seen = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    if digest:
        seen["digest"] = xxh3_file(path)
    return seen


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished item, or one that a guard refused.

    files, watched : the step's own outputs and those of earlier steps, by path relative to the stage, so that a moved folder stays valid.
    fields : what the step said of it; of a refused one its row alone, as REFUSED.
    """

    id: str
    fingerprint: str
    files: Mapping[str, Seen]
    watched: Mapping[str, Seen]
    fields: Mapping[str, Json]

    @property
    def refused(self) -> Fields | None:
        """The manifest row of an item that was refused, or None for a finished one."""
        row = self.fields.get(REFUSED)
        return row if isinstance(row, dict) else None

    def unchanged(self, paths: Iterable[Path], root: Path) -> bool:
        """Return whether the files at `paths` are there and have the size and time that they had when the item was finished."""
        then = {**self.files, **self.watched}
        return all((now := look(path, False)) is not None and now == _without_digest(then.get(name_of(path, root))) for path in paths)

    def same_bytes(self, finals: Iterable[Path], at: Iterable[Path], root: Path) -> bool:
        """Return whether what stands `at` has the digests noted for `finals`."""
        pairs = zip(finals, at, strict=True)
        return all((look(path, True) or {}).get("digest") == self.files.get(name_of(final, root), {}).get("digest", "none") for final, path in pairs)


def name_of(path: Path, root: Path) -> str:
    """Return how a journal or manifest writes a path."""
    return os.path.relpath(path, root)


def _without_digest(seen: Seen | None) -> Seen:
    return {key: value for key, value in (seen or {}).items() if key != "digest"}


@dataclass(slots=True)
class Journal:
    """The finished items of one step and shard, and those that a guard refused; the last line for an id counts."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    _torn: bool = False

    def load(self) -> None:
        """Read the entries. A line that a kill or a bad disk spoilt is passed over: its item is verified whole instead."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        self._torn = bool(data) and not data.endswith(b"\n")
        for line in data.split(b"\n"):
            if (entry := _sound(line)) is not None:
                self.entries[entry.id] = entry

    def add(self, entry: Entry) -> None:
        """Append a finished item, flushed to the disk."""
        row = seal({part.name: getattr(entry, part.name) for part in fields(entry)})
        line = memoryview((b"\n" if self._torn else b"") + dumps(row).encode() + b"\n")
        self._torn = True  # until the whole line is there: a disk that fills up may take half of it
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            while line:
                line = line[os.write(fd, line) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        self._torn = False
        self.entries[entry.id] = entry


def _sound(line: bytes) -> Entry | None:
    try:
        row = unseal(loads(line))
        return None if row is None else Entry(**row)
    except (DataError, TypeError):
        return None


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Yield the journal of a shard, locked: two processes never work on one shard. Raises Fault (fault_busy)."""
    with held_lock(path.with_suffix(".lock"), path, "work shard"):
        journal = Journal(path)
        journal.load()
        yield journal
