"""Faults of assets, and of what stands in both splits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from shardwork.jsonio import dumps
from tests.sam3dvid.datasets import CLIPS, Clip, corner_mesh, glb_bytes, manifest_line, write_clip
from tests.sam3dvid.spoiled import (
    ASSET,
    OTHER,
    T1,
    THREE,
    Fault,
    Spoil,
    add,
    data,
    drop,
    each,
    edit,
    flip,
    mesh_bytes,
    provenance,
    put,
    told,
)


def same_mesh(root: Path) -> None:
    """Give an asset of train the mesh of one of eval, under its own name, with a right record."""
    content = (root / ASSET / "mesh.glb").read_bytes()
    folder = root / "assets/train/corner_train-0"
    (folder / "mesh.glb").write_bytes(content)
    edit("assets/train/corner_train-0/meta.json", lambda record: record["mesh"].update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest()))(root)


def second_clip(split: str, photo: str, **changes: object) -> Spoil:
    """Return what writes one more whole clip, with its line in the manifest."""
    clip = Clip(split, "00000009", (0,), photo)

    def spoil(root: Path) -> None:
        write_clip(root, clip, 4, 64)
        edit(f"{clip.path}/meta.json", lambda record: record.update(changes))(root)
        lines = [*map(manifest_line, CLIPS), {**manifest_line(clip), **{key: value for key, value in changes.items() if key == "seed"}}]
        (root / "manifest.jsonl").write_text("".join(dumps(line) + "\n" for line in sorted(lines, key=lambda line: str(line["path"]))))

    return spoil


def voxels(change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    """Return what changes an asset's voxels, and lets its record say so."""

    def spoil(root: Path) -> None:
        np.save(root / ASSET / "voxels.npy", np.ascontiguousarray(change(np.load(root / ASSET / "voxels.npy"))))
        told(root, ASSET)

    return spoil


def one_less(grid: np.ndarray) -> np.ndarray:
    """Return voxels without the one that holds the mesh's first vertex."""
    grid[tuple(np.floor((np.clip(VERTICES[0], -0.5 + 1e-6, 0.5 - 1e-6) + 0.5) * 64).astype(int))] = False
    return grid


def one_more(grid: np.ndarray) -> np.ndarray:
    """Return voxels with one more, two beside an occupied one where none is."""
    grid[tuple(np.argwhere(grid & ~np.roll(grid, -1, 0) & ~np.roll(grid, -2, 0) & (np.arange(64) < 62)[:, None, None])[0] + [2, 0, 0])] = True
    return grid


def same_shape(root: Path) -> None:
    """Give an asset of train the voxels of one of eval, and its triangles in another order."""
    folder = root / "assets/train/corner_train-0"
    (folder / "mesh.glb").write_bytes(glb_bytes(VERTICES, TRIANGLES[::-1]))
    shutil.copy(root / ASSET / "voxels.npy", folder / "voxels.npy")
    normalization = json.loads((root / ASSET / "meta.json").read_text())["normalization"]
    put("assets/train/corner_train-0/meta.json", ("normalization",), normalization)(root)
    told(root, "assets/train/corner_train-0")


VERTICES, TRIANGLES = corner_mesh(1)
TRAIN_ASSET = "assets/train/corner_train-0"


