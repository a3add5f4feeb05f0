"""Records: one sample each, in the seed's minimal form or the public full one. Standard library alone.

Minimal: uttid, bucket_key, bucket_num_frame, bucket_height, bucket_width and a prompt; the videos are videos/<uttid>.mp4 and control_videos/<uttid>.mp4.
Full: path, control_path, cut, crop, num_frames, resolution, fps, cap; uttid and bucket are derived. A record may mix both: what it states is taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shardwork.errors import DataError
from shardwork.jsonio import Json, loads
from vidlatents.buckets import FRAME_BUCKETS, LAYOUTS, Size, check_frames, check_multiple, frame_bucket, nearest_size
from vidlatents.codes import SampleRefused
from vidlatents.fields import RecordFields

PROMPT_KEYS = ("prompt", "prompts", "caption", "cap")
BUCKET_KEYS = ("bucket_key", "bucket_num_frame", "bucket_height", "bucket_width")
MISSING_PROMPT = ("error", "empty")
STARTS = ("first", "drawn")
LONGEST_UTTID_BYTES = 200
SIZES: tuple[Size, ...] = ((480, 1920),)
"""(height, width) that the public producer keeps."""
THREE_NUMBERS = re.compile(r"([0-9]{1,7})x([0-9]{1,7})x([0-9]{1,7})")
NAME = re.compile(r"([^.].*)_([1-9][0-9]{0,6})_([1-9][0-9]{0,6})_([1-9][0-9]{0,6})\.pt", re.DOTALL)


@dataclass(frozen=True)
class Sample:
    """One sample to encode.

    uttid : its id, part of the file's name.   video, control : files, or folders of pictures whose sorted names are the frames.   prompt : as it was given.
    bucket_key : an opaque word.   num_frame, height, width : of the bucket; pixels.   cut : (first, end) source frames, end exclusive, or None for all; the
    first num_frame of them are taken.   crop : (x0, x1, y0, y1) source pixels as displayed, ends exclusive, or None.   source : the record itself.
    """

    uttid: str
    video: Path
    control: Path
    prompt: str
    bucket_key: str
    num_frame: int
    height: int
    width: int
    cut: tuple[int, int] | None
    crop: tuple[int, int, int, int] | None
    source: dict[str, Json]


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """How records are read.

    videos, controls : the folders that names count from.   layout : sections or whole.   spatial, temporal : pixels and frames of one latent value, of the
    model.   missing_prompt : error, or empty for "".   frame_buckets, sizes : what a full record may become; (height, width).
    Raises DataError (bad_argument).
    """

    videos: Path
    controls: Path
    layout: str = "sections"
    spatial: int = 8
    temporal: int = 4
    missing_prompt: str = "error"
    frame_buckets: tuple[int, ...] = FRAME_BUCKETS
    sizes: tuple[Size, ...] = SIZES

    def __post_init__(self) -> None:
        for name, allowed in (("layout", LAYOUTS), ("missing_prompt", MISSING_PROMPT)):
            if getattr(self, name) not in allowed:
                raise DataError("bad_argument", name, repr(getattr(self, name)), " or ".join(allowed), "correct the setting")
        for name in ("frame_buckets", "sizes"):
            if not getattr(self, name):
                raise DataError("bad_argument", name, "none", "at least one", "correct the setting")


@dataclass(frozen=True, slots=True)
class Records:
    """What a file of records holds. samples : (where, sample) of each good record, in file order.   refused : the others.   total : both."""

    samples: tuple[tuple[str, Sample], ...]
    refused: tuple[SampleRefused, ...]

    @property
    def total(self) -> int:
        """Return the number of records."""
        return len(self.samples) + len(self.refused)


def name_of(sample: Sample) -> str:
    """Return the name of a sample's file."""
    return f"{sample.uttid}_{sample.num_frame}_{sample.height}_{sample.width}.pt"


