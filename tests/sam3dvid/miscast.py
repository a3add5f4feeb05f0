"""Ways to spoil a dataset's masks, depth and meshes as faulty renders would: each writes what another pose, camera or mesh would have shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from sam3dvid.raycast import Caster, Truth, frame_truth
from tests.sam3dvid.datasets import Clip, glb_bytes, mesh_of


@dataclass(frozen=True)
class Shot:
    """What a frame is cast from.   K : (3, 3).   R_co : (N, 3, 3).   t_co : (N, 3).   s : (N,)."""

    K: np.ndarray
    R_co: np.ndarray
    t_co: np.ndarray
    s: np.ndarray


def shots_of(root: Path, clip: Clip) -> list[Shot]:
    """Return what each frame of a clip must be cast from, worked out from its files."""
    cameras, objects = (json.loads((root / clip.path / f"{name}.json").read_text()) for name in ("cameras", "objects"))
    R_wo, t_wo, s = (np.array([one[key] for one in objects]) for key in ("R_wo", "t_wo", "s_wo"))
    shots = []
    for frame in cameras["frames"]:
        T_cw = np.array(frame["T_cw"])
        R_co = np.stack([T_cw[:3, :3] @ R for R in R_wo])
        shots.append(Shot(np.array(cameras["K"]), R_co, t_wo @ T_cw[:3, :3].T + T_cw[:3, 3], s[:, 0]))
    return shots


def recast(root: Path, clip: Clip, change: Callable[[Shot, int], Shot], frames: tuple[int, ...] | None = None) -> None:
    """Write masks and depth of frames (all of them by default) as a changed shot shows them."""
    casters = [Caster(*mesh_of(clip.split, number)) for number in clip.assets]
    for t, shot in enumerate(shots_of(root, clip)):
        if frames is None or t in frames:
            with Image.open(root / clip.path / f"mask_visible/{t:03d}.png") as image:
                size = image.size
            wrong = change(shot, t)
            write_truth(root / clip.path, t, frame_truth(casters, wrong.R_co, wrong.t_co, wrong.s, wrong.K, *size))


def write_truth(folder: Path, t: int, truth: Truth) -> None:
    Image.fromarray(truth.mask).save(folder / f"mask_visible/{t:03d}.png")
    for k, whole in enumerate(truth.amodal, 1):
        Image.fromarray(whole.astype(np.uint8) * 255).save(folder / f"mask_amodal/obj{k}/{t:03d}.png")
    np.savez_compressed(folder / f"depth/{t:03d}.npz", depth=truth.depth.astype(np.float32))


def rotation(axis: str, degrees: float) -> np.ndarray:
    """Return the right-handed turn about an axis: (3, 3)."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array({"x": [[1, 0, 0], [0, c, -s], [0, s, c]], "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]], "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]]}[axis])


def off_centre(u: float, v: float) -> Callable[[Shot, int], Shot]:
    return lambda shot, _: replace(shot, K=shot.K + np.array([[0, 0, u], [0, 0, v], [0, 0, 0]]))


def turned(k: int, axis: str, degrees: float) -> Callable[[Shot, int], Shot]:
    """Return what turns object k about an axis of its canonical frame."""

    def change(shot: Shot, _: int) -> Shot:
        R_co = shot.R_co.copy()
        R_co[k - 1] = R_co[k - 1] @ rotation(axis, degrees)
        return replace(shot, R_co=R_co)

    return change


def moved(k: int, x_of_s: float, y_of_s: float) -> Callable[[Shot, int], Shot]:
    """Return what moves object k across the view, to the right and down, in units of its scale."""

    def change(shot: Shot, _: int) -> Shot:
        t_co = shot.t_co.copy()
        t_co[k - 1] += shot.s[k - 1] * np.array([x_of_s, y_of_s, 0])
        return replace(shot, t_co=t_co)

    return change


def y_up(root: Path, clip: Clip, k: int) -> None:
    """Write object k's mesh as an exporter does that leaves Z up: canonical coordinates stand in the file, where readers take them for Y up."""
    number = clip.assets[k - 1]
    vertices, triangles = mesh_of(clip.split, number)
    objects = json.loads((root / clip.path / "objects.json").read_text())
    # glb_bytes writes (x, z, -y); for (x, y, z) to stand in the file it is given (x, -z, y)
    (root / objects[k - 1]["mesh"]).write_bytes(glb_bytes(vertices[:, [0, 2, 1]] * [1, -1, 1], triangles))


def each_mask(root: Path, clip: Clip, k: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change object k's silhouette in all frames: (H, W) bool to the same."""
    for path in sorted((root / clip.path / f"mask_amodal/obj{k}").iterdir()):
        with Image.open(path) as image:
            whole = np.array(image) > 0
        Image.fromarray(change(whole).astype(np.uint8) * 255).save(path)


def each_depth(root: Path, clip: Clip, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change depth in all frames: (H, W) to the same."""
    for path in sorted((root / clip.path / "depth").iterdir()):
        np.savez_compressed(path, depth=change(np.load(path)["depth"]).astype(np.float32))


def ray_length(size: int, K: np.ndarray) -> np.ndarray:
    """Return the length of each pixel's ray to z = 1: (size, size)."""
    x = (np.arange(size) - K[0, 2]) / K[0, 0]
    return np.sqrt(1 + x[None, :] ** 2 + x[:, None] ** 2)


def grown(mask: np.ndarray) -> np.ndarray:
    """Return a mask with the four neighbours of its pixels."""
    padded = np.pad(mask, 1)
    return padded[1:-1, 1:-1] | padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
