"""What the latents of a run will take, from records, tables and the configuration alone: no video is opened and no model loaded."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from reelmill.config import Config, LatentsConfig
from reelmill.estimate import hours as hours_text
from reelmill.estimate import size as size_text
from reelmill.machine import Disk
from shardwork.errors import DataError
from shardwork.jsonio import read_jsonl
from shardwork.shards import shard_of
from shardwork.tables import read_table

TERA_FLOPS = {"wan21": 157 / (480 * 1920), "wan22-5b": 108 / (480 * 1920)}
"""Operations for a pixel of a window of 33 frames, in units of 10^12: what 33 x 480 x 1920 take with the released autoencoders, counted on tensors without
values (vidlatents.cost)."""
BYTES_PER_PIXEL = 22 * 1024
"""Memory for each pixel of a picture in float32, measured with Wan2.1's autoencoder."""
WEIGHT_BYTES = {"wan21": 0.6e9, "wan22-5b": 2.9e9}
TEXT_BYTES = 11.4e9
"""The text encoder of Wan in bfloat16: 5.7 thousand million numbers."""
SHAPES = {"wan21": (16, 8), "wan22-5b": (48, 16)}
FIGURES = re.compile(r"-[zs]([0-9]+)")
"""Channels and spatial factor in the name of a model outside these tables, whose operations and weights are not known."""
EMBED_BYTES = 512 * 4096 * 2
TERA_FLOPS_A_SECOND = {"cpu": 0.05, "gpu": 40.0}
"""What a core, and a large GPU, are taken to make of them in float32: rough, for an order of magnitude."""
WINDOW = 33
Bucket = tuple[int, int, int]
"""Frames, height and width of a sample."""
FILES_PER_SAMPLE, FILES_PER_SHARD = 2, 16


@dataclass(frozen=True, slots=True)
class Latents:
    """What latents will take.   unknown : samples whose frames or size nothing tells before they are made.   buckets : (frames, height, width) -> samples."""

    samples: int
    unknown: int
    jobs: int
    tera_flops: float
    peak_bytes: float
    text_bytes: float
    bytes: int
    inodes: int
    buckets: dict[Bucket, int]


def latents_of(config: Config) -> Latents | None:
    """Return what the latents of a run will take; None where the branch is off. Raises DataError (missing_file, bad_table)."""
    latents = config.latents
    if latents is None:
        return None
    uttids, buckets, unknown = _records(latents)
    if latents.events and config.events:
        held = [row["video_id"] for row in read_table(Path(config.events.table), "video_id")]
        uttids, unknown = [*uttids, *held], unknown + len(held)
    if latents.clips and config.clips:
        unknown += 2 * config.clips.count
        uttids += [f"clip {number}" for number in range(2 * config.clips.count)]
    z, spatial = SHAPES.get(latents.model) or map(int, FIGURES.findall(latents.model))
    flops = sum(2 * _windows(latents, frames) * high * wide * TERA_FLOPS.get(latents.model, 0.0) * count for (frames, high, wide), count in buckets.items())
    largest = max((high * wide for _, high, wide in buckets), default=0)
    pictures = min(largest * BYTES_PER_PIXEL, latents.memory_gib * 2**30 or float("inf"))
    size = sum(
        count * (8 * z * _latent_frames(latents, frames) * (high // spatial) * (wide // spatial) + 3 * high * wide + EMBED_BYTES)
        for (frames, high, wide), count in buckets.items()
    )
    shards = len({shard_of(uttid, latents.work_shards) for uttid in uttids})
    tiny = latents.weights == "tiny"
    return Latents(
        len(uttids),
        unknown,
        3 * shards + 3,
        0.0 if tiny else flops,
        0.0 if tiny else pictures + WEIGHT_BYTES.get(latents.model, WEIGHT_BYTES["wan21"]),
        0.0 if tiny else TEXT_BYTES,
        size,
        len(uttids) * FILES_PER_SAMPLE + shards * FILES_PER_SHARD,
        dict(buckets),
    )


def _records(latents: LatentsConfig) -> tuple[list[str], Counter[Bucket], int]:
    """Return the uttids of the records, how many there are of each bucket, and how many do not state theirs. Raises DataError (missing_file)."""
    if not latents.records:
        return [], Counter(), 0
    path = Path(latents.records)
    if not path.is_file():
        raise DataError("missing_file", path, "no such file", "records, one JSON object a line", "correct the path")
    rows = [row for row in read_jsonl(path) if isinstance(row, dict)]
    stated = [tuple(row.get(f"bucket_{name}") for name in ("num_frame", "height", "width")) for row in rows]
    known = Counter((frames, high, wide) for frames, high, wide in stated if type(frames) is type(high) is type(wide) is int)
    return [str(row.get("uttid", number)) for number, row in enumerate(rows)], known, len(rows) - known.total()


def _windows(latents: LatentsConfig, frames: int) -> float:
    return frames // WINDOW if latents.layout == "sections" else frames / WINDOW


def _latent_frames(latents: LatentsConfig, frames: int) -> int:
    return 9 * (frames // WINDOW) if latents.layout == "sections" else 1 + (frames - 1) // 4


def lines(found: Latents, latents: LatentsConfig, disk: Disk, cores: float) -> list[str]:
    """Return an estimate as lines for people."""
    seconds = {name: found.tera_flops / speed for name, speed in TERA_FLOPS_A_SECOND.items()}
    shown = [f"latents   {found.samples:,} samples ({latents.model})", f"jobs      {found.jobs:,}"]
    if found.tera_flops:
        on_cores = hours_text(seconds["cpu"] / max(cores, 1) / 3600)
        shown.append(f"compute   {found.tera_flops:,.0f} TFLOP: about {hours_text(seconds['gpu'] / 3600)} on one large GPU, {on_cores} on {cores:g} cores")
        shown.append(f"memory    {size_text(round(found.peak_bytes))} to encode, {size_text(round(found.text_bytes))} for the text encoder, never both at once")
    shown.append(f"disk      {size_text(found.bytes)}; free at {disk.folder}: {size_text(disk.free_bytes)}")
    if found.unknown:
        shown.append(f"note      {found.unknown:,} samples are not in these figures: their frames are not known yet")
    if latents.weights == "tiny":
        shown.append("note      tiny models: nothing to speak of, and good for tests only")
    if found.bytes > disk.free_bytes:
        shown.append(f"warning   this will not fit on the disk of {disk.folder}")
    return shown
