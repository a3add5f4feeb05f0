"""What a run of downloads is asked for by people, and leaves for them and for the next step: what came, and what did not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from shardwork.errors import DataError
from shardwork.jsonio import Json, read_jsonl, write_jsonl
from shardwork.tables import write_table

FETCHED, FAILED = "fetched.jsonl", "failed.csv"
FAILED_COLUMNS = ("name", "url", "code", "found")


@dataclass(frozen=True, slots=True)
class Record:
    """One asset that came.

    file : its main file, relative to the folder.   sha256 : of that file.   source : gso or objaverse.   source_name : its name there.
    source_url : where people find it.   license : SPDX id where known, "" where none is stated.   author : "" where not known.
    """

    file: str
    sha256: str
    source: str
    source_name: str
    source_url: str
    license: str
    author: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One asset that did not come.   name, url : what was asked for.   code, found : the reason."""

    name: str
    url: str
    code: str
    found: str

    @classmethod
    def of(cls, name: str, url: str, error: DataError) -> Failure:
        """Return the row of a verdict."""
        return cls(name, url, error.code, error.found)


def write_fetched(folder: Path, records: Iterable[Record]) -> None:
    """Write fetched.jsonl, sorted by file, atomically."""
    write_jsonl(folder / FETCHED, [asdict(record) for record in sorted(records, key=lambda record: record.file)])


def read_fetched(folder: Path) -> list[Record]:
    """Return the records of fetched.jsonl, none if there is no such file. Raises DataError (bad_json)."""
    path = folder / FETCHED
    return [_record(path, value) for value in read_jsonl(path)] if path.exists() else []


def _record(path: Path, value: Json) -> Record:
    try:
        return Record(**value)
    except TypeError as error:
        raise DataError("bad_json", path, str(error), "the fields that a download writes", "remove it, then download again: files are kept") from error


def write_failed(path: Path, failures: Iterable[Failure]) -> None:
    """Write the table of what failed, sorted by name, atomically; with no failure its header alone."""
    write_table(path, FAILED_COLUMNS, [asdict(failure) for failure in sorted(failures, key=lambda failure: (failure.name, failure.url))])


def read_names(path: Path) -> list[str]:
    """Return the names of a text file, one a line, each once, in its order; blank lines and lines that begin with # are passed over.

    Raises DataError (bad_argument) for a file that is not there, is no UTF-8, or names nothing.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError("bad_argument", path, "no such file", "a text file of names", "correct the path") from error
    except UnicodeDecodeError as error:
        raise DataError("bad_argument", path, f"byte {error.start} is not UTF-8", "a text file in UTF-8", "save it as UTF-8") from error
    names = [line.strip() for line in text.split("\n")]
    found = list(dict.fromkeys(name for name in names if name and not name.startswith("#")))
    if not found:
        raise DataError("bad_argument", path, "no names", "one name a line", "name at least one")
    return found
