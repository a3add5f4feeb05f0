"""What the workflow must know of the events stage before any video is opened: its table, its folders, its versions. Standard library alone."""

from __future__ import annotations

from pathlib import Path

from shardwork.branch import Branch, Stage, branch_of
from shardwork.errors import DataError
from shardwork.ids import is_id
from shardwork.place import Place
from shardwork.tables import Row, read_table, whole_number

VOXELIZE_VERSION = 2
"""Raised when a change of code or of a pinned decoder changes the bytes of a voxel file; CHANGELOG says so."""
VALIDATE_VERSION = 3
"""Raised when validation finds more than before, so that finished files are looked at again."""
MANIFEST_VERSION = 1
"""Raised when a change of code changes the bytes of a manifest, of the scales or of what stands beside them."""
CONTROLS_VERSION = 1
"""Raised when a change of code or of a pinned encoder changes the bytes of a control video."""
PACK_VERSION = 1
"""Raised when a change of code changes the bytes of a release shard."""
CHECKSUM_VERSION = 1
"""Raised when a change of code changes the checksum file."""

STEPS = ("voxelize_events", "validate_events")
"""Steps of work shards, in their order."""
CONTROLS_STEP = "render_event_controls"
"""A further one, in a place of its own, where control videos are switched on."""
SPLITS = ("train", "validation")
SCALES = ("medium", "small")
"""Drawn subsets of a release; `large` is the whole."""
KEY = "video_id"
COLUMNS = (KEY, "path", "split", "bytes", "mtime_ns")
"""Columns of a video table that decide what is made; further ones are only carried along."""
ANNOTATION_COLUMNS = ("class_label", "class_labels", "annotated_seconds", "captions", "annotation_flags")
"""Optional columns that enter the manifests alone: a changed caption makes no voxel again. Made by `annotations.join_annotations`."""
MANIFEST_COLUMNS = (KEY, "split", *ANNOTATION_COLUMNS)
"""All columns that the manifests depend on, beyond what the shard manifests say."""


def events_place(stage: Path) -> Place:
    """Return where an events stage keeps its files: {train,validation}/<id>.h5 and sidecars/<id>.json."""
    return Place(stage, tuple(stage / name for name in (*SPLITS, "sidecars")), _id_of)


def _id_of(name: str) -> str | None:
    stem, _, suffix = name.rpartition(".")
    return stem if suffix in ("h5", "json") and is_id(stem) else None


def outputs_of(place: Place, video_id: str, split: str) -> tuple[Path, Path]:
    """Return the voxel file and the sidecar of a video."""
    return place.stage / split / f"{video_id}.h5", place.stage / "sidecars" / f"{video_id}.json"


def controls_place(stage: Path, events: Place) -> Place:
    """Return where control videos are kept: <id>.mkv and sidecars/<id>.json.

    stage : results/<run>/controls/events.   events : the place of the event files that they are made from.
    """
    return Place(stage, (stage, stage / "sidecars"), _control_id_of, events)


def _control_id_of(name: str) -> str | None:
    stem, _, suffix = name.rpartition(".")
    return stem if suffix in ("mkv", "json") and is_id(stem) else None


def controls_of(place: Place, video_id: str) -> tuple[Path, Path]:
    """Return the control video and the sidecar of a video."""
    return place.stage / f"{video_id}.mkv", place.stage / "sidecars" / f"{video_id}.json"


def events_branch(table: Path, stage: Path, work_shards: int, controls: bool, controls_stage: Path) -> Branch:
    """Return the branch of a video table.   controls : whether control videos are made."""
    events = events_place(stage)
    stages = (Stage(events, STEPS), Stage(controls_place(controls_stage, events), (CONTROLS_STEP,), controls))
    return branch_of("events", read_video_table(table), KEY, work_shards, stages)


def description_of(release: Path) -> Path:
    """Return the file that is written last into a release's folder by write_event_manifest: it says that manifests and scales are whole."""
    return release / "metadata" / "dataset_description.json"


def manifest_of(release: Path, scale: str) -> Path:
    """Return the manifest of a scale: large, medium or small."""
    return release / "manifests" / f"{scale}.jsonl"


def shards_of(release: Path, split: str) -> Path:
    """Return the list of a split's release shards: written last, it says that they are done."""
    return release / "metadata" / f"shards_{split}.json"


def checksums_of(release: Path) -> Path:
    """Return the checksum file of the release shards."""
    return release / "metadata" / "shard_checksums.sha256"


QUARANTINE, COUNTS, NOTES = "metadata/quarantine.csv", "metadata/scales.json", "metadata/LICENSE_NOTES.md"


def described_names() -> list[str]:
    """Return the files that a release's description lists, relative to the release's folder, sorted."""
    manifests = [f"manifests/{name}.{suffix}" for name in ("large", *SCALES) for suffix in ("csv", "jsonl")]
    return sorted([*manifests, *(f"scales/{name}_ids.txt" for name in SCALES), QUARANTINE, COUNTS, NOTES])


def release_marks(place: Place) -> list[Path]:
    """Return the marks there are of a release: one, or none while it is not described."""
    return sorted((place.stage / ".release").glob("*"))


def release_mark(place: Place, key: str) -> Path:
    """Return the mark of a release: a file that says for what it is made. It stands outside, since all of a release bears fixed names.

    key : digest of the table's annotations, the release's settings and the shard manifests, as in the name of a shard manifest.
    """
    return place.stage / ".release" / key


def read_video_table(path: Path) -> list[Row]:
    """Return the rows of a video table. Raises DataError (bad_table, duplicate_id) for what would fail later."""
    rows = read_table(path, KEY, COLUMNS[1:])
    if not rows:
        raise DataError("bad_table", path, "no rows", "at least one video", "make the table from a folder that holds videos")
    for row in rows:
        where = f"{path}: {row[KEY]!r}"
        if row["split"] not in SPLITS:
            raise DataError("bad_table", where, f"split is {row['split']!r}", " or ".join(SPLITS), "correct the split column")
        whole_number(row, "bytes", where)
        whole_number(row, "mtime_ns", where)
    return rows
