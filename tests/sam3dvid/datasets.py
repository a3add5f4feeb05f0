"""Small valid datasets of clips, made without Blender and without the planner: masks and depth are ray cast, colours are painted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from sam3dvid.assets.voxels import voxelize
from sam3dvid.conventions import K_bg, Orbit, frame_K, pose_in_camera, random_rotation
from sam3dvid.raycast import Caster, Truth, frame_truth
from shardwork.jsonio import dumps, write_json

PHOTO = (2048, 1024)
COLOURS = np.array([[200, 120, 40], [40, 160, 220], [120, 220, 60], [220, 60, 180]], np.uint8)
PLACES = {
    1: ((0.0, 0.0, 0.0),),
    2: ((0.7, 0.0, 0.1), (-0.7, 0.1, 0.0)),
    3: ((0.9, 0.0, 0.0), (-0.5, 0.8, 0.1), (-0.4, -0.8, -0.1)),
    4: ((0.9, 0.0, 0.3), (-0.9, 0.0, 0.1), (0.0, 0.9, -0.2), (0.0, -0.9, 0.0)),
}
"""Positions of N objects whose spheres are apart at the scales below."""
SCALES = (0.5, 0.45, 0.6, 0.55)


@dataclass(frozen=True)
class Clip:
    """What a clip shows.   assets : numbers of the split's assets."""

    split: str
    clip_id: str
    assets: tuple[int, ...]
    photo: str
    start_azimuth_deg: float = 350.0
    arc_span_deg: float = 32.5
    arc_direction: int = 1
    attempt: int = 0

    @property
    def seed(self) -> int:
        return int(self.clip_id) + (1_000_000 if self.split == "train" else 0)

    @property
    def path(self) -> str:
        return f"clips/{self.split}/{self.clip_id}"


CLIPS = (
    Clip("eval", "00000000", (0, 1, 2), "ph_meadow_v0", attempt=1),
    Clip("eval", "00000007", (1,), "ph_meadow_v1", start_azimuth_deg=12.0, arc_direction=-1),
    Clip("train", "00000000", (0, 1), "ph_street_v0", start_azimuth_deg=200.0),
)


