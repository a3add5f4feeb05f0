"""Where the scene and the cameras of an attempt stand, computed from its draws. Source: seed 002, section 7; synthetic spec, section 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.backgrounds.warp import covers, homography
from sam3dvid.conventions import FRAMES, K_bg, Orbit, camera_distance, ease, frame_K, reference_T_cw, rotate
from sam3dvid.plan.draw import Arc, Poses, Vector
from sam3dvid.plan.settings import PlanSettings
from shardwork.step import Fields

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cameras:
    """The cameras of a clip.   frames : (F, 4, 4) float64, T_cw.   reference : (4, 4) float64, T_cw of the virtual camera at u = 0.5, which is no frame."""

    orbit: Orbit
    frames: Float
    reference: Float


def centre_of(positions: Sequence[Vector]) -> Vector:
    """Return the unweighted mean of the objects' positions: what the camera looks at."""
    x, y, z = (math.fsum(position[axis] for position in positions) / len(positions) for axis in range(3))
    return x, y, z


def radius_around(centre: Vector, poses: Poses, vertices: Sequence[Float]) -> float:
    """Return the largest distance of any vertex of the posed objects from the centre.   vertices : (V, 3) float64 of each object, canonical frame."""
    farthest = 0.0
    for points, rotation, scale, position in zip(vertices, poses.rotations, poses.scales, poses.positions, strict=True):
        away = rotate(rotation, scale * points) + position - np.array(centre)
        # products and sums of single values are rounded alike on any processor, a norm or a dot product is not
        x, y, z = away.T
        farthest = max(farthest, float((x * x + y * y + z * z).max()))
    return math.sqrt(farthest)


def cameras_of(arc: Arc, centre: Vector, radius: float, frames: int) -> Cameras:
    """Return the cameras of a drawn arc around a scene of this centre and radius. Of fewer than 32 frames the first and the last are the same."""
    orbit = Orbit(
        start_azimuth_deg=arc.start_azimuth_deg,
        start_elevation_deg=arc.start_elevation_deg,
        elevation_drift_deg=arc.elevation_drift_deg,
        arc_span_deg=arc.arc_span_deg,
        arc_direction=arc.arc_direction,
        radius=camera_distance(radius, arc.distance_factor),
        center=centre,
    )
    t = np.arange(frames) * (FRAMES - 1) / (frames - 1)
    return Cameras(orbit, orbit.T_cw(ease(t)), reference_T_cw(orbit))


def covered(cameras: Cameras, row: Fields, settings: PlanSettings) -> bool:
    """Return whether a background covers every pixel of every frame.   row : of the pool."""
    width, height = row["width"], row["height"]
    K, K_back, reference = frame_K(settings.width, settings.height), K_bg(width, height), cameras.reference[:3, :3]
    return all(covers(homography(T_cw[:3, :3], reference, K, K_back), width, height, settings.width, settings.height) for T_cw in cameras.frames)
