"""Poses and depths for SAM 3D: the specification's vectors, a transform written out by hand, and wrong readings that must not pass."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sam3dvid.conventions import frame_K, random_rotation
from sam3dvid.sam3d import ScaleInvariant, from_scale_invariant, ours_to_sam3d, sam3d_pointmap, sam3d_to_ours, scale_invariant, scene_scale
from shardwork.errors import DataError

HALF, X_O = math.sqrt(0.5), np.array([0.1, -0.2, 0.3])


def rx(degrees):
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [[1, 0, 0], [0, c, -s], [0, s, c]]


# R_co; t_co; s -> q; t; where (.1, -.2, .3) of the object lies in our camera
VECTORS = {
    "none": (np.eye(3), (0.2, -0.1, 3), 0.5, (0, 0, 0, 1), (-0.2, 0.1, 3), (0.25, -0.2, 3.15)),
    "Rz180": (np.diag([-1, -1, 1]), (0.2, -0.1, 3), 0.5, (1, 0, 0, 0), (-0.2, 0.1, 3), (0.15, 0, 3.15)),
    "Rz90": ([[0, -1, 0], [1, 0, 0], [0, 0, 1]], (0.2, -0.1, 3), 0.5, (HALF, 0, 0, HALF), (-0.2, 0.1, 3), (0.3, -0.05, 3.15)),
    "Rx90": ([[1, 0, 0], [0, 0, -1], [0, 1, 0]], (0.2, -0.1, 3), 0.5, (0, 0, HALF, HALF), (-0.2, 0.1, 3), (0.25, -0.25, 2.9)),
    "Ry90": ([[0, 0, 1], [0, 1, 0], [-1, 0, 0]], (0.2, -0.1, 3), 0.5, (0, -HALF, 0, HALF), (-0.2, 0.1, 3), (0.35, -0.2, 2.95)),
    "Rx30": (rx(30), (0.2, -0.1, 3), 0.5, (0, 0, 0.25881905, 0.96592583), (-0.2, 0.1, 3), (0.25, -0.261603, 3.079904)),
    "any": (
        # of the quaternion (4, 1, 2, 3) / sqrt(30)
        np.array([[4, -20, 22], [28, 10, 4], [-10, 20, 20]]) / 30,
        (0.3, 0.4, 2.5),
        0.7,
        (0.54772256, -0.36514837, 0.18257419, 0.73029674),
        (-0.3, -0.4, 2.5),
        (0.556667, 0.446667, 2.523333),
    ),
}


def hamilton(p, q):
    a, b, c, d = np.moveaxis(np.asarray(p, float), -1, 0)
    e, f, g, h = np.moveaxis(np.asarray(q, float), -1, 0)
    parts = [a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e]
    return np.stack(parts, axis=-1)


def row_transform(q, t, s, x_o):
    """Return (s * x_o) R(q) + t without any matrix: a row times R(q) is R(q)^T times the column, so the vector turned by q's inverse."""
    q = np.asarray(q, float)
    v = np.asarray(s) * x_o
    pure = np.concatenate([np.zeros((*v.shape[:-1], 1)), v], axis=-1)
    inverse = q * [1, -1, -1, -1]
    return hamilton(hamilton(inverse, pure), q)[..., 1:] + t


def to_opencv(x_cam):
    """From x left, y up, z forward to x right, y down, z forward."""
    return np.asarray(x_cam) * [-1, -1, 1]


def poses(count=200, seed=1):
    rng = np.random.default_rng(seed)
    R = random_rotation(rng, (count,))
    return R, rng.uniform(-1, 1, (count, 3)) + [0, 0, 4], np.repeat(rng.uniform(0.4, 1, (count, 1)), 3, axis=1)


def closed_form(R):
    """Return (z, -y, x, w) of the quaternion (w, x, y, z) of R, found as the eigenvector of a symmetric matrix (Bar-Itzhack)."""
    (a, b, c), (d, e, f), (g, h, i) = R
    N = np.array([[a + e + i, h - f, c - g, d - b], [h - f, a - e - i, b + d, c + g], [c - g, b + d, e - a - i, f + h], [d - b, c + g, f + h, i - a - e]])
    w, x, y, z = np.linalg.eigh(N)[1][:, -1]
    return np.array([z, -y, x, w])


