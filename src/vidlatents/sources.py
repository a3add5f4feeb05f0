"""Samples from this pipeline's own control videos: of events, and of clips. Standard library alone: frames and sizes come from the manifests' rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwork.errors import DataError, Fault
from shardwork.jsonio import Json, loads
from shardwork.step import Fields, upstream
from shardwork.tables import Row
from vidlatents.buckets import Size, native_part, nearest_size, own_frames, own_layout
from vidlatents.codes import SampleRefused
from vidlatents.records import RecordSettings, Sample, check_uttid

CLIP_KINDS = ("depth", "mask")
CONTROL_STEPS = {"events": "render_event_controls", "clips": "render_clip_controls"}


@dataclass(frozen=True, slots=True)
class Own:
    """Samples of this pipeline's own.

    samples : (uttid, sample).   upstream : rows of what an earlier step refused.   refused : what makes no sample.
    elsewhere : uttids that belong to the other layout's folder.
    """

    samples: tuple[tuple[str, Sample], ...]
    upstream: tuple[Fields, ...]
    refused: tuple[SampleRefused, ...]
    elsewhere: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A pair of videos and what its manifest rows say.   frames, height, width : of both videos.   about : goes into `source`."""

    uttid: str
    video: Path
    control: Path
    prompt: str
    frames: int
    height: int
    width: int
    about: Mapping[str, Json]


def event_samples(rows: Iterable[Row], table: Path, controls: Sequence[Fields], folder: Path, settings: RecordSettings, sizes: Sequence[Size] = ()) -> Own:
    """Return the samples of videos and the control videos of their events.

    rows : of the video table; captions of a video are its prompt.   table : where it stands.   controls : rows of the shard manifests of
    render_event_controls.   folder : results/<run>/controls/events.   sizes : (height, width) allowed, the nearest is taken; none: the video's own,
    cut to multiples of the model's factor.   Raises Fault (fault_stale) for a video without a row of controls.
    """
    made = {str(row["id"]): row for row in controls}
    found: list[_Found | Fields] = []
    for row in rows:
        video_id = row["video_id"]
        if (control := made.get(video_id)) is None:
            raise without_row(video_id, CONTROL_STEPS["events"])
        if control["status"] != "ok":
            found.append(upstream(control, CONTROL_STEPS["events"]))
            continue
        about = {"origin": "events", "split": row["split"], "video_id": video_id}
        frames, height, width = (int(control[name]) for name in ("frames", "height", "width"))
        pair = table.parent / row["path"], folder / f"{video_id}.mkv"
        found.append(_Found(video_id, *pair, captions_of(row), frames, height, width, about))
    return _own(found, settings, sizes)


def clip_samples(
    clips: Sequence[Fields],
    controls: Sequence[Fields],
    dataset: Path,
    folder: Path,
    settings: RecordSettings,
    split: str,
    sizes: Sequence[Size] = (),
    kinds: Sequence[str] = CLIP_KINDS,
) -> Own:
    """Return the samples of rendered clips, one for each kind of control video: <split>_<clip_id>_<kind>.

    clips, controls : rows of the shard manifests of composite_clips and render_clip_controls.   dataset : results/<run>/dataset.
    folder : results/<run>/controls/clips.   split : of all these clips.   sizes : as of `event_samples`.   The prompt is a sentence made from the ids of a
    clip's assets, which are all that a clip knows of their names.   Raises Fault (fault_stale) for a control video without a row of its clip.
    """
    records = {str(row["id"]): row for row in clips}
    found: list[_Found | Fields] = []
    for row in controls:
        clip_id = str(row["id"])
        if row["status"] != "ok":
            found += [{**upstream(row, CONTROL_STEPS["clips"]), "id": clip_uttid(split, clip_id, kind)} for kind in kinds]
            continue
        if (clip := records.get(clip_id)) is None:
            raise without_row(clip_id, "composite_clips")
        assets = [str(asset) for asset in clip["assets"]]
        frames, height, width = (int(row[name]) for name in ("frames", "height", "width"))
        for kind in kinds:
            about = {"origin": "clips", "split": split, "clip_id": clip_id, "kind": kind, "assets": assets}
            video, control = dataset / "clips" / split / clip_id / "rgb", folder / split / f"{clip_id}.{kind}.mkv"
            prompt = sentence_of(assets)
            found.append(_Found(clip_uttid(split, clip_id, kind), video, control, prompt, frames, height, width, about))
    return _own(found, settings, sizes)