def corner_mesh(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a corner of three legs of different lengths, another for each number.

    Returns vertices (24, 3) float64, canonical frame, and triangles (36, 3) int32.
    """
    boxes = [((0, 0, 0), (1, 0.2, 0.25)), ((0, 0, 0), (0.3, 0.7 - 0.02 * number, 0.15)), ((0, 0, 0), (0.2, 0.25, 0.5 + 0.01 * number))]
    corners = [np.array([[(low, high)[bit][axis] for axis, bit in enumerate(bits)] for bits in np.ndindex(2, 2, 2)]) for low, high in boxes]
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = np.array([[a, b, c] for q in quads for a, b, c in ((q[0], q[1], q[2]), (q[0], q[2], q[3]))])
    vertices = np.concatenate(corners)
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    vertices = (vertices - middle).astype(np.float32).astype(np.float64)
    return vertices, np.concatenate([faces + 8 * index for index in range(3)]).astype(np.int32)


def packed_glb(scene: object, body: bytes) -> bytes:
    """Return a GLB file of a scene and its binary part."""
    text = json.dumps(scene).encode()
    text += b" " * (-len(text) % 4)
    body += b"\0" * (-len(body) % 4)
    parts = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(body), b"BIN\0") + body
    return struct.pack("<4sII", b"glTF", 2, 12 + len(parts)) + parts


def glb_bytes(vertices: np.ndarray, triangles: np.ndarray, change: Callable[[dict], object] = lambda scene: None, **node: object) -> bytes:
    """Return a GLB file of one mesh.   vertices : (V, 3), canonical frame.   node : further keys of its node, and `change` its scene, to spoil it."""
    points = np.stack([vertices[:, 0], vertices[:, 2], -vertices[:, 1]], axis=1).astype("<f4")
    numbers = triangles.astype("<u4")
    body = points.tobytes() + numbers.tobytes()
    bounds = {"min": np.nanmin(points, axis=0).tolist(), "max": np.nanmax(points, axis=0).tolist()}
    scene = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "name": "asset", **node}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": len(points), "type": "VEC3", **bounds},
            {"bufferView": 1, "componentType": 5125, "count": numbers.size, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": points.nbytes},
            {"buffer": 0, "byteOffset": points.nbytes, "byteLength": numbers.nbytes},
        ],
        "buffers": [{"byteLength": len(body)}],
    }
    change(scene)
    return packed_glb(scene, body)


def asset_id(split: str, number: int) -> str:
    return f"corner_{split}-{number}"


def mesh_of(split: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    return corner_mesh(number + (10 if split == "train" else 0))


def write_asset(root: Path, split: str, number: int) -> None:
    """Write an asset's folder."""
    vertices, triangles = mesh_of(split, number)
    name = asset_id(split, number)
    folder = root / "assets" / split / name
    folder.mkdir(parents=True)
    (folder / "mesh.glb").write_bytes(glb_bytes(vertices, triangles))
    voxels = voxelize(vertices, triangles)
    np.save(folder / "voxels.npy", voxels)
    files = {key: (folder / file).read_bytes() for key, file in (("mesh", "mesh.glb"), ("voxels", "voxels.npy"))}
    digests = {key: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for key, data in files.items()}
    # a source that was twice as large and stood one unit aside
    least, greatest = 2 * vertices.min(axis=0) + [1, 0, 0], 2 * vertices.max(axis=0) + [1, 0, 0]
    write_json(
        folder / "meta.json",
        {
            "asset_id": name,
            "split": split,
            "source": "gso",
            "source_name": f"Corner {number} of {split}",
            "license": "CC-BY-4.0",
            "normalization": {"scale": 0.5, "offset": [-0.5, 0.0, 0.0], "raw_bbox": [least.tolist(), greatest.tolist()]},
            "num_voxels": int(voxels.sum()),
            "filter_scores": {"aesthetic": 6.25},
            **digests,
        },
    )


def orbit_of(clip: Clip, center: np.ndarray) -> Orbit:
    return Orbit(clip.start_azimuth_deg, 35.0, 4.5, clip.arc_span_deg, clip.arc_direction, 3.4 + len(clip.assets) / 2, tuple(center.tolist()))


def write_clip(root: Path, clip: Clip, frames: int, size: int) -> None:
    """Write a clip's folder."""
    folder, count = root / clip.path, len(clip.assets)
    for name in ("rgb", "rgba_fg", "mask_visible", "depth", *(f"mask_amodal/obj{k}" for k in range(1, count + 1))):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(clip.seed)
    R_wo, t_wo, s = random_rotation(rng, (count,)), np.array(PLACES[count]), np.array(SCALES[:count])
    orbit = orbit_of(clip, t_wo.mean(axis=0))
    u = (1 - np.cos(np.pi * np.arange(frames) / (frames - 1))) / 2
    T_cw, K = orbit.T_cw(u), frame_K(size, size)
    casters = [Caster(*mesh_of(clip.split, number)) for number in clip.assets]
    seen = []
    for t in range(frames):
        R_co, t_co, _ = pose_in_camera(T_cw[t], R_wo, t_wo, np.repeat(s[:, None], 3, axis=1))
        truth = frame_truth(casters, R_co, t_co, s, K, size, size)
        write_frame(folder, t, truth, rng)
        seen.append(truth)
    objects = [
        {
            "k": k,
            "asset_id": (name := asset_id(clip.split, number)),
            "source": "gso",
            "mesh": f"assets/{clip.split}/{name}/mesh.glb",
            "voxels": f"assets/{clip.split}/{name}/voxels.npy",
            "R_wo": R_wo[k - 1].tolist(),
            "t_wo": t_wo[k - 1].tolist(),
            "s_wo": [float(s[k - 1])] * 3,
        }
        for k, number in enumerate(clip.assets, 1)
    ]
    write_json(folder / "objects.json", objects)
    cameras = {"convention": "opencv", "width": size, "height": size, "K": K.tolist()}
    write_json(folder / "cameras.json", {**cameras, "frames": [{"t": t, "T_cw": pose.tolist()} for t, pose in enumerate(T_cw)]})
    write_json(folder / "meta.json", meta_of(clip, orbit, seen))


def meta_of(clip: Clip, orbit: Orbit, seen: list[Truth]) -> dict[str, object]:
    slug = clip.photo.removeprefix("ph_").rpartition("_")[0]
    provenance = {
        "source": "polyhaven",
        "source_url": f"https://polyhaven.com/a/{slug}",
        "source_file": f"{slug}.jpg",
        "source_sha256": hashlib.sha256(slug.encode()).hexdigest(),
        "sha256": hashlib.sha256(clip.photo.encode()).hexdigest(),
        "license": "CC0-1.0",
        "authors": ["A. Maker"],
        "pool": clip.split,
        "split_key": slug,
    }
    return {
        "clip_id": clip.clip_id,
        "split": clip.split,
        "seed": clip.seed,
        "attempt": clip.attempt,
        "num_objects": len(clip.assets),
        "arc_span_deg": orbit.arc_span_deg,
        "arc_direction": orbit.arc_direction,
        "start_azimuth_deg": orbit.start_azimuth_deg,
        "start_elevation_deg": orbit.start_elevation_deg,
        "elevation_drift_deg": orbit.elevation_drift_deg,
        "orbit_radius": orbit.radius,
        "scene_center": list(orbit.center),
        "hfov_deg": 50.0,
        "light": {"sun_direction": [0.0, 0.6, 0.8], "sun_strength": 3.0, "ambient_strength": 0.3, "sun_angle_deg": 2.0},
        "background": {
            "image_id": clip.photo,
            "width": PHOTO[0],
            "height": PHOTO[1],
            "virtual_hfov_deg": 130.0,
            "K_bg": K_bg(*PHOTO).tolist(),
            "provenance": provenance,
        },
        "reference_T_cw": orbit.T_cw(0.5).tolist(),
        "visibility": {key: [getattr(truth, key).tolist() for truth in seen] for key in ("visible_px", "amodal_px", "visible_frac")},
        "render": {"engine": "paint"},
        "timing": {},
        "git_commit": "0" * 40,
        "generator_version": "0.1.0",
        "arc_retries": 0,
        "rejections": [{"attempt": one, "reason": "visibility"} for one in range(clip.attempt)],
    }


def write_frame(folder: Path, t: int, truth: Truth, rng: np.random.Generator) -> None:
    """Write the pictures of a frame: flat colours, a soft border of one pixel, a shaded background with some noise."""
    height, width = truth.mask.shape
    solid = truth.mask > 0
    padded = np.pad(truth.mask, 1)
    around = np.max([padded[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width] for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))], axis=0)
    owner = np.where(solid, truth.mask, around)
    rgba = np.zeros((height, width, 4), np.uint8)
    rgba[owner > 0, :3] = COLOURS[owner[owner > 0] - 1] - rng.integers(0, 30, (int((owner > 0).sum()), 1), dtype=np.uint8)
    rgba[owner > 0, 3] = 64
    rgba[solid, 3] = 255
    shade = np.linspace(40, 200, width)[None, :, None] + np.linspace(0, 30, height)[:, None, None] + [0, 8, 16]
    back = np.clip(shade + rng.normal(0, 3, (height, width, 3)), 0, 255)
    alpha = rgba[..., 3:] / 255
    rgb = np.round(rgba[..., :3] * alpha + np.round(back) * (1 - alpha)).astype(np.uint8)
    for name, pixels in (("rgb", rgb), ("rgba_fg", rgba), ("mask_visible", truth.mask)):
        Image.fromarray(pixels).save(folder / name / f"{t:03d}.png")
    for k, whole in enumerate(truth.amodal, 1):
        Image.fromarray(whole.astype(np.uint8) * 255).save(folder / f"mask_amodal/obj{k}" / f"{t:03d}.png")
    np.savez_compressed(folder / "depth" / f"{t:03d}.npz", depth=truth.depth.astype(np.float32))


