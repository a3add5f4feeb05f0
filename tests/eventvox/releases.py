"""Small releases made on the spot: event files and the manifests that write_event_manifest would write of them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from eventvox.hdf5 import create_events, read_values_digest
from eventvox.settings import VoxelSettings
from eventvox.stage import NOTES, described_names, description_of
from eventvox.voxels import Voxel
from shardwork.digests import sha256_file, xxh3_file
from shardwork.files import write_bytes
from shardwork.jsonio import write_json, write_jsonl
from shardwork.tables import write_table

COLUMNS = ("video_id", "split", "bytes", "file_xxh3", "values_xxh3")


def write_event_file(path: Path, seed: int, voxels: int = 2) -> None:
    """Write a small event file; equal seeds give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    with create_events(path, 24, 32, 25.0, VoxelSettings()) as writer:
        for t in range(voxels):
            writer.append(Voxel(5 * t, 5, rng.integers(-9, 9, (5, 24, 32)).astype(np.int16), 0))


def write_manifests(release: Path, stage: Path, splits: dict[str, str], medium: tuple[str, ...] = (), small: tuple[str, ...] = ()) -> None:
    """Write manifests, scales and metadata of the event files as they are now.

    splits : split of each id.
    """
    rows = []
    for video_id, split in sorted(splits.items()):
        path = stage / split / f"{video_id}.h5"
        digests = {"file_xxh3": xxh3_file(path), "values_xxh3": read_values_digest(path)}
        rows.append({"video_id": video_id, "split": split, "bytes": path.stat().st_size, "class_label": "NA", "duration_seconds": 1.5, **digests})
    for scale, ids in (("large", tuple(splits)), ("medium", medium), ("small", small)):
        chosen = [row for row in rows if row["video_id"] in ids]
        write_jsonl(release / "manifests" / f"{scale}.jsonl", chosen)
        write_table(release / "manifests" / f"{scale}.csv", COLUMNS, [{name: str(row[name]) for name in COLUMNS} for row in chosen])
        if scale != "large":
            write_bytes(release / "scales" / f"{scale}_ids.txt", "".join(f"{row['video_id']}\n" for row in chosen).encode())
    write_table(release / "metadata" / "quarantine.csv", ("video_id", "reason"), [{"video_id": "page", "reason": "not_a_video"}])
    write_json(release / "metadata" / "scales.json", {"medium": len(medium), "small": len(small)})
    write_bytes(release / NOTES, b"# Rights\n")
    files = {name: {"bytes": (release / name).stat().st_size, "sha256": sha256_file(release / name)} for name in described_names()}
    write_json(description_of(release), {"counts": {"videos": len(splits)}, "files": files})


def age(folder: Path, seconds: int) -> None:
    """Give every file below a folder another time."""
    for path in folder.rglob("*"):
        os.utime(path, (seconds, seconds))