def parse_name(name: str) -> tuple[str, int, int, int] | None:
    """Return (uttid, num_frame, height, width) of a file's name, read from the right, since a uttid may hold underscores.

    None for another name, such as one with a leading dot.
    """
    match = NAME.fullmatch(name)
    return None if match is None else (match[1], int(match[2]), int(match[3]), int(match[4]))


def read_records(path: Path, settings: RecordSettings) -> Records:
    """Return the records of a JSONL file, or of a .json file that holds one list. A bad record is refused, and the others are read.

    Raises DataError (missing_file) for a file that is not there; OSError is let through.
    """
    samples, refused = [], []
    try:
        values = list(_values(path))
    except SampleRefused as error:
        return Records((), (error,))
    for where, value in values:
        try:
            samples.append((where, parse_record(loads_record(value, where), settings, where)))
        except SampleRefused as error:
            refused.append(error)
    return Records(tuple(samples), tuple(refused))


def _values(path: Path) -> Iterable[tuple[str, bytes | Json]]:
    """Yield each record with the place where it stands: a line's bytes, or a member of the list."""
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except FileNotFoundError as error:
        raise DataError("missing_file", path.name, "no such file", "records, one JSON object a line", "correct the path") from error
    if path.suffix == ".json" and data.lstrip()[:1] == b"[":
        yield from ((f"{path.name}[{index}]", value) for index, value in enumerate(loads_record(data, path.name)))
    else:
        yield from ((f"{path.name}:{number}", line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip())


def loads_record(value: bytes | Json, where: str) -> Json:
    """Return the JSON value of a line; what is none of bytes is one already. Raises SampleRefused (E_JSON)."""
    if not isinstance(value, bytes):
        return value
    try:
        return loads(value.decode())
    except UnicodeDecodeError as error:
        raise SampleRefused("E_JSON", where, f"byte {error.start} of the line is not UTF-8", "JSON in UTF-8") from error
    except DataError as error:
        raise SampleRefused("E_JSON", where, error.found, "one JSON object") from error


def parse_record(record: Json, settings: RecordSettings, where: str) -> Sample:
    """Return the sample of one record.

    Raises SampleRefused: E_JSON, E_TYPE, E_FIELD, E_UTTID, E_BUCKET_MISMATCH, E_FRAMES_SHORT, E_FRAMES_4N1, E_WINDOW, E_MULTIPLE, E_PROMPT_MISSING.
    """
    if not isinstance(record, dict):
        raise SampleRefused("E_JSON", where, type(record).__name__, "one JSON object")
    fields = RecordFields(record, where)
    cut, crop = fields.span("cut", 2), fields.span("crop", 4)
    path, control_path = fields.path("path"), fields.path("control_path")
    uttid = fields.uttid = check_uttid(_uttid(fields, path, cut), where)
    if (path is None) != (control_path is None):
        raise fields.refuse("E_FIELD", f"{'control_path' if path else 'path'} is missing", "path and control_path, or neither")
    own = f"{uttid}.mp4"
    key, frames, height, width = _bucket(fields, cut, crop, settings)
    if cut is not None and cut[1] - cut[0] < frames:
        raise fields.refuse("E_FRAMES_SHORT", f"a cut of {cut[1] - cut[0]} frames", f"at least the bucket's {frames}")
    check_frames(frames, settings.layout, settings.temporal, where, uttid)
    check_multiple(height, width, settings.spatial, where, uttid)
    prompt = _prompt(fields, settings.missing_prompt)
    video, control = settings.videos / (path or own), settings.controls / (control_path or own)
    return Sample(
        uttid,
        video,
        control,
        prompt,
        key,
        frames,
        height,
        width,
        (cut[0], cut[1]) if cut else None,
        (crop[0], crop[1], crop[2], crop[3]) if crop else None,
        record,
    )


def check_uttid(uttid: str, where: str) -> str:
    """Return a uttid that can be part of a file's name. Raises SampleRefused (E_UTTID)."""
    try:
        size = len(uttid.encode())
    except UnicodeEncodeError:
        raise SampleRefused("E_UTTID", where, f"{uttid!r}, half a surrogate pair", "text that UTF-8 can hold", uttid=repr(uttid)) from None
    found = next(
        (
            said
            for bad, said in ((not uttid, "an empty uttid"), ("/" in uttid, "a slash"), ("\0" in uttid, "a NUL"), (_controls(uttid), "a control character"))
            if bad
        ),
        "",
    )
    found = found or ("a leading dot" if uttid.startswith(".") else f"{size} bytes" if size > LONGEST_UTTID_BYTES else "")
    if found:
        raise SampleRefused(
            "E_UTTID", where, f"{uttid[:60]!r}: {found}", f"1 to {LONGEST_UTTID_BYTES} bytes without / and control characters, no leading dot", uttid=uttid
        )
    return uttid


def _controls(text: str) -> bool:
    return any(unicodedata.category(one) == "Cc" for one in text)


def _uttid(fields: RecordFields, path: str | None, cut: tuple[int, ...] | None) -> str:
    if (given := fields.text("uttid")) is not None:
        return given
    if path is None or cut is None:
        raise fields.refuse("E_FIELD", "uttid is missing", "uttid, or path and cut to derive it from")
    name = PurePosixPath(path)
    return f"{name.name.replace('.mp4', '') if '.mp4' in name.name else name.stem}_{cut[0]}-{cut[1]}"


def _bucket(fields: RecordFields, cut: tuple[int, ...] | None, crop: tuple[int, ...] | None, settings: RecordSettings) -> tuple[str, int, int, int]:
    """Return (bucket_key, frames, height, width): as stated, or derived as the public producer does."""
    if any(key in fields.record for key in BUCKET_KEYS):
        key = fields.need(fields.text("bucket_key"), "bucket_key")
        frames, height, width = (fields.need(fields.whole(name, 1), name) for name in BUCKET_KEYS[1:])
        if (match := THREE_NUMBERS.fullmatch(key)) and tuple(map(int, match.groups())) not in ((height, width, frames), (frames, height, width)):
            raise fields.refuse("E_BUCKET_MISMATCH", f"bucket_key {key!r}", f"{height}x{width}x{frames} (height, width, frames)")
        return key, frames, height, width
    count = cut[1] - cut[0] if cut else fields.need(fields.whole("num_frames", 1), "num_frames, cut or bucket_num_frame")
    bucket = frame_bucket(count, settings.frame_buckets)
    if bucket is None:
        raise fields.refuse("E_FRAMES_SHORT", f"{count} frames", f"at least the smallest bucket's {min(settings.frame_buckets)}")
    high, wide = (crop[3] - crop[2], crop[1] - crop[0]) if crop else fields.resolution()
    height, width = nearest_size(high, wide, settings.sizes)
    return f"{height}x{width}x{bucket}", bucket, height, width


def _prompt(fields: RecordFields, missing: str) -> str:
    """Return the prompt as it stands: a text, or the first of a list of texts."""
    for name in PROMPT_KEYS:
        value = fields.record.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None or value == []:
            continue
        return fields.check_text(name, value)
    if missing == "empty":
        return ""
    raise fields.refuse("E_PROMPT_MISSING", "no prompt", " or ".join(PROMPT_KEYS))


def folded(name: str) -> str:
    """Return what file systems that ignore case and Unicode form take a name for."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def duplicates(samples: Sequence[tuple[str, Sample]]) -> list[SampleRefused]:
    """Return a refusal (E_DUP_OUTPUT) of every sample whose file has another's name, or one that some file systems take for it. None of them is the right one.

    samples : (where, sample).
    """
    groups: dict[str, list[tuple[str, Sample]]] = {}
    for where, sample in samples:
        groups.setdefault(folded(name_of(sample)), []).append((where, sample))
    refused = []
    for group in groups.values():
        for where, sample in group if len(group) > 1 else ():
            others = ", ".join(f"{name_of(other)!r} of {place}" for place, other in group if place != where)[:300]
            refused.append(SampleRefused("E_DUP_OUTPUT", where, f"{name_of(sample)!r} beside {others}", "a name of its own", uttid=sample.uttid))
    return refused
