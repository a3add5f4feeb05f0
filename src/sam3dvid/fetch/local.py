"""Panoramas that are on disk already: chosen and frozen as those from the network are."""

from __future__ import annotations

import re
from pathlib import Path

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.download import measure
from sam3dvid.fetch.polyhaven import Selection, Upstream, in_order
from shardwork.errors import DataError
from shardwork.ids import is_id, suggest_id

SUFFIXES = (".hdr", ".exr", ".jpg", ".jpeg")
_RESOLUTION = re.compile(r"_[1-9][0-9]?k$")
LONGEST_SLUG = 80
"""The id of a view is ph_<slug>_v<k>, and an id has at most 100 characters."""


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
