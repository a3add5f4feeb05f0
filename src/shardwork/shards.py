"""Work shards: which items are worked on together. A pure function of the id and a fixed number, never of the table's length."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from shardwork.errors import DataError
from shardwork.tables import Row

SHARD_PATTERN = re.compile(r"([0-9]{4,})-of-([0-9]{4,})")


def shard_name(index: int, work_shards: int) -> str:
    """Return the name of a work shard, such as 0003-of-0020. The number of shards is part of it: after a change of `work_shards` no file or journal of
    the old cut is taken for one of the new.
    """
    return f"{index:04d}-of-{work_shards:04d}"


def parse_shard(name: str) -> tuple[int, int]:
    """Return (index, work_shards) of a shard's name. Raises DataError (bad_argument)."""
    match = SHARD_PATTERN.fullmatch(name)
    index, work_shards = (int(match[1]), int(match[2])) if match else (0, 0)
    if index >= work_shards or shard_name(index, work_shards) != name:
        raise DataError("bad_argument", "--shard", repr(name), "a work shard such as 0003-of-0020", "see the line that snakemake -p prints")
    return index, work_shards


def shard_of(item_id: str, work_shards: int) -> str:
    """Return the name of an id's work shard: sha256(id) mod work_shards."""
    return shard_name(int(hashlib.sha256(item_id.encode()).hexdigest(), 16) % work_shards, work_shards)


def split_rows(rows: Iterable[Row], key: str, work_shards: int) -> dict[str, list[Row]]:
    """Return the rows of each work shard that holds any, by the shard's name; rows sorted by id."""
    shards: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row[key]):
        shards.setdefault(shard_of(row[key], work_shards), []).append(row)
    return dict(sorted(shards.items()))


def rows_of(rows: Iterable[Row], key: str, shard: str) -> list[Row]:
    """Return the rows of one work shard, sorted by id. Raises DataError (bad_argument) for a name that is no shard's."""
    _, work_shards = parse_shard(shard)
    return split_rows(rows, key, work_shards).get(shard, [])
