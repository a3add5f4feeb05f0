"""Meshes for the voxel tests, the rule in plain NumPy, and Open3D's own answer where it is installed."""

from __future__ import annotations

import hashlib

import numpy as np
import trimesh

SIZE = 64
LIMIT = 0.5 - 1e-6
SQUARE = (np.array([[0, -0.5, -0.5], [0, 0.5, -0.5], [0, 0.5, 0.5], [0, -0.5, 0.5]]), np.array([[0, 1, 2], [0, 2, 3]], np.int32))
"""The square x = 0 across the whole grid."""


def arrays(mesh):
    """Return the vertices and triangles of a trimesh mesh."""
    return np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces, np.int32)


def soup(points):
    """Return triangles that share no vertex: (F, 3, 3) points."""
    return np.asarray(points, np.float64).reshape(-1, 3), np.arange(len(points) * 3, dtype=np.int32).reshape(-1, 3)


def turned(mesh, seed):
    """Return a mesh turned and scaled by a random pose, so that its longest side is 1 or a little more."""
    rng = np.random.default_rng(seed)
    vertices, faces = arrays(mesh)
    moved = vertices @ trimesh.transformations.random_rotation_matrix(rng.random(3))[:3, :3].T
    low, high = moved.min(0), moved.max(0)
    return (moved - (low + high) / 2) / (high - low).max() * rng.uniform(0.3, 1.1), faces


def mesh_of(kind):
    """Return the vertices and triangles of a named case."""
    rng = np.random.default_rng(20)
    lattice = rng.integers(-32, 33, (60, 3, 3)) / 64
    if kind == "random":
        return soup(rng.uniform(-0.55, 0.55, (60, 3, 3)))
    if kind == "vertices on cell corners":
        return soup(lattice)
    if kind == "vertices a bit beside cell corners":
        return soup(lattice + rng.choice([0, 1e-16, -1e-16, 5e-17], lattice.shape))
    if kind == "float32":
        return soup(rng.uniform(-0.5, 0.5, (60, 3, 3)).astype(np.float32))
    if kind == "small":
        return soup(rng.uniform(-0.5, 0.5, (400, 1, 3)) + rng.normal(0, 0.01, (400, 3, 3)))
    if kind == "lines":
        start, step = lattice[:, 0], rng.integers(-8, 9, (60, 3)) / 64
        return soup(np.stack([start, start + step, start + 2 * step], 1))
    if kind == "points":
        return soup(np.repeat(lattice[:, :1], 3, 1))
    if kind == "slivers":
        a, b = rng.uniform(-0.5, 0.5, (2, 60, 3))
        return soup(np.stack([a, b, (a + b) / 2 + rng.normal(0, 1e-9, (60, 3))], 1))
    if kind == "turned box":
        return turned(trimesh.creation.box((1, 0.5, 0.25)), 1)
    if kind == "turned cone":
        return turned(trimesh.creation.cone(0.3, 1, sections=40), 2)
    if kind == "turned sphere":
        return turned(trimesh.creation.icosphere(4, 0.5), 3)
    raise KeyError(kind)


OPEN3D = {
    "random": (60783, "4a9a39cf0221835f"),
    "vertices on cell corners": (50460, "fa7b1628407423d8"),
    "vertices a bit beside cell corners": (50104, "9d17c05cab432e4e"),
    "float32": (51441, "5b0a79193c9001cb"),
    "small": (2071, "1553d22a1b1fc73e"),
    "lines": (1994, "8bbdbcd682a0d482"),
    "points": (60, "d64f3297a8e7b60f"),
    "slivers": (3927, "bea0042827fcb756"),
    "turned box": (8792, "27194ceb6ef7b3b2"),
    "turned cone": (1009, "e9b0c9837eabb7bf"),
    "turned sphere": (11312, "77946cf48ded597d"),
}
"""Case -> how many voxels Open3D 0.20.0 sets, and the first 16 hex digits of their digest."""


def digest(grid):
    """Return the sha256 of a grid's packed bits, 16 hex digits."""
    return hashlib.sha256(np.packbits(grid).tobytes()).hexdigest()[:16]


def open3d_voxels(vertices, triangles):
    """Return Open3D's own grid."""
    import open3d

    points = open3d.utility.Vector3dVector(np.clip(vertices, -LIMIT, LIMIT))
    mesh = open3d.geometry.TriangleMesh(points, open3d.utility.Vector3iVector(triangles))
    made = open3d.geometry.VoxelGrid.create_from_triangle_mesh_within_bounds(mesh, voxel_size=1 / SIZE, min_bound=(-0.5,) * 3, max_bound=(0.5,) * 3)
    grid = np.zeros((SIZE,) * 3, bool)
    grid[tuple(np.array([voxel.grid_index for voxel in made.get_voxels()]).T)] = True
    return grid


def reference_voxels(vertices, triangles):
    """Return the grid by the rule as it is written down: candidates from the least corner on, kept where no axis separates triangle and closed box."""
    grid = np.zeros((SIZE,) * 3, bool)
    clipped = np.clip(vertices, -LIMIT, LIMIT)
    for corners in clipped[triangles]:
        low, extent = corners.min(0), np.ptp(corners, axis=0) * SIZE
        first = np.floor((low + 0.5) * SIZE).astype(int)
        count = np.where(extent - np.floor(extent) >= 0.5, np.ceil(extent), np.floor(extent)).astype(int) + 2
        index = first + np.stack(np.meshgrid(*map(np.arange, count), indexing="ij"), -1).reshape(-1, 3)
        moved = corners - ((index + 0.5) / SIZE - 0.5)[:, None]
        edges = corners - np.roll(corners, 1, axis=0)
        # the triangle's normal first: along it most candidates are apart
        axes = [np.cross(edges[0], edges[1]), *np.eye(3), *(np.cross(unit, edge) for unit in np.eye(3) for edge in edges)]
        for axis in axes:
            along, radius = moved @ axis, np.abs(axis).sum() / (2 * SIZE)
            meets = (along.min(1) <= radius) & (along.max(1) >= -radius)
            index, moved = index[meets], moved[meets]
        grid[tuple(index.T)] = True
    return grid
