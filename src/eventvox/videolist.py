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

    folder: Path
    videos: tuple[tuple[Path, str], ...]
    others: tuple[Path, ...]


def find_videos(folder: Path, split: str) -> Found:
    """Return the videos below a folder, sorted by path; those under train/ or validation/ belong to that split, others to `split`.

    Raises DataError (bad_table) if the folder is missing or holds no video.
    """
    if not folder.is_dir():
        raise DataError("bad_table", folder, "no such folder", "a folder of videos", "correct the path")
    videos, others = [], []
    seen: set[tuple[int, int]] = set()
    for base, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        stat = Path(base).stat()
        if (stat.st_dev, stat.st_ino) in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add((stat.st_dev, stat.st_ino))
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
    return Found(folder, tuple(videos), tuple(others))


def _raise(error: OSError) -> None:
    raise DataError("bad_table", error.filename, f"cannot be listed ({error.strerror})", "a readable folder", "see its permissions") from error


def _check_text(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise DataError("bad_table", repr(str(path)), "a name that is not UTF-8", "names that a table can hold", "rename the file") from error


def _split_of(path: Path, split: str) -> str:
    return path.parts[0] if len(path.parts) > 1 and path.parts[0] in SPLITS else split


def video_rows(found: Found, table: Path, known: Sequence[Row], probe: bool, ids: str = "stem") -> list[Row]:
    """Return a row for every video, sorted by id.

    found : what the folder holds.   table : where the rows will stand; relative paths are written relative to its folder, absolute ones as they are.
    known : rows of an earlier table; a video whose file stands there, however its path is spelt, keeps its id, split and further columns, and rows
    of files elsewhere are kept as they are.   probe : read the headers.   ids : a new video's id is its file's "stem", or its "path" below the folder.
    Raises DataError (duplicate_id) for files with one id, all of them named.
    """
    earlier = {(table.parent / row["path"]).resolve(): row for row in known}
    rows = [_video_row(path, split, found.folder, table, earlier.pop(path.resolve(), {}), probe, ids) for path, split in found.videos]
    rows += earlier.values()
    _refuse_collisions(rows)
    return [{**dict.fromkeys(HEADER_COLUMNS, ""), **row} for row in sorted(rows, key=lambda row: row[KEY])]


def _video_row(path: Path, split: str, folder: Path, table: Path, old: Row, probe: bool, ids: str) -> Row:
    name = str(path) if path.is_absolute() else os.path.relpath(path, table.parent)
    stat = path.stat() if path.exists() else None
    video_id = path.stem if ids == "stem" else "_".join(path.relative_to(folder).with_suffix("").parts)
    size, time = (str(stat.st_size), str(stat.st_mtime_ns)) if stat else ("0", "0")
    row = {KEY: video_id, "split": split, **old, "path": name, "bytes": size, "mtime_ns": time}
    same = (old.get("bytes"), old.get("mtime_ns")) == (size, time) and all(key in old for key in HEADER_COLUMNS)
    return row if same or not probe else {**row, **read_header(path)}


def _refuse_collisions(rows: Sequence[Row]) -> None:
    paths: dict[str, list[str]] = {}
    for row in rows:
        paths.setdefault(row[KEY], []).append(row["path"])
    if shared := [(key, names) for key, names in paths.items() if len(names) > 1]:
        key, names = shared[0]
        more = f" (and {len(shared) - 1} more ids like this)" if len(shared) > 1 else ""
        hint = "name videos by their path with --ids path, or rename files"
        raise DataError("duplicate_id", repr(key), f"{' and '.join(names)} have one id{more}", "one file an id", hint)


def is_gone(row: Row, table: Path) -> bool:
    """Return whether the file of a row is no longer there."""
    return not os.path.lexists(table.parent / row["path"])


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
