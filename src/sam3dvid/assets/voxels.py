"""Triangles to the voxels of their surface, bit for bit as Open3D's `create_from_triangle_mesh_within_bounds` decides it.

The plain NumPy form of the same rule stands in tests/sam3dvid/voxel_cases.py and decides what is right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.codes import AssetRefused
from shardwork.compiled import compiler, inlined

SIZE = 64
"""Voxels a side of the grid."""
LIMIT = 0.5 - 1e-6
"""Vertices are clipped to plus and minus this, as TRELLIS does it, so that none lies on the outer faces of the grid."""
HALF = 0.5 / SIZE

compiled = compiler([Path(__file__)])


def voxelize(vertices: NDArray[np.float64], triangles: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return the voxels that the surface of a mesh touches.

    vertices : (V, 3) float64, canonical frame; what lies outside [-0.5, 0.5] is clipped.   triangles : (F, 3) int32, indices of vertices.
    Returns (64, 64, 64) bool, C order, [i, j, k] along (x, y, z); the centre of a voxel is at (index + 0.5) / 64 - 0.5.
    A vertex less than 2.8e-17 below a voxel's face is looked for above it alone, as Open3D's rounding has it.
    Memory beyond the arguments: the grid, 256 KiB, for any number of triangles.
    Raises AssetRefused: not_finite for NaN or infinite vertices, unreadable_mesh for indices of no vertex.
    Source: format v0.1, 3.3; Open3D 0.20, VoxelGridFactory.cpp; TRELLIS, dataset_toolkits/voxelize.py.
    """
    points = np.ascontiguousarray(vertices, np.float64)
    faces = np.ascontiguousarray(triangles, np.int32)
    if points.ndim != 2 or points.shape[1:] != (3,) or faces.ndim != 2 or faces.shape[1:] != (3,):
        raise AssetRefused("unreadable_mesh", "mesh", f"arrays of shapes {points.shape} and {faces.shape}", "(V, 3) vertices and (F, 3) triangles")
    if faces.size and not 0 <= faces.min() <= faces.max() < len(points):
        raise AssetRefused("unreadable_mesh", "mesh", f"indices from {faces.min()} to {faces.max()}", f"indices of {len(points)} vertices")
    # the least and the greatest are NaN if any is, and need no array of truth values
    if points.size and not (np.isfinite(points.min()) and np.isfinite(points.max())):
        raise AssetRefused("not_finite", "mesh", "a vertex that is NaN or infinite", "finite coordinates")
    grid = np.zeros((SIZE, SIZE, SIZE), np.bool_)
    _fill(points, faces.view(np.uint32), grid)
    return grid


@inlined
def _clip(value: Any) -> Any:
    return min(max(value, -LIMIT), LIMIT)


@inlined
def _first(least: Any) -> Any:
    """Return the first candidate along an axis. Open3D divides the distance by the voxel's side, a power of two: multiplying gives the same."""
    return int((least + 0.5) * SIZE)


@inlined
def _end(first: Any, least: Any, greatest: Any) -> Any:
    """Return the end of the candidates along an axis: the extent in voxels, rounded half up, and two more."""
    extent = (greatest - least) * SIZE
    whole = int(extent)
    return min(first + whole + (1 if extent - whole >= 0.5 else 0) + 2, SIZE)


@inlined
def _apart(p: Any, q: Any, radius: Any) -> Any:
    """Return whether two projections lie beyond the box's on one side; one that touches it does not."""
    return min(p, q) > radius or max(p, q) < -radius


@inlined
def _edge_apart(a: Any, b: Any, p: Any, q: Any, r: Any, s: Any) -> Any:
    """Return whether the cross product of an edge and an axis separates.

    a, b : the edge's parts along the two other axes.   (p, q), (r, s) : the same parts of a vertex of the edge, and of the vertex across from it.
    """
    return _apart(b * p - a * q, b * r - a * s, abs(b) * HALF + abs(a) * HALF)


