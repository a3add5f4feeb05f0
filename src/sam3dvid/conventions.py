"""The conventions of a clip, as numbers: camera, frames, poses, orbit and background. Source: seed 002, section 3; synthetic spec, section 1.

Released poses must not depend on the processor. So sines and cosines are those of `elementary`, and products are written out: the C library's and NumPy's
own take other instructions, and round otherwise, from one processor to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam3dvid.elementary import sin_cos_deg, tan_deg

Float = NDArray[np.float64]

WIDTH, HEIGHT = 512, 512
"""Pixels of a frame."""
FRAMES = 32
"""Frames of a clip."""
HFOV_DEG = 50.0
"""Horizontal field of view of a frame."""
FOCAL_PX = (WIDTH / 2) / tan_deg(HFOV_DEG / 2)
"""Focal length of a frame, 548.993771650447 px: the field of view ends at the outer edges of the outer pixels."""
BACKGROUND_HFOV_DEG = 130.0
"""Horizontal field of view that a background picture is given, whatever it was taken with."""
REFERENCE_U = 0.5
"""Where on the eased way the reference camera stands, to which the background is aligned. No frame stands there."""
CANONICAL_FROM_GLTF = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], np.float64)
"""(3, 3) float64: a vertex of mesh.glb, as a column, into the canonical object frame: (x, y, z) -> (x, -z, y)."""


def focal_px(width: int, hfov_deg: float) -> float:
    """Return the focal length, in pixels, of a picture `width` pixels wide that spans `hfov_deg`."""
    return (width / 2) / tan_deg(hfov_deg / 2)


def pinhole(width: int, height: int, focal: float) -> Float:
    """Return the intrinsics of a picture with square pixels and the principal point in its middle.

    focal : px.   Returns (3, 3) float64, OpenCV axes, pixel centres at integers, so that the middle is ((width - 1) / 2, (height - 1) / 2).
    """
    return np.array([[focal, 0.0, (width - 1) / 2], [0.0, focal, (height - 1) / 2], [0.0, 0.0, 1.0]])


def K() -> Float:
    """Return the intrinsics of every frame of every clip: (3, 3) float64."""
    return pinhole(WIDTH, HEIGHT, FOCAL_PX)


def frame_K(width: int, height: int) -> Float:
    """Return the intrinsics of a frame of another size with the same horizontal field of view, for tests: (3, 3) float64."""
    return pinhole(width, height, focal_px(width, HFOV_DEG))


def K_bg(width: int, height: int) -> Float:
    """Return the intrinsics that a background picture of this size is given: (3, 3) float64. Source: synthetic spec, section 1."""
    return pinhole(width, height, focal_px(width, BACKGROUND_HFOV_DEG))


def pixel_rays(K: Float, width: int, height: int) -> tuple[Float, Float]:
    """Return the rays through the pixel centres, in the camera: the ray of pixel (u, v) runs along (x[u], y[v], 1).

    K : (3, 3) float64 without skew.   Returns x (width,) and y (height,) float64, z of the ray being 1: a point's z is its distance in rays, not in units.
    """
    return (np.arange(width) - K[0, 2]) / K[0, 0], (np.arange(height) - K[1, 2]) / K[1, 1]


def project(K: Float, x_c: ArrayLike) -> Float:
    """Return where points of the camera frame lie in the picture.

    K : (3, 3) float64.   x_c : (..., 3) float64, OpenCV axes, z > 0 (what lies behind is projected all the same: the caller looks at z).
    Returns (..., 2) float64, (u, v) in px, pixel centres at integers.   Source: seed 002, 3.2.
    """
    points = np.asarray(x_c, np.float64)
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    return np.stack([K[0, 0] * (x / z) + K[0, 2], K[1, 1] * (y / z) + K[1, 2]], axis=-1)


def rotate(R: ArrayLike, x: ArrayLike) -> Float:
    """Return R x: R (..., 3, 3) and x (..., 3) give (..., 3) float64, the leading axes broadcast. Rounded alike on any processor."""
    matrix, vector = np.asarray(R, np.float64), np.asarray(x, np.float64)[..., None, :]
    rotated: Any = matrix[..., 0] * vector[..., 0] + matrix[..., 1] * vector[..., 1] + matrix[..., 2] * vector[..., 2]
    return np.asarray(rotated)


def compose(A: ArrayLike, B: ArrayLike) -> Float:
    """Return the matrix product A B: (..., 3, 3) float64, the leading axes broadcast. Rounded alike on any processor."""
    left, right = np.asarray(A, np.float64), np.asarray(B, np.float64)
    product: Any = left[..., :, 0:1] * right[..., 0:1, :] + left[..., :, 1:2] * right[..., 1:2, :] + left[..., :, 2:3] * right[..., 2:3, :]
    return np.asarray(product)


def pose_in_camera(T_cw: ArrayLike, R_wo: ArrayLike, t_wo: ArrayLike, s_wo: ArrayLike) -> tuple[Float, Float, Float]:
    """Return an object's pose in the camera: R_co = R_cw R_wo, t_co = R_cw t_wo + t_cw, s_co = s_wo.

    T_cw : (..., 4, 4), world to camera.   R_wo : (..., 3, 3).   t_wo, s_wo : (..., 3), scene units.   Leading axes broadcast: all frames of one object
    with T_cw (32, 4, 4), all frames of all objects with T_cw[:, None].
    Returns (..., 3, 3), (..., 3), (..., 3) float64 with x_c = R_co (s_co * x_o) + t_co.   Source: seed 002, 3.3.
    """
    camera = np.asarray(T_cw, np.float64)
    R_co = compose(camera[..., :3, :3], R_wo)
    t_co = rotate(camera[..., :3, :3], t_wo) + camera[..., :3, 3]
    leading = np.broadcast_shapes(R_co.shape[:-2], t_co.shape[:-1], np.shape(s_wo)[:-1])
    s_co = np.broadcast_to(np.asarray(s_wo, np.float64), (*leading, 3))
    return np.broadcast_to(R_co, (*leading, 3, 3)).copy(), np.broadcast_to(t_co, (*leading, 3)).copy(), s_co.copy()


def canonical_from_gltf(vertices: ArrayLike) -> Float:
    """Return vertices of mesh.glb in the canonical object frame: (..., 3) to (..., 3) float64. Source: seed 002, 3.3."""
    points = np.asarray(vertices, np.float64)
    return np.stack([points[..., 0], -points[..., 2], points[..., 1]], axis=-1)


def look_at(position: ArrayLike, target: ArrayLike) -> Float:
    """Return the extrinsics of a camera that looks at a point without roll: its x axis is level, world Z points up in the picture.

    position, target : (..., 3), world, scene units; leading axes broadcast.   Returns T_cw (..., 4, 4) float64, OpenCV axes.
    Raises ValueError for a camera at its target, or straight above or below it.
    """
    start, end = np.broadcast_arrays(np.asarray(position, np.float64), np.asarray(target, np.float64))
    forward = end - start
    level = np.sqrt(forward[..., 0] ** 2 + forward[..., 1] ** 2)
    if not np.all(level > 0):
        raise ValueError("a camera at its target, or straight above or below it, has no level x axis")
    forward = forward / np.sqrt(level**2 + forward[..., 2] ** 2)[..., None]
    right = np.stack([forward[..., 1], -forward[..., 0], np.zeros_like(level)], axis=-1)
    right = right / np.sqrt(right[..., 0] ** 2 + right[..., 1] ** 2)[..., None]
    # forward x right, with right level
    down = np.stack(
        [-forward[..., 2] * right[..., 1], forward[..., 2] * right[..., 0], forward[..., 0] * right[..., 1] - forward[..., 1] * right[..., 0]], axis=-1
    )
    T_cw = np.zeros((*level.shape, 4, 4))
    T_cw[..., :3, :3] = np.stack([right, down, forward], axis=-2)
    T_cw[..., :3, 3] = -rotate(T_cw[..., :3, :3], start)
    T_cw[..., 3, 3] = 1.0
    # no negative zeros: they would show in JSON
    return T_cw + 0.0


def blender_from_T_cw(T_cw: ArrayLike) -> Float:
    """Return Blender's matrix_world of a camera: (..., 4, 4) rigid T_cw to (..., 4, 4) float64, camera (Blender axes) to world."""
    camera = np.asarray(T_cw, np.float64)
    R_wc = np.swapaxes(camera[..., :3, :3], -1, -2)
    world = np.zeros(camera.shape)
    world[..., :3, :3] = R_wc * np.array([1.0, -1.0, -1.0])
    world[..., :3, 3] = -rotate(R_wc, camera[..., :3, 3])
    world[..., 3, 3] = 1.0
    return world + 0.0


