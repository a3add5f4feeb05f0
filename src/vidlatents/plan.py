"""The plan: every sample looked at before a model is loaded. What is encoded, what is dropped, what a known trainer would ignore, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shardwork.errors import EXIT_BAD_INPUT, EXIT_OK, plain
from shardwork.jsonio import Json
from shardwork.shards import shard_of
from shardwork.step import Fields, quarantined
from vidlatents.buckets import TRAINER_FRAMES, Size, latent_shape, used_frames
from vidlatents.codes import SampleRefused
from vidlatents.read import Probe, place_start, probe_pair
from vidlatents.records import Sample, duplicates, name_of
from vidlatents.stage import item_id

ProbePair = Callable[[Sample], tuple[Probe, Probe]]


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a plan is made for.

    layout : sections or whole.   z, spatial, temporal : of the model.   work_shards : jobs that samples are dealt out to.   trainer_frames : the least
    number of frames that the trainer reads.   trainer_sizes : (height, width) that it reads, none for any: these two only change what is reported.
    start, seed : as of `read.place_start`.
    """

    layout: str = "sections"
    z: int = 16
    spatial: int = 8
    temporal: int = 4
    work_shards: int = 1
    trainer_frames: int = TRAINER_FRAMES
    trainer_sizes: tuple[Size, ...] = ()
    start: str = "first"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found of a set of samples.

    rows : one for each sample, sorted by id: planned (status ok) or refused.   shards : name of a work shard -> its ids.   settings : what it is made for.
    cost : what `cost.cost_of` says of it, or {}.
    """

    rows: tuple[Fields, ...]
    shards: Mapping[str, tuple[str, ...]]
    settings: PlanSettings
    cost: Mapping[str, Json] = field(default_factory=dict)

    @property
    def good(self) -> list[Fields]:
        """Return the rows of samples that can be encoded."""
        return [row for row in self.rows if row["status"] == "ok"]

    @property
    def exit_code(self) -> int:
        """Return 0 where every sample can be encoded, else 2: nothing is started on bad input. What an earlier step refused is no fault of the records."""
        return EXIT_BAD_INPUT if any(row["status"] == "quarantined" for row in self.rows) else EXIT_OK

    def facts(self) -> dict[str, Json]:
        """Return the plan as JSON: totals, buckets, shards and rows. No absolute path is in it."""
        return {
            "buckets": _buckets(self.good),
            "codes": dict(Counter(row["code"] for row in self.rows if row["status"] != "ok")),
            "cost": dict(self.cost),
            "frames": {name: sum(int(row[name]) for row in self.good) for name in ("num_frame", "used", "dropped", "unread")},
            "ignored": dict(Counter(reason for row in self.good for reason in ignored_by_trainer(row, self.settings))),
            "layout": self.settings.layout,
            "refused": len(self.rows) - len(self.good),
            "rows": list(self.rows),
            "samples": len(self.rows),
            "shards": {name: list(ids) for name, ids in self.shards.items()},
        }


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


def same_video(row: Fields) -> bool:
    """Whether a sample's control video is its RGB video, byte by byte: odd, and no fault.   row : with the digests of both, where they are known."""
    return row.get("video_digest") is not None and row["video_digest"] == row.get("control_digest")


def _crop_size(sample: Sample) -> tuple[int, int] | None:
    return (sample.crop[3] - sample.crop[2], sample.crop[1] - sample.crop[0]) if sample.crop else None


