"""A selection that is frozen before the first download, or of panoramas on disk: the same pool tomorrow, or a refusal that says what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.download import measure
from sam3dvid.fetch.polyhaven import Selection, Upstream, in_order, refuse_changed
from sam3dvid.stage import LONGEST_SLUG
from shardwork.errors import DataError
from shardwork.ids import is_id, suggest_id
from shardwork.jsonio import Json, read_json, write_json

SOURCES, FORMAT = "sources.json", 1
_KINDS = {"slug": str, "kind": str, "resolution": str, "url": str, "bytes": int, "md5": str, "suffix": str, "page": str, "authors": list}
SUFFIXES = (".hdr", ".exr", ".jpg", ".jpeg")
_RESOLUTION = re.compile(r"_[1-9][0-9]?k$")


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


def same_files(pool: Path, then: Sequence[Upstream], now: Selection) -> None:
    """Raise AssetRefused (pool_frozen) unless a folder still holds exactly the panoramas that were chosen."""
    names = {upstream.slug: upstream for upstream in now.chosen}
    for upstream in then:
        if upstream.slug not in names:
            raise AssetRefused("pool_frozen", pool, f"no panorama {upstream.slug} any more", "the panoramas that the folder was made with")
        refuse_changed(pool, upstream, names.pop(upstream.slug))
    if names:
        raise AssetRefused("pool_frozen", pool, f"further panoramas, such as {min(names)}", "the panoramas that the folder was made with")


def panoramas_in(folder: Path) -> dict[str, Path]:
    """Return slug -> file of a folder's panoramas; a slug is the file's stem without Poly Haven's resolution (_4k), or a usable id near it.

    Raises DataError (bad_argument) for a folder that is none or holds none, AssetRefused (bad_asset_setting) for two files of one slug.
    """
    if not folder.is_dir():
        raise DataError("bad_argument", folder, "no such folder", "a folder of panoramas", "correct --source")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        slug = _RESOLUTION.sub("", path.stem)
        slug = slug if is_id(slug) and len(slug) <= LONGEST_SLUG else suggest_id(slug[: LONGEST_SLUG - 10])
        if slug in found:
            raise AssetRefused("bad_asset_setting", path, f"its slug {slug} is that of {found[slug].name} too", "one file a panorama", "move one of them away")
        found[slug] = path
    if not found:
        raise DataError("bad_argument", folder, "no file ends in " + ", ".join(SUFFIXES), "a folder of panoramas", "correct --source")
    return found


def choose(folder: Path, salt: str, limit: int) -> tuple[Selection, dict[str, Path]]:
    """Return the first `limit` panoramas of a folder in the salt's order (0: all), measured, and slug -> file of them. Raises DataError."""
    files = panoramas_in(folder)
    chosen = []
    for slug in in_order(files, salt)[: limit or None]:
        path = files[slug]
        found = measure(path)
        chosen.append(Upstream(slug, (), "local", "", "", found.bytes, found.md5, path.suffix.lower(), ""))
    return Selection(tuple(chosen), {}), {upstream.slug: files[upstream.slug] for upstream in chosen}
