"""A folder of videos -> the rows of a video table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eventvox.stage import KEY, SPLITS
from shardwork.errors import DataError
from shardwork.listing import name_in_table, refuse_collisions, size_and_time, split_of, walk_files
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
    for path in walk_files(folder):
        if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
            videos.append((path, split_of(path.relative_to(folder), SPLITS, split)))
        else:
            others.append(path)
    if not videos:
        raise DataError("bad_table", folder, "no videos", f"files named {' '.join(sorted(SUFFIXES))}", "correct the path or the names")
    return Found(folder, tuple(videos), tuple(others))


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
    refuse_collisions(rows, KEY, "name videos by their path with --ids path, or rename files")
    return [{**dict.fromkeys(HEADER_COLUMNS, ""), **row} for row in sorted(rows, key=lambda row: row[KEY])]


def _video_row(path: Path, split: str, folder: Path, table: Path, old: Row, probe: bool, ids: str) -> Row:
    video_id = path.stem if ids == "stem" else "_".join(path.relative_to(folder).with_suffix("").parts)
    size, time = size_and_time(path)
    row = {KEY: video_id, "split": split, **old, "path": name_in_table(path, table), "bytes": size, "mtime_ns": time}
    same = (old.get("bytes"), old.get("mtime_ns")) == (size, time) and all(key in old for key in HEADER_COLUMNS)
    return row if same or not probe else {**row, **read_header(path)}


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
