"""Voxels against the mesh: which must be occupied, and which may be.

Not the voxelizer's own code: a triangle and a voxel are told apart by the separating axis test, in numpy, with a margin. Where a triangle touches a voxel
by more than the margin the voxel must be occupied; where it misses the voxel by more it must not be; between the two, rounding decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sam3dvid.validate.glb import Mesh

Float = NDArray[np.float64]
Whole = NDArray[np.int64]
Truth = NDArray[np.bool_]
SIZE = 64
LIMIT = 0.5 - 1e-6
"""Vertices are clipped to plus and minus this. Source: TRELLIS, dataset_toolkits/voxelize.py."""
MARGIN = 1e-9
"""In voxels: far above what rounding makes of a distance here, which is at most 1e-13."""
ROUNDING = 1e-10
"""The same for products of two lengths within the grid, whose axis may be much shorter than they are."""
BLOCK = 8
"""Voxels a side of the blocks that a large triangle is first compared with."""
PAIRS = 200_000
"""Triangles times voxels looked at together: some 50 MiB."""


def wrong_voxels(voxels: Truth, mesh: Mesh) -> tuple[int, int]:
    """Return how many voxels are empty though the surface is in them, and how many are occupied though it is not.

    voxels : (64, 64, 64) bool, [i, j, k] along (x, y, z) of the canonical frame.   Source: format v0.1, 3.3.
    """
    corners = (np.clip(mesh.vertices, -LIMIT, LIMIT) + 0.5) * SIZE
    missing, known = np.zeros_like(voxels), np.zeros_like(voxels)
    _mark_vertices(corners[np.unique(mesh.triangles)], voxels, missing, known)
    for which, cell in _candidates(corners, mesh.triangles):
        at = cell[:, 0] * SIZE * SIZE + cell[:, 1] * SIZE + cell[:, 2]
        # what the vertices, or triangles before, have settled needs no test
        open_ = np.where(voxels.ravel()[at], ~known.ravel()[at], ~missing.ravel()[at])
        which, cell, at = which[open_], cell[open_], at[open_]
        surely, maybe = _touches(corners[mesh.triangles[which]] - (cell + 0.5)[:, None], 0.5)
        known.ravel()[at[maybe]] = True
        empty = at[surely]
        missing.ravel()[empty[~voxels.ravel()[empty]]] = True
    return int(np.count_nonzero(missing)), int(np.count_nonzero(voxels & ~known))


def _mark_vertices(points: Float, voxels: Truth, missing: Truth, known: Truth) -> None:
    """Mark the voxels that hold vertices: known, and missing where empty. A vertex on a face may be in either voxel, but is in one of them."""
    cells = np.floor(points).astype(np.int64)
    known[tuple(cells.T)] = True
    beside = np.abs(points - np.round(points)).min(axis=1) <= MARGIN
    unsure = points[beside]
    held = np.zeros(len(unsure), np.bool_)
    for shift in product((-MARGIN, MARGIN), repeat=3):
        near = tuple(np.clip(np.floor(unsure + shift), 0, SIZE - 1).astype(np.int64).T)
        known[near] = True
        held |= voxels[near]
    for gone in (cells[~beside], cells[beside][~held]):
        empty = gone[~voxels[tuple(gone.T)]]
        missing[tuple(empty.T)] = True


def _candidates(corners: Float, triangles: Whole) -> Iterator[tuple[Whole, Whole]]:
    """Yield (M,) numbers of triangles and (M, 3) voxels whose boxes touch, not those of triangles within one voxel: their vertices settle it."""
    placed = corners[triangles]
    low = np.floor(placed.min(axis=1) - MARGIN).astype(np.int64)
    high = np.minimum(np.floor(placed.max(axis=1) + MARGIN).astype(np.int64), SIZE - 1)
    low = np.maximum(low, 0)
    count = (high - low + 1).prod(axis=1)
    small = np.flatnonzero((count > 1) & (count <= BLOCK**3))
    yield from _expand(small, low[small], high[small])
    large = np.flatnonzero(count > BLOCK**3)
    for which, block in _expand(large, low[large] // BLOCK, high[large] // BLOCK):
        _, maybe = _touches(placed[which] - ((block + 0.5) * BLOCK)[:, None], BLOCK / 2)
        which, block = which[maybe], block[maybe]
        yield from _expand(which, np.maximum(low[which], block * BLOCK), np.minimum(high[which], block * BLOCK + BLOCK - 1))


def _expand(which: Whole, low: Whole, high: Whole) -> Iterator[tuple[Whole, Whole]]:
    """Yield every number with each cell from low to high, (M,) and (M, 3), about `PAIRS` at a time."""
    size = high - low + 1
    count = size.prod(axis=1)
    ends = np.cumsum(count)
    start = 0
    while start < len(which):
        stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + PAIRS)))
        part = np.repeat(np.arange(start, stop), count[start:stop])
        at = np.arange(len(part)) - np.repeat(ends[start:stop] - count[start:stop] - (ends[start - 1] if start else 0), count[start:stop])
        _, n_y, n_z = size[part].T
        yield which[part], low[part] + np.stack([at // (n_y * n_z), at // n_z % n_y, at % n_z], axis=1)
        start = stop


def _touches(placed: Float, half: float) -> tuple[Truth, Truth]:
    """Return whether triangles surely touch a box, and whether they may.

    placed : (M, 3, 3) float64, corners relative to the box's centre.   half : half its side.   Source: Akenine-Moeller 2001.
    """
    p = np.ascontiguousarray(placed.transpose(1, 2, 0))  # corner, axis, pair
    edges = np.roll(p, -1, axis=0) - p
    surely, maybe = np.ones(p.shape[2], np.bool_), np.ones(p.shape[2], np.bool_)

    def judge(low: Float, high: Float, radius: Float | float) -> None:
        nonlocal surely, maybe
        gap = np.maximum(low, -high) - radius
        slack = MARGIN * radius + ROUNDING
        surely, maybe = surely & (gap < -slack), maybe & (gap <= slack)

    for axis in range(3):
        judge(p[:, axis].min(axis=0), p[:, axis].max(axis=0), half)
        u, v = (axis + 1) % 3, (axis + 2) % 3
        for corner in range(3):
            # both ends of an edge have one projection on an axis across it
            e_u, e_v, across = edges[corner, u], edges[corner, v], (corner + 2) % 3
            one, other = e_v * p[corner, u] - e_u * p[corner, v], e_v * p[across, u] - e_u * p[across, v]
            judge(np.minimum(one, other), np.maximum(one, other), half * (np.abs(e_u) + np.abs(e_v)))
    normal = np.cross(edges[0], edges[1], axis=0)
    distance = (normal * p[0]).sum(axis=0)
    judge(distance, distance, half * np.abs(normal).sum(axis=0))
    return surely, maybe