def make_plan(
    samples: Sequence[tuple[str, Sample]],
    refused: Iterable[SampleRefused],
    settings: PlanSettings,
    upstream: Iterable[Fields] = (),
    probe: ProbePair = probe_pair,
    said: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Return the plan of samples.

    samples : (where, sample).   refused : records that make none.   upstream : rows of what an earlier step refused.   probe : looks at a pair.
    said : called with each sample's uttid once it is looked at.   Raises OSError where the machine is at fault.
    """
    rows: list[Fields] = [quarantined(item_id(error.where), error) for error in refused]
    rows += [{**row, "id": item_id(str(row["id"]))} for row in upstream]
    twice = {error.where: error for error in duplicates(samples)}
    for where, sample in samples:
        item = item_id(name_of(sample).removesuffix(".pt"))
        if where in twice:
            rows.append(quarantined(f"{item[:80]}_{item_id(where)[-19:]}", twice[where]))  # ids of one name must not meet
            continue
        try:
            row = {**plan_sample(sample, probe(sample), settings), "id": item, "status": "ok", "code": "ok"}
        except SampleRefused as error:
            row = quarantined(item, _named(error, sample, where))
        rows.append(row)
        said(sample.uttid)
    rows.sort(key=lambda row: str(row["id"]))
    shards: dict[str, list[str]] = {}
    for row in rows:
        shards.setdefault(shard_of(str(row.get("uttid") or row.get("where") or row["id"]), settings.work_shards), []).append(str(row["id"]))
    return Plan(tuple(rows), {name: tuple(ids) for name, ids in sorted(shards.items())}, settings)


def _named(error: SampleRefused, sample: Sample, where: str) -> SampleRefused:
    """Return the verdict with the sample's uttid and the record's place in it."""
    path = error.path or Path(sample.video).name
    at = where if error.where in (sample.uttid, where) else f"{where}: {error.where}"
    return SampleRefused(error.code, at, error.found, error.expected, error.hint, sample.uttid, path)


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
    lines = [f"cost: {cost['tera_flops']:,} TFLOP and at most {cost['peak_gib']:g} GiB to encode; counted for the configuration of {cost['config']}"]
    for name, one in cost.get("buckets", {}).items():
        about = "" if one["counted"] else ", scaled from another size"
        lines.append(f"cost of {name}: {one['sections']} sections of {one['section_tera_flops']:g} TFLOP, {one['peak_gib']:g} GiB{about}")
    return lines


def report(plan: Plan, most: int = 20) -> str:
    """Return a plan for people, one fact a line.   most : refused samples that are listed."""
    good, facts = plan.good, plan.facts()
    lines = [f"{len(plan.rows)} samples: {len(good)} to encode, {facts['refused']} refused; {len(plan.shards)} work shards; layout {plan.settings.layout}"]
    for name, bucket in facts["buckets"].items():
        shape = "x".join(map(str, bucket["latent_shape"]))
        lines.append(
            f"bucket {name} (frames x height x width): {bucket['samples']} samples, {bucket['used']} frames used, {bucket['dropped']} dropped; {shape}"
        )
    frames = facts["frames"]
    if frames["dropped"]:
        lines.append(f"{frames['dropped']} of {frames['num_frame']} bucket frames are dropped: they fill no window")
    if unread := sum(int(row["unread"]) for row in good):
        lines.append(f"{unread} frames of videos or cuts lie outside their bucket and are not read")
    words = {
        "frames": f"the public trainer skips files of fewer than {plan.settings.trainer_frames} frames",
        "layout": "the public trainer reads the layout sections alone",
        "size": "the trainer's sizes do not hold theirs",
    }
    lines += [f"{count} samples would be ignored: {words[reason]}" for reason, count in sorted(facts["ignored"].items())]
    if resized := sum(bool(row["resized"]) for row in good):
        lines.append(f"{resized} samples are cut to shape and resized")
    if empty := sum(bool(row["prompt_empty"]) for row in good):
        lines.append(f"{empty} samples have an empty prompt")
    if same := sum(map(same_video, good)):
        lines.append(f"{same} samples have their RGB video for a control video")
    lines += [f"note: {row['uttid']}: {note}" for row in good for note in row["notes"]][:most]
    lines += _cost_lines(plan.cost)
    bad = [row for row in plan.rows if row["status"] == "quarantined"]
    lines += [f"refused: {row['where']}: {row['found']}, expected {row['expected']}: {row['hint']} [{row['code']}]" for row in bad[:most]]
    if len(bad) > most:
        lines.append(f"and {len(bad) - most} more: {dict(sorted(Counter(row['code'] for row in bad).items()))}")
    lines += [f"upstream: {count} samples refused by an earlier step" for count in [sum(row["status"] == "upstream" for row in plan.rows)] if count]
    return "".join(f"{plain(line)}\n" for line in lines)
