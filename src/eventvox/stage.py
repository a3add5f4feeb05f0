"""What the workflow must know of the events stage before any video is opened: its table, its folders, its versions. Standard library alone."""

from __future__ import annotations

from pathlib import Path

from shardwork.errors import DataError
from shardwork.ids import is_id
from shardwork.place import Place
from shardwork.tables import Row, read_table, whole_number

VOXELIZE_VERSION = 1
"""Raised when a change of code or of a pinned decoder changes the bytes of a voxel file; CHANGELOG says so."""
VALIDATE_VERSION = 1
"""Raised when validation finds more than before, so that finished files are looked at again."""

STEPS = ("voxelize_events", "validate_events")
"""Steps of work shards, in their order."""
SPLITS = ("train", "validation")
KEY = "video_id"
COLUMNS = (KEY, "path", "split", "bytes", "mtime_ns")
"""Columns of a video table that decide what is made; further ones are only carried along."""


def events_place(stage: Path) -> Place:
    """Return where an events stage keeps its files: {train,validation}/<id>.h5 and sidecars/<id>.json."""
    return Place(stage, tuple(stage / name for name in (*SPLITS, "sidecars")), _id_of)


def _id_of(name: str) -> str | None:
    stem, _, suffix = name.rpartition(".")
    return stem if suffix in ("h5", "json") and is_id(stem) else None


def outputs_of(place: Place, video_id: str, split: str) -> tuple[Path, Path]:
    """Return the voxel file and the sidecar of a video."""
    return place.stage / split / f"{video_id}.h5", place.stage / "sidecars" / f"{video_id}.json"


def read_video_table(path: Path) -> list[Row]:
    """Return the rows of a video table. Raises DataError (bad_table, duplicate_id) for what would fail later."""
    rows = read_table(path, KEY, COLUMNS[1:])
    if not rows:
        raise DataError("bad_table", path, "no rows", "at least one video", "make the table from a folder that holds videos")
    for row in rows:
        where = f"{path}: {row[KEY]!r}"
        if row["split"] not in SPLITS:
            raise DataError("bad_table", where, f"split is {row['split']!r}", " or ".join(SPLITS), "correct the split column")
        whole_number(row, "bytes", where)
        whole_number(row, "mtime_ns", where)
    return rows
