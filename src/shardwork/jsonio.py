"""JSON that every reader takes: sorted keys, no NaN, LF, one record per line whatever characters a string holds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from shardwork.errors import DataError
from shardwork.files import write_bytes

Json = Any
"""A value that JSON can hold."""


def _plain(value: object) -> object:
    """Return the Python number behind a numpy scalar, the list behind an array, the text of a path."""
    if isinstance(value, Path):
        return str(value)
    for method in ("item", "tolist"):
        if hasattr(value, method) and (method == "tolist" or getattr(value, "shape", None) == ()):
            return getattr(value, method)()
    raise TypeError(f"{type(value).__name__} cannot stand in JSON")


def dumps(value: Json) -> str:
    """Return one line of JSON: sorted keys, no spaces, non-ASCII escaped (so U+2028 cannot split a line).

    Raises DataError (bad_json) for NaN, Infinity and types that JSON lacks.
    """
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError) as error:
        raise DataError("bad_json", "JSON", str(error), "finite numbers, text, lists and dicts", "give a missing number as null") from error


def dumps_pretty(value: Json) -> str:
    """Return indented JSON for people, by the same rules, ending in a newline."""
    dumps(value)
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, indent=1, default=_plain) + "\n"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond the largest number")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python's own limit, of which it tells in terms of its functions
        raise ValueError(f"a whole number of {len(text.lstrip('-'))} digits is beyond any that is read") from None


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} stands twice")
    return found


def loads(text: str | bytes, where: object = "JSON") -> Json:
    """Return the value of strict JSON text. Raises DataError (bad_json) for anything else, duplicate keys, NaN and numbers beyond float64 included."""
    try:
        return json.loads(text, parse_float=_finite, parse_int=_whole, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise DataError("bad_json", where, str(error), "strict JSON in UTF-8", "mend or remake the file") from error


def read_json(path: Path) -> Json:
    """Return the value of a JSON file. Raises DataError (bad_json)."""
    return loads(path.read_bytes(), path)


def write_json(path: Path, value: Json) -> None:
    """Write a value as indented JSON, atomically."""
    write_bytes(path, dumps_pretty(value).encode())


def read_jsonl(path: Path) -> list[Json]:
    """Return the records of a JSONL file; lines end at LF alone and blank ones are skipped. Raises DataError (bad_json)."""
    lines = path.read_bytes().split(b"\n")
    return [loads(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def write_jsonl(path: Path, records: Iterable[Json]) -> None:
    """Write records one per line, atomically, in the order given."""
    write_bytes(path, "".join(dumps(record) + "\n" for record in records).encode())
