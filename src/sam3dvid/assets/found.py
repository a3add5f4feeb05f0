"""What a look into an asset's files found: the record that each format's reader gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAR = 100.0
"""Coordinates beyond this many times the asset's size lose what shows of its shape to float32: 6e-8 of the coordinate is 6e-6 of the size."""


@dataclass(frozen=True, slots=True)
class Found:
    """A source that looks usable.

    kind : gltf, obj, ply, stl or fbx.   path : the file for Blender, which may be a plain copy of the source.   notes : what the record shall say of it.
    digests : sha256 of all textures that were decoded whole.   triangles : least and most that Blender must find, or None where the file does not say.
    origin : (3,) in the file's own axes, what was subtracted from every vertex because float32 would have lost it.
    """

    kind: str
    path: Path
    notes: set[str]
    digests: set[str]
    triangles: tuple[int, int] | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)


def far_origin(positions: NDArray[Any]) -> NDArray[Any]:
    """Return what to subtract from (N, 3) float64 positions so that float32 keeps the shape, (3,): zero where they are not far away."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    far = np.abs(positions).max() > FAR * (high - low).max()
    return (low + high) / 2 if far else np.zeros(3)


def count_distinct(triangles: NDArray[Any], total: int) -> int:
    """Return how many triangles there are that name three vertices and no other's three.   triangles : (T, 3) ints below `total`."""
    corners = np.sort(triangles, axis=1)
    corners = corners[(corners[:, 0] != corners[:, 1]) & (corners[:, 1] != corners[:, 2])]
    if total >= 1 << 20:  # three such numbers do not fit into one of 64 bits
        return len(np.unique(corners, axis=0))
    return len(np.unique(corners.astype(np.int64) @ [total * total, total, 1]))
