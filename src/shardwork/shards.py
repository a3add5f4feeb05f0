"""Work shards: which items are worked on together. A pure function of the id and a fixed number, never of the table's length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from shardwork.tables import Row


def shard_of(item_id: str, work_shards: int) -> str:
    """Return the work shard of an id, as four or more digits: sha256(id) mod work_shards."""
    return f"{int(hashlib.sha256(item_id.encode()).hexdigest(), 16) % work_shards:04d}"


def split_rows(rows: Iterable[Row], key: str, work_shards: int) -> dict[str, list[Row]]:
    """Return the rows of each work shard that holds any, by shard; rows sorted by id."""
    shards: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row[key]):
        shards.setdefault(shard_of(row[key], work_shards), []).append(row)
    return dict(sorted(shards.items()))
