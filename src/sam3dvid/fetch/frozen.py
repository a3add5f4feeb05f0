"""A selection that is frozen before the first download: the same pool tomorrow, or a refusal that says what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.polyhaven import Selection, Upstream
from shardwork.jsonio import Json, read_json, write_json

SOURCES, FORMAT = "sources.json", 1
_KINDS = {"slug": str, "kind": str, "resolution": str, "url": str, "bytes": int, "md5": str, "suffix": str, "page": str, "authors": list}


def freeze(pool: Path, settings: Mapping[str, Json], selection: Selection) -> None:
    """Write which sources a pool is made of, and with which settings, into its folder.   settings : all that decides the pool's bytes."""
    chosen = [upstream.as_json() for upstream in selection.chosen]
    write_json(pool / SOURCES, {"format": FORMAT, "settings": dict(settings), "sources": chosen, "passed_over": selection.passed_over})


def frozen(pool: Path, settings: Mapping[str, Json]) -> tuple[Upstream, ...] | None:
    """Return the sources that a pool was frozen with, None if it was not yet. Raises AssetRefused: pool_frozen for other settings, bad_pool."""
    path = pool / SOURCES
    if not path.exists():
        return None
    value = read_json(path)
    if (
        not isinstance(value, dict)
        or value.get("format") != FORMAT
        or not isinstance(value.get("settings"), dict)
        or not isinstance(value.get("sources"), list)
    ):
        raise AssetRefused("bad_pool", path, "another form", f"a selection of format {FORMAT}")
    then = value["settings"]
    differs = sorted(name for name in then.keys() | settings.keys() if then.get(name) != settings.get(name))
    if differs:
        found, expected = (", ".join(f"{name} {side.get(name)}" for name in differs) for side in (settings, then))
        raise AssetRefused("pool_frozen", pool, found, f"{expected}, as the folder was made with")
    return tuple(_upstream(path, entry) for entry in value["sources"])


def _upstream(path: Path, entry: Json) -> Upstream:
    names = [field.name for field in fields(Upstream)]
    if not isinstance(entry, dict) or sorted(entry) != sorted(names) or any(type(entry[name]) is not kind for name, kind in _KINDS.items()):
        raise AssetRefused("bad_pool", path, f"an entry {str(entry)[:80]}", f"an entry with {', '.join(names)}")
    return Upstream(**{**entry, "authors": tuple(map(str, entry["authors"]))})


def refuse_changed(pool: Path, then: Upstream, now: Upstream) -> None:
    """Raise AssetRefused (pool_frozen) where a source holds another file than the one that was chosen. That it moved is no matter."""
    if (then.md5, then.bytes) != (now.md5, now.bytes):
        found = f"{then.slug} is {now.kind} of {now.bytes} bytes, md5 {now.md5}, at its source"
        raise AssetRefused("pool_frozen", pool, found, f"{then.kind} of {then.bytes} bytes, md5 {then.md5}, as the folder was made with")


def same_files(pool: Path, then: Sequence[Upstream], now: Selection) -> None:
    """Raise AssetRefused (pool_frozen) unless a folder still holds exactly the panoramas that were chosen."""
    names = {upstream.slug: upstream for upstream in now.chosen}
    for upstream in then:
        if upstream.slug not in names:
            raise AssetRefused("pool_frozen", pool, f"no panorama {upstream.slug} any more", "the panoramas that the folder was made with")
        refuse_changed(pool, upstream, names.pop(upstream.slug))
    if names:
        raise AssetRefused("pool_frozen", pool, f"further panoramas, such as {min(names)}", "the panoramas that the folder was made with")
