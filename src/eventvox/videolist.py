"""A folder of videos -> the rows of a video table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eventvox.stage import KEY, SPLITS
from shardwork.errors import DataError
from shardwork.tables import Row

SUFFIXES = frozenset(".3gp .avi .flv .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .ogv .ts .webm .wmv".split())
HEADER_COLUMNS = ("width", "height", "frames", "fps", "duration_seconds")
"""What the container claims; for `estimate` alone, never trusted for anything that is written."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look into a folder gave. videos : (path, split).   others : names that are no videos by their suffix."""

    videos: tuple[tuple[Path, str], ...]
    others: tuple[Path, ...]


def find_videos(folder: Path, split: str) -> Found:
    """Return the videos below a folder, sorted by path; those under train/ or validation/ belong to that split, others to `split`.

    Raises DataError (bad_table) if the folder is missing or holds no video.
    """
    if not folder.is_dir():
        raise DataError("bad_table", folder, "no such folder", "a folder of videos", "correct the path")
    videos, others = [], []
    for base, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            path = Path(base, name)
            _check_text(path)
            if path.suffix.lower() in SUFFIXES and not name.startswith("."):
                videos.append((path, _split_of(path.relative_to(folder), split)))
            else:
                others.append(path)
    if not videos:
        raise DataError("bad_table", folder, "no videos", f"files named {' '.join(sorted(SUFFIXES))}", "correct the path or the names")
    return Found(tuple(videos), tuple(others))


def _check_text(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise DataError("bad_table", repr(str(path)), "a name that is not UTF-8", "names that a table can hold", "rename the file") from error


def _split_of(path: Path, split: str) -> str:
    return path.parts[0] if len(path.parts) > 1 and path.parts[0] in SPLITS else split


def video_rows(videos: Sequence[tuple[Path, str]], table: Path, known: Sequence[Row], probe: bool) -> list[Row]:
    """Return a row for every video, sorted by id.

    videos : (path, split).   table : where the rows will stand; relative paths are written relative to its folder, absolute ones as they are.
    known : rows of an earlier table; a video whose path stands there keeps its id, split and further columns.   probe : read the headers.
    Raises DataError (duplicate_id) for two files with one id.
    """
    earlier = {row["path"]: row for row in known}
    rows: dict[str, Row] = {}
    for path, split in videos:
        name = str(path) if path.is_absolute() else os.path.relpath(path, table.parent)
        old = earlier.get(name, {})
        stat = path.stat() if path.exists() else None
        fresh = {
            KEY: path.stem,
            "split": split,
            **old,
            "path": name,
            "bytes": str(stat.st_size if stat else 0),
            "mtime_ns": str(stat.st_mtime_ns if stat else 0),
        }
        same = all(old.get(key) == fresh[key] for key in ("bytes", "mtime_ns")) and all(key in old for key in HEADER_COLUMNS)
        row = fresh if same or not probe else {**fresh, **read_header(path)}
        if (first := rows.setdefault(row[KEY], row)) is not row:
            hint = f"rename one, or give one another {KEY} in {table}" if earlier else "rename one, or make a table of each folder"
            raise DataError("duplicate_id", repr(row[KEY]), f"{first['path']} and {name} have one id", "one file an id", hint)
    return [{**dict.fromkeys(HEADER_COLUMNS, ""), **rows[key]} for key in sorted(rows)]


def read_header(path: Path) -> Mapping[str, str]:
    """Return what a video's container claims of itself as text; blank where it claims nothing or cannot be opened."""
    import av

    blank = dict.fromkeys(HEADER_COLUMNS, "")
    try:
        with av.open(str(path.absolute())) as container:
            stream = container.streams.video[0]
            rate = float(stream.average_rate) if stream.average_rate else 0.0
            seconds = container.duration / av.time_base if container.duration else 0.0
            frames = stream.frames or round(seconds * rate)
            values = {"width": stream.width, "height": stream.height, "frames": frames, "fps": round(rate, 6), "duration_seconds": round(seconds, 6)}
    except (av.error.FFmpegError, OSError, ValueError, IndexError):
        return blank
    return {key: str(value) if value else "" for key, value in values.items()}
