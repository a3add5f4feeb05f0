"""T5, an export against its own index.json: the shards that it names, and the clips in each. Source: format v0.1, 9."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sam3dvid.stage import EXPORT_INDEX
from sam3dvid.validate.kinds import shown
from sam3dvid.validate.report import EXPORT, Found
from shardwork.errors import DataError
from shardwork.jsonio import Json, loads


def read_shards(found: Found, export: Path, split: str) -> dict[str, list[str]] | None:
    """Return the shards that index.json names, with the ids of their clips; None where there is no index. What is wrong with it is noted.

    Raises OSError.
    """
    path = export / EXPORT_INDEX
    if not path.is_file():
        return None
    try:
        index = loads(path.read_bytes(), path)
    except DataError as error:
        found.add(EXPORT, EXPORT_INDEX, error.found, "strict JSON")
        return None
    shards = index.get("shards") if isinstance(index, dict) else None
    if not isinstance(shards, list) or not all(isinstance(one, dict) and _is_shard(one) for one in shards):
        found.add(EXPORT, f"{EXPORT_INDEX}: shards", "another layout", "shards with name and clip_ids")
        return None
    if index.get("split") != split:
        found.add(EXPORT, f"{EXPORT_INDEX}: split", shown(index.get("split")), f"{shown(split)}, as the shards have")
    return {one["name"]: one["clip_ids"] for one in shards}


def _is_shard(entry: Json) -> bool:
    ids = entry.get("clip_ids")
    return isinstance(entry.get("name"), str) and isinstance(ids, list) and all(isinstance(one, str) for one in ids)


def look_at_index(found: Found, named: Mapping[str, Sequence[str]], there: Collection[str], seen: Mapping[str, Sequence[str]]) -> None:
    """Note shards that index.json names and that are missing, those that it does not name, and clips that are others than it says.

    named : as of `read_shards`.   there : shards of the folder.   seen : of those that could be looked at, the ids of their clips.
    """
    for shard in sorted(named.keys() - set(there)):
        found.add(EXPORT, shard, "no such file", f"a shard that {EXPORT_INDEX} names")
    for shard in sorted(set(there) - named.keys()):
        found.add(EXPORT, shard, f"not named by {EXPORT_INDEX}", "the shards of this export alone")
    for shard, clips in seen.items():
        wanted = named.get(shard)
        if wanted is not None and list(clips) != list(wanted):
            differ = sorted(set(wanted) ^ set(clips))
            said = f"clip {differ[0]} is {'missing' if differ[0] in wanted else 'too many'}" if differ else "its clips in another order"
            found.add(EXPORT, f"{shard}: clips", said, f"the {len(wanted)} clips that {EXPORT_INDEX} names")