@pytest.mark.parametrize("name", VECTORS)
def test_a_pose_has_the_quaternion_and_translation_of_the_specification(name):
    R, t_co, s, q, t, _ = VECTORS[name]
    found_q, found_t, found_s = ours_to_sam3d(R, t_co, [s] * 3)
    assert found_q == pytest.approx(np.array(q), abs=5e-9)
    assert found_t.tolist() == list(t) and found_s.tolist() == [s] * 3


@pytest.mark.parametrize("name", VECTORS)
def test_the_row_transform_puts_a_point_where_the_specification_says(name):
    R, t_co, s, *_, wanted = VECTORS[name]
    assert to_opencv(row_transform(*ours_to_sam3d(R, t_co, [s] * 3), X_O)) == pytest.approx(np.array(wanted), abs=5e-7)
    assert s * (np.array(R) @ X_O) + t_co == pytest.approx(np.array(wanted), abs=5e-7)


@pytest.mark.parametrize("name", VECTORS)
def test_the_specifications_quaternion_turns_back_to_our_pose(name):
    R, t_co, s, q, t, _ = VECTORS[name]
    found_R, found_t, found_s = sam3d_to_ours(q, t, [s] * 3)
    assert found_R == pytest.approx(np.array(R, float), abs=2e-8)
    assert found_t.tolist() == list(t_co) and found_s.tolist() == [s] * 3


def test_random_poses_put_points_where_ours_does_by_the_row_transform():
    R, t, s = poses()
    x_o = np.random.default_rng(2).uniform(-0.5, 0.5, (200, 3))
    ours = np.einsum("nij,nj->ni", R, s * x_o) + t
    assert np.abs(to_opencv(row_transform(*ours_to_sam3d(R, t, s), x_o)) - ours).max() < 1e-14


def test_random_quaternions_are_those_of_the_closed_form():
    R, t, s = poses()
    q = ours_to_sam3d(R, t, s)[0]
    other = np.array([closed_form(one) for one in R])
    assert np.minimum(np.abs(q - other).max(axis=1), np.abs(q + other).max(axis=1)).max() < 1e-12


WRONG = {
    "R(q) = P R_co": lambda q, t, s, t_co, x: to_opencv(row_transform(q * [1, -1, -1, -1], t, s, x)),
    "q as xyzw": lambda q, t, s, t_co, x: to_opencv(row_transform(np.roll(q, 1, axis=-1), t, s, x)),
    "P = diag(1, -1, -1)": lambda q, t, s, t_co, x: row_transform(q, t, s, x) * [1, -1, -1],
    "t untouched": lambda q, t, s, t_co, x: to_opencv(row_transform(q, t_co, s, x)),
    "voxels by their lower corner": lambda q, t, s, t_co, x: to_opencv(row_transform(q, t, s, x - 0.5 / 64)),
}


@pytest.mark.parametrize("reading", WRONG)
def test_a_wrong_reading_puts_the_point_of_nearly_every_pose_elsewhere(reading):
    R, t_co, s = poses()
    ours = np.einsum("nij,j->ni", R, X_O) * s + t_co
    q, t, scale = ours_to_sam3d(R, t_co, s)
    assert np.mean(np.linalg.norm(WRONG[reading](q, t, scale, t_co, X_O) - ours, axis=1) > 5e-3) > 0.98


def test_there_and_back_is_the_same_pose():
    ours = poses()
    for one, other in zip(sam3d_to_ours(*ours_to_sam3d(*ours)), ours, strict=True):
        assert np.abs(one - other).max() < 1e-14


@settings(max_examples=60)
@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 1e-3))
def test_any_quaternion_is_found_again_with_w_not_below_0(q):
    unit = np.array(q) / np.linalg.norm(q)
    found = ours_to_sam3d(*sam3d_to_ours(q, [0, 0, 1], [1] * 3))[0]
    assert found[0] >= 0
    assert abs(found @ unit) == pytest.approx(1, abs=1e-12)


def test_half_turns_have_unit_quaternions_whichever_part_is_largest():
    for signs in itertools.product((1, -1), repeat=2):
        R = np.diag([*signs, signs[0] * signs[1]]).astype(float)
        assert np.sort(ours_to_sam3d(R, [0, 0, 1], [1] * 3)[0]).tolist() == [0, 0, 0, 1]


