"""Where the scene and the cameras stand: against hand-made numbers of the specification."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sam3dvid.plan.draw import Arc, Poses
from sam3dvid.plan.layout import cameras_of, centre_of, covered, radius_around
from sam3dvid.plan.settings import PlanSettings
from tests.sam3dvid.stock import pool_row

CUBE = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
EYE = np.eye(3)


def arc(**values):
    known = {"distance_factor": 1.0, "start_azimuth_deg": 0.0, "start_elevation_deg": 0.0, "arc_span_deg": 40.0, "arc_direction": 1, "elevation_drift_deg": 0.0}
    return Arc(**{**known, **values})


def test_cameras_look_at_the_unweighted_mean_of_the_positions():
    assert centre_of([(0.0, 0.0, 3.0), (1.0, 0.0, 0.0), (2.0, 3.0, 0.0)]) == (1.0, 1.0, 1.0)


def test_radius_is_the_largest_distance_of_a_posed_vertex():
    poses = Poses((EYE, EYE), (1.0, 0.5), ((0.0, 0.0, 0.0), (3.0, 0.0, 0.0)), 1)
    # the far corners of the second cube: (3.25, .25, .25) from the centre (1.5, 0, 0)
    assert radius_around((1.5, 0.0, 0.0), poses, [CUBE, CUBE]) == pytest.approx(math.hypot(2.0, 0.5, 0.5))
    assert radius_around((0.0, 0.0, 0.0), poses, [CUBE, CUBE]) == pytest.approx(math.hypot(3.25, 0.25, 0.25))


def test_radius_is_that_of_the_geometry_and_not_of_the_spheres_around_it():
    thin = CUBE * [1.0, 0.01, 0.01]
    assert radius_around((0.0, 0.0, 0.0), Poses((EYE,), (0.8,), ((0.0, 0.0, 0.0),), 1), [thin]) == pytest.approx(0.4 * math.hypot(1, 0.01, 0.01))


def test_radius_follows_the_rotation_of_an_object():
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    poses = Poses((quarter,), (1.0,), ((0.0, 0.0, 0.0),), 1)
    # canonical x becomes world y
    assert radius_around((0.0, -1.0, 0.0), poses, [CUBE * [1.0, 0.0, 0.0]]) == pytest.approx(1.5)


def test_distance_is_the_radius_over_the_tangent_of_25_degrees():
    cameras = cameras_of(arc(distance_factor=1.2), (0.0, 0.0, 0.0), 2.0, 32)
    assert cameras.orbit.radius == pytest.approx(2.0 / 0.46630765815499858 * 1.2, rel=1e-15)
    assert np.allclose(cameras.frames[:, :3, 3], [0, 0, cameras.orbit.radius], rtol=0, atol=1e-14), "the camera looks at the centre in every frame"


@pytest.mark.parametrize("direction", [1, -1])
def test_arc_goes_its_span_from_x_towards_y_or_the_other_way(direction):
    frames = cameras_of(arc(arc_direction=direction), (0.0, 0.0, 0.0), 1.0, 32).frames
    stands = -frames[:, :3, :3].transpose(0, 2, 1) @ frames[:, :3, 3, None]
    azimuth = np.degrees(np.arctan2(stands[:, 1, 0], stands[:, 0, 0]))
    assert azimuth[[0, 1, 15, 31]] == pytest.approx([0.0, direction * 40 * 0.002565, direction * 40 * 0.474675, direction * 40.0], abs=5e-5)


def test_elevation_drifts_with_the_same_ease():
    frames = cameras_of(arc(start_elevation_deg=30.0, elevation_drift_deg=-8.0), (1.0, 2.0, 3.0), 1.0, 32).frames
    stands = -frames[:, :3, :3].transpose(0, 2, 1) @ frames[:, :3, 3, None]
    height = np.degrees(np.arcsin((stands[:, 2, 0] - 3.0) * math.tan(math.radians(25))))
    assert height[[0, 15, 31]] == pytest.approx([30.0, 30.0 - 8.0 * 0.474675, 22.0], abs=5e-5)


def test_reference_camera_stands_half_way_and_is_no_frame():
    cameras = cameras_of(arc(), (0.0, 0.0, 0.0), 1.0, 32)
    right, _, forward = cameras.reference[:3, :3]
    assert np.degrees(np.arctan2(-forward[1], -forward[0])) == pytest.approx(20.0)
    assert right == pytest.approx([-math.sin(math.radians(20)), math.cos(math.radians(20)), 0.0])
    assert np.abs(cameras.frames - cameras.reference).max(axis=(1, 2)).min() > 1e-3


def test_fewer_frames_have_the_same_first_and_last():
    few, many = (cameras_of(arc(), (1.0, 0.0, 0.0), 1.0, frames).frames for frames in (4, 32))
    assert np.array_equal(few[[0, -1]], many[[0, -1]])


@pytest.mark.parametrize(("width", "height", "covers"), [(2048, 1024, True), (1000, 1000, True), (4096, 512, False)])
def test_pictures_of_usual_shapes_cover_an_arc_and_a_strip_does_not(width, height, covers):
    cameras = cameras_of(arc(arc_span_deg=60.0, elevation_drift_deg=5.0, start_elevation_deg=20.0), (0.0, 0.0, 0.0), 1.0, 32)
    assert covered(cameras, pool_row("a", width, height), PlanSettings()) is covers


def test_a_single_frame_that_looks_too_far_aside_is_not_covered():
    # 130 degrees of background, 50 of the frame: 40 to each side are free, but for the frame's corners; 2 x 40 degrees would leave them bare
    wide = cameras_of(arc(arc_span_deg=90.0), (0.0, 0.0, 0.0), 1.0, 32)
    assert not covered(wide, pool_row("a", 2048, 2048), PlanSettings())
    assert covered(cameras_of(arc(arc_span_deg=70.0), (0.0, 0.0, 0.0), 1.0, 32), pool_row("a", 2048, 2048), PlanSettings())


def test_cover_before_rejection_is_that_of_the_specification():
    from sam3dvid.plan.draw import draw_arc

    arcs = [cameras_of(draw_arc(seed, 0, 0), (0.0, 0.0, 0.0), 1.0, 32) for seed in range(1500)]
    share = np.mean([covered(one, pool_row("a", 2048, 1024), PlanSettings()) for one in arcs])
    assert abs(share - 0.9805) < 4 * math.sqrt(0.9805 * 0.0195 / 1500)
