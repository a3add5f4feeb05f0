"""One asset, ready to be asked where rays meet it and how it looks from a camera."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import pixel_rays
from sam3dvid.raycast import bvh, raster

Float = NDArray[np.float64]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class View:
    """A camera without its place: intrinsics, size, the rays through its pixel centres, and a picture to draw objects into."""

    K: Float
    ray_x: Float
    ray_y: Float
    drawn: Float
    """(height, width) float64: what `Caster.draw` wrote last."""

    @classmethod
    def of(cls, K: ArrayLike, width: int, height: int) -> View:
        """Return the view of K (3, 3) without skew and of this size. Raises ValueError for another K."""
        matrix = np.ascontiguousarray(K, np.float64)
        if matrix.shape != (3, 3) or matrix[0, 1] or matrix[1, 0] or matrix[2].tolist() != [0, 0, 1] or not (matrix[0, 0] > 0 and matrix[1, 1] > 0):
            raise ValueError(f"K is {matrix.tolist()}, expected (3, 3), focal lengths above 0, no skew and a last row of 0 0 1")
        ray_x, ray_y = pixel_rays(matrix, width, height)
        return cls(matrix, ray_x, ray_y, np.empty((height, width)))


def check_rays(origins: ArrayLike, directions: ArrayLike) -> tuple[Float, Float]:
    """Return rays as two (M, 3) float64 arrays. Raises ValueError for other shapes, or values that are not finite or no direction."""
    start, along = np.ascontiguousarray(origins, np.float64), np.ascontiguousarray(directions, np.float64)
    if start.ndim != 2 or start.shape[1] != 3 or start.shape != along.shape:
        raise ValueError(f"rays of shapes {start.shape} and {along.shape}, expected (M, 3) origins and directions")
    if not (np.isfinite(start).all() and np.isfinite(along).all() and along.any(axis=1).all()):
        raise ValueError("a ray that is not finite, or without a direction")
    return start, along


class Caster:
    """Triangles of one asset. Its answers are exact for float64 vertices, rounded once into the camera or relative to a ray's origin, and they are the same
    bytes in any process and thread.

    vertices : (V, 3) float64, canonical frame.   triangles : (F, 3) int32. Both are copied and may not be empty.
    Raises AssetRefused: unreadable_mesh for other shapes or indices of no vertex, empty_mesh, not_finite.
    Memory: the mesh, and from the first call of `hits` a tree of about 180 bytes a triangle. It may be asked from several threads.
    """

    def __init__(self, vertices: ArrayLike, triangles: ArrayLike) -> None:
        points, faces = np.array(vertices, np.float64, order="C"), np.array(triangles, np.int32, order="C")
        if points.ndim != 2 or points.shape[1:] != (3,) or faces.ndim != 2 or faces.shape[1:] != (3,):
            raise AssetRefused("unreadable_mesh", "mesh", f"arrays of shapes {points.shape} and {faces.shape}", "(V, 3) vertices and (F, 3) triangles")
        if not len(points) or not len(faces):
            raise AssetRefused("empty_mesh", "mesh", f"{len(points)} vertices and {len(faces)} triangles", "some of both")
        if not 0 <= faces.min() <= faces.max() < len(points):
            raise AssetRefused("unreadable_mesh", "mesh", f"indices from {faces.min()} to {faces.max()}", f"indices of {len(points)} vertices")
        if not np.isfinite(points).all():
            raise AssetRefused("not_finite", "mesh", "a vertex that is NaN or infinite", "finite coordinates")
        self.vertices, self.triangles = points, faces
        self._tree: Any = None

    @property
    def tree(self) -> Any:
        """Return the boxes of `bvh.build`, made at the first call: drawing needs none."""
        if self._tree is None:
            self._tree = bvh.build(self.vertices, self.triangles)
        return self._tree

    def hits(self, origins: ArrayLike, directions: ArrayLike) -> tuple[Float, NDArray[np.int32]]:
        """Return the nearest surface on each ray, front or back.

        origins, directions : (M, 3) float64, canonical frame; directions of any length above 0.
        Returns t (M,) float64, the surface being at origin + t * direction with t > 0, inf for a miss; triangle (M,) int32, -1 for a miss, the lowest of
        equally near ones. Edges and corners belong to triangles, so no ray passes between two that share an edge.   Raises ValueError as `check_rays` does.
        """
        start, along = check_rays(origins, directions)
        t, triangle = np.empty(len(start)), np.full(len(start), -2, np.int32)
        bvh.nearest(start, along, self.vertices, self.triangles, self.tree, t, triangle)
        return t, triangle

    def draw(self, view: View, R_co: Float, t_co: Float, s: float) -> Box:
        """Write z of the object's nearest surface at each pixel centre to `view.drawn`, inf for a miss, within the box that comes back.

        R_co : (3, 3), t_co : (3,), C order float64.   s : scale.   Returns (first_u, end_u, first_v, end_v); nothing of the object lies beyond it, and
        nothing there is written. Parts at z <= 0 are not seen.
        """
        count = len(self.vertices)
        camera, spans = np.empty((count, 3)), np.empty((count, 4), np.int32)
        box: Box = raster.draw(self.vertices, self.triangles, R_co, t_co, s, view.K, view.ray_x, view.ray_y, camera, spans, view.drawn)
        return box
