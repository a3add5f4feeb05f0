"""Conventions against numbers of the specification, or worked out by hand."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from sam3dvid.conventions import (
    CANONICAL_FROM_GLTF,
    K,
    K_bg,
    Orbit,
    T_cw_from_blender,
    blender_from_T_cw,
    camera_distance,
    canonical_from_gltf,
    compose,
    ease,
    frame_K,
    look_at,
    pixel_rays,
    pose_in_camera,
    project,
    random_rotation,
    reference_T_cw,
    rotate,
    trajectory,
)
from shardwork.streams import stream
from tests.sam3dvid.processor import plain_processor

ORBIT = Orbit(30.0, 20.0, 8.0, 50.0, -1, 4.0, (0.5, -0.25, 0.125))
RZ90 = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])


def test_the_way_starts_at_0_and_ends_at_1_exactly():
    assert ease(0) == 0.0
    assert ease(31) == 1.0


@pytest.mark.parametrize(("t", "u"), [(1, 0.002565), (15, 0.474675)])
def test_the_eased_way_has_the_specified_values(t, u):
    assert ease(t) == pytest.approx(u, abs=5e-7)


def test_no_frame_stands_at_the_reference():
    assert not np.any(ease(np.arange(32)) == 0.5)


def test_the_focal_length_is_256_over_tan_25_degrees():
    assert K()[0, 0] == K()[1, 1] == pytest.approx(548.993771650447, abs=5e-13)


def test_the_principal_point_is_the_middle_of_integer_pixel_centres():
    assert K()[0, 2] == K()[1, 2] == 255.5


def test_a_small_frame_keeps_the_field_of_view():
    small = frame_K(64, 64)
    assert small[0, 0] == pytest.approx(32 / math.tan(math.radians(25)), rel=1e-15)
    assert small[0, 2] == small[1, 2] == 31.5


def test_a_frame_of_full_size_has_the_intrinsics_of_every_frame():
    assert np.array_equal(frame_K(512, 512), K())


def test_the_background_is_given_130_degrees():
    assert K_bg(2048, 1024)[0, 0] == pytest.approx(477.499, abs=5e-4)
    assert K_bg(2048, 1024)[:2, 2].tolist() == [1023.5, 511.5]


def test_the_corner_ray_is_longer_than_its_z_as_specified():
    x, y = pixel_rays(K(), 512, 512)
    assert math.hypot(x[0], y[0], 1.0) == pytest.approx(1.1971585, abs=5e-8)


def test_a_point_projects_by_the_formula_of_the_format():
    u, v = project(K(), [0.2, -0.1, 2.0])
    assert u == pytest.approx(548.993771650447 * 0.1 + 255.5, rel=1e-15)
    assert v == pytest.approx(548.993771650447 * -0.05 + 255.5, rel=1e-15)


def test_projection_undoes_the_rays_of_pixel_centres():
    x, y = pixel_rays(K(), 512, 512)
    points = np.stack(np.broadcast_arrays(x[None, :], y[:, None], 1.0), axis=-1) * 3.7
    uv = project(K(), points)
    assert np.abs(uv[..., 0] - np.arange(512)).max() < 1e-12
    assert np.abs(uv[..., 1] - np.arange(512)[:, None]).max() < 1e-12


def test_a_camera_at_3_0_0_looks_at_the_origin_as_specified():
    T_cw = look_at([3, 0, 0], [0, 0, 0])
    assert T_cw[:3, :3].tolist() == [[0, 1, 0], [0, 0, -1], [-1, 0, 0]]
    assert T_cw[:, 3].tolist() == [0, 0, 3, 1]


def test_extrinsics_hold_no_negative_zero():
    assert "-0.0" not in str(look_at([3, 0, 0], [0, 0, 0]).tolist())


def test_a_raised_camera_sees_the_world_axes_without_roll():
    T_cw = look_at([4, -3, 2], [1, 1, 1])
    top, bottom = ((T_cw @ [*point, 1])[:3] for point in ([1, 1, 1.5], [1, 1, 0.5]))
    assert top[0] == pytest.approx(0, abs=1e-15)
    assert top[1] < 0 < bottom[1]


def test_the_target_lies_on_the_optical_axis_at_its_distance():
    x_c = look_at([4, -3, 2], [1, 1, 1]) @ [1, 1, 1, 1]
    assert x_c == pytest.approx([0, 0, math.sqrt(26), 1], abs=1e-15)


def test_a_camera_straight_above_its_target_is_refused():
    with pytest.raises(ValueError, match="straight above"):
        look_at([0, 0, 3], [0, 0, 0])


def test_blender_looks_along_its_negative_z_with_y_up():
    world = blender_from_T_cw(look_at([3, 0, 0], [0, 0, 0]))
    assert world.tolist() == [[0, 0, 1, 3], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]


def test_extrinsics_from_blender_are_those_of_the_specification():
    matrix_world = np.array([[0, 0, 1, 3], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], np.float32)
    assert T_cw_from_blender(matrix_world) == pytest.approx(np.array([[0, 1, 0, 0], [0, 0, -1, 0], [-1, 0, 0, 3], [0, 0, 0, 1.0]]), abs=1e-15)


def test_extrinsics_from_blender_are_the_inverse_also_where_float32_left_no_exact_rotation():
    world = blender_from_T_cw(trajectory(Orbit(30.1, 20.2, 8.3, 50.4, -1, 4.5, (0.5, -0.25, 0.125)))).astype(np.float32)
    assert np.allclose(T_cw_from_blender(world) @ world, np.diag([1.0, -1.0, -1.0, 1.0]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("fault", [np.diag([1.0001, 1, 1, 1]), np.diag([1.0001, 1.0001, 1.0001, 1]), np.diag([-1.0, 1, 1, 1])])
def test_a_blender_camera_that_scales_or_mirrors_is_refused(fault):
    with pytest.raises(ValueError, match="scales"):
        T_cw_from_blender(fault)


def test_an_object_turned_about_two_axes_stands_where_rational_arithmetic_puts_it():
    T_cw = np.eye(4)
    T_cw[:3, :3], T_cw[:3, 3] = [[0, 1, 0], [0, 0, -1], [-1, 0, 0]], [0.25, -0.5, 3]
    R_co, t_co, s_co = pose_in_camera(T_cw, RZ90, [0.5, -0.25, 0.125], [0.75, 0.75, 0.75])
    x_o = [Fraction(1, 8), Fraction(-1, 4), Fraction(3, 8)]
    x_w = [Fraction(1, 2) + Fraction(3, 4) * -x_o[1], Fraction(-1, 4) + Fraction(3, 4) * x_o[0], Fraction(1, 8) + Fraction(3, 4) * x_o[2]]
    x_c = [x_w[1] + Fraction(1, 4), -x_w[2] - Fraction(1, 2), -x_w[0] + 3]
    assert (R_co @ (s_co * np.array(x_o, float)) + t_co).tolist() == [float(value) for value in x_c]


def test_poses_of_all_objects_in_all_frames_come_from_one_call():
    T_cw = trajectory(ORBIT)
    R_wo, t_wo, s_wo = random_rotation(stream(1, "rotation"), (3,)), np.arange(9.0).reshape(3, 3), np.full((3, 3), 0.5)
    R_co, t_co, s_co = pose_in_camera(T_cw[:, None], R_wo, t_wo, s_wo)
    assert (R_co.shape, t_co.shape, s_co.shape) == ((32, 3, 3, 3), (32, 3, 3), (32, 3, 3))
    assert R_co[7, 2] == pytest.approx(T_cw[7, :3, :3] @ R_wo[2], abs=1e-15)
    assert t_co[7, 2] == pytest.approx(T_cw[7, :3, :3] @ t_wo[2] + T_cw[7, :3, 3], abs=1e-14)


def test_gltf_y_up_becomes_canonical_z_up():
    assert canonical_from_gltf([[1.0, 2.0, 3.0]]).tolist() == [[1, -3, 2]]
    assert (CANONICAL_FROM_GLTF @ [1.0, 2.0, 3.0]).tolist() == [1, -3, 2]


@pytest.fixture(scope="module")
def rotations():
    return random_rotation(stream(7, "rotation"), (200_000,))


def test_rotations_are_rotations(rotations):
    assert np.abs(np.swapaxes(rotations, -1, -2) @ rotations - np.eye(3)).max() < 1e-14
    assert np.linalg.det(rotations) == pytest.approx(1, abs=1e-14)


def test_the_mean_angle_of_rotations_is_the_one_of_so3(rotations):
    angle = np.degrees(np.arccos(np.clip((np.trace(rotations, axis1=1, axis2=2) - 1) / 2, -1, 1)))
    # pi/2 + 2/pi; 36.8 degrees is the standard deviation, so this is four of those of the mean
    assert angle.mean() == pytest.approx(126.476, abs=4 * 36.8 / math.sqrt(200_000))


@pytest.mark.parametrize("row", range(3))
@pytest.mark.parametrize("column", range(3))
def test_each_entry_of_a_rotation_is_uniform(rotations, row, column):
    share = (np.abs(rotations[:, row, column]) > 0.9).mean()
    assert share == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 200_000))


def test_the_orbit_runs_from_x_towards_y_when_counter_clockwise():
    orbit = Orbit(0.0, 0.0, 0.0, 70.0, 1, 2.0, (0, 0, 0))
    assert orbit.position(0) == pytest.approx([2, 0, 0], abs=1e-15)
    assert orbit.position(1) == pytest.approx([2 * math.cos(math.radians(70)), 2 * math.sin(math.radians(70)), 0], abs=1e-15)


def test_a_negative_direction_turns_the_orbit_the_other_way():
    assert ORBIT.azimuth_deg([0, 0.5, 1]).tolist() == [30, 5, -20]


def test_the_elevation_drifts_by_the_eased_way():
    assert ORBIT.elevation_deg([0, 0.5, 1]).tolist() == [20, 24, 28]


def test_the_orbit_keeps_its_radius_and_its_centre_in_the_middle():
    x_c = trajectory(ORBIT) @ [*ORBIT.center, 1]
    assert x_c[:, :2] == pytest.approx(np.zeros((32, 2)), abs=1e-14)
    assert x_c[:, 2] == pytest.approx(4.0, rel=1e-14)


def test_the_last_frame_of_a_clip_is_the_end_of_the_arc():
    T_cw = trajectory(ORBIT)
    assert T_cw.shape == (32, 4, 4)
    assert np.array_equal(T_cw[31], ORBIT.T_cw(1.0))


def test_the_reference_camera_stands_in_the_middle_of_the_arc():
    centre = np.linalg.inv(reference_T_cw(ORBIT))[:3, 3] - ORBIT.center
    assert math.degrees(math.atan2(centre[1], centre[0])) == pytest.approx(5.0, abs=1e-12)
    assert math.degrees(math.asin(centre[2] / 4.0)) == pytest.approx(24.0, abs=1e-12)


def test_the_camera_stands_at_radius_over_tan_not_sin():
    assert camera_distance(1.0, 1.0) == pytest.approx(2.144506920509559, rel=1e-15)
    assert camera_distance(2.0, 1.4) == pytest.approx(2.8 * 2.144506920509559, rel=1e-15)


ROW, COLUMN = (-0.7, 0.9, 0.1), (0.8, 0.6, 0.4)


def rounded(value):
    """Return the float64 next to a fraction, as a fraction."""
    return Fraction(float(value))


def in_other_ways():
    """Return the sum of three products as fused instructions, or another order, would round it."""
    exact = [Fraction(a) * Fraction(b) for a, b in zip(ROW, COLUMN, strict=True)]
    p, q, r = map(rounded, exact)
    firsts = {rounded(p + q), rounded(exact[0] + q), rounded(p + exact[1])}
    fused = {first + last for first in firsts for last in (r, exact[2])} - {rounded(p + q) + r}
    return {float(one) for one in (*fused, p + rounded(q + r), q + rounded(p + r), sum(exact))}


def in_order():
    """Return the sum of three products, each of them and each sum rounded once, from the first to the last."""
    p, q, r = (rounded(Fraction(a) * Fraction(b)) for a, b in zip(ROW, COLUMN, strict=True))
    return float(rounded(p + q) + r)


def test_the_numbers_of_the_next_two_tests_show_every_other_way_to_round():
    assert in_order() not in in_other_ways() and len(in_other_ways()) >= 5


def test_a_product_of_matrices_rounds_each_product_and_each_sum_in_order():
    A, B = np.tile(ROW, (3, 1)), np.tile(np.array(COLUMN)[:, None], (1, 3))
    assert compose(A, B).tolist() == np.full((3, 3), in_order()).tolist()


def test_a_turned_vector_rounds_each_product_and_each_sum_in_order():
    assert rotate(np.tile(ROW, (3, 1)), COLUMN).tolist() == [in_order()] * 3


def test_cameras_are_the_same_bytes_without_the_processors_wide_instructions():
    program = (
        "from sam3dvid.conventions import *; from shardwork.streams import stream\n"
        "T = trajectory(Orbit(30.1, 20.2, 8.3, 50.4, -1, 4.5, (0.5, -0.25, 0.125)))\n"
        "R = random_rotation(stream(3, 'rotation'), (50,))\n"
        "back = T_cw_from_blender(blender_from_T_cw(T).astype('float32'))\n"
        "print(b''.join(a.tobytes() for a in (*pose_in_camera(T[:, None], R, [1.1, 2.2, 3.3], [0.7] * 3), back)).hex())"
    )
    outputs = set()
    for env in ({**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, plain_processor()):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True, env=env)
        outputs.add(done.stdout)
    assert len(outputs) == 1
