"""T3, a clip's objects as their meshes and poses have them: each can be cast alone, as it is posed or otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.raycast.caster import Box, Caster, View
from sam3dvid.validate.glb import Mesh
from sam3dvid.validate.kinds import Float
from sam3dvid.validate.schema import Size

Truth = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pose:
    """An object in the camera: x_c = R_co (s x_o) + t_co.   R_co : (3, 3).   t_co : (3,).   Both float64, OpenCV axes, scene units."""

    R_co: Float
    t_co: Float
    s: float

    def turned(self, Q: Float) -> Pose:
        """Return the pose of the object turned by Q (3, 3) in its canonical frame."""
        return Pose(self.R_co @ Q, self.t_co, self.s)

    def moved(self, x: float, y: float) -> Pose:
        """Return the pose of the object moved across the view, to the right and down, scene units."""
        return Pose(self.R_co, self.t_co + [x, y, 0], self.s)


@dataclass(frozen=True, slots=True)
class Cast:
    """One object cast alone.

    rows, columns : the part of the picture that all of it lies in.   z : that part, float64, inf where no surface is.
    """

    rows: slice
    columns: slice
    z: Float

    @property
    def seen(self) -> Truth:
        """Return its silhouette within the part."""
        seen: Truth = self.z < np.inf
        return seen

    @property
    def box(self) -> Box:
        """Return (first_u, end_u, first_v, end_v) of the part."""
        return self.columns.start, self.columns.stop, self.rows.start, self.rows.stop


class Scene:
    """The objects of a clip in all of its frames.

    meshes : N of them.   T_cw : (F, 4, 4).   R_wo : (N, 3, 3).   t_wo : (N, 3).   s : (N,).   K : (3, 3).   All float64.   Source: format v0.1, 3.3.
    """

    def __init__(self, meshes: Sequence[Mesh], T_cw: Float, R_wo: Float, t_wo: Float, s: Float, K: Float, size: Size) -> None:
        self.casters = [Caster(mesh.vertices, mesh.triangles) for mesh in meshes]
        self.T_cw, self.R_wo, self.t_wo, self.s, self.K, self.size = T_cw, R_wo, t_wo, s, K, size
        self._views: dict[tuple[float, float], View] = {}

    def view(self, off: tuple[float, float] = (0.0, 0.0)) -> View:
        """Return the camera.   off : by how many px the principal point is moved."""
        if off not in self._views:
            K = self.K.copy()
            K[:2, 2] += off
            self._views[off] = View.of(K, self.size.width, self.size.height)
        return self._views[off]

    def pose(self, t: int, i: int) -> Pose:
        """Return the pose of object i, counted from 0, in frame t."""
        R_cw, t_cw = self.T_cw[t, :3, :3], self.T_cw[t, :3, 3]
        return Pose(R_cw @ self.R_wo[i], R_cw @ self.t_wo[i] + t_cw, float(self.s[i]))

    def cast(self, i: int, pose: Pose, off: tuple[float, float] = (0.0, 0.0)) -> Cast:
        """Return object i in a pose, one ray through each pixel centre."""
        view = self.view(off)
        first_u, end_u, first_v, end_v = self.casters[i].draw(view, np.ascontiguousarray(pose.R_co), np.ascontiguousarray(pose.t_co), pose.s)
        rows, columns = slice(first_v, end_v), slice(first_u, end_u)
        return Cast(rows, columns, view.drawn[rows, columns].copy())


def edge_of(seen: Truth) -> Truth:
    """Return the pixels of a mask with a 4-neighbour outside it; what lies beyond the array is outside.   Source: synthetic spec, section 5."""
    edge = seen.copy()
    edge[1:-1, 1:-1] &= ~(seen[:-2, 1:-1] & seen[2:, 1:-1] & seen[1:-1, :-2] & seen[1:-1, 2:])
    return edge


def edge_px(seen: Truth) -> int:
    """Return how many pixels a mask's edge has."""
    return int(np.count_nonzero(edge_of(seen)))


def wrong_px(stored: Truth, cast: Cast, seen: Truth) -> int:
    """Return how many pixels differ between a stored mask (H, W) and what is seen in a cast's part; nothing is seen beyond it."""
    part = stored[cast.rows, cast.columns]
    return int(np.count_nonzero(stored)) - int(np.count_nonzero(part)) + int(np.count_nonzero(part ^ seen))


def mismatch(stored: Truth, cast: Cast) -> float:
    """Return the mismatch of a stored silhouette (H, W) and a cast one: pixels that differ, for each pixel at the edge of the cast one."""
    seen = cast.seen
    return wrong_px(stored, cast, seen) / max(edge_px(seen), 1)


def turn(axis: int, degrees: float) -> Float:
    """Return the rotation about an axis (0 = x, 1 = y, 2 = z): (3, 3)."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    u, v = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[u, u], R[v, v], R[u, v], R[v, u] = c, c, -s, s
    return R