def T_cw_from_blender(matrix_world: ArrayLike) -> Float:
    """Return the extrinsics of a Blender camera: diag(1, -1, -1, 1) inv(matrix_world), rounded alike on any processor.

    matrix_world : (..., 4, 4), rigid to float32.   Returns (..., 4, 4) float64.   Raises ValueError if it scales, shears or mirrors.
    """
    world = np.asarray(matrix_world, np.float64)
    R = world[..., :3, :3]
    if np.abs(compose(np.swapaxes(R, -1, -2), R) - np.eye(3)).max() > 1e-5 or np.any(np.linalg.det(R) < 0):
        raise ValueError("matrix_world of a camera scales, shears or mirrors")
    a, b, c = np.moveaxis(R, -1, 0)
    adjugate = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=-2)
    R_inv = adjugate / rotate(adjugate, a)[..., 0, None, None]
    signs = np.array([1.0, -1.0, -1.0])
    T_cw = np.zeros(world.shape)
    T_cw[..., :3, :3] = R_inv * signs[:, None]
    T_cw[..., :3, 3] = -rotate(R_inv, world[..., :3, 3]) * signs
    T_cw[..., 3, 3] = 1.0
    return T_cw


def random_rotation(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Float:
    """Return rotations uniform on SO(3): (*shape, 3, 3) float64. Source: Shoemake, Uniform random rotations, Graphics Gems III, 1992."""
    share, one, other = np.moveaxis(rng.random((*shape, 3)), -1, 0)
    (x, y), (z, w) = (np.sqrt(part) * np.array(sin_cos_deg(360 * turn)) for part, turn in ((1 - share, one), (share, other)))
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def ease(t: ArrayLike) -> Float:
    """Return u(t) = (1 - cos(pi t / 31)) / 2, how much of the way is done at frame t: 0 at frame 0, 1 at frame 31. Shape kept, float64."""
    return (1 - sin_cos_deg(180 * np.asarray(t, np.float64) / (FRAMES - 1))[1]) / 2


def camera_distance(radius: float, factor: float) -> float:
    """Return how far the camera stands from the centre: radius / tan(25 deg) * factor.

    radius : scene units, the largest distance of any posed vertex from the centre.   factor : drawn from U(1, 1.4).
    """
    return radius / tan_deg(HFOV_DEG / 2) * factor


@dataclass(frozen=True, slots=True)
class Orbit:
    """A camera's way around a point, as meta.json states it: degrees, scene units, world frame."""

    start_azimuth_deg: float
    """From +X towards +Y."""
    start_elevation_deg: float
    elevation_drift_deg: float
    """Added to the elevation over the whole way."""
    arc_span_deg: float
    """Positive."""
    arc_direction: int
    """+1 counter-clockwise seen from above, or -1."""
    radius: float
    center: tuple[float, float, float]

    def azimuth_deg(self, u: ArrayLike) -> Float:
        """Return start + direction * span * u, not wrapped; shape of u, float64."""
        return self.start_azimuth_deg + self.arc_direction * self.arc_span_deg * np.asarray(u, np.float64)

    def elevation_deg(self, u: ArrayLike) -> Float:
        """Return start + drift * u; shape of u, float64."""
        return self.start_elevation_deg + self.elevation_drift_deg * np.asarray(u, np.float64)

    def position(self, u: ArrayLike) -> Float:
        """Return the camera's centre in the world: u (...) to (..., 3) float64."""
        (across, along), (height, level) = sin_cos_deg(self.azimuth_deg(u)), sin_cos_deg(self.elevation_deg(u))
        offset = self.radius * np.stack([level * along, level * across, height], axis=-1)
        place: Float = np.asarray(self.center, np.float64) + offset
        return place

    def T_cw(self, u: ArrayLike) -> Float:
        """Return the extrinsics there, looking at the centre: u (...) to (..., 4, 4) float64."""
        return look_at(self.position(u), self.center)


def trajectory(orbit: Orbit) -> Float:
    """Return the extrinsics of all frames of a clip: T_cw (32, 4, 4) float64."""
    return orbit.T_cw(ease(np.arange(FRAMES)))


def reference_T_cw(orbit: Orbit) -> Float:
    """Return the extrinsics of the camera that the background is aligned to: (4, 4) float64."""
    return orbit.T_cw(REFERENCE_U)
