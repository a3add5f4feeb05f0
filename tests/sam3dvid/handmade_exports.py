"""Training exports written from the format's text alone, without the exporter: to try what reads them, and to spoil them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from PIL import Image

FRAMES = 32
Members = list[tuple[str, bytes]]
"""(name, bytes) in their order."""


def jpeg(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95, subsampling="4:4:4")
    return file.getvalue()


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def sample_members(clip_id: str, rgb: Iterable[bytes], visible: Iterable[bytes], info: object) -> Members:
    """Return the 65 members of a sample, json first."""
    return [
        (f"{clip_id}.json", json.dumps(info, sort_keys=True).encode()),
        *((f"{clip_id}.rgb.{t:03d}.jpg", data) for t, data in enumerate(rgb)),
        *((f"{clip_id}.visible.{t:03d}.png", data) for t, data in enumerate(visible)),
    ]


def painted(clip_id: str, size: int = 16) -> Members:
    """Return a sample without a dataset behind it: frame t is of colour (t, 100, 200), its mask k = t % 3, but for row 0, where k = 2."""
    pictures = [np.full((size, size, 3), (t, 100, 200), np.uint8) for t in range(FRAMES)]
    masks = [np.full((size, size), t % 3, np.uint8) for t in range(FRAMES)]
    for mask in masks:
        mask[0] = 2
    pose = {"k": 1, "asset_id": "cup", "R_wo": np.eye(3).tolist(), "t_wo": [0, 0, 0], "s_wo": [0.5] * 3}
    info = {
        "clip_id": clip_id,
        "K": [[17.0, 0, 7.5], [0, 17.0, 7.5], [0, 0, 1]],
        "T_cw": [[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 3 + t], [0, 0, 0, 1]] for t in range(FRAMES)],
        "objects": [{**pose, "R_co": [np.eye(3).tolist()] * FRAMES, "t_co": [[0, 0, 3 + t] for t in range(FRAMES)], "s_co": [[0.5] * 3] * FRAMES}],
    }
    return sample_members(clip_id, map(jpeg, pictures), map(png, masks), info)


def write_tar(path: Path, members: Members) -> Path:
    """Write a tar of these members, as they come."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in members:
            header = tarfile.TarInfo(name)
            header.size = len(data)
            tar.addfile(header, io.BytesIO(data))
    return path


def write_voxels(path: Path, grids: dict[str, np.ndarray]) -> Path:
    """Write voxels_<split>.npz.   grids : asset_id -> bool (64, 64, 64)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: np.packbits(grid.ravel()) for name, grid in sorted(grids.items())})
    return path


def clip_members(dataset: Path, split: str, clip_id: str, change: Callable[[dict], object] = lambda info: None) -> Members:
    """Return the sample of a clip.   change : alters its JSON in place."""
    clip = dataset / "clips" / split / clip_id
    cameras, objects, meta = (json.loads((clip / f"{name}.json").read_text()) for name in ("cameras", "objects", "meta"))
    T_cw = np.array([frame["T_cw"] for frame in cameras["frames"]])
    entries = []
    for one in objects:
        R_co = np.einsum("tij,jk->tik", T_cw[:, :3, :3], np.array(one["R_wo"]))
        t_co = np.einsum("tij,j->ti", T_cw[:, :3, :3], np.array(one["t_wo"])) + T_cw[:, :3, 3]
        kept = {key: one[key] for key in ("k", "asset_id", "R_wo", "t_wo", "s_wo")}
        entries.append({**kept, "R_co": R_co.tolist(), "t_co": t_co.tolist(), "s_co": [one["s_wo"]] * len(T_cw)})
    keys = ("clip_id", "split", "seed", "num_objects", "generator_version", "git_commit", "visibility", "background")
    info = {**{key: meta[key] for key in keys}, "K": cameras["K"], "T_cw": T_cw.tolist(), "objects": entries}
    change(info)
    rgb = [jpeg(np.asarray(Image.open(clip / f"rgb/{t:03d}.png"))) for t in range(len(T_cw))]
    visible = [(clip / f"mask_visible/{t:03d}.png").read_bytes() for t in range(len(T_cw))]
    return sample_members(clip_id, rgb, visible, info)


def write_export(dataset: Path, split: str, out: Path, clips_per_shard: int = 100) -> Path:
    """Write the export of a split, without index.json; return its folder."""
    ids = sorted(path.name for path in (dataset / "clips" / split).iterdir())
    for number in range(0, len(ids), clips_per_shard):
        members = [member for clip_id in ids[number : number + clips_per_shard] for member in clip_members(dataset, split, clip_id)]
        write_tar(out / f"{split}-{number // clips_per_shard:06d}.tar", members)
    used = {one["asset_id"] for clip_id in ids for one in json.loads((dataset / "clips" / split / clip_id / "objects.json").read_text())}
    write_voxels(out / f"voxels_{split}.npz", {name: np.load(dataset / "assets" / split / name / "voxels.npy") for name in used})
    return out
