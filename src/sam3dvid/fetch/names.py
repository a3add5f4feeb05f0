"""Lists of names that people write."""

from __future__ import annotations

from pathlib import Path

from shardwork.errors import DataError


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