def test_no_zero_is_negative_in_what_comes_back():
    every = (*ours_to_sam3d(np.eye(3), [0, 0, 1], [1] * 3), *sam3d_to_ours([0, 0, 0, 1], [0, 0, 1], [1] * 3))
    assert not any(np.signbit(one[one == 0]).any() for one in every)


def test_leading_axes_broadcast_as_frames_and_objects():
    R, t, s = poses(6)
    q, shift, scale = ours_to_sam3d(R.reshape(3, 2, 3, 3), t.reshape(3, 2, 3), s[:2])
    assert (q.shape, shift.shape, scale.shape) == ((3, 2, 4), (3, 2, 3), (3, 2, 3))
    assert np.array_equal(q[2, 1], ours_to_sam3d(R[5], t[5], s[1])[0])
    R_co, t_co, s_co = sam3d_to_ours(q, shift, scale[0])
    assert (R_co.shape, t_co.shape, s_co.shape) == ((3, 2, 3, 3), (3, 2, 3), (3, 2, 3))


def test_no_poses_at_all_are_turned_into_none():
    assert ours_to_sam3d(np.zeros((0, 3, 3)), np.zeros((0, 3)), np.zeros((0, 3)))[0].shape == (0, 4)


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "scaled": (0.5 * np.eye(3), (0, 0, 3), "R^T R off by 0.75"),
    "sheared": ([[1, 0.01, 0], [0, 1, 0], [0, 0, 1]], (0, 0, 3), "R^T R off by 0.01"),
    "mirrored": (np.diag([1, 1, -1]), (0, 0, 3), "a mirrored matrix"),
    "NaN": (np.full((3, 3), np.nan), (0, 0, 3), "NaN or infinity"),
    "a quaternion": ([1, 0, 0, 0], (0, 0, 3), "shape (4,)"),
    "infinite t": (np.eye(3), (0, 0, np.inf), "NaN or infinity"),
    "one bad of two": ([np.eye(3), np.diag([1, 1, -1])], (0, 0, 3), "a mirrored matrix"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_pose_is_refused_with_its_reason(case):
    R, t, said = REFUSED[case]
    with pytest.raises(DataError) as caught:
        ours_to_sam3d(R, t, [1] * 3)
    assert caught.value.found == said


NO_POSES: dict[str, tuple[Any, Any, Any, str]] = {
    "complex": (np.eye(3) * (1 + 0j), (0, 0, 3), (1, 1, 1), "type complex128"),
    "text": (np.eye(3), ["a", "b", "c"], (1, 1, 1), "type <U1"),
    "none": (np.eye(3), None, (1, 1, 1), "type object"),
    "ragged lists": ([[1, 0, 0], [0, 1], [0, 0, 1]], (0, 0, 3), (1, 1, 1), "no array"),
    "axes that do not broadcast": (np.tile(np.eye(3), (4, 1, 1)), np.ones((5, 3)), (1, 1, 1), "shapes rotation (4, 4)"),
    "negative scale": (np.eye(3), (0, 0, 3), (-1, 1, 1), "-1"),
    "scale of 0": (np.eye(3), (0, 0, 3), (1, 1, 0), "0"),
    "squares beyond any float": (np.full((3, 3), 1e200) * [[1], [-1], [1]], (0, 0, 3), (1, 1, 1), "R^T R off by"),
}


@pytest.mark.parametrize("case", NO_POSES)
def test_arguments_that_are_no_pose_are_refused(case):
    R, t, s, said = NO_POSES[case]
    with np.errstate(all="ignore"), pytest.raises(DataError) as caught:
        ours_to_sam3d(R, t, s)
    assert said in caught.value.found


NO_POSES_BACK: dict[str, tuple[Any, Any, Any]] = {
    "negative scale": ([1, 0, 0, 0], (0, 0, 3), (-1, 1, 1)),
    "axes that do not broadcast": (np.tile([1, 0, 0, 0], (4, 1)), np.ones((5, 3)), (1, 1, 1)),
    "text": (["w", "x", "y", "z"], (0, 0, 3), (1, 1, 1)),
    "length below any float": ([1e-310, 0, 0, 0], (0, 0, 3), (1, 1, 1)),
}


@pytest.mark.parametrize("case", NO_POSES_BACK)
def test_arguments_that_are_no_pose_of_sam3d_are_refused(case):
    with pytest.raises(DataError, match="bad_argument"):
        sam3d_to_ours(*NO_POSES_BACK[case])


@pytest.mark.parametrize("length", [1e-200, 1e200])
def test_a_quaternion_whose_square_no_float_holds_is_a_rotation_still(length):
    R_co = sam3d_to_ours([0, 0, 0.6 * length, 0.8 * length], [0, 0, 1], [1] * 3)[0]
    assert R_co == pytest.approx(sam3d_to_ours([0, 0, 0.6, 0.8], [0, 0, 1], [1] * 3)[0], abs=1e-15)


def test_targets_whose_axes_do_not_broadcast_are_refused():
    with pytest.raises(DataError, match=r"shapes t \(4, 3\), s \(5, 3\)"):
        scale_invariant(np.ones((4, 3)), np.ones((5, 3)), 1.0)
    with pytest.raises(DataError, match="t_unit"):
        from_scale_invariant(ScaleInvariant(np.ones((4, 3)), np.ones((4, 3)), np.ones(5)), 1.0)


def test_targets_of_a_negative_scale_are_refused():
    with pytest.raises(DataError, match="scales above 0"):
        scale_invariant([0, 0, 1], [1, -1, 1], 1.0)


@pytest.mark.parametrize("depth", [np.inf, -np.inf, -1.0, 0.0])
def test_a_depth_that_is_none_is_refused(depth):
    with pytest.raises(DataError, match="finite depths above 0"):
        sam3d_pointmap(np.full((4, 5), depth, np.float32), frame_K(4, 4))


@pytest.mark.parametrize("focal", [0.0, -5.0])
def test_a_camera_without_a_focal_length_is_refused(focal):
    with pytest.raises(DataError, match="focal lengths"):
        sam3d_pointmap(np.ones((4, 4)), [[focal, 0, 2], [0, 5, 1.5], [0, 0, 1]])


def test_a_rotation_rounded_to_float32_is_taken():
    R, t, s = poses()
    q = ours_to_sam3d(R.astype(np.float32), t, s)[0]
    assert np.abs(q - ours_to_sam3d(R, t, s)[0]).max() < 1e-6


def test_a_quaternion_of_length_0_is_refused():
    with pytest.raises(DataError, match="length 0"):
        sam3d_to_ours([0, 0, 0, 0], [0, 0, 1], [1] * 3)


def test_the_length_of_a_quaternion_does_not_matter():
    assert sam3d_to_ours([0, 0, 3, 4], [0, 0, 1], [1] * 3)[0] == pytest.approx(sam3d_to_ours([0, 0, 0.6, 0.8], [0, 0, 1], [1] * 3)[0], abs=1e-15)


def test_a_pointmap_has_x_to_the_left_and_y_upwards():
    K = frame_K(8, 8)
    depth = np.full((8, 8), 2.0, np.float32)
    points = sam3d_pointmap(depth, K)
    # the top left pixel's centre is 3.5 px from the middle; f = 4 / tan(25 deg)
    away = 2 * 3.5 / (4 / math.tan(math.radians(25)))
    assert points[0, 0].tolist() == pytest.approx([away, away, 2])
    assert points[7, 0].tolist() == pytest.approx([away, -away, 2])
    assert (points.shape, str(points.dtype)) == ((8, 8, 3), "float32")


def test_a_pointmap_of_a_wide_picture_and_a_camera_of_two_focal_lengths_is_that_worked_out_by_hand():
    K = np.array([[10.0, 0, 1], [0, 20, 2], [0, 0, 1]])
    points = sam3d_pointmap(np.full((4, 6), 2.0), K)
    assert points.shape == (4, 6, 3)
    # pixel (u, v) = (4, 1): X = 2 (4 - 1) / 10, Y = 2 (1 - 2) / 20; (0, 3): X = 2 (0 - 1) / 10, Y = 2 (3 - 2) / 20
    assert points[1, 4].tolist() == pytest.approx([-0.6, 0.1, 2])
    assert points[3, 0].tolist() == pytest.approx([0.2, -0.1, 2])


def test_a_pointmap_of_a_posed_point_is_where_sam3ds_transform_puts_it():
    R, _, s = poses(1)
    q, shift, scale = ours_to_sam3d(R[0], [0.0, 0.0, 3.0], s[0])
    x, y, z = to_opencv(row_transform(q, shift, scale, X_O))
    K = np.array([[100.0, 0, 50 - 100 * x / z], [0, 100, 50 - 100 * y / z], [0, 0, 1]])
    # K was chosen so that the point lies in the centre of pixel (50, 50)
    depth = np.full((60, 60), z)
    assert sam3d_pointmap(depth, K)[50, 50] == pytest.approx(row_transform(q, shift, scale, X_O), abs=1e-12)


def test_pixels_without_depth_are_nan_in_all_three():
    depth = np.full((2, 4, 4), np.nan)
    depth[1, 2, 3] = 1.5
    points = sam3d_pointmap(depth, frame_K(4, 4))
    assert np.isfinite(points).all(axis=-1).sum() == 1 and np.isnan(points).all(axis=-1).sum() == 31


@pytest.mark.parametrize("depth", [np.ones((4, 4), np.uint16), np.ones(4, np.float32)])
def test_depth_of_another_kind_is_refused(depth):
    with pytest.raises(DataError, match="float32 or float64"):
        sam3d_pointmap(depth, frame_K(4, 4))


def test_a_camera_with_skew_is_refused():
    K = frame_K(4, 4)
    K[0, 1] = 0.1
    with pytest.raises(DataError, match=r"cameras\.json"):
        sam3d_pointmap(np.ones((4, 4)), K)


def test_scale_invariant_targets_are_direction_apparent_size_and_relative_distance():
    target = scale_invariant([0, 3, 4], [0.5] * 3, 2.0)
    assert target.t_unit.tolist() == [0, 0.6, 0.8]
    assert target.s_tilde.tolist() == [0.1] * 3
    assert float(target.t_rel_norm) == 2.5


def test_a_scene_in_other_units_has_the_same_targets():
    _, t, s = poses()
    one = scale_invariant(t, s, scene_scale(t))
    other = scale_invariant(0.29 * t, 0.29 * s, scene_scale(0.29 * t))
    for name in ScaleInvariant._fields:
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-14)


