"""The plan: every sample looked at before a model is loaded. What is encoded, what is dropped, what a known trainer would ignore, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwork.errors import plain
from shardwork.jsonio import Json
from shardwork.step import Fields
from vidlatents.buckets import TRAINER_FRAMES, Size, latent_shape, used_frames
from vidlatents.read import Probe, place_start
from vidlatents.records import Sample, name_of


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a plan is made for.

    layout : sections or whole.   z, spatial, temporal : of the model.   trainer_frames : the least number of frames that the trainer reads.
    trainer_sizes : (height, width) that it reads, none for any: these two only change what is reported.   start, seed : as of `read.place_start`.
    """

    layout: str = "sections"
    z: int = 16
    spatial: int = 8
    temporal: int = 4
    trainer_frames: int = TRAINER_FRAMES
    trainer_sizes: tuple[Size, ...] = ()
    start: str = "first"
    seed: int = 0


def plan_sample(sample: Sample, probes: tuple[Probe, Probe], settings: PlanSettings) -> Fields:
    """Return what the plan says of one sample whose videos match. Raises SampleRefused (E_FRAMES_4N1, E_WINDOW).

    start : the source frame that is taken first.   used, dropped : frames of the bucket.   unread : frames of the video, or of its cut, that the bucket
    leaves.
    """
    video, _ = probes
    used = used_frames(sample.num_frame, settings.layout, settings.temporal)
    size = (sample.height, sample.width)
    first, end = sample.cut or (0, video.frames)
    begun = place_start(sample, video.frames, settings.start, settings.seed).cut
    high, wide = (sample.crop[3] - sample.crop[2], sample.crop[1] - sample.crop[0]) if sample.crop else (video.height, video.width)
    return {
        "bucket_key": sample.bucket_key,
        "dropped": used.dropped,
        "fps": str(video.fps) if video.fps else None,
        "frames": video.frames,
        "height": sample.height,
        "latent_shape": list(latent_shape(used, settings.layout, settings.z, settings.spatial, size)),
        "name": name_of(sample),
        "notes": notes_of(sample, probes),
        "num_frame": sample.num_frame,
        "prompt_empty": not sample.prompt.strip(),
        "resized": (high, wide) != size,
        "sections": used.sections,
        "source_height": video.height,
        "source_width": video.width,
        "start": begun[0] if begun else 0,
        "unread": end - first - sample.num_frame,
        "used": used.used,
        "uttid": sample.uttid,
        "width": sample.width,
    }


def ignored_by_trainer(row: Fields, settings: PlanSettings) -> list[str]:
    """Return why the public trainer would not read the file of a planned sample: layout, frames, size. Source: the loader of open-gigaai/giga-world-1."""
    reasons = []
    if settings.layout != "sections":
        reasons.append("layout")  # it takes the first axis for sections, and so never finishes a batch
    if row["num_frame"] < settings.trainer_frames:
        reasons.append("frames")
    if settings.trainer_sizes and (row["height"], row["width"]) not in settings.trainer_sizes:
        reasons.append("size")
    return reasons


def notes_of(sample: Sample, probes: tuple[Probe, Probe]) -> list[str]:
    """Return where container or record claim something else than what was decoded. What was decoded is what counts."""
    notes = [
        f"{name}: {one.frames} frames decoded, {one.claimed} stated by the container"
        for name, one in zip(("video", "control"), probes, strict=True)
        if one.claimed not in (None, one.frames)
    ]
    video, record = probes[0], sample.source
    if isinstance(count := record.get("num_frames"), int) and count not in (video.frames, (sample.cut or (0, 0))[1] - (sample.cut or (0, 0))[0]):
        notes.append(f"record: {count} frames stated, {video.frames} decoded")
    size = record.get("resolution")
    if isinstance(size, dict) and (size.get("height"), size.get("width")) not in ((video.height, video.width), _crop_size(sample)):
        notes.append(f"record: {size.get('height')}x{size.get('width')} stated, {video.height}x{video.width} decoded (height x width)")
    fps = record.get("fps")
    if isinstance(fps, int) and abs(fps) > 1e9:
        notes.append("record: a rate stated that no video has")  # nor any float, perhaps
    elif isinstance(fps, int | float) and video.fps and abs(float(video.fps) - fps) > 0.001 * fps:
        notes.append(f"record: {fps:g} frames a second stated, {float(video.fps):g} by the container")
    return notes


def _named_in(row: Fields) -> str:
    """Return where a refusal is, with the sample's uttid where it does not say it: a line of records does not."""
    uttid, where = str(row.get("uttid") or ""), str(row["where"])
    return where if uttid in ("", *where.split(": "), Path(where).stem) else f"{where} ({uttid})"


