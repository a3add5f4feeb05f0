"""The cameras of a clip: an eased arc around the scene, in scalar arithmetic of a fixed order.

`sam3dvid.conventions` has the same cameras for arrays. A plan is stored to the last bit, and numpy's sines and matrix products differ between processors
there. These do not, as far as the C library's sine, cosine and tangent do not. Source: seed 002, sections 3.2 and 7; synthetic spec, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.conventions import HFOV_DEG
from sam3dvid.plan.draw import Arc, Matrix, Poses, Vector

Float = NDArray[np.float64]
Pose4 = tuple[tuple[float, float, float, float], ...]
"""The rows of a 4 x 4 matrix."""


@dataclass(frozen=True, slots=True)
class Cameras:
    """Where the camera stands.   frames : T_cw of each frame.   reference : T_cw of the virtual camera at u = 0.5, which is no frame.   orbit_radius : scene units."""

    frames: tuple[Pose4, ...]
    reference: Pose4
    orbit_radius: float


def ease(t: int, frames: int) -> float:
    """Return u(t) = (1 - cos(pi t / (frames - 1))) / 2: 0 at the first frame, 1 at the last."""
    return (1 - math.cos(math.pi * t / (frames - 1))) / 2


def centre_of(positions: Sequence[Vector]) -> Vector:
    """Return the unweighted mean of the objects' positions: what the camera looks at."""
    x, y, z = (math.fsum(position[axis] for position in positions) / len(positions) for axis in range(3))
    return x, y, z


def posed(vertices: Float, rotation: Matrix, scale: float, position: Vector) -> Float:
    """Return R (s x) + t of every vertex.   vertices : (V, 3) float64, canonical frame.   Returns (V, 3) float64, world.

    Elementwise products and sums, which are rounded alike everywhere; a matrix product is not.
    """
    x, y, z = (scale * vertices[:, axis] for axis in range(3))
    return np.stack([row[0] * x + row[1] * y + row[2] * z + offset for row, offset in zip(rotation, position, strict=True)], axis=1)


def radius_around(centre: Vector, poses: Poses, vertices: Sequence[Float]) -> float:
    """Return the largest distance from the centre of a vertex of any object.   vertices : (V, 3) float64 of each object, canonical frame."""
    farthest = 0.0
    for points, rotation, scale, position in zip(vertices, poses.rotations, poses.scales, poses.positions, strict=True):
        world = posed(points, rotation, scale, position)
        x, y, z = (world[:, axis] - centre[axis] for axis in range(3))
        farthest = max(farthest, float((x * x + y * y + z * z).max()))
    return math.sqrt(farthest)


def camera_at(centre: Vector, distance: float, azimuth_deg: float, elevation_deg: float) -> Pose4:
    """Return T_cw of a camera on the orbit that looks at the centre, without roll.   azimuth : from +X towards +Y.   OpenCV axes.

    The rows of R_cw are the camera's right, down and forward directions in closed form, so nothing is normalised. The camera stands at
    centre - distance * forward, hence t_cw = (0, 0, distance) - R_cw centre.
    """
    azimuth, elevation = math.radians(azimuth_deg), math.radians(elevation_deg)
    ca, sa, ce, se = math.cos(azimuth), math.sin(azimuth), math.cos(elevation), math.sin(elevation)
    rows = ((-sa, ca, 0.0), (se * ca, se * sa, -ce), (-ce * ca, -ce * sa, -se))
    offsets = (0.0, 0.0, distance)
    # + 0.0 turns -0.0 into 0.0
    moved = [tuple(value + 0.0 for value in (*row, offset - _dot(row, centre))) for row, offset in zip(rows, offsets, strict=True)]
    return (*((a, b, c, d) for a, b, c, d in moved), (0.0, 0.0, 0.0, 1.0))


def _dot(one: Vector, other: Vector) -> float:
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def cameras_of(arc: Arc, centre: Vector, radius: float, frames: int) -> Cameras:
    """Return the cameras of an arc around a scene of this centre and radius."""
    distance = radius / math.tan(math.radians(HFOV_DEG / 2)) * arc.distance_factor

    def at(u: float) -> Pose4:
        azimuth = arc.start_azimuth_deg + arc.arc_direction * arc.arc_span_deg * u
        return camera_at(centre, distance, azimuth, arc.start_elevation_deg + arc.elevation_drift_deg * u)

    return Cameras(tuple(at(ease(t, frames)) for t in range(frames)), at(0.5), distance)
