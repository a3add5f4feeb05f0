"""The files of a release that describe it: manifests, scales, quarantine, notes on rights, and last the description of them all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from eventvox.manifest import KINDS, MEANINGS, QUARANTINE_COLUMNS, ManifestRow, as_cells, as_record, quarantine_cells
from eventvox.manifest_read import check_equal
from eventvox.manifest_settings import FLAGS, ManifestSettings
from eventvox.scales import count_scales, draw_scales
from eventvox.settings import VoxelSettings
from eventvox.stage import COUNTS, MANIFEST_VERSION, NOTES, QUARANTINE, SCALES, SPLITS, VALIDATE_VERSION, VOXELIZE_VERSION, described_names, description_of
from shardwork.digests import sha256_file
from shardwork.files import retract, write_bytes
from shardwork.jsonio import Json, write_json, write_jsonl
from shardwork.place import clear_temporary
from shardwork.step import Fields
from shardwork.tables import write_table

CONVENTIONS = {
    "events": "events[t, b] is the signed count of brightness steps per pixel in bin b of voxel t: + brighter, - darker; int16",
    "timing": "slice e is the step from frame e to frame e + 1; voxel t covers slices voxel_event_start[t] to voxel_event_start[t] + "
    "voxel_event_count[t] - 1 and begins at voxel_event_start[t] * fps_den / fps_num seconds, not at t / fps",
    "duration_seconds": "of the container, never measured by us: frames_seconds is frames / fps",
    "annotations": "as their source has them: captions may reach past the end, begin with a blank, or end before they begin; flags say so",
    "values_xxh3": "compare this where compressed bytes may differ: other libraries and processors compress equal values to other bytes",
    "reading": "ids and labels are text even where they look like numbers, NA or True; docs/events_format.md says how pandas reads them",
}


@dataclass(frozen=True, slots=True)
class Release:
    """All that the files are made from. rows : of the videos that passed, sorted by id.   refused : of the others.

    libraries : package -> its versions among the voxel records.
    """

    rows: Sequence[ManifestRow]
    refused: Sequence[Fields]
    libraries: Mapping[str, Sequence[str]]
    manifests: ManifestSettings
    voxels: VoxelSettings


def library_versions(records: Sequence[Fields]) -> dict[str, list[str]]:
    """Return the versions of each library with which voxel records were made: one, unless the run saw an upgrade."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record["versions"].items():
            found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def write_release_files(folder: Path, release: Release) -> None:
    """Write every descriptive file below a release's folder, each atomically; the description, which lists the others, comes last.

    Files that this step does not know are left alone. Raises Fault (not_published) if CSV and JSONL of a manifest do not read back the same.
    """
    description = description_of(folder)
    retract(description)  # from here to the end nothing says that the set is whole
    scales = draw_scales(release.rows, release.manifests)
    for name, rows in scales.items():
        csv, jsonl = (folder / "manifests" / f"{name}.{suffix}" for suffix in ("csv", "jsonl"))
        write_table(csv, tuple(KINDS), map(as_cells, rows))
        write_jsonl(jsonl, map(as_record, rows))
        check_equal(csv, jsonl)
    for name in SCALES:
        write_bytes(folder / "scales" / f"{name}_ids.txt", "".join(f"{row.video_id}\n" for row in scales[name]).encode())
    write_table(folder / QUARANTINE, QUARANTINE_COLUMNS, map(quarantine_cells, release.refused))
    write_json(folder / COUNTS, count_scales(scales, release.manifests))
    write_bytes(folder / NOTES, rights_notes(release).encode())
    ours = {folder / name for name in described_names()} | {description}
    for part in {path.parent for path in ours}:
        clear_temporary(part, {path.name for path in ours if path.parent == part}.__contains__)
    write_json(description, describe(folder, release, scales))


def rights_notes(release: Release) -> str:
    """Return LICENSE_NOTES.md: what was configured, and what is known."""
    return "\n".join(
        [
            f"# Rights in {release.manifests.title}",
            "",
            release.manifests.rights,
            "",
            "## What is known",
            "",
            "- The event files are computed from videos. Whoever holds the rights in a video may hold rights in what is computed from it.",
            "- The manifests repeat captions and labels of the annotations that were joined to the videos; their authors' terms apply to them.",
            "- Nobody but the maker of this dataset knows under which terms the videos and annotations were obtained: no licence is granted here.",
            "",
        ]
    )


def describe(folder: Path, release: Release, scales: Mapping[str, Sequence[ManifestRow]]) -> Json:
    """Return the description of a release. It holds no time, host or path of the machine that made it."""
    rows, settings = release.rows, release.manifests
    return {
        "title": settings.title,
        "version": settings.version,
        "format": {"name": "EventActivityNet", "version": "1.0", "payload": "one HDF5 file a video"},
        "counts": {
            "videos": len(rows),
            "quarantined": len(release.refused),
            **{split: sum(row.split == split for row in rows) for split in SPLITS},
            **{name: sum(getattr(row, name) for row in rows) for name in ("frames", "voxels", "bytes", "clipped")},
            "duration_seconds": math.fsum(row.duration_seconds for row in rows),
            "flags": dict(sorted(Counter(flag for row in rows for flag in row.flags).items())),
            "reasons": dict(sorted(Counter(row["code"] for row in release.refused).items())),
        },
        "scales": {name: len(members) for name, members in scales.items()},
        "settings": {"manifests": asdict(settings), "voxels": asdict(release.voxels)},
        "steps": {"voxelize_events": VOXELIZE_VERSION, "validate_events": VALIDATE_VERSION, "write_event_manifest": MANIFEST_VERSION},
        "libraries": dict(release.libraries),
        "conventions": CONVENTIONS,
        "columns": {name: {"kind": kind, "meaning": MEANINGS[name]} for name, kind in KINDS.items()},
        "flags": FLAGS,
        "files": {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)} for name in described_names()},
    }
