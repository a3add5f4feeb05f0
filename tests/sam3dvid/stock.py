"""A dataset with finished assets and a frozen pool, small, made on the spot."""

from __future__ import annotations

import hashlib

import cv2
import numpy as np
import trimesh

from sam3dvid.backgrounds.pool import POLYHAVEN, ROW_KEYS, index_bytes
from sam3dvid.plan.settings import PlanSettings
from shardwork.digests import sha256_file
from shardwork.jsonio import write_json

SMALL = PlanSettings(frames=4, width=64, height=64)
"""Small frames, and few of them: everything else as in a release."""


def write_asset(dataset, asset_id, sides, split="eval", source="toys"):
    """Write a finished asset as far as a planner reads it: a box whose longest side is 1."""
    folder = dataset / "assets" / split / asset_id
    folder.mkdir(parents=True, exist_ok=True)
    write_mesh(folder, trimesh.creation.box(np.array(sides) / max(sides)), source)


def write_mesh(folder, mesh, source="toys"):
    """Write a mesh in canonical axes as mesh.glb, which is Y-up, and its meta.json."""
    folder.mkdir(parents=True, exist_ok=True)
    mesh = mesh.copy()
    mesh.vertices = mesh.vertices[:, [0, 2, 1]] * [1, 1, -1]
    path = folder / "mesh.glb"
    path.write_bytes(trimesh.Scene(mesh).export(file_type="glb"))
    write_json(folder / "meta.json", {"asset_id": folder.name, "source": source, "mesh": {"bytes": path.stat().st_size, "sha256": sha256_file(path)}})


def write_assets(dataset, count=5, split="eval"):
    """Write boxes of different shapes."""
    for index in range(count):
        rng = np.random.default_rng(index)
        write_asset(dataset, f"box_{index}", rng.uniform(0.5, 1.0, 3), split)


def pool_row(image_id, width=2048, height=1024, split="eval", data=b""):
    """Return a row of a pool's index."""
    known = {
        "image_id": image_id,
        "file": f"{split}/{image_id}.jpg",
        "width": width,
        "height": height,
        "virtual_hfov_deg": 130.0,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "license": "CC0-1.0",
        "releasable": True,
        "pool": split,
        "split_key": image_id,
    }
    return {**dict.fromkeys(ROW_KEYS, ""), **known}


def write_pool(folder, rows, pictures=None):
    """Write a frozen pool of these rows, with a blurred picture for each, or those that are given, by image id."""
    index = {}
    for split in ("eval", "train"):
        ours = [row for row in rows if row["pool"] == split]
        (folder / split).mkdir(parents=True, exist_ok=True)
        for row in ours:
            rng = np.random.default_rng(len(row["image_id"]))
            small = rng.integers(0, 255, (8, 8 * row["width"] // row["height"], 3), np.uint8)
            blurred = cv2.resize(small, (row["width"], row["height"]), interpolation=cv2.INTER_CUBIC)
            data = pictures[row["image_id"]] if pictures else cv2.imencode(".jpg", blurred)[1].tobytes()
            (folder / row["file"]).write_bytes(data)
            row |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        data = index_bytes(ours)
        (folder / f"{split}.jsonl").write_bytes(data)
        index[f"{split}.jsonl"] = hashlib.sha256(data).hexdigest()
    frozen = {"format_version": 1, "kind": POLYHAVEN, "settings": {}, "sources": [], "refused": [], "index": index}
    write_json(folder / "selection.json", frozen)
