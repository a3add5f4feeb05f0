"""Captions and action labels of a video collection, joined to a video table by id. Nothing is repaired or dropped: what is odd gets a flag."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eventvox.codes import HINTS
from eventvox.stage import KEY
from shardwork.errors import DataError
from shardwork.jsonio import Json, dumps, loads
from shardwork.tables import Row

CAPTION_FLAGS: dict[str, str] = {
    "caption_blank": "a caption holds nothing but blanks",
    "caption_blank_edges": "a caption begins or ends with a blank",
    "caption_line_break": "a caption holds a line break",
    "caption_negative": "a caption begins before 0 s",
    "caption_past_end": "a caption ends after the duration that its file states",
    "caption_reversed": "a caption ends before it begins",
    "caption_zero_length": "a caption ends when it begins",
    "no_captions": "the caption files do not know the video, or have no caption of it",
    "several_caption_files": "more than one file has captions of the video; all stand in a row, in the order of the files",
}
ACTION_FLAGS: dict[str, str] = {
    "duration_disagrees": "captions and actions state durations more than 0.1 s apart",
    "no_label": "the action files do not know the video, or have no label for it",
    "segment_past_end": "an action ends after the duration that its file states",
    "segment_reversed": "an action ends before it begins",
    "several_labels": "the video has more than one distinct label",
}
DURATION_TOLERANCE_SECONDS = 0.1
# In the public files, 14,357 videos with both: half of the captions' durations are the actions' rounded to 0.01 s, one differs by more than 0.1 s.
PREFIX = "v_"
LONGEST_SECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Captions:
    """The captions of one video. captions : (start seconds, end seconds, sentence), as the source has them.   flags : of CAPTION_FLAGS."""

    duration_seconds: float
    captions: tuple[tuple[float, float, str], ...]
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of one video. labels : the distinct ones, in the order of the file.   flags : of ACTION_FLAGS."""

    duration_seconds: float
    labels: tuple[str, ...]
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Joined:
    """A video table with its annotations.

    rows : the rows given, annotation columns filled in.   flags : how many rows have each flag.   matched, prefixed : ids found, and of these
    the ones found only with `v_` put before or taken off.   without : ids that no file knows.   unused : annotated ids without a video.
    """

    rows: tuple[Row, ...]
    flags: Mapping[str, int]
    matched: int
    prefixed: tuple[str, ...]
    without: tuple[str, ...]
    unused: tuple[str, ...]


def read_captions(paths: Sequence[Path]) -> dict[str, Captions]:
    """Return the captions of each id in files of ActivityNet Captions' form: {id: {duration, timestamps, sentences}}, plain or gzip.

    Raises DataError (bad_annotations, bad_json).
    """
    found: dict[str, Captions] = {}
    for path, records in _each_file(paths):
        for key, record in records.items():
            new = _captions(record, f"{path}: {key!r}")
            if (old := found.get(key)) is not None:
                new = Captions(old.duration_seconds, old.captions + new.captions, old.flags | new.flags | {"several_caption_files"})
            found[key] = new
    return {key: Captions(it.duration_seconds, it.captions, it.flags | ({"no_captions"} if not it.captions else set())) for key, it in found.items()}


def read_actions(path: Path) -> dict[str, Actions]:
    """Return the actions of each id, ids with `v_`.

    path : plain or gzip, either {id: {duration_second, annotations}} or ActivityNet v1.3's {"database": {id without v_: {duration, annotations}}}.
    Raises DataError (bad_annotations, bad_json).
    """
    ((_, records),) = _each_file([path])
    if isinstance(records.get("database"), dict):
        return {PREFIX + key: _actions(record, "duration", f"{path}: {key!r}") for key, record in records["database"].items()}
    return {key: _actions(record, "duration_second", f"{path}: {key!r}") for key, record in records.items()}


def _each_file(paths: Sequence[Path]) -> Iterable[tuple[Path, dict[str, Json]]]:
    """Yield each file with the object in it. A file that is named twice would double its captions."""
    for index, path in enumerate(paths):
        if path.resolve() in (other.resolve() for other in paths[:index]):
            raise DataError("bad_argument", path, "the file is named twice", "each file once", "take it out once")
        try:
            data = path.read_bytes()
            data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        except (OSError, EOFError, zlib.error) as error:
            raise _bad(path, f"cannot be read ({error})", "a JSON file, plain or gzip") from error
        records = loads(data, path)
        if not isinstance(records, dict):
            raise _bad(path, f"a {type(records).__name__}", "an object with an entry for each video")
        yield path, records


def _bad(where: object, found: str, expected: str) -> DataError:
    return DataError("bad_annotations", where, found, expected, HINTS["bad_annotations"])


def _captions(record: Json, where: str) -> Captions:
    duration = check_seconds(_part(record, "duration", where), f"{where}: duration")
    times, sentences = _part(record, "timestamps", where), _part(record, "sentences", where)
    if not isinstance(times, list) or not isinstance(sentences, list) or len(times) != len(sentences):
        raise _bad(where, "timestamps and sentences that do not pair", "two lists of one length")
    captions = tuple(
        (*_interval(interval, f"{where}: timestamps"), _text(sentence, f"{where}: sentences")) for interval, sentence in zip(times, sentences, strict=True)
    )
    return Captions(duration, captions, frozenset(flag for caption in captions for flag in _caption_flags(*caption, duration)))