@inlined
def _plane_apart(nx: Any, ny: Any, nz: Any, x: Any, y: Any, z: Any) -> Any:
    """Return whether the triangle's plane, of this normal and through this point, passes the box by."""
    hx, hy, hz = (HALF if nx > 0 else -HALF), (HALF if ny > 0 else -HALF), (HALF if nz > 0 else -HALF)
    near = nx * (-hx - x) + ny * (-hy - y) + nz * (-hz - z)
    far = nx * (hx - x) + ny * (hy - y) + nz * (hz - z)
    return near > 0 or not far >= 0


@inlined
def _meets(x0: Any, y0: Any, z0: Any, x1: Any, y1: Any, z1: Any, x2: Any, y2: Any, z2: Any) -> Any:
    """Return whether a triangle, relative to a box's centre, touches the closed box; their boxes are known to touch. Source: Akenine-Moeller 2001."""
    # edges of the moved vertices, each rounded as it is there: the result must not depend on a bit
    ex, ey, ez = x1 - x0, y1 - y0, z1 - z0
    fx, fy, fz = x2 - x1, y2 - y1, z2 - z1
    gx, gy, gz = x0 - x2, y0 - y2, z0 - z2
    if _edge_apart(ey, ez, y0, z0, y2, z2) or _edge_apart(ex, ez, x0, z0, x2, z2) or _edge_apart(ex, ey, x1, y1, x2, y2):
        return False
    if _edge_apart(fy, fz, y0, z0, y2, z2) or _edge_apart(fx, fz, x0, z0, x2, z2) or _edge_apart(fx, fy, x0, y0, x1, y1):
        return False
    if _edge_apart(gy, gz, y0, z0, y1, z1) or _edge_apart(gx, gz, x0, z0, x1, z1) or _edge_apart(gx, gy, x1, y1, x2, y2):
        return False
    return not _plane_apart(ey * fz - ez * fy, ez * fx - ex * fz, ex * fy - ey * fx, x0, y0, z0)


@compiled
def _fill(vertices: Any, triangles: Any, grid: Any) -> Any:
    """Set the voxels of all triangles."""
    for face in range(triangles.shape[0]):
        a, b, c = triangles[face, 0], triangles[face, 1], triangles[face, 2]
        ax, ay, az = _clip(vertices[a, 0]), _clip(vertices[a, 1]), _clip(vertices[a, 2])
        bx, by, bz = _clip(vertices[b, 0]), _clip(vertices[b, 1]), _clip(vertices[b, 2])
        cx, cy, cz = _clip(vertices[c, 0]), _clip(vertices[c, 1]), _clip(vertices[c, 2])
        least_x, least_y, least_z = min(ax, bx, cx), min(ay, by, cy), min(az, bz, cz)
        most_x, most_y, most_z = max(ax, bx, cx), max(ay, by, cy), max(az, bz, cz)
        first_y, first_z = _first(least_y), _first(least_z)
        end_y, end_z = _end(first_y, least_y, most_y), _end(first_z, least_z, most_z)
        first_x = _first(least_x)
        for i in range(first_x, _end(first_x, least_x, most_x)):
            x = -0.5 + HALF + i * (1.0 / SIZE)
            # subtraction rounds in order, so the box of the moved triangle is the moved box
            if least_x - x > HALF or most_x - x < -HALF:
                continue
            for j in range(first_y, end_y):
                y = -0.5 + HALF + j * (1.0 / SIZE)
                if least_y - y > HALF or most_y - y < -HALF:
                    continue
                for k in range(first_z, end_z):
                    z = -0.5 + HALF + k * (1.0 / SIZE)
                    if grid[i, j, k] or least_z - z > HALF or most_z - z < -HALF:
                        continue
                    grid[i, j, k] = _meets(ax - x, ay - y, az - z, bx - x, by - y, bz - z, cx - x, cy - y, cz - z)