def test_scale_invariant_targets_are_the_same_of_our_pose_and_sam3ds_but_for_the_axes():
    R, t_co, s = poses()
    _, t, _ = ours_to_sam3d(R, t_co, s)
    one, other = scale_invariant(t_co, s, 3.0), scale_invariant(t, s, 3.0)
    assert np.array_equal(one.t_unit * [-1, -1, 1], other.t_unit)
    assert np.array_equal(one.s_tilde, other.s_tilde) and np.array_equal(one.t_rel_norm, other.t_rel_norm)


def test_the_pose_comes_back_from_scale_invariant_targets():
    _, t, s = poses()
    found = from_scale_invariant(scale_invariant(t.reshape(50, 4, 3), s.reshape(50, 4, 3), 1.7), 1.7)
    assert found[0] == pytest.approx(t.reshape(50, 4, 3), rel=1e-14) and found[1] == pytest.approx(s.reshape(50, 4, 3), rel=1e-14)


def test_the_formula_of_the_targets_places_a_point():
    R, t_co, s = poses(1)
    q, t, scale = ours_to_sam3d(R[0], t_co[0], s[0])
    unit = 2.5
    target = scale_invariant(t, scale, unit)
    placed = unit * target.t_rel_norm * row_transform(q, target.t_unit, target.s_tilde, X_O)
    assert placed == pytest.approx(row_transform(q, t, scale, X_O), abs=1e-14)


def test_the_scale_of_a_scene_is_the_mean_distance_of_its_objects():
    assert scene_scale([[[0, 0, 2], [0, 3, 4]]]) == 3.5


@pytest.mark.parametrize(("t", "scale", "said"), [((0, 0, 0), 1.0, "at the camera"), ((0, 0, 1), 0.0, "scales above 0"), ((0, 0, np.nan), 1.0, "NaN")])
def test_targets_without_a_distance_or_a_scale_are_refused(t, scale, said):
    with pytest.raises(DataError, match=said):
        scale_invariant(t, [1] * 3, scale)


def test_no_objects_have_no_scale():
    with pytest.raises(DataError, match="no centre"):
        scene_scale(np.zeros((0, 3)))
