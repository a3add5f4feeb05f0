"""What a release says of each video: one row from its table row, its voxel record and its validation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import PurePath
from types import UnionType
from typing import Any, get_args, get_type_hints

from eventvox.annotations import ACTION_FLAGS, CAPTION_FLAGS, check_seconds
from eventvox.keywords import keyword_hits
from eventvox.manifest_settings import ManifestSettings
from eventvox.stage import KEY, STEPS
from shardwork.errors import DataError, Fault
from shardwork.gate import tally
from shardwork.jsonio import Json, dumps, loads
from shardwork.place import Place, the_manifest
from shardwork.step import Fields
from shardwork.tables import Row

DURATION_SOURCE = "src_fmt_dur"


def _means(text: str) -> Any:
    return field(metadata={"meaning": text})


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """One video of a release, in the order of the CSV's columns. Source: EventActivityNet format, "Manifest Fields"; events spec, "Manifests"."""

    video_id: str = _means("id of the video; its file is <split>/<video_id>.h5")
    split: str = _means("train or validation")
    class_label: str = _means("action class, the first if there are several; empty if none is known")
    class_labels: tuple[str, ...] = _means("all distinct action classes, in the order of the annotations")
    duration_seconds: float = _means("duration that buckets are made from")
    duration_source: str = _means("src_fmt_dur: the container's; frames_over_fps where it states none")
    frames_seconds: float = _means("frames / fps")
    duration_bucket: str = _means("short, medium or long")
    event_friendly: bool = _means("whether a caption holds a keyword")
    event_keyword_hits: tuple[str, ...] = _means("keywords found in the captions, in their base form, sorted")
    first_frame_mean: float = _means("mean gray of the first frame, 0 to 1")
    dark_first_frame: bool = _means("whether first_frame_mean is below the setting dark_below")
    fps: float = _means("frames a second, as in the file's attribute")
    fps_num: int = _means("numerator of fps as a fraction")
    fps_den: int = _means("denominator of fps as a fraction")
    frames: int = _means("decoded frames, N")
    frames_reported: int | None = _means("frames that the container claims; missing if it claims none")
    voxels: int = _means("voxels, T")
    height: int = _means("pixels")
    width: int = _means("pixels")
    rotation_deg: int = _means("display rotation that the container asks for, counterclockwise")
    clipped: int = _means("voxel values saturated to int16")
    bytes: int = _means("size of the HDF5 file")
    sha256: str = _means("of the HDF5 file")
    file_xxh3: str = _means("of the HDF5 file too, quicker to take; members of release shards are checked with it")
    values_xxh3: str = _means("digest of the decoded voxel values, equal for equal values however they are compressed")
    annotated_seconds: float | None = _means("duration that the annotations state; missing without annotations")
    timestamps: tuple[tuple[float, float], ...] | None = _means("[start, end] seconds of each caption, as annotated; missing without captions")
    sentences: tuple[str, ...] | None = _means("the captions, as annotated; missing without captions")
    flags: tuple[str, ...] = _means("what is unusual about the video, sorted")


def _kind(annotation: Any) -> str:
    plain = [part for part in get_args(annotation) if part is not type(None)] if isinstance(annotation, UnionType) else [annotation]
    return {str: "text", int: "whole number", float: "number", bool: "truth"}.get(plain[0], "JSON")


KINDS: dict[str, str] = {name: _kind(annotation) for name, annotation in get_type_hints(ManifestRow).items()}
"""Column -> text, whole number, number, truth or JSON (a list; in CSV its JSON text)."""
MEANINGS: dict[str, str] = {entry.name: entry.metadata["meaning"] for entry in fields(ManifestRow)}


def as_record(row: ManifestRow) -> Json:
    """Return a row as JSON has it: lists are lists, what is missing is null."""
    return {name: getattr(row, name) for name in KINDS}


def as_cells(row: ManifestRow) -> Row:
    """Return a row as CSV has it, all text. Text is never missing; a missing number is empty, a missing list is null."""
    return {name: _cell(getattr(row, name), kind) for name, kind in KINDS.items()}