def without_row(item: str, step: str) -> Fault:
    """Return the fault of a member that the shard manifest of an earlier step does not name: it is another table's, or was cut short by hand."""
    return Fault("fault_stale", item, f"no row of {step}", "a row for every member", "run the workflow again: the manifest is made anew")


def clip_uttid(split: str, clip_id: str, kind: str) -> str:
    """Return the uttid of a clip and one kind of its control videos."""
    return f"{split}_{clip_id}_{kind}"


def captions_of(row: Row) -> str:
    """Return the captions of a row of the video table, one after the other, or "" for none. Raises DataError (bad_table)."""
    text = row.get("captions", "")
    try:
        return " ".join(str(sentence) for _, _, sentence in loads(text)) if text else ""
    except (DataError, TypeError, ValueError) as error:
        expected = "a list of [start, end, sentence]"
        raise DataError("bad_table", row["video_id"], f"captions: {error}"[:200], expected, "make the table again with --captions") from error


def sentence_of(names: Sequence[str]) -> str:
    """Return a sentence made from the names of a clip's objects: "A red bowl, a plate and an old cup."."""
    words = [" ".join(name.replace("_", " ").replace("-", " ").split()) for name in names]
    things = [f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}" for word in words if word]
    if not things:
        return ""
    text = f"{', '.join(things[:-1])} and {things[-1]}" if len(things) > 1 else things[0]
    return text[0].upper() + text[1:] + "."


def _own(found: Iterable[_Found | Fields], settings: RecordSettings, sizes: Sequence[Size]) -> Own:
    samples, before, refused, elsewhere = [], [], [], []
    for one in found:
        if not isinstance(one, _Found):
            before.append(one)
        elif _belongs(one, settings.layout):
            try:
                samples.append((one.uttid, _sample(one, settings, sizes)))
            except SampleRefused as error:
                refused.append(error)
        else:
            elsewhere.append(one.uttid)
    return Own(tuple(samples), tuple(before), tuple(refused), tuple(elsewhere))


def _belongs(one: _Found, layout: str) -> bool:
    return own_layout(one.frames) == layout


def _sample(one: _Found, settings: RecordSettings, sizes: Sequence[Size]) -> Sample:
    uttid = check_uttid(one.uttid, one.uttid)
    if not one.prompt and settings.missing_prompt == "error":
        raise SampleRefused("E_PROMPT_MISSING", uttid, "no captions", "captions in the video table", uttid=uttid)
    frames = own_frames(one.frames, settings.layout, settings.temporal, settings.frame_buckets)
    if frames is None:
        raise SampleRefused("E_FRAMES_SHORT", uttid, f"{one.frames} frames", "at least 1", uttid=uttid)
    crop = None
    if sizes:
        height, width = nearest_size(one.height, one.width, sizes)
    else:
        if (crop := native_part(one.height, one.width, settings.spatial)) is None:
            raise SampleRefused("E_MULTIPLE", uttid, f"{one.height}x{one.width} (height x width)", f"at least {settings.spatial} pixels each way", uttid=uttid)
        height, width = crop[3] - crop[2], crop[1] - crop[0]
    return Sample(uttid, one.video, one.control, one.prompt, f"{height}x{width}x{frames}", frames, height, width, (0, one.frames), crop, dict(one.about))
