"""The same object asked by Embree, in true rays: a second opinion on what `Caster` draws, for validation. It needs the package embreex.

Embree calculates in float32. So it only proposes a triangle: a proposal that float64 confirms is taken, and every other ray, misses too, is cast exactly.
What differs from `Caster` then is which of two surfaces is nearer where they lie within about 1e-6 of each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam3dvid.conventions import project, rotate
from sam3dvid.raycast import bvh
from sam3dvid.raycast.caster import Box, Caster, Float, View, check_rays


class EmbreeCaster:
    """A `Caster` that asks Embree first. Arguments and answers are those of Caster, `draw` included. Raises ImportError where embreex is not installed."""

    def __init__(self, vertices: ArrayLike, triangles: ArrayLike) -> None:
        from embreex.mesh_construction import TriangleMesh
        from embreex.rtcore_scene import EmbreeScene

        self.exact = Caster(vertices, triangles)
        points = self.exact.vertices
        self._middle = (points.min(axis=0) + points.max(axis=0)) / 2
        self._radius = float(np.sqrt(((points - self._middle) ** 2).sum(axis=1).max()))
        # far, large or tiny meshes lose no digits in float32 where the mesh is brought to the origin and to one size
        self._unit = 1 / self._radius if self._radius > 0 else 1.0
        self._scene = EmbreeScene()
        TriangleMesh(self._scene, ((points - self._middle) * self._unit).astype(np.float32), self.exact.triangles)

    def propose(self, origins: ArrayLike, directions: ArrayLike) -> NDArray[np.int32]:
        """Return what Embree alone says: (M,) int32, a triangle or -1; rays as for `hits`. Its misses and hits at edges are rounded."""
        start, along = check_rays(origins, directions)
        if not len(start):
            return np.zeros(0, np.int32)
        unit = along / np.sqrt((along**2).sum(axis=1))[:, None]
        offset = start - self._middle
        # the ray starts just before the mesh: an origin far away would have few digits left for where it passes
        skipped = np.maximum(-(offset * unit).sum(axis=1) - 1.01 * self._radius, 0.0)
        near = (offset + skipped[:, None] * unit) * self._unit
        return np.asarray(self._scene.run(near.astype(np.float32), unit.astype(np.float32)), np.int32)

    def hits(self, origins: ArrayLike, directions: ArrayLike) -> tuple[Float, NDArray[np.int32]]:
        """Return the nearest surface on each ray, as `Caster.hits` does."""
        start, along = check_rays(origins, directions)
        t, triangle = np.full(len(start), np.inf), np.empty(len(start), np.int32)
        mesh = self.exact
        bvh.confirm(start, along, mesh.vertices, mesh.triangles, self.propose(start, along), t, triangle)
        bvh.nearest(start, along, mesh.vertices, mesh.triangles, mesh.tree, t, triangle)
        return t, triangle

    def draw(self, view: View, R_co: Float, t_co: Float, s: float) -> Box:
        """Write z at each pixel centre to `view.drawn`, as `Caster.draw` does, by casting a ray through each pixel of the object's box."""
        box = self._box(view, R_co, t_co, s)
        first_u, end_u, first_v, end_v = box
        if first_u < end_u and first_v < end_v:
            x, y = np.meshgrid(view.ray_x[first_u:end_u], view.ray_y[first_v:end_v])
            R_oc = R_co.T
            directions = rotate(R_oc, np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3)) / s
            origin = -rotate(R_oc, t_co) / s
            # z of a ray of the camera is 1, so t is the depth
            t, _ = self.hits(np.broadcast_to(origin, directions.shape), directions)
            view.drawn[first_v:end_v, first_u:end_u] = t.reshape(x.shape)
        return box

    def _box(self, view: View, R_co: Float, t_co: Float, s: float) -> Box:
        """Return the pixels that the object's vertices span, and one more on each side; the whole picture if some lie behind."""
        height, width = view.drawn.shape
        x_c = rotate(R_co, s * self.exact.vertices) + t_co
        if not np.all(x_c[:, 2] > 0):
            return (0, width, 0, height) if np.any(x_c[:, 2] > 0) else (0, 0, 0, 0)
        uv = project(view.K, x_c)
        first, last = np.floor(uv.min(axis=0)) - 1, np.ceil(uv.max(axis=0)) + 1
        first_u, first_v = np.clip(first, 0, [width, height]).astype(int).tolist()
        end_u, end_v = np.clip(last + 1, 0, [width, height]).astype(int).tolist()
        return (first_u, end_u, first_v, end_v) if first_u < end_u and first_v < end_v else (0, 0, 0, 0)