def same_video(row: Fields) -> bool:
    """Whether a sample's control video is its RGB video, byte by byte: odd, and no fault.   row : with the digests of both, where they are known."""
    return row.get("video_digest") is not None and row["video_digest"] == row.get("control_digest")


def _crop_size(sample: Sample) -> tuple[int, int] | None:
    return (sample.crop[3] - sample.crop[2], sample.crop[1] - sample.crop[0]) if sample.crop else None


def _buckets(rows: Sequence[Fields]) -> dict[str, Json]:
    """Return what each bucket holds, by frames, height and width."""
    groups: dict[tuple[int, int, int], list[Fields]] = {}
    for row in rows:
        groups.setdefault((int(row["num_frame"]), int(row["height"]), int(row["width"])), []).append(row)
    return {
        f"{frames}x{height}x{width}": {"dropped": held[0]["dropped"], "latent_shape": held[0]["latent_shape"], "samples": len(held), "used": held[0]["used"]}
        for (frames, height, width), held in sorted(groups.items())
    }


def _cost_lines(cost: Mapping[str, Json]) -> list[str]:
    if not cost:
        return []
    if "unknown" in cost:
        return [f"cost: not known: {cost['unknown']}"]
    lines = [
        f"cost: {cost['tera_flops']:,} TFLOP and at most {cost['peak_gib']:g} GiB to encode all that pass; counted for the configuration of {cost['config']}"
    ]
    for name, one in cost.get("buckets", {}).items():
        about = "" if one["counted"] else ", scaled from another size"
        lines.append(f"cost of {name}: {one['sections']} sections of {one['section_tera_flops']:g} TFLOP, {one['peak_gib']:g} GiB{about}")
    return lines


def report(rows: Sequence[Fields], settings: PlanSettings, shards: int, cost: Mapping[str, Json] | None = None, most: int = 20) -> str:
    """Return a plan for people, one fact a line. No absolute path is in it.

    rows : of plan_latents.   settings : what it was made for.   shards : how many work shards the rows are of.   cost : what `cost.cost_of` says of it,
    none where nothing was counted.   most : refused samples that are listed.
    """
    good = [row for row in rows if row["status"] == "ok"]
    lines = [f"{len(rows)} samples: {len(good)} pass, {len(rows) - len(good)} refused; {shards} work shards; layout {settings.layout}"]
    for name, bucket in _buckets(good).items():
        shape = "x".join(map(str, bucket["latent_shape"]))
        lines.append(
            f"bucket {name} (frames x height x width): {bucket['samples']} samples, {bucket['used']} frames used, {bucket['dropped']} dropped; {shape}"
        )
    if dropped := sum(int(row["dropped"]) for row in good):
        lines.append(f"{dropped} of {sum(int(row['num_frame']) for row in good)} bucket frames are dropped: they fill no window")
    if unread := sum(int(row["unread"]) for row in good):
        lines.append(f"{unread} frames of videos or cuts lie outside their bucket and are not read")
    words = {
        "frames": f"the public trainer skips files of fewer than {settings.trainer_frames} frames",
        "layout": "the public trainer reads the layout sections alone",
        "size": "the trainer's sizes do not hold theirs",
    }
    ignored = Counter(reason for row in good for reason in ignored_by_trainer(row, settings))
    lines += [f"{count} samples would be ignored: {words[reason]}" for reason, count in sorted(ignored.items())]
    if resized := sum(bool(row["resized"]) for row in good):
        lines.append(f"{resized} samples are cut to shape and resized")
    if empty := sum(bool(row["prompt_empty"]) for row in good):
        lines.append(f"{empty} samples have an empty prompt")
    if same := sum(map(same_video, good)):
        lines.append(f"{same} samples have their RGB video for a control video")
    lines += [f"note: {row['uttid']}: {note}" for row in good for note in row["notes"]][:most]
    lines += _cost_lines(cost or {})
    bad = [row for row in rows if row["status"] == "quarantined"]
    lines += [f"refused: {_named_in(row)}: {row['found']}, expected {row['expected']}: {row['hint']} [{row['code']}]" for row in bad[:most]]
    if len(bad) > most:
        lines.append(f"and {len(bad) - most} more: {dict(sorted(Counter(row['code'] for row in bad).items()))}")
    lines += [f"upstream: {count} samples refused by an earlier step" for count in [sum(row["status"] == "upstream" for row in rows)] if count]
    return "".join(f"{plain(line)}\n" for line in lines)
