"""The journal of a work shard: what is finished, so that a run after a kill goes on where it stopped."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shardwork.digests import seal, sha256_file, unseal, xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.files import make_folder
from shardwork.jsonio import Json, dumps, loads


def look(path: Path, digest: bool) -> Json:
    """Return size, newest mtime_ns and (if asked) digest of a published file or folder; None if it is not there.

    A file's digest is its xxh3; a folder's is the sha256 over its sorted relative paths and their sha256.
    """
    if path.is_dir():
        files = sorted(found for found in path.rglob("*") if found.is_file())
        stats = [found.stat() for found in files]
        seen: dict[str, Json] = {"files": len(files), "bytes": sum(s.st_size for s in stats), "mtime_ns": max((s.st_mtime_ns for s in stats), default=0)}
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


@dataclass(slots=True)
class Journal:
    """The finished items of one step and shard: rows {id, fingerprint, files, fields}, the last one for an id counts.

    path : the JSONL file.   root : files are named relative to it, so that a moved folder stays valid.
    """

    path: Path
    root: Path
    rows: dict[str, Json] = field(default_factory=dict)
    _torn: bool = False

    def load(self) -> None:
        """Read the rows. A line that a kill or a bad disk spoilt is passed over: its item is verified whole instead."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        self._torn = bool(data) and not data.endswith(b"\n")
        for line in data.split(b"\n"):
            if (row := _sound(line)) is not None:
                self.rows[row["id"]] = row

    def equals(self, item_id: str, fingerprint: str, finals: Sequence[Path], at: Sequence[Path]) -> bool | None:
        """Return whether what stands `at` has the bytes that the item's row has for `finals`; None without a row of this fingerprint."""
        row = self.rows.get(item_id)
        if row is None or row["fingerprint"] != fingerprint:
            return None
        pairs = zip(finals, at, strict=True)
        return all((look(path, True) or {}).get("digest") == row["files"].get(self._name(final), {}).get("digest", "none") for final, path in pairs)

    def matches(self, item_id: str, fingerprint: str, paths: Iterable[Path], full: bool) -> bool:
        """Return whether the item is finished with this fingerprint and all its files are as they were (with `full`, by digest)."""
        row = self.rows.get(item_id)
        return row is not None and row["fingerprint"] == fingerprint and self.unchanged(item_id, paths, full)

    def unchanged(self, item_id: str, paths: Iterable[Path], full: bool) -> bool:
        """Return whether the item's files are those that its row describes, whatever the fingerprint."""
        row = self.rows.get(item_id)
        if row is None:
            return False
        then = {name: {key: value for key, value in seen.items() if full or key != "digest"} for name, seen in row["files"].items()}
        return all(look(path, full) == then.get(self._name(path), "none") for path in paths)

    def add(self, item_id: str, fingerprint: str, paths: Iterable[Path], fields: Json) -> Json:
        """Append the row of a finished item, flushed to the disk, and return it."""
        files = {self._name(path): look(path, True) for path in paths}
        missing = [name for name, seen in files.items() if seen is None]
        if missing:
            raise Fault("not_published", missing[0], "not there after the step", "a published file", "this is a fault of the program: report it with the log")
        row = {"id": item_id, "fingerprint": fingerprint, "files": files, "fields": fields}
        line = dumps(seal(row)).encode() + b"\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(fd, b"\n" + line if self._torn else line)
            os.fsync(fd)
        finally:
            os.close(fd)
        self._torn = False
        self.rows[item_id] = row
        return row

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self.root)


def _sound(line: bytes) -> Json:
    try:
        row = unseal(loads(line))
    except DataError:
        return None
    return row if row is not None and {"id", "fingerprint", "files", "fields"} <= set(row) else None


@contextmanager
def open_journal(path: Path, root: Path) -> Iterator[Journal]:
    """Yield the journal of a shard, locked: two processes never work on one shard. Raises Fault (fault_busy)."""
    make_folder(path.parent)
    fd = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            hint = "wait for it or end it, then run the same command"
            raise Fault("fault_busy", path, "another process holds this work shard", "one process a shard", hint) from error
        except OSError:
            pass  # a file system without locks: atomic files and equal bytes still keep two runs from harm
        journal = Journal(path, root)
        journal.load()
        yield journal
    finally:
        os.close(fd)
