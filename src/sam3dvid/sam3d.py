"""Our poses and depths as SAM 3D Objects takes them, and back.

Ours: OpenCV camera (x right, y down, z forward), columns, x_c = R_co (s_co * x_o) + t_co. SAM 3D's: PyTorch3D camera (x left, y up, z forward), rows,
x_cam = (s * x_o) R(q) + t, q a quaternion wxyz. Canonical frame and scale are the same. With P = diag(-1, -1, 1): R(q) = R_co^T P, t = P t_co, s = s_co.
Source: format v0.1, 3.3; synthetic spec, section 2; facebookresearch/sam-3d-objects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardwork.errors import DataError

Float = NDArray[np.float64]

PYTORCH3D_FROM_OPENCV = np.array([-1.0, -1.0, 1.0])
"""(3,) float64, the diagonal of P: camera axes of OpenCV into those of PyTorch3D, and back."""
ORTHONORMAL = 1e-5
"""How far R^T R may lie from 1: float32 keeps 1e-6, a matrix that is no rotation misses by far more."""


SHORTEST = np.finfo(np.float64).tiny
"""A quaternion whose parts are all below this has no direction left."""


def ours_to_sam3d(R_co: ArrayLike, t_co: ArrayLike, s_co: ArrayLike) -> tuple[Float, Float, Float]:
    """Return a pose in the camera as SAM 3D has it: q, t, s with x_cam = (s * x_o) R(q) + t.

    R_co : (..., 3, 3).   t_co, s_co : (..., 3), scene units.   Leading axes broadcast: all frames of one object, or (F, N) of all objects.
    Returns q (..., 4), wxyz, of length 1 and w >= 0 (where w is 0, the last part that is not 0 is positive).   t, s : (..., 3), scene units.   All float64.
    Raises DataError (bad_argument) unless R_co are rotations, s_co above 0 and all numbers finite.   Source: synthetic spec, section 2.
    """
    R, t, s = _checked("R_co", R_co, (3, 3)), _checked("t_co", t_co, (3,)), _checked("s_co", s_co, (3,))
    off = np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(initial=0.0)
    near = bool(off <= ORTHONORMAL)  # false too where squares are beyond float64
    if not near or np.any(np.linalg.det(R) < 0):
        found = "a mirrored matrix" if near else f"R^T R off by {off:.3g}"
        raise DataError("bad_argument", "R_co", found, "rotations", "give R_co without the scale, which is s_co")
    _positive("s_co", s)
    q = _quaternion(np.swapaxes(R, -1, -2) * PYTORCH3D_FROM_OPENCV)
    return _broadcast(q, 1, t * PYTORCH3D_FROM_OPENCV + 0.0, s)


def sam3d_to_ours(q: ArrayLike, t: ArrayLike, s: ArrayLike) -> tuple[Float, Float, Float]:
    """Return a pose of SAM 3D as ours: R_co = P R(q)^T, t_co = P t, s_co = s.

    q : (..., 4), wxyz, of any length but 0.   t, s : (..., 3).   Leading axes broadcast.
    Returns R_co (..., 3, 3), t_co, s_co (..., 3), float64.   Raises DataError (bad_argument) for numbers that are not finite, s of 0 or less and q of length 0.
    Source: synthetic spec, section 2.
    """
    turn, shift, scale = _checked("q", q, (4,)), _checked("t", t, (3,)), _checked("s", s, (3,))
    largest = np.abs(turn).max(axis=-1, keepdims=True)
    if np.any(largest < SHORTEST):
        raise DataError("bad_argument", "q", "a quaternion of length 0", "rotations", "look at where q comes from")
    _positive("s", scale)
    even = turn / largest  # so that no square is beyond float64, whatever the length
    unit = even / np.linalg.norm(even, axis=-1, keepdims=True)
    R_co = np.swapaxes(quaternion_to_matrix(unit), -1, -2) * PYTORCH3D_FROM_OPENCV[:, None]
    return _broadcast(R_co + 0.0, 2, shift * PYTORCH3D_FROM_OPENCV + 0.0, scale)


def sam3d_pointmap(depth: ArrayLike, K: ArrayLike) -> NDArray[Any]:
    """Return the pointmap that SAM 3D takes from its user, in its own camera axes: (-X, -Y, Z) of OpenCV's (X, Y, Z).

    depth : (..., H, W) float32 or float64, z along the optical axis, NaN where there is none.   K : (3, 3), pixel centres at integers, no skew.
    Returns (..., H, W, 3) of depth's dtype, in depth's units, NaN in all three where depth is NaN.   Raises DataError (bad_argument).
    SAM 3D turns the pointmap of its own depth model by P, but takes the user's as it is. Ours has no background, and no metric scale.
    Source: synthetic spec, section 2; sam-3d-objects, issues 46, 57 and 192.
    """
    z, camera = _depth(depth), _checked("K", K, (3, 3))
    if camera.shape != (3, 3) or camera[0, 1] != 0 or camera[1, 0] != 0 or camera[2].tolist() != [0, 0, 1]:
        raise DataError("bad_argument", "K", f"{camera.tolist()}", "one matrix [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]", "take K of cameras.json")
    if camera[0, 0] <= 0 or camera[1, 1] <= 0:
        raise DataError("bad_argument", "K", f"focal lengths {camera[0, 0]:g} and {camera[1, 1]:g}", "lengths above 0", "take K of cameras.json")
    height, width = z.shape[-2:]
    left = -(np.arange(width) - camera[0, 2]) / camera[0, 0]
    up = -(np.arange(height) - camera[1, 2]) / camera[1, 1]
    points: NDArray[Any] = np.stack([z * left, z * up[:, None], z], axis=-1).astype(z.dtype)
    return points


def _depth(depth: ArrayLike) -> NDArray[Any]:
    """Return depth as an array. Raises DataError (bad_argument) for another type or shape, and for what is neither above 0 nor NaN."""
    hint = "read key depth of depth/*.npz"
    try:
        z = np.asarray(depth)
    except ValueError as error:
        raise DataError("bad_argument", "depth", f"no array ({error})", "float32 or float64 of shape (..., H, W)", hint) from error
    if z.dtype not in (np.float32, np.float64) or z.ndim < 2:
        raise DataError("bad_argument", "depth", f"{z.dtype} of shape {z.shape}", "float32 or float64 of shape (..., H, W)", hint)
    wrong = z[np.isinf(z) | (z <= 0)]
    if wrong.size:
        raise DataError("bad_argument", "depth", f"{float(wrong.flat[0]):g}", "finite depths above 0, NaN where there is none", hint)
    return z


class ScaleInvariant(NamedTuple):
    """A pose's parts without the scene's unit: a scene k times as large, seen from k times as far, has the same.

    t_unit : (..., 3), direction to the object's centre, of length 1.   s_tilde : (..., 3), scale by distance, the apparent size.
    t_rel_norm : (...), distance by the scene's scale.   All float64.
    """

    t_unit: Float
    s_tilde: Float
    t_rel_norm: Float


def scale_invariant(t: ArrayLike, s: ArrayLike, scene_scale: ArrayLike) -> ScaleInvariant:
    """Return translation and scale as targets for a model that cannot know the scene's unit.

    t_unit = t / |t|,  s_tilde = s / |t|,  t_rel_norm = |t| / scene_scale;  so  x = scene_scale t_rel_norm [(s_tilde * x_o) R(q) + t_unit].
    A picture alone fixes the first two; the third says how far objects and frames are in terms of each other, and asks for one scale for the whole clip.
    t, s : (..., 3), ours or SAM 3D's, whose lengths are the same.   scene_scale : (...) above 0, in the same unit, as `scene_scale` gives it.
    Raises DataError (bad_argument) for a centre at the camera, numbers that are not finite and scales of 0 or less.
    Source: seed 002, section 10; the names and formulas are those of InvariantPoseTarget in sam-3d-objects (data/dataset/tdfy/pose_target.py).
    """
    shift, scale, unit = _checked("t", t, (3,)), _checked("s", s, (3,)), _checked("scene_scale", scene_scale, ())
    _leading(t=(shift.shape, 1), s=(scale.shape, 1), scene_scale=(unit.shape, 0))
    _positive("s", scale)
    distance = np.linalg.norm(shift, axis=-1)
    if np.any(distance == 0):
        raise DataError("bad_argument", "t", "a centre at the camera", "a centre before it", "look at where t comes from")
    if np.any(unit <= 0):
        raise DataError("bad_argument", "scene_scale", f"{float(unit.min()):g}", "scales above 0", "take scene_scale of the clip's t_co")
    return ScaleInvariant(shift / distance[..., None], scale / distance[..., None], distance / unit)


def from_scale_invariant(target: ScaleInvariant, scene_scale: ArrayLike) -> tuple[Float, Float]:
    """Return t, s : (..., 3) float64 of scale-invariant parts, in the unit of scene_scale (...). Raises DataError (bad_argument)."""
    unit, size = _checked("t_unit", target.t_unit, (3,)), _checked("s_tilde", target.s_tilde, (3,))
    away, scale = _checked("t_rel_norm", target.t_rel_norm, ()), _checked("scene_scale", scene_scale, ())
    _leading(t_unit=(unit.shape, 1), s_tilde=(size.shape, 1), t_rel_norm=(away.shape, 0), scene_scale=(scale.shape, 0))
    distance = (away * scale)[..., None]
    return unit * distance, size * distance


def scene_scale(t: ArrayLike) -> float:
    """Return the scale of a clip from its poses alone: the mean distance of the objects' centres from the camera.

    t : (..., 3), all that shall have one scale: (N, 3) of a clip's first frame, or (F, N, 3) of all its frames.   Raises DataError (bad_argument).
    This definition is ours, for models without a pointmap. With one, SAM 3D takes a scale and a shift from it: see docs/clips_format.md.
    """
    centres = _checked("t", t, (3,))
    if centres.size == 0:
        raise DataError("bad_argument", "t", "no centre", "at least one", "give t_co of a clip's objects")
    return float(np.linalg.norm(centres, axis=-1).mean())


def quaternion_to_matrix(q: ArrayLike) -> Float:
    """Return the rotation of a quaternion of length 1, wxyz: (..., 4) to (..., 3, 3) float64, for columns: x' = R x."""
    w, x, y, z = np.moveaxis(np.asarray(q, np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _quaternion(R: Float) -> Float:
    """Return the quaternion of a rotation, from the largest of its four parts: (..., 3, 3) to (..., 4).

    Source: Quaternion from rotation matrix, J. Guidance and Control 1, 1978.
    """
    a, b, c = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    # row i : 4 q_i q, so that its length is 4 |q_i|
    wx, wy, wz = R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]
    xy, xz, yz = R[..., 1, 0] + R[..., 0, 1], R[..., 0, 2] + R[..., 2, 0], R[..., 2, 1] + R[..., 1, 2]
    rows = [[1 + a + b + c, wx, wy, wz], [wx, 1 + a - b - c, xy, xz], [wy, xy, 1 - a + b - c, yz], [wz, xz, yz, 1 - a - b + c]]
    every = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    largest = np.argmax(np.stack([every[..., i, i] for i in range(4)], axis=-1), axis=-1)
    q = np.take_along_axis(every, largest[..., None, None], axis=-2)[..., 0, :]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    # the first part of w, z, y, x that is not 0 decides the sign
    order = q[..., [0, 3, 2, 1]]
    first = np.take_along_axis(order, np.argmax(order != 0, axis=-1)[..., None], axis=-1)
    signed: Float = q * np.sign(first) + 0.0
    return signed


def _checked(name: str, value: ArrayLike, last: tuple[int, ...]) -> Float:
    array = _real(name, value)
    if array.shape[array.ndim - len(last) :] != last:
        raise DataError("bad_argument", name, f"shape {array.shape}", f"(..., {', '.join(map(str, last))})", "see the docstring")
    if not np.isfinite(array).all():
        raise DataError("bad_argument", name, "NaN or infinity", "finite numbers", "look at where it comes from")
    return array


def _real(name: str, value: ArrayLike) -> Float:
    """Return an array as float64. Raises DataError (bad_argument) for text, complex numbers, truth values and lists that are no array."""
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise DataError("bad_argument", name, f"no array ({error})", "nested lists of one shape", "see the docstring") from error
    if found.dtype.kind not in "iuf":
        raise DataError("bad_argument", name, f"values of type {found.dtype}", "real numbers", "see the docstring")
    return found.astype(np.float64)


def _leading(**arrays: tuple[tuple[int, ...], int]) -> tuple[int, ...]:
    """Return the leading axes that arrays have in common.   arrays : name -> shape, and how many axes at its end are its own.

    Raises DataError (bad_argument) where they do not broadcast.
    """
    try:
        return np.broadcast_shapes(*(shape[: len(shape) - own] for shape, own in arrays.values()))
    except ValueError as error:
        found = ", ".join(f"{name} {shape}" for name, (shape, _) in arrays.items())
        raise DataError("bad_argument", ", ".join(arrays), f"shapes {found}", "leading axes that broadcast", "see the docstring") from error


def _positive(name: str, scales: Float) -> None:
    if np.any(scales <= 0):
        raise DataError("bad_argument", name, f"{float(scales.min()):g}", "scales above 0", "look at where it comes from")


def _broadcast(turn: Float, axes: int, t: Float, s: Float) -> tuple[Float, Float, Float]:
    """Return copies with the same leading axes.   axes : how many of `turn` are its own."""
    leading = _leading(rotation=(turn.shape, axes), t=(t.shape, 1), s=(s.shape, 1))
    own = turn.shape[-axes:]
    return np.broadcast_to(turn, (*leading, *own)).copy(), np.broadcast_to(t, (*leading, 3)).copy(), np.broadcast_to(s, (*leading, 3)).copy()
