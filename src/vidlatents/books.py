"""The books of a file of records in a folder that several such files may share: whose they are, and which samples the others name. Standard library alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from shardwork.errors import DataError
from shardwork.jsonio import read_json, read_jsonl, write_json
from shardwork.locks import held_lock
from shardwork.place import Place
from vidlatents.stage import ENCODE_STEP, MANIFEST, ONE_SHARD

OWNER = "records.json"
"""The note of the file of records that books are of: its path, relative to theirs."""


def check_books(place: Place, records: Path) -> None:
    """Raise DataError (bad_argument) where books are of another file of records that is still there: this one's samples would take the place of its own.

    place : of the latents.   records : a file that is there. Books of a file that is gone, of none that is known, or without a sample are taken over.
    """
    note = place.stage / OWNER
    if not note.exists() or not place.journal(ENCODE_STEP, ONE_SHARD).exists():
        return
    other = Path(os.path.normpath(Path(os.path.realpath(place.stage), str(read_json(note)["records"]))))
    if other.exists() and other != _real(records) and not other.samefile(records):
        found, expected = f"{records}, where the books {place.stage} are of {other}", "a name that no other file of records has in this folder's books"
        hint = f"give the records another name, or another output folder; where they replace the other file, delete {note}"
        raise DataError("bad_argument", "--metadata_file", found, expected, hint)


@contextmanager
def held_books(place: Place, records: Path) -> Iterator[None]:
    """Hold the books for one process, noted as those of a file of records. Raises as `check_books`, and Fault (fault_busy)."""
    with held_lock(place.stage / ".lock", place.stage, "folder of books"):
        check_books(place, records)
        write_json(place.stage / OWNER, {"records": os.path.relpath(_real(records), os.path.realpath(place.stage))})
        yield


def _real(records: Path) -> Path:
    """Return the file as the folder that really holds it names it: a link to records keeps its own name, since it may lead elsewhere tomorrow."""
    return Path(os.path.realpath(records.parent), records.name)


def named_by_others(stage: Path) -> Mapping[str, str]:
    """Return the files of the folder that the manifests of other books name, each with one that does.   stage : the books of one file of records."""
    found = {}
    for path in sorted(stage.parent.glob(f"*/{MANIFEST}")):
        if path.parent != stage:
            status = path.stat()
            found.update(dict.fromkeys(_named(path, status.st_mtime_ns, status.st_size), f"{path.parent.name}/{MANIFEST}"))
    return found


@lru_cache(64)
def _named(path: Path, _mtime_ns: int, _bytes: int) -> frozenset[str]:
    return frozenset(str(row["file"]) for row in read_jsonl(path))