ASSETS = [
    Fault(
        "solid voxels of another grid",
        lambda root: np.save(root / ASSET / "voxels.npy", np.ones((65, 65, 65), bool)),
        T1,
        "voxels.npy: bool of shape (65, 65, 65)",
    ),
    Fault("voxels of bytes", lambda root: np.save(root / ASSET / "voxels.npy", np.ones((64, 64, 64), np.uint8)), T1, "voxels.npy: uint8 of shape"),
    Fault("cut voxels", data(f"{ASSET}/voxels.npy", lambda old: old[:-7]), T1, "voxels.npy: 262137 bytes of values"),
    Fault("other voxels", data(f"{ASSET}/voxels.npy", lambda old: old[:-1] + bytes([1 - old[-1]])), T1, "num_voxels: "),
    Fault("mesh of another digest", data(f"{ASSET}/mesh.glb", flip(5)), T1, "mesh.sha256: "),
    Fault("cut mesh", data(f"{ASSET}/mesh.glb", lambda old: old[:-4]), T1, "mesh.glb: version 2, "),
    Fault("mesh that is moved", mesh_bytes(glb_bytes(VERTICES, TRIANGLES, translation=[0, 0, 1])), T1, "mesh.glb: a node with a translation"),
    Fault("mesh beyond the unit cube", mesh_bytes(glb_bytes(VERTICES + [0.01, 0, 0], TRIANGLES)), T1, "expected vertices within -0.5 and 0.5"),
    Fault("small scan", mesh_bytes(glb_bytes(VERTICES * 0.9, TRIANGLES)), T1, "mesh.glb: a longest side of 0.9"),
    Fault("scan that touches one face", mesh_bytes(glb_bytes(VERTICES - [2e-5, 0, 0], TRIANGLES)), T1, "mesh.glb: vertices from"),
    Fault("scan aside of the middle", mesh_bytes(glb_bytes(VERTICES + [0, 0.1, 0], TRIANGLES)), T1, "normalization.raw_bbox: a box from"),
    Fault("mesh with Y up", mesh_bytes(glb_bytes(VERTICES[:, [0, 2, 1]] * [1, -1, 1], TRIANGLES)), T1, "normalization.raw_bbox: a box from"),
    Fault(
        "mesh without triangles",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["meshes"][0].update(primitives=[]))),
        T1,
        "mesh.glb: no triangles",
    ),
    Fault(
        "mesh whose bounds lie",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["accessors"][0].update(min=[-0.5] * 3))),
        T1,
        "mesh.glb: min [-0.5",
    ),
    Fault("index of no vertex", mesh_bytes(glb_bytes(VERTICES, np.where(TRIANGLES == 3, 99, TRIANGLES))), T1, "mesh.glb: the index 99 of 24 vertices"),
    Fault("vertex that is NaN", mesh_bytes(glb_bytes(np.where(VERTICES[3] == VERTICES, np.nan, VERTICES), TRIANGLES)), T1, "mesh.glb: a vertex that is NaN"),
    Fault(
        "mesh out of the scene",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["scenes"][0].update(nodes=[]))),
        T1,
        "a scene that does not show the mesh",
    ),
    Fault(
        "mesh twice in the scene",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["scenes"][0].update(nodes=[0, 0]))),
        T1,
        "node 0 is reached twice",
    ),
    Fault(
        "mesh in another file", mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["buffers"][0].update(uri="a.bin"))), T1, "bytes outside the file"
    ),
    Fault("mesh without its bytes", mesh_bytes(glb_bytes(VERTICES, TRIANGLES)[:12] + b""), T1, "mesh.glb: "),
    Fault("voxels everywhere", voxels(np.ones_like), T1, "voxels.npy: 0 voxels empty where the surface is, "),
    Fault("mirrored voxels", voxels(lambda old: old[::-1]), T1, "voxels empty where the surface is, "),
    Fault("voxels with the axes of glTF", voxels(lambda old: old.transpose(0, 2, 1)), T1, "voxels empty where the surface is, "),
    Fault("voxels moved by one", voxels(lambda old: np.roll(old, 1, 1)), T1, "voxels empty where the surface is, "),
    Fault("one voxel too few", voxels(one_less), T1, "voxels.npy: 1 voxels empty where the surface is, 0 occupied"),
    Fault("one voxel too many", voxels(one_more), T1, "voxels.npy: 0 voxels empty where the surface is, 1 occupied"),
    Fault(
        "raw box of other proportions",
        edit(
            f"{ASSET}/meta.json",
            lambda r: (
                r["normalization"]["raw_bbox"][1].__setitem__(2, r["normalization"]["raw_bbox"][1][2] + 0.1)
                or r["normalization"]["offset"].__setitem__(2, -0.025)
            ),
        ),
        T1,
        "normalization.raw_bbox: a box from",
    ),
    Fault("no digest of the mesh", drop(f"{ASSET}/meta.json", "mesh"), T1, f"{ASSET}/meta.json: no key 'mesh'"),
    Fault("no digest of the voxels", drop(f"{ASSET}/meta.json", "voxels"), T1, f"{ASSET}/meta.json: no key 'voxels'"),
    Fault("source that is no word", put(f"{ASSET}/meta.json", ("source",), "my scans/"), T1, f'{ASSET}/meta.json: source: "my scans/"'),
    Fault("no licence", drop(f"{ASSET}/meta.json", "license"), T1, f"{ASSET}/meta.json: no key 'license'"),
    Fault("other scale", add(f"{ASSET}/meta.json", ("normalization", "scale"), 0.01), T1, "normalization.scale: 0.51, expected 0.5"),
    Fault("offset in raw units", put(f"{ASSET}/meta.json", ("normalization", "offset"), [-1.0, 0.0, 0.0]), T1, "normalization.offset: "),
]


LEAKS = [
    Fault(
        "asset in both splits", lambda root: shutil.copytree(root / ASSET, root / "assets/train/corner_eval-1"), T1, "the asset corner_eval-1 of assets/eval"
    ),
    Fault("mesh in both splits", same_mesh, T1, "assets/train/corner_train-0: the mesh with sha256"),
    Fault(
        "asset in both splits by another case",
        lambda root: shutil.copytree(root / ASSET, root / "assets/train/Corner_EVAL-1"),
        T1,
        "the asset corner_eval-1 of",
    ),
    Fault("shape in both splits", same_shape, T1, "assets/train/corner_train-0: the voxel grid with sha256"),
    Fault(
        "scan in both splits under another id",
        put("assets/train/corner_train-0/meta.json", ("source_name",), "Corner 1 of EVAL"),
        T1,
        "assets/train/corner_train-0: the gso asset corner 1 of eval of assets/eval/corner_eval-1",
    ),
    Fault(
        "scan in both splits under one name and address",
        each(*(edit(f"{path}/meta.json", lambda r: r.update(source_name="scene.glb", source_url="https://a.example/1")) for path in (ASSET, TRAIN_ASSET))),
        T1,
        "assets/train/corner_train-0: the gso asset scene.glb of assets/eval/corner_eval-1",
    ),
    Fault(
        "address of a panorama in both splits",
        provenance(OTHER, source_url="https://polyhaven.com/a/meadow/"),
        T1,
        f"{OTHER}: the photo from https://polyhaven.com/a/meadow of {THREE}",
    ),
    Fault("panorama in both splits by another case", second_clip("train", "ph_MEADOW_v3"), T1, "the panorama or photo meadow of clips/eval/00000000"),
    Fault("panorama in both splits", second_clip("train", "ph_meadow_v3"), T1, "the panorama or photo meadow of clips/eval/00000000"),
    Fault("picture in both splits", second_clip("train", "ph_meadow_v1"), T1, "the image ph_meadow_v1 of clips/eval/00000007"),
    Fault("seed of two clips", second_clip("eval", "ph_meadow_v3", seed=7), T1, "seed: 7, as clips/eval/00000007 has"),
]
