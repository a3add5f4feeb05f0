"""A folder of sources -> the rows of a table: what the makers of all tables share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from shardwork.errors import DataError
from shardwork.tables import Row


def walk_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, sorted within each; links to folders are followed, once each.

    Raises DataError (bad_table) for a folder that cannot be listed, or a name that no table can hold.
    """
    seen: set[tuple[int, int]] = set()
    for base, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        stat = Path(base).stat()
        if (stat.st_dev, stat.st_ino) in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add((stat.st_dev, stat.st_ino))
        folders.sort()
        for name in sorted(names):
            path = Path(base, name)
            _check_text(path)
            yield path


def _raise(error: OSError) -> None:
    raise DataError("bad_table", error.filename, f"cannot be listed ({error.strerror})", "a readable folder", "see its permissions") from error


def _check_text(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise DataError("bad_table", repr(str(path)), "a name that is not UTF-8", "names that a table can hold", "rename the file") from error


def split_of(path: Path, splits: Sequence[str], default: str) -> str:
    """Return the split of a file: the folder that its relative path begins with, if it is named like one, else the default."""
    return path.parts[0] if len(path.parts) > 1 and path.parts[0] in splits else default


def name_in_table(path: Path, table: Path) -> str:
    """Return a path as a table writes it: relative to the table's folder, absolute ones as they are."""
    return str(path) if path.is_absolute() else os.path.relpath(path, table.parent)


def size_and_time(path: Path) -> tuple[str, str]:
    """Return a file's bytes and mtime_ns as text, zeros for one that is not there."""
    stat = path.stat() if path.exists() else None
    return (str(stat.st_size), str(stat.st_mtime_ns)) if stat else ("0", "0")


def is_gone(row: Row, table: Path) -> bool:
    """Return whether the file of a row is no longer there."""
    return not os.path.lexists(table.parent / row["path"])


def refuse_collisions(rows: Sequence[Row], key: str, hint: str) -> None:
    """Raise DataError (duplicate_id) for rows with one id: their files are named."""
    paths: dict[str, list[str]] = {}
    for row in rows:
        paths.setdefault(row[key], []).append(row["path"])
    if shared := [(name, files) for name, files in paths.items() if len(files) > 1]:
        name, files = shared[0]
        more = f" (and {len(shared) - 1} more ids like this)" if len(shared) > 1 else ""
        raise DataError("duplicate_id", repr(name), f"{' and '.join(files)} have one id{more}", "one file an id", hint)
