"""Tables: the only input of a stage. CSV, every value text, so that ids like 000012, NA or 1e5 stay what they are."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from shardwork.digests import digest_value
from shardwork.errors import DataError
from shardwork.files import write_bytes

Row = Mapping[str, str]
WHOLE_NUMBER = re.compile("-?[0-9]{1,30}")

# All captions of a long video are one value: the standard limit of 128 KiB a value would refuse our own table.
csv.field_size_limit(1 << 30)


def _bad(where: object, found: str, expected: str, hint: str) -> DataError:
    return DataError("bad_table", where, found, expected, hint)


def _text(path: Path) -> str:
    if path.is_dir():
        raise _bad(path, "is a folder", "a CSV file", "make a table of the folder first")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise _bad(path, "no such file", "a CSV table", "make it, or correct the path in the config") from error
    except UnicodeDecodeError as error:
        raise _bad(path, f"byte {error.start} is not UTF-8", "a CSV table in UTF-8", "save it as UTF-8") from error
    except OSError as error:
        raise _bad(path, f"cannot be read ({error.strerror})", "a readable file", "see its permissions") from error


def _check_header(path: Path, header: Sequence[str], key: str, required: Iterable[str]) -> None:
    missing = [name for name in (key, *required) if name not in header]
    if missing:
        raise _bad(f"{path}:1", f"columns {', '.join(header) or 'none'}", f"a column {missing[0]!r}", "make the table again, or add the column")
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise _bad(f"{path}:1", f"column {repeated[0]!r} stands twice", "one column a name", "rename one of them")


def read_table(path: Path, key: str, required: Iterable[str] = ()) -> list[Row]:
    """Return the rows of a CSV table in file order, every value as text.

    path : CSV in UTF-8 with a header.   key : the id column.   required : further columns that must be there.
    Raises DataError: bad_table for what cannot be read, duplicate_id for two rows with one id. An id outside the id rule is no error here:
    it becomes that item's verdict.
    """
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    rows: list[Row] = []
    lines: dict[str, int] = {}
    try:
        header = next(reader, [])
        _check_header(path, header, key, required)
        for values in reader:
            where = f"{path}:{reader.line_num}"
            if not values:
                continue
            if len(values) != len(header):
                raise _bad(where, f"{len(values)} values", f"{len(header)}, as the header has", "quote values that hold a comma")
            row = dict(zip(header, values, strict=True))
            if (first := lines.setdefault(row[key], reader.line_num)) != reader.line_num:
                raise DataError("duplicate_id", where, f"{key} {row[key]!r} stands in line {first} too", "one row an id", "rename or take out one of them")
            rows.append(row)
    except csv.Error as error:
        raise _bad(f"{path}:{reader.line_num}", str(error), "well-formed CSV", "mend the quotes in this line") from error
    return rows


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write rows as CSV, atomically: UTF-8, LF, quotes only where needed. Every row has a value for every column and no other."""
    lines = [_csv_line(columns)]
    for row in rows:
        if row.keys() != set(columns):
            raise ValueError(f"a row with {sorted(row)} in a table of {sorted(columns)}")
        lines.append(_csv_line([row[name] for name in columns]))
    write_bytes(path, "".join(lines).encode())


def _csv_line(values: Sequence[str]) -> str:
    """Return one line of CSV. The writer quotes what holds a character of its line end: told of CR LF, it quotes a lone CR or LF inside a value."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerow(values)
    return buffer.getvalue()[:-2] + "\n"


def whole_number(row: Row, column: str, where: object) -> int:
    """Return a column's value as an int (negative for times before 1970). Raises DataError (bad_table)."""
    if not WHOLE_NUMBER.fullmatch(row[column]):
        raise _bad(where, f"{column} is {row[column][:40]!r}", "a whole number", "make the table again")
    return int(row[column])


def rows_digest(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Return a digest of the named columns of rows, whatever their order in the table: 16 hex digits."""
    return digest_value(sorted([row.get(name, "") for name in columns] for row in rows))[:16]