def _cell(value: Any, kind: str) -> str:
    if kind == "text":
        return str(value)
    return "" if value is None and kind != "JSON" else dumps(value)  # numbers and truths as JSON writes them


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What became of the videos. passed : (row of voxelize_events, row of validate_events) by id.   refused : rows with `step`, sorted by id."""

    passed: Mapping[str, tuple[Fields, Fields]]
    refused: tuple[Fields, ...]


def read_verdicts(place: Place, shards: Iterable[str], ids: Sequence[str]) -> Verdicts:
    """Return the verdict of both steps on every video.

    shards : the work shards that hold videos.   ids : the table's.
    Raises Fault: fault_stale for a manifest that is not whole, manifest_mismatch unless each step has one row for each id.
    """
    names = tuple(shards)
    rows = {step: [row for shard in names for row in the_manifest(place, step, shard)] for step in STEPS}
    for step in STEPS:
        if sorted(row["id"] for row in rows[step]) != sorted(ids):
            raise Fault("manifest_mismatch", step, f"{len(rows[step])} rows", f"one for each of the table's {len(ids)} ids", "run the workflow again")
    made = {row["id"]: row for row in rows[STEPS[0]]}
    passed = {row["id"]: (made[row["id"]], row) for row in rows[STEPS[1]] if row["status"] == "ok"}
    refused = tally(rows.items()).refused
    return Verdicts(dict(sorted(passed.items())), tuple({**_counts(made[row["id"]]), **row} for row in refused))


def _counts(made: Fields) -> Fields:
    """Return the frame counts of a voxel file, for a video that a later step refused."""
    return {"frames_reported": made["frames_reported"], "frames_decoded": made["frames"]} if made["status"] == "ok" else {}


def manifest_rows(table: Sequence[Row], verdicts: Verdicts, settings: ManifestSettings) -> list[ManifestRow]:
    """Return the row of every video that passed, sorted by id. Raises DataError (bad_table) for an annotation column that cannot be read."""
    rows = {row[KEY]: row for row in table}
    return [_manifest_row(rows[key], record, validated, settings) for key, (record, validated) in verdicts.passed.items()]


def _manifest_row(row: Row, record: Fields, validated: Fields, settings: ManifestSettings) -> ManifestRow:
    told = _annotation(row)
    frames_seconds = float(Fraction(record["frames"] * record["fps_den"], record["fps_num"]))
    stated = record["duration_seconds"]
    duration = frames_seconds if stated is None else float(stated)
    hits = keyword_hits(told.sentences or (), settings.words)
    return ManifestRow(
        video_id=row[KEY],
        split=row["split"],
        class_label=row.get("class_label", ""),
        class_labels=told.class_labels,
        duration_seconds=duration,
        duration_source="frames_over_fps" if stated is None else DURATION_SOURCE,
        frames_seconds=frames_seconds,
        duration_bucket=settings.bucket(duration),
        event_friendly=bool(hits),
        event_keyword_hits=hits,
        dark_first_frame=record["first_frame_mean"] < settings.dark_below,
        sha256=validated["sha256"],
        annotated_seconds=told.seconds,
        timestamps=told.timestamps,
        sentences=told.sentences,
        flags=tuple(sorted(told.flags | _video_flags(record, duration, told.seconds))),
        **{name: record[name] for name in FROM_RECORD},
    )


FROM_RECORD = (
    *("first_frame_mean", "fps", "fps_num", "fps_den", "frames", "frames_reported", "voxels", "height", "width"),
    *("rotation_deg", "clipped", "bytes", "file_xxh3", "values_xxh3"),
)
"""Columns that stand as they are in the row of voxelize_events."""


def _video_flags(record: Fields, duration: float, annotated: float | None) -> set[str]:
    tests = {
        "annotated_duration_mismatch": annotated is not None and abs(annotated - duration) > max(1.0, duration / 100),
        "clipped": record["clipped"] > 0,
        "decode_errors": record["decode_errors"] > 0,
        "duration_mismatch": record["duration_mismatch"],
        "fps_not_opencv": record["fps_source"] != "opencv",
        "gaps": bool(record["gaps"]),
        "no_container_duration": record["duration_seconds"] is None,
        "rotated": record["rotation_deg"] != 0,
        "variable_rate": record["variable_rate"],
    }
    return {flag for flag, holds in tests.items() if holds}


@dataclass(frozen=True, slots=True)
class _Annotation:
    """The annotation columns of a table row."""

    class_labels: tuple[str, ...]
    seconds: float | None
    timestamps: tuple[tuple[float, float], ...] | None
    sentences: tuple[str, ...] | None
    flags: set[str]


def _annotation(row: Row) -> _Annotation:
    label, labels, seconds, captions = (row.get(name, "") for name in ("class_label", "class_labels", "annotated_seconds", "captions"))
    flags = set(row.get("annotation_flags", "").split())
    try:
        if unknown := flags - CAPTION_FLAGS.keys() - ACTION_FLAGS.keys():
            raise ValueError(f"annotation_flags holds {min(unknown)!r}")
        where = row[KEY]
        told = [(check_seconds(start, where), check_seconds(end, where), _words(text)) for start, end, text in _list(captions)] if captions else None
        return _Annotation(
            class_labels=tuple(_words(word) for word in _list(labels)) if labels else (_words(label),) if label else (),
            seconds=check_seconds(loads(seconds), where) if seconds else None,
            timestamps=None if told is None else tuple((start, end) for start, end, _ in told),
            sentences=None if told is None else tuple(sentence for _, _, sentence in told),
            flags=flags,
        )
    except (DataError, TypeError, ValueError) as error:
        where, expected = f"video table: {row[KEY]!r}", "annotation columns as make_video_table writes them"
        raise DataError("bad_table", where, str(error), expected, "make the table again with --captions and --actions") from error


def _list(text: str) -> list[Json]:
    found = loads(text)
    if not isinstance(found, list):
        raise TypeError(f"{text[:40]!a} is no list")
    return found


def _words(value: Json) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError(f"{value!a} is no text")
    value.encode()  # half a surrogate pair is no text either
    return value


QUARANTINE_COLUMNS = (KEY, "reason", "step", "frames_reported", "frames_decoded", "where", "found", "expected", "hint")


def quarantine_cells(refused: Fields) -> Row:
    """Return the row of a refused video as CSV has it.

    A count that is not known is empty. File times and the folders of an absolute path are left out: they say something of the machine alone.
    """
    counts = {name: "" if refused.get(name) is None else str(refused[name]) for name in ("frames_reported", "frames_decoded")}
    where = PurePath(refused["where"])
    texts = {name: re.sub(r", time -?\d+", "", refused[name]) for name in ("found", "expected", "hint")}
    return {
        KEY: refused["id"],
        "reason": refused["code"],
        "step": refused["step"],
        "where": where.name if where.is_absolute() else refused["where"],
        **counts,
        **texts,
    }