def manifest_line(clip: Clip) -> dict[str, object]:
    return {"clip_id": clip.clip_id, "split": clip.split, "N": len(clip.assets), "arc_span_deg": clip.arc_span_deg, "seed": clip.seed, "path": clip.path}


def write_manifest(root: Path, clips: tuple[Clip, ...]) -> None:
    (root / "manifest.jsonl").write_text("".join(dumps(manifest_line(clip)) + "\n" for clip in sorted(clips, key=lambda clip: clip.path)))


def write_dataset(root: Path, clips: tuple[Clip, ...] = CLIPS, frames: int = 4, size: int = 64) -> Path:
    """Write a dataset that keeps the format in all but, where they are given, the number of frames and their size; return its folder."""
    for split, number in sorted({(clip.split, number) for clip in clips for number in clip.assets}):
        write_asset(root, split, number)
    for clip in clips:
        write_clip(root, clip, frames, size)
    write_manifest(root, clips)
    (root / "config.yaml").write_text("run: test\n")
    return root


class Lent:
    """A copy of a dataset that tests spoil one after another: whatever one changed is put right for the next."""

    def __init__(self, valid: Path, root: Path) -> None:
        self.valid, self.root = valid, root
        shutil.copytree(valid, root)
        self.kept = self._files()

    def _files(self) -> dict[Path, tuple[int, ...]]:
        """Return what tells a file, a link or an empty folder from another: path -> inode, kind, bytes, time."""
        found: dict[Path, tuple[int, ...]] = {}
        for folder, folders, files in os.walk(self.root):
            for name in [*folders, *files]:
                path = Path(folder) / name
                stat = path.lstat()
                found[path] = (stat.st_ino, stat.st_mode, stat.st_size, stat.st_mtime_ns) if not path.is_dir() or path.is_symlink() else (stat.st_mode,)
        return found

    def put_right(self) -> None:
        """Take away what is new, and copy again what is gone or changed."""
        now = self._files()
        for path in sorted((path for path, facts in now.items() if self.kept.get(path) != facts), reverse=True):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for path in sorted(path for path, facts in self.kept.items() if now.get(path) != facts):
            source = self.valid / path.relative_to(self.root)
            path.mkdir(exist_ok=True) if source.is_dir() else shutil.copy2(source, path)
        self.kept = self._files()
