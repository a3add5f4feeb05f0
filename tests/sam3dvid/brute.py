"""Every ray against every triangle in rational arithmetic, for the float64 numbers given: what is right, at any price.

Written from the definition, by solving for the plane and then for the sides within it; the library's determinants do not occur here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

Vector = tuple[Fraction, Fraction, Fraction]


def exact(values) -> Vector:
    x, y, z = (Fraction(float(value)) for value in values)
    return x, y, z


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def dot(a: Vector, b: Vector) -> Fraction:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def meeting(a: Vector, b: Vector, c: Vector, d: Vector) -> Fraction | None:
    """Return t > 0 where the ray from the origin along d meets the closed triangle, or None; None for rays in its plane too."""
    normal = cross(minus(b, a), minus(c, a))
    slope = dot(normal, d)
    if slope == 0:
        return None
    t = dot(normal, a) / slope
    if t <= 0:
        return None
    point = (t * d[0], t * d[1], t * d[2])
    inside = all(dot(normal, cross(minus(end, start), minus(point, start))) >= 0 for start, end in ((a, b), (b, c), (c, a)))
    return t if inside else None


def nearest(triangles: list[tuple[Vector, Vector, Vector]], d: Vector) -> tuple[float, set[int]]:
    """Return t of the nearest meeting and all triangles met there; inf and none for a miss."""
    found = {i: t for i, (a, b, c) in enumerate(triangles) if (t := meeting(a, b, c, d)) is not None}
    if not found:
        return float("inf"), set()
    least = min(found.values())
    return float(least), {i for i, t in found.items() if t == least}


def cast(vertices: np.ndarray, triangles: np.ndarray, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, list[set[int]]]:
    """Return t (M,) and the nearest triangles of each ray. Vertices are rounded once, relative to the origin, as the library defines it."""
    out, which = [], []
    for origin, direction in zip(origins, directions, strict=True):
        moved = [exact(vertex - origin) for vertex in vertices]
        t, met = nearest([(moved[a], moved[b], moved[c]) for a, b, c in triangles], exact(direction))
        out.append(t)
        which.append(met)
    return np.array(out), which


def depth_picture(vertices: np.ndarray, triangles: np.ndarray, R, t, s, K, width: int, height: int) -> np.ndarray:
    """Return z (H, W) of the nearest surface at each pixel centre, inf for a miss. Vertices are rounded once, into the camera, in the library's order."""
    posed = []
    for x, y, z in s * vertices:
        posed.append(exact([((R[i, 0] * x + R[i, 1] * y) + R[i, 2] * z) + t[i] for i in range(3)]))
    faces = [(posed[a], posed[b], posed[c]) for a, b, c in triangles]
    out = np.empty((height, width))
    for v in range(height):
        for u in range(width):
            out[v, u] = nearest(faces, exact([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], 1.0]))[0]
    return out
