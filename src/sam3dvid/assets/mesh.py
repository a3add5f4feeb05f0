"""The triangles of a canonical mesh file, read without Blender."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import CANONICAL_FROM_GLTF

BROKEN = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError, TypeError, ValueError, struct.error)
"""What the reader raises on damaged files, each of them seen or possible; OSError and MemoryError are the machine's."""
OVERSHOOT = 1e-6
"""How far float32 may carry a vertex beyond the unit cube."""


def read_canonical(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the vertices and triangles of a GLB in glTF axes, all primitives together, moved by the transforms of their nodes.

    Returns (V, 3) float64 in the canonical frame, (x, y, z) of glTF -> (x, -z, y), and (F, 3) int32.   Textures are not decoded.
    Raises AssetRefused: unreadable_mesh for a file that is cut, damaged or no GLB, empty_mesh for one without triangles, not_finite.
    Source: format v0.1, 3.3.
    """
    import trimesh

    try:
        with open(path, "rb") as file:
            # skip_materials: the triangles of an asset without decoding its pictures
            scene = trimesh.load_scene(file, file_type="glb", skip_materials=True, process=False)
        nodes = [scene.graph[name] for name in sorted(scene.graph.nodes_geometry)]
        parts = [_moved(scene.geometry[name], transform) for transform, name in nodes if hasattr(scene.geometry[name], "faces")]
    except BROKEN as error:
        raise AssetRefused("unreadable_mesh", path.name, f"{type(error).__name__}: {error}", "a whole GLB file") from error
    if not sum(len(faces) for _, faces in parts):
        raise AssetRefused("empty_mesh", path.name, "no triangles", "a mesh of triangles")
    vertices = np.concatenate([vertices for vertices, _ in parts])
    if not np.isfinite(vertices).all():
        raise AssetRefused("not_finite", path.name, "a vertex that is NaN or infinite", "finite coordinates")
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    triangles = np.concatenate([faces + start for (_, faces), start in zip(parts, starts, strict=True)])
    return np.ascontiguousarray(vertices @ CANONICAL_FROM_GLTF.T), triangles.astype(np.int32)


def _moved(geometry: Any, transform: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the vertices and triangles of a part where its node puts them."""
    vertices = np.asarray(geometry.vertices, np.float64)
    return vertices @ transform[:3, :3].T + transform[:3, 3], np.asarray(geometry.faces, np.int64)


def check_canonical(vertices: NDArray[np.float64], where: object) -> None:
    """Raise AssetRefused (not_canonical) if a vertex lies outside the unit cube by more than float32 accounts for.

    vertices : (V, 3) float64, canonical frame.
    """
    farthest = float(np.abs(vertices).max(initial=0.0))
    if farthest > 0.5 + OVERSHOOT:
        found = f"a coordinate of size {farthest:.9g}"
        raise AssetRefused("not_canonical", where, found, f"vertices within -0.5 and 0.5 (and {OVERSHOOT:g})")
