"""A manifest as a pandas DataFrame: the same from its CSV and from its JSONL. docs/events_format.md shows these lines to consumers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eventvox.manifest import KINDS
from shardwork.errors import DataError, Fault

DTYPES = {"text": "str", "whole number": "Int64", "number": "float64", "truth": "bool", "JSON": "object"}
"""Kind of a column -> its pandas dtype. A missing whole number is NA, a missing number NaN, a missing list None.

Not Float64: read_csv then parses another way and gets the last digit of one number in three wrong (pandas 3.0.6), as it does without round_trip.
"""


def read_manifest(path: Path) -> Any:
    """Return a manifest (.csv or .jsonl) as a DataFrame; numbers are exact.

    Raises DataError (bad_argument) where pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise DataError("bad_argument", "pandas", "not installed", "pandas", "pip install 'reelmill[events]', or pandas alone") from error
    dtypes = {name: DTYPES[kind] for name, kind in KINDS.items()}
    if path.suffix == ".jsonl":
        if path.stat().st_size == 0:
            return pd.DataFrame(columns=list(KINDS)).astype(dtypes)
        frame = pd.read_json(path, lines=True, dtype=False, convert_dates=False, precise_float=True)
        return frame[list(KINDS)].astype(dtypes)
    lists = {name: json.loads for name, kind in KINDS.items() if kind == "JSON"}
    numbers = {name: [""] for name, kind in KINDS.items() if kind in ("whole number", "number")}
    plain = {name: dtype for name, dtype in dtypes.items() if name not in lists}
    frame = pd.read_csv(path, dtype=plain, converters=lists, keep_default_na=False, na_values=numbers, float_precision="round_trip", lineterminator="\n")
    return frame.astype(dtypes)


def check_equal(csv: Path, jsonl: Path) -> None:
    """Raise Fault (not_published) unless both files of a manifest read back as the same table."""
    first, second = read_manifest(csv), read_manifest(jsonl)
    if not (list(first) == list(second) and first.equals(second)):
        odd = [name for name in KINDS if len(first) != len(second) or not first[name].equals(second[name])]
        hint = "this is a fault of the program, or of the disk: run the same command, then report it"
        raise Fault("not_published", csv.name, f"other values of {', '.join(odd)} than in {jsonl.name}", "the same table", hint)
