"""What the assets, backgrounds and clips of a run will take, from their tables and the configuration alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reelmill.config import ClipsConfig, Config
from reelmill.estimate import LONG_JOB_HOURS
from reelmill.estimate import hours as hours_text
from reelmill.estimate import size as size_text
from reelmill.machine import Disk
from shardwork.jsonio import loads
from shardwork.shards import split_rows
from shardwork.tables import Row, read_table, whole_number

ASSET_SECONDS = 1.1
"""CPU time to normalise and voxelise an asset: 0.7 to 1.4 s for scans of 3,000 to 16,000 triangles with textures of 1k and 4k, by benchmarks/normalize.py."""
START_SECONDS = 5.0
"""CPU time in which a job's Blender and compiled code start."""
PLAN_SECONDS = 0.46
"""CPU time to plan a clip of 32 frames of 512 x 512, by benchmarks/clips.py: the mean over scans of 4,000 to 16,000 triangles. It grows with the frames'
pixels and, more slowly, with triangles.
"""
CLIP_PIXELS = 32 * 512 * 512
"""Pixels of the clips that these were measured on."""
RENDER_SECONDS, SAMPLE_SECONDS = 48.0, 0.94
"""CPU time to render a clip on the processor, by benchmarks/clips.py: at least, and for each sample. A GPU takes the most of it off."""
FINISH_SECONDS, CONTROL_SECONDS = 4.5, 2.0
"""CPU time to composite and validate a clip, and to make its two control videos, by benchmarks/clips.py."""
EXPORT_SECONDS = 0.8
"""CPU time to export a clip, by benchmarks/export.py."""
CLIP_BYTES, CONTROL_BYTES, EXPORT_BYTES = 14_000_000, 500_000, 3_000_000
"""A render and the clip of it, which share what does not differ, and its control videos: the mean over the demo's. Its part of an exported shard: between the
demo's 2.1 MB and the 4.0 MB of noisy photos, by benchmarks/export.py.
"""
CLIP_INODES, CONTROL_INODES = 260, 3
"""Files and folders of a render, a clip and their plan, for 2.25 objects."""
VOXEL_BYTES = 264_000
PANORAMA_SECONDS = 6.0
"""CPU time for four views of a panorama of 8192x4096 pixels, by benchmarks/backgrounds.py: 2.6 s for JPG, more for HDR and EXR."""
VIEW_BYTES = 600_000
FILES_PER_ASSET, FILES_PER_SHARD, FILES_PER_CLIP_SHARD = 6, 12, 24


@dataclass(frozen=True, slots=True)
class Part:
    """What one section will take.   what : items in words.   bytes : that it writes.   job_hours : its longest job's.   advice : against long jobs."""

    name: str
    what: str
    jobs: int
    cpu_hours: float
    job_hours: float
    bytes: int
    inodes: int
    advice: str = ""


def parts_of(config: Config) -> list[Part]:
    """Return what the sections assets, backgrounds and clips will take. Raises DataError (bad_table, duplicate_id)."""
    parts = []
    if config.assets:
        table = Path(config.assets.table)
        parts.append(assets_part(read_table(table, "asset_id", ("bytes", "parts")), table, config.assets.work_shards, config.assets.workers))
    pool = config.backgrounds.polyhaven if config.backgrounds else None
    if pool and pool.table:
        parts.append(panoramas_part(len(read_table(Path(pool.table), "slug")), pool.limit, pool.views, pool.workers))
    if config.clips:
        parts.append(clips_part(config.clips))
    return parts


def assets_part(rows: Sequence[Row], table: Path, work_shards: int, workers: int) -> Part:
    """Return what the rows of an asset table will take. A mesh is about as large as its sources; where it is finished it is linked, not copied."""
    shards = split_rows(rows, "asset_id", work_shards).values()
    source = sum(whole_number(row, "bytes", f"{table}: {row['asset_id']!r}") + sum(size for _, size, _ in loads(row["parts"] or "[]")) for row in rows)
    return Part(
        "assets",
        f"{len(rows):,} assets, their files {size_text(source)}",
        2 * len(shards),
        (len(rows) * ASSET_SECONDS + len(shards) * START_SECONDS) / 3600,
        max((len(shard) * ASSET_SECONDS + START_SECONDS for shard in shards), default=0.0) / workers / 3600,
        source + len(rows) * VOXEL_BYTES,
        len(rows) * FILES_PER_ASSET + len(shards) * FILES_PER_SHARD,
    )


def panoramas_part(rows: int, limit: int, views: int, workers: int) -> Part:
    """Return what a pool of so many panoramas will take."""
    count = min(rows, limit or rows)
    cpu_hours = count * PANORAMA_SECONDS * views / 4 / 3600
    return Part("pool", f"{count:,} panoramas, {count * views:,} views", 1, cpu_hours, cpu_hours / workers, count * views * VIEW_BYTES, count * (views + 1))


def clips_part(clips: ClipsConfig) -> Part:
    """Return what so many clips will take, from plan to control videos and export. Nothing but the configuration is read."""
    shards = -(-(clips.first + clips.count) // clips.clips_per_shard) - clips.first // clips.clips_per_shard
    scale = clips.frames * clips.size**2 / CLIP_PIXELS
    rendering = scale * (RENDER_SECONDS + SAMPLE_SECONDS * clips.render.samples)
    others = scale * (PLAN_SECONDS + FINISH_SECONDS + CONTROL_SECONDS * clips.controls)
    jobs = (4 + clips.controls) * shards + 3
    a_clip = max(rendering / clips.render.threads, others / clips.workers)
    shard, export = min(clips.count, clips.clips_per_shard) * a_clip, clips.count * scale * EXPORT_SECONDS / clips.workers
    if shard >= export:
        advice = f"clips_per_shard: {max(1, math.floor(LONG_JOB_HOURS / 2 * 3600 / a_clip))} would make jobs of about half an hour"
    else:
        advice = f"that is the export: clips.workers: {math.ceil(clips.workers * export / (LONG_JOB_HOURS / 2 * 3600))} would make it half an hour"
    return Part(
        "clips",
        f"{clips.count:,} clips of {clips.split}",
        jobs,
        (clips.count * (rendering + others + scale * EXPORT_SECONDS) + jobs * START_SECONDS) / 3600,
        (max(shard, export) + START_SECONDS) / 3600,
        round(clips.count * scale * (CLIP_BYTES + EXPORT_BYTES + CONTROL_BYTES * clips.controls)),
        round(clips.count * (CLIP_INODES * clips.frames / 32 + CONTROL_INODES * clips.controls)) + shards * FILES_PER_CLIP_SHARD,
        advice,
    )


def lines(part: Part, disk: Disk, cores: float) -> list[str]:
    """Return an estimate as lines for people."""
    wall = max(part.cpu_hours / max(cores, 1), part.job_hours)
    shown = [
        f"{part.name:<9} {part.what}",
        f"jobs      {part.jobs:,}",
        f"CPU       {hours_text(part.cpu_hours)}: about {hours_text(wall)} on {cores:g} cores; the longest job {hours_text(part.job_hours)}",
        f"disk      {size_text(part.bytes)}; free at {disk.folder}: {size_text(disk.free_bytes)}",
    ]
    if part.bytes > disk.free_bytes:
        shown.append(f"warning   this will not fit on the disk of {disk.folder}")
    if part.advice and part.job_hours > LONG_JOB_HOURS:
        shown.append(f"warning   the longest job takes {hours_text(part.job_hours)}: {part.advice}")
    return shown
