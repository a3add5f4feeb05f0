"""Small datasets to export: a few painted clips, and copies of them under other ids."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

from PIL import Image

from sam3dvid.export.__main__ import main
from shardwork.jsonio import dumps, read_json, write_json
from tests.sam3dvid.datasets import Clip, write_dataset

SPLIT = "train"
SIZE, FRAMES = 64, 32
MADE = (Clip(SPLIT, "00000000", (0, 1), "ph_street_v0"), Clip(SPLIT, "00000001", (2,), "ph_lane_v0", start_azimuth_deg=90.0))
IDS = tuple(f"{index:08d}" for index in range(5))
"""Five clips, two a shard: the last of three shards is not full."""
PER_SHARD = 2


def make_dataset(root: Path, ids: tuple[str, ...] = IDS) -> Path:
    """Write a dataset whose clips are copies of two, each with its own id and seed."""
    write_dataset(root, MADE, FRAMES, SIZE)
    for number, clip_id in enumerate(ids):
        if clip_id not in ("00000000", "00000001"):
            add_clip(root, clip_id, f"{number % 2:08d}")
    return root


def add_clip(root: Path, clip_id: str, like: str) -> None:
    """Add a copy of a clip under another id."""
    folder = root / "clips" / SPLIT / clip_id
    shutil.copytree(root / "clips" / SPLIT / like, folder)
    change_json(folder / "meta.json", clip_id=clip_id, seed=1_000_000 + int(clip_id))
    lines = [json.loads(line) for line in (root / "manifest.jsonl").read_text().splitlines()]
    line = next(one for one in lines if one["clip_id"] == like and one["split"] == SPLIT)
    lines.append({**line, "clip_id": clip_id, "seed": 1_000_000 + int(clip_id), "path": f"clips/{SPLIT}/{clip_id}"})
    (root / "manifest.jsonl").write_text("".join(dumps(one) + "\n" for one in sorted(lines, key=lambda one: one["path"])))


def change_json(path: Path, **values: Any) -> None:
    write_json(path, {**read_json(path), **values})


def clip_folder(root: Path, clip_id: str) -> Path:
    return root / "clips" / SPLIT / clip_id


def flags(dataset: Path, out: Path, *more: str) -> list[str]:
    return [f"--dataset={dataset}", f"--split={SPLIT}", f"--out={out}", f"--clips-per-shard={PER_SHARD}", "--workers=0", "--any-size", *more]


def export(dataset: Path, out: Path, *more: str, code: int = 0) -> None:
    """Export in this process, and compare the exit code."""
    assert main(flags(dataset, out, *more)) == code


def files(out: Path) -> dict[str, bytes]:
    """Return what a consumer finds, by name."""
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if not path.name.startswith(".")}


def members(tar: Path) -> dict[str, bytes]:
    """Return the members of a tar in their order."""
    with tarfile.open(tar) as found:
        return {one.name: found.extractfile(one).read() for one in found}  # type: ignore[union-attr]


def repaint(path: Path, at: tuple[int, int] = (3, 5)) -> None:
    """Give one pixel of a picture another value, in a file of the same kind."""
    with Image.open(path) as image:
        pixels = image.copy()
    value = pixels.getpixel(at)
    pixels.putpixel(at, tuple(255 - one for one in value) if isinstance(value, tuple) else 1 - min(int(value or 0), 1))
    buffer = io.BytesIO()
    pixels.save(buffer, "PNG")
    path.write_bytes(buffer.getvalue())