def _caption_flags(start: float, end: float, sentence: str, duration: float) -> Iterable[str]:
    tests = {
        "caption_blank": not sentence.strip(),
        "caption_blank_edges": sentence.strip() not in ("", sentence),
        "caption_line_break": len(f"{sentence}.".splitlines()) > 1,
        "caption_negative": start < 0,
        "caption_past_end": end > duration,
        "caption_reversed": end < start,
        "caption_zero_length": end == start,
    }
    return (flag for flag, holds in tests.items() if holds)


def _actions(record: Json, duration_key: str, where: str) -> Actions:
    duration = check_seconds(_part(record, duration_key, where), f"{where}: {duration_key}")
    labels: dict[str, None] = {}
    flags = set()
    entries = _part(record, "annotations", where)
    if not isinstance(entries, list):
        raise _bad(f"{where}: annotations", f"a {type(entries).__name__}", "a list")
    for entry in entries:
        start, end = _interval(_part(entry, "segment", where), f"{where}: segment")
        labels[_label(_part(entry, "label", where), f"{where}: label")] = None
        flags |= {"segment_past_end"} if end > duration else set()
        flags |= {"segment_reversed"} if end < start else set()
    flags |= {"no_label"} if not labels else set()
    flags |= {"several_labels"} if len(labels) > 1 else set()
    return Actions(duration, tuple(labels), frozenset(flags))


def _part(record: Json, key: str, where: str) -> Json:
    if not isinstance(record, dict) or key not in record:
        raise _bad(where, f"no {key}", "duration, timestamps and sentences, or duration and annotations with segment and label")
    return record[key]


def check_seconds(value: Json, where: str) -> float:
    """Return a number as it is: 0 stays 0, so that it is written as the source has it. Raises DataError (bad_annotations).

    Numbers too small for the usual precision are refused: readers do not agree on them, and no video is that short.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LONGEST_SECONDS < value < LONGEST_SECONDS or 0 < abs(value) < 1e-300:
        raise _bad(where, repr(value), "a number of seconds")
    return value


def _interval(value: Json, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise _bad(where, repr(value), "[start seconds, end seconds]")
    return check_seconds(value[0], where), check_seconds(value[1], where)


def _text(value: Json, where: str) -> str:
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise _bad(where, repr(value), "Unicode text")
    return value


def _label(value: Json, where: str) -> str:
    """Return a label: text that is not empty, since an empty class_label means none, and without NUL, which ends a value for some CSV readers."""
    if not _text(value, where) or "\0" in value:
        raise _bad(where, repr(value), "a label")
    return str(value)


def join_annotations(rows: Sequence[Row], captions: Mapping[str, Captions] | None, actions: Mapping[str, Actions] | None) -> Joined:
    """Return the rows with what is known of each id. The id itself stays as the table has it.

    rows : of a video table.   captions, actions : what was read; None leaves the columns of that kind as they are.
    An annotated id belongs to the row of that id, else to the one row that has it without (or with one more) `v_`.
    """
    known = {**(captions or {}), **(actions or {})}
    ids = {row[KEY] for row in rows}
    names = {row[KEY]: _annotated_name(row[KEY], known, ids) for row in rows}
    joined = [_joined_row(row, names[row[KEY]], captions, actions) for row in rows]
    used = {name for name in names.values() if name is not None}
    return Joined(
        rows=tuple(joined),
        flags=dict(sorted(Counter(flag for row in joined for flag in row["annotation_flags"].split()).items())),
        matched=len(used),
        prefixed=tuple(sorted(key for key, name in names.items() if name not in (None, key))),
        without=tuple(sorted(key for key, name in names.items() if name is None)),
        unused=tuple(sorted(known.keys() - used)),
    )


def _annotated_name(video_id: str, known: Mapping[str, object], ids: set[str]) -> str | None:
    """Return the id under which the annotations know a video. YouTube's own ids may begin with v_ too: v_v_UmAH95xls is a real one."""
    if video_id in known:
        return video_id
    near = [PREFIX + video_id, *([video_id.removeprefix(PREFIX)] if video_id.startswith(PREFIX) else [])]
    return next((name for name in near if name in known and name not in ids), None)


def _joined_row(row: Row, name: str | None, captions: Mapping[str, Captions] | None, actions: Mapping[str, Actions] | None) -> Row:
    fields = {column: row.get(column, "") for column in ("class_label", "class_labels", "annotated_seconds", "captions")}
    flags = set(row.get("annotation_flags", "").split())
    if captions is not None:
        told = captions.get(name) if name else None
        flags = (flags - CAPTION_FLAGS.keys()) | (told.flags if told else {"no_captions"})
        fields["captions"] = dumps([list(caption) for caption in told.captions]) if told else ""
        fields["annotated_seconds"] = repr(told.duration_seconds) if told else fields["annotated_seconds"] if actions is None else ""
    if actions is not None:
        acts = actions.get(name) if name else None
        flags = (flags - ACTION_FLAGS.keys()) | (acts.flags if acts else {"no_label"})
        fields["class_label"] = acts.labels[0] if acts and acts.labels else ""
        fields["class_labels"] = dumps(list(acts.labels)) if acts and len(acts.labels) > 1 else ""
        fields["annotated_seconds"] = fields["annotated_seconds"] or (repr(acts.duration_seconds) if acts else "")
        if acts and abs(acts.duration_seconds - float(fields["annotated_seconds"])) > DURATION_TOLERANCE_SECONDS:
            flags.add("duration_disagrees")
    return {**row, **fields, "annotation_flags": " ".join(sorted(flags))}
