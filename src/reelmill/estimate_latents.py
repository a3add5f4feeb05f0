"""What the latents of a run will take, from records, tables and the configuration alone: no video is opened and no model loaded.

The rules of buckets and the figures of models are those of vidlatents, which this library must not import: a test (test_estimate_latents.py) compares them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from reelmill.config import Config, LatentsConfig
from reelmill.estimate import HEADER_COLUMNS
from reelmill.estimate import hours as hours_text
from reelmill.estimate import size as size_text
from reelmill.machine import Disk
from shardwork.errors import DataError
from shardwork.jsonio import Json, loads, read_jsonl
from shardwork.shards import shard_of
from shardwork.tables import Row, read_table, whole_number

TERA_FLOPS = {"wan21": 157 / (480 * 1920), "wan22-5b": 108 / (480 * 1920)}
"""Operations for a pixel of a window of 33 frames, in units of 10^12: what 33 x 480 x 1920 take with the released autoencoders, counted on tensors without
values (vidlatents.cost)."""
BYTES_PER_PIXEL = 22 * 1024
"""Memory for each pixel of a picture in float32, measured with Wan2.1's autoencoder."""
WEIGHT_BYTES = {"wan21": 0.5e9, "wan22-5b": 2.8e9}
TEXT_BYTES = 11.4e9
"""The text encoder of Wan in bfloat16: 5.7 thousand million numbers."""
SHAPES = {"wan21": (16, 8, 4), "wan22-5b": (48, 16, 4)}
"""Kind -> channels of a latent, pixels of one latent value each way, and frames of one latent frame after the first."""
FIGURES = re.compile(r"-[zst]([0-9]+)")
"""The same in the name of a model outside these tables, whose operations and weights are not known."""
EMBED_VALUES = 512 * 4096
EMBED_BYTES = {"bfloat16": 2 * EMBED_VALUES, "float32": 4 * EMBED_VALUES}
TERA_FLOPS_A_SECOND = {"cpu": 0.05, "gpu": 40.0}
"""What a core, and a large GPU, are taken to make of them in float32: rough, for an order of magnitude."""
WINDOW = 33
LAYOUTS = ("sections", "whole")
STEPS_PER_SHARD, STEPS_PER_FOLDER = 3, 2
"""plan, encode and verify; the report on the plan, and the manifest."""
Bucket = tuple[str, int, int, int]
"""Layout; frames, height and width of a sample."""
FILES_PER_SAMPLE, FILES_PER_SHARD = 2, 16


@dataclass(frozen=True, slots=True)
class Latents:
    """What latents will take.

    unknown : samples whose frames or size nothing tells before they are made.   buckets : what a sample is -> how many there are.   unread : frames of
    videos and cuts beyond their buckets, as far as they are stated.   ignored : samples that the public trainer would not read.
    unstated : samples of a known bucket of whose video nothing says how many frames it has.
    """

    samples: int
    unknown: int
    jobs: int
    tera_flops: float
    peak_bytes: float
    text_bytes: float
    bytes: int
    inodes: int
    buckets: dict[Bucket, int]
    unread: int = 0
    ignored: int = 0
    unstated: int = 0


@dataclass(slots=True)
class _Seen:
    """What was found.   uttids : layout -> those that its work shards are made of."""

    uttids: dict[str, list[str]] = field(default_factory=lambda: {layout: [] for layout in LAYOUTS})
    buckets: Counter[Bucket] = field(default_factory=Counter)
    samples: int = 0
    unread: int = 0
    unstated: int = 0

    def add(self, bucket: Bucket | None, frames: int | None, count: int = 1) -> None:
        """Note samples of a bucket, or of none that is known.   frames : of the video or its cut, None where nothing says it."""
        self.samples += count
        if bucket:
            self.buckets[bucket] += count
            if frames is None:
                self.unstated += count
            else:
                self.unread += count * (frames - bucket[1])


