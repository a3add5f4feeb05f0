"""Which assets of a table are used: by licence and by score. Standard library alone: the workflow reads it while it parses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sam3dvid.assets.licenses import UNKNOWN, settled
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import check_kinds, meta
from shardwork.errors import DataError
from shardwork.jsonio import loads
from shardwork.tables import Row

AESTHETIC = "aesthetic"
"""The score of TRELLIS-500K, from 1 to 10; it holds Objaverse-XL assets of 5.5 and more."""


@dataclass(frozen=True, slots=True)
class AssetFilter:
    """Which assets are used. Raises AssetRefused (bad_asset_setting)."""

    licenses: str = field(default="", metadata=meta("use only assets under these licences (SPDX ids, separated by blanks); empty: all"))
    min_aesthetic: float = field(default=0.0, metadata=meta("use only assets whose aesthetic score is at least this; one without a score counts as below"))

    def __post_init__(self) -> None:
        check_kinds(self)
        check_licenses(self.licenses)
        if not 0 <= self.min_aesthetic < math.inf:
            raise AssetRefused("bad_asset_setting", "min_aesthetic", repr(self.min_aesthetic), "a number, 0 or more")


def check_licenses(licenses: str) -> tuple[str, ...]:
    """Return the ids of an allow-list. Raises AssetRefused (bad_asset_setting) for what is no SPDX id."""
    ids = tuple(licenses.split())
    for name in ids:
        if settled(name) != name:
            raise AssetRefused("bad_asset_setting", "licenses", repr(name), "SPDX ids separated by blanks, such as CC-BY-4.0 CC0-1.0")
    return ids


def scores_of(row: Row) -> dict[str, float]:
    """Return an asset's scores by name, none where its row has none. Raises DataError (bad_table) for what is no JSON object of numbers."""
    text = row.get("scores", "") or "{}"
    try:
        scores = loads(text)
    except DataError:
        scores = None
    if not isinstance(scores, dict) or not all(type(value) in (int, float) for value in scores.values()):
        raise DataError(
            "bad_table", repr(row["asset_id"]), f"scores is {text[:60]!r}", 'a JSON object of numbers, such as {"aesthetic": 5.5}', "correct the column"
        )
    return {name: float(value) for name, value in sorted(scores.items())}


def select(rows: Sequence[Row], chosen: AssetFilter) -> tuple[list[Row], list[tuple[Row, str]]]:
    """Return the rows that are used, and the others with the code that says why not: license_refused, score_too_low. Order is kept."""
    kept: list[Row] = []
    refused: list[tuple[Row, str]] = []
    allowed = check_licenses(chosen.licenses)
    for row in rows:
        if allowed and (row["license"] or UNKNOWN) not in allowed:
            refused.append((row, "license_refused"))
        elif chosen.min_aesthetic > 0 and scores_of(row).get(AESTHETIC, -math.inf) < chosen.min_aesthetic:
            refused.append((row, "score_too_low"))
        else:
            kept.append(row)
    return kept, refused
