"""Folders of panoramas and photos -> their tables, and the tables -> what pools are built from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sam3dvid.backgrounds.images import PHOTO_SUFFIXES
from sam3dvid.backgrounds.panorama import SUFFIXES
from sam3dvid.backgrounds.pool import POLYHAVEN, SA1B, Panorama
from sam3dvid.stage import POOL_COLUMNS, POOL_KEYS, read_pool_table
from shardwork.errors import DataError
from shardwork.listing import name_in_table, refuse_collisions, size_and_time
from shardwork.tables import Row, whole_number

PANORAMA_KEY, PHOTO_KEY = POOL_KEYS[POLYHAVEN], POOL_KEYS[SA1B]
PANORAMA_COLUMNS, PHOTO_COLUMNS = POOL_COLUMNS[POLYHAVEN], POOL_COLUMNS[SA1B]
"""authors : names joined by "; "."""
RESOLUTION = re.compile(r"_[0-9]+k$")
"""What Poly Haven puts behind the slug in a file's name."""


def find_pictures(folders: Sequence[Path], suffixes: Sequence[str]) -> list[Path]:
    """Return the pictures below folders, sorted. Raises DataError (bad_table) for a folder that is missing, and if there is none at all."""
    found: set[Path] = set()
    for folder in folders:
        if not folder.is_dir():
            raise DataError("bad_table", folder, "no such folder", "a folder of pictures", "correct the path")
        found |= {path for path in folder.rglob("*") if path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()}
    if not found:
        raise DataError("bad_table", folders[0], "no pictures", f"files named {' '.join(suffixes)}", "correct the path or the names")
    return sorted(found)


def panorama_rows(folder: Path, table: Path, license_id: str, url_prefix: str, authors: str) -> list[Row]:
    """Return a row for every panorama below a folder, sorted by slug. url_prefix : with the slug behind it, the source_url; empty gives none."""
    rows: list[Row] = []
    for path in find_pictures([folder], SUFFIXES):
        slug = RESOLUTION.sub("", path.stem)
        rows.append(
            {PANORAMA_KEY: slug, "license": license_id, "source_url": url_prefix + slug if url_prefix else "", "authors": authors, **_seen(path, table)}
        )
    return _unique(rows, PANORAMA_KEY)


def photo_rows(folders: Sequence[Path], table: Path, license_id: str) -> list[Row]:
    """Return a row for every photo below folders, sorted by id: its file's stem."""
    return _unique([{PHOTO_KEY: path.stem, "license": license_id, **_seen(path, table)} for path in find_pictures(folders, PHOTO_SUFFIXES)], PHOTO_KEY)


def _seen(path: Path, table: Path) -> dict[str, str]:
    size, time = size_and_time(path)
    return {"path": name_in_table(path, table), "bytes": size, "mtime_ns": time}


def _unique(rows: Sequence[Row], key: str) -> list[Row]:
    refuse_collisions(rows, key, "rename or take out one of them")
    return sorted(rows, key=lambda row: row[key])


def read_panorama_table(path: Path) -> list[Panorama]:
    """Return the panoramas of a table. Raises DataError (bad_table, duplicate_id)."""
    return [
        Panorama(
            slug=row[PANORAMA_KEY],
            path=path.parent / row["path"],
            bytes=whole_number(row, "bytes", f"{path}: {row[PANORAMA_KEY]!r}"),
            mtime_ns=whole_number(row, "mtime_ns", f"{path}: {row[PANORAMA_KEY]!r}"),
            source_url=row["source_url"],
            license=row["license"],
            authors=tuple(filter(None, row["authors"].split("; "))),
        )
        for row in read_pool_table(POLYHAVEN, path)
    ]


def read_photo_table(path: Path) -> list[Row]:
    """Return the rows of a photo table. Raises DataError (bad_table, duplicate_id)."""
    return read_pool_table(SA1B, path)