def latents_of(config: Config) -> Latents | None:
    """Return what the latents of a run will take; None where the branch is off. Raises DataError (missing_file, bad_table)."""
    latents = config.latents
    if latents is None:
        return None
    seen = _Seen()
    _records(latents, seen)
    if latents.events and config.events:
        _events(latents, Path(config.events.table), seen)
    if latents.clips and config.clips:
        clips = config.clips
        names = [f"{clips.split}_{clips.first + number:08d}_{kind}" for number in range(clips.count) for kind in ("depth", "mask")]
        seen.uttids["sections" if clips.frames >= WINDOW else "whole"] += names
        seen.add(own_bucket(latents, clips.frames, clips.size, clips.size), clips.frames, len(names))
    z, spatial, temporal = shape_of(latents)
    embed = EMBED_BYTES[latents.text_dtype]
    tera = TERA_FLOPS.get(latents.model, 0.0)
    flops = sum(2 * _windows(layout, frames) * high * wide * tera * count for (layout, frames, high, wide), count in seen.buckets.items())
    largest = max((high * wide for _, _, high, wide in seen.buckets), default=0)
    pictures = min(largest * BYTES_PER_PIXEL, latents.memory_gib * 2**30 or float("inf"))
    size = sum(
        count * (8 * z * _latent_frames(layout, frames, temporal) * (high // spatial) * (wide // spatial) + 3 * high * wide + embed)
        for (layout, frames, high, wide), count in seen.buckets.items()
    )
    shards = {layout: len({shard_of(uttid, latents.work_shards) for uttid in uttids}) for layout, uttids in seen.uttids.items() if uttids}
    tiny = "tiny" in (latents.weights, latents.text_encoder)
    random = latents.weights == "tiny"
    return Latents(
        seen.samples,
        seen.samples - seen.buckets.total(),
        STEPS_PER_SHARD * sum(shards.values()) + STEPS_PER_FOLDER * len(shards) + 1 + tiny,
        0.0 if random else flops,
        0.0 if random else pictures + WEIGHT_BYTES.get(latents.model, WEIGHT_BYTES["wan21"]),
        0.0 if latents.text_encoder == "tiny" or (random and not latents.text_encoder) else TEXT_BYTES * (2 if latents.text_dtype == "float32" else 1),
        size,
        seen.samples * FILES_PER_SAMPLE + sum(shards.values()) * FILES_PER_SHARD,
        dict(seen.buckets),
        seen.unread,
        sum(count for bucket, count in seen.buckets.items() if _is_ignored(latents, bucket)),
        seen.unstated,
    )


def _is_ignored(latents: LatentsConfig, bucket: Bucket) -> bool:
    layout, frames, high, wide = bucket
    return layout != "sections" or frames < latents.trainer_frames or bool(latents.trainer_sizes and (high, wide) not in sizes_of(latents.trainer_sizes))


def sizes_of(text: str) -> list[tuple[int, int]]:
    """Return the (height, width) of words such as 480x1920."""
    return [(int(high), int(wide)) for high, _, wide in (word.partition("x") for word in text.split())]


def _nearest(high: int, wide: int, text: str) -> tuple[int, int]:
    """Return the size whose shape is nearest, the last of equal ones."""
    return min(reversed(sizes_of(text)), key=lambda size: abs(high * size[1] - wide * size[0]))


def shape_of(latents: LatentsConfig) -> tuple[int, int, int]:
    """Return the channels of a latent, the pixels of one latent value each way, and the frames of one latent frame after the first."""
    z, spatial, temporal = SHAPES.get(latents.model) or map(int, FIGURES.findall(latents.model))
    return z, spatial, temporal


def own_bucket(latents: LatentsConfig, frames: int, high: int, wide: int) -> Bucket | None:
    """Return what a video of the run's own becomes; None for one that becomes nothing."""
    _, spatial, temporal = shape_of(latents)
    high, wide = _nearest(high, wide, latents.own_sizes) if latents.own_sizes else (high // spatial * spatial, wide // spatial * spatial)
    if frames < 1 or not high or not wide:
        return None
    if frames < WINDOW:
        return "whole", (frames - 1) // temporal * temporal + 1, high, wide
    return "sections", max((one for one in map(int, latents.frame_buckets.split()) if WINDOW <= one <= frames), default=WINDOW), high, wide


def _events(latents: LatentsConfig, table: Path, seen: _Seen) -> None:
    """Note the videos of the table: their events make a work shard of both layouts, since their frames are only known once they are made."""
    for row in read_table(table, "video_id"):
        for uttids in seen.uttids.values():
            uttids.append(row["video_id"])
        wide, high, frames = (_stated(row, name, table) for name in HEADER_COLUMNS)
        seen.add(own_bucket(latents, frames, high, wide), frames)


def _stated(row: Row, column: str, table: Path) -> int:
    return whole_number(row, column, f"{table}: {row['video_id']!r}") if row.get(column) else 0


def _records(latents: LatentsConfig, seen: _Seen) -> None:
    """Note the records. Raises DataError (missing_file, bad_table)."""
    if not latents.records:
        return
    path = Path(latents.records)
    if not path.is_file():
        raise DataError("missing_file", path, "no such file", "records, one JSON object a line", "correct the path")
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    rows = loads(data.decode(errors="replace"), path) if path.suffix == ".json" and data.lstrip()[:1] == b"[" else read_jsonl(path)
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            bucket, frames = record_bucket(latents, row)
            uttid = row.get("uttid")
            seen.uttids[latents.layout].append(uttid if isinstance(uttid, str) else _derived(row) or f"{path.name}:{number + 1}")
            seen.add(bucket, frames)


def _derived(row: dict[str, Json]) -> str | None:
    path, cut = row.get("path"), _whole(row.get("cut"), 2)
    if not isinstance(path, str) or not cut:
        return None
    name = path.rpartition("/")[2]
    return f"{name.replace('.mp4', '') if '.mp4' in name else Path(name).stem}_{cut[0]}-{cut[1]}"


def _whole(values: Json, count: int) -> list[int] | None:
    """Return a list of so many whole numbers, or None for anything else."""
    return values if isinstance(values, list) and len(values) == count and all(type(value) is int for value in values) else None


def record_bucket(latents: LatentsConfig, row: dict[str, Json]) -> tuple[Bucket | None, int | None]:
    """Return what a record becomes, as far as it says, and the frames of its cut or video, None where it does not say."""
    stated = _whole([row.get(f"bucket_{name}") for name in ("num_frame", "height", "width")], 3)
    cut, crop, size = _whole(row.get("cut"), 2), _whole(row.get("crop"), 4), row.get("resolution")
    frames = [cut[1] - cut[0]] if cut else _whole([row.get("num_frames")], 1)
    if stated:
        return (latents.layout, stated[0], stated[1], stated[2]), frames[0] if frames else None
    shape = [crop[3] - crop[2], crop[1] - crop[0]] if crop else _whole([size.get("height"), size.get("width")], 2) if isinstance(size, dict) else None
    bucket = max((one for one in map(int, latents.frame_buckets.split()) if frames and one <= frames[0]), default=None)
    if not (frames and shape and bucket):
        return None, None
    return (latents.layout, bucket, *_nearest(shape[0], shape[1], latents.sizes)), frames[0]


def _windows(layout: str, frames: int) -> float:
    return frames // WINDOW if layout == "sections" else frames / WINDOW


def _latent_frames(layout: str, frames: int, temporal: int) -> int:
    return frames // WINDOW * (1 + (WINDOW - 1) // temporal) if layout == "sections" else 1 + (frames - 1) // temporal


def used_of(buckets: dict[Bucket, int]) -> tuple[int, int]:
    """Return how many frames of buckets are encoded, and how many dropped because they fill no window."""
    used = sum(count * (frames // WINDOW * WINDOW if layout == "sections" else frames) for (layout, frames, _, _), count in buckets.items())
    return used, sum(count * bucket[1] for bucket, count in buckets.items()) - used


def _beyond(found: Latents) -> str:
    """Return what is known of the frames beyond buckets: nothing where no record states its video's."""
    if not found.unstated:
        return f", {found.unread:,} beyond buckets not read"
    if found.unstated == sum(found.buckets.values()):
        return ""
    return f", {found.unread:,} beyond buckets not read of the samples whose videos' frames are stated ({found.unstated:,} are not)"


def lines(found: Latents, latents: LatentsConfig, disk: Disk, cores: float) -> list[str]:
    """Return an estimate as lines for people."""
    seconds = {name: found.tera_flops / speed for name, speed in TERA_FLOPS_A_SECOND.items()}
    shown = [f"latents   {found.samples:,} samples ({latents.model})", f"jobs      {found.jobs:,}"]
    if found.buckets:
        used, dropped = used_of(found.buckets)
        shown.append(f"frames    {used:,} encoded of each video and its control, {dropped:,} dropped that fill no window{_beyond(found)}")
    if found.ignored:
        shown.append(f"note      {found.ignored:,} samples would be ignored by the public trainer: its frames, size or layout")
    if found.tera_flops:
        on_cores = hours_text(seconds["cpu"] / max(cores, 1) / 3600)
        shown.append(f"compute   {found.tera_flops:,.0f} TFLOP: about {hours_text(seconds['gpu'] / 3600)} on one large GPU, {on_cores} on {cores:g} cores")
        shown.append(f"memory    {size_text(round(found.peak_bytes))} to encode, {size_text(round(found.text_bytes))} for the text encoder, never both at once")
    shown.append(f"disk      {size_text(found.bytes)}; free at {disk.folder}: {size_text(disk.free_bytes)}")
    if found.unknown:
        shown.append(f"note      {found.unknown:,} samples are not in these figures: their frames or size are not known yet")
    if found.samples > found.unknown:
        shown.append(
            "note      what tables and records state, with what will be refused (no prompt, no fitting video); `snakemake latents_plan` looks at the videos"
        )
    if latents.weights == "tiny":
        shown.append("note      tiny models: nothing to speak of, and good for tests only")
    if found.bytes > disk.free_bytes:
        shown.append(f"warning   this will not fit on the disk of {disk.folder}")
    return shown
