"""The random draws of a clip, each from a stream of its own.

Numbers come from `Generator.random`, 53 bits of PCG64 that are equal on every machine. From there on there is arithmetic on single values in a fixed
order, and the functions of `elementary`: so what is drawn is equal to the last bit on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.conventions import random_rotation
from sam3dvid.elementary import cbrt, sin_cos_deg
from sam3dvid.plan import settings as bounds
from sam3dvid.plan.settings import PlanSettings
from shardwork.streams import stream

Float = NDArray[np.float64]
Vector = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Light:
    """One sun and an even light from all sides.   sun_direction : unit vector towards the sun, world frame.   strengths : of the renderer's lights."""

    sun_direction: Vector
    sun_strength: float
    ambient_strength: float
    sun_angle_deg: float


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is drawn once for a seed and never again.   assets : indices into the sorted list of assets, all different.   background : index of a picture."""

    assets: tuple[int, ...]
    background: int
    light: Light

    @property
    def num_objects(self) -> int:
        """Return N."""
        return len(self.assets)


@dataclass(frozen=True, slots=True)
class Poses:
    """Poses of one attempt, in the world.   rotations : (3, 3) float64 each, R_wo.   positions : t_wo.   tries : how many draws of the positions it took."""

    rotations: tuple[Float, ...]
    scales: tuple[float, ...]
    positions: tuple[Vector, ...]
    tries: int


@dataclass(frozen=True, slots=True)
class Arc:
    """One drawn camera path, before the scene's size is known.   distance_factor : times radius / tan(25 deg).   arc_direction : +1 or -1."""

    distance_factor: float
    start_azimuth_deg: float
    start_elevation_deg: float
    arc_span_deg: float
    arc_direction: int
    elevation_drift_deg: float


def between(rng: np.random.Generator, low_high: tuple[float, float]) -> float:
    """Return a uniform draw from low to high."""
    low, high = low_high
    return low + (high - low) * float(rng.random())


def index(rng: np.random.Generator, count: int) -> int:
    """Return a uniform draw from 0 to count - 1."""
    return min(count - 1, int(float(rng.random()) * count))


def fixed_draws(seed: int, assets: int, backgrounds: int, settings: PlanSettings) -> Fixed:
    """Return the draws that no attempt changes, so that their distributions are exact.   assets, backgrounds : int, how many there are in the split."""
    num_objects = draw_num_objects(stream(seed, "num_objects"))
    drawn, background = draw_distinct(stream(seed, "assets"), num_objects, assets), index(stream(seed, "background"), backgrounds)
    return Fixed(drawn, background, draw_light(stream(seed, "light"), settings))


def draw_num_objects(rng: np.random.Generator) -> int:
    """Return N, from 1 to 4."""
    left = float(rng.random())
    for num_objects, chance in enumerate(bounds.NUM_OBJECTS_CHANCES[:-1], 1):
        left -= chance
        if left < 0:
            return num_objects
    return bounds.MOST_OBJECTS


def draw_distinct(rng: np.random.Generator, take: int, count: int) -> tuple[int, ...]:
    """Return `take` different numbers below `count`, every ordered choice as likely as another."""
    taken: list[int] = []
    while len(taken) < take:
        one = index(rng, count)
        if one not in taken:
            taken.append(one)
    return tuple(taken)


def draw_light(rng: np.random.Generator, settings: PlanSettings) -> Light:
    """Return a light whose sun is uniform on the upper half of the sphere, where height is uniform."""
    height, turn = rng.random(2)
    (direction,) = _on_sphere(height[None], turn[None])
    sun = between(rng, (settings.sun_strength_min, settings.sun_strength_max))
    return Light(direction, sun, between(rng, (settings.ambient_strength_min, settings.ambient_strength_max)), settings.sun_angle_deg)


def _on_sphere(z: Float, turn: Float) -> list[Vector]:
    """Return unit vectors of these heights, `turn` (0 to 1) of the way around; each array (M,)."""
    (sine, cosine), across = sin_cos_deg(360 * turn), np.sqrt(1 - z * z)
    return [(x, y, height) for x, y, height in zip((across * cosine).tolist(), (across * sine).tolist(), z.tolist(), strict=True)]


def draw_in_ball(rng: np.random.Generator, radius: float, count: int) -> tuple[Vector, ...]:
    """Return points uniform in a ball: radius * U^(1/3) in a uniform direction."""
    share, height, turn = rng.random((count, 3)).T
    return tuple((r * x, r * y, r * z) for r, (x, y, z) in zip((radius * cbrt(share)).tolist(), _on_sphere(2 * height - 1, turn), strict=True))


def apart(scales: tuple[float, ...], positions: tuple[Vector, ...]) -> bool:
    """Return whether the spheres around all objects, of radius s * sqrt(3) / 2, are disjoint."""
    return all(_distance(positions[i], positions[j]) > math.sqrt(3) / 2 * (scales[i] + scales[j]) for j in range(len(positions)) for i in range(j))


def _distance(one: Vector, other: Vector) -> float:
    x, y, z = (p - q for p, q in zip(one, other, strict=True))
    return math.sqrt(x * x + y * y + z * z)


def draw_poses(seed: int, attempt: int, num_objects: int, max_tries: int) -> Poses | None:
    """Return the poses of an attempt, or None if no draw of the positions was free of overlap. Scales are drawn once: only positions are drawn again."""
    objects = range(num_objects)
    scales = tuple(between(stream(seed, attempt, "scale", k), bounds.SCALE) for k in objects)
    rng, radius = stream(seed, attempt, "positions"), float(cbrt(num_objects))
    for tries in range(1, max_tries + 1):
        positions = draw_in_ball(rng, radius, num_objects)
        if apart(scales, positions):
            rotations = tuple(random_rotation(stream(seed, attempt, "rotation", k)) for k in objects)
            return Poses(rotations, scales, positions, tries)
    return None


def draw_arc(seed: int, attempt: int, retry: int) -> Arc:
    """Return a camera path.   retry : counts the paths of an attempt from 0."""

    def one(name: str, low_high: tuple[float, float]) -> float:
        return between(stream(seed, attempt, name, retry), low_high)

    return Arc(
        distance_factor=one("distance", bounds.DISTANCE_FACTOR),
        start_azimuth_deg=one("azimuth", bounds.AZIMUTH_DEG),
        start_elevation_deg=one("elevation", bounds.ELEVATION_DEG),
        arc_span_deg=one("span", bounds.SPAN_DEG),
        arc_direction=_sign(stream(seed, attempt, "direction", retry)),
        elevation_drift_deg=one("drift", bounds.DRIFT_DEG),
    )


def _sign(rng: np.random.Generator) -> int:
    return 1 if float(rng.random()) < 0.5 else -1
