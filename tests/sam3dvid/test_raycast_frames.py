"""What a frame shows: equal to rational arithmetic on every small mesh, and the facts that the specification states."""

from __future__ import annotations

import concurrent.futures
import math
import subprocess
import sys

import numpy as np
import pytest

from sam3dvid.conventions import K as full_K
from sam3dvid.conventions import frame_K, pixel_rays, pose_in_camera, random_rotation
from sam3dvid.raycast import Caster, clip_visibility, frame_truth
from shardwork.streams import stream
from tests.sam3dvid import brute
from tests.sam3dvid.processor import plain_processor
from tests.sam3dvid.solids import EYE, box, clip_arguments, frame_digest, grid_cube, one, plane, sphere, triangle_soup


@pytest.fixture(scope="module")
def soup():
    return triangle_soup()


@pytest.mark.parametrize("seed", range(4))
def test_a_drawn_soup_is_what_rational_arithmetic_says(soup, seed):
    R = random_rotation(stream(seed, "rotation"))
    t, K = np.array([0.05, -0.1, 1.4]), frame_K(16, 14)
    truth = frame_truth([Caster(*soup)], R[None], t[None], [0.8], K, 16, 14)
    expected = brute.depth_picture(soup[0], soup[1], R, t, 0.8, K, 16, 14)
    assert np.array_equal(truth.mask == 1, np.isfinite(expected))
    seen = truth.mask == 1
    assert truth.depth[seen] == pytest.approx(expected[seen], rel=1e-10)


@pytest.mark.parametrize("z", [-0.3, 0.0, 0.1, 0.3])
def test_an_object_partly_behind_the_camera_is_what_rational_arithmetic_says(soup, z):
    R, t, K = random_rotation(stream(39, "rotation")), np.array([0.03, 0.02, z]), frame_K(14, 14)
    truth = frame_truth([Caster(*soup)], R[None], t[None], [1.0], K, 14, 14)
    expected = brute.depth_picture(soup[0], soup[1], R, t, 1.0, K, 14, 14)
    assert np.array_equal(truth.mask == 1, np.isfinite(expected))
    seen = truth.mask == 1
    assert seen.any()
    assert truth.depth[seen] == pytest.approx(expected[seen], rel=1e-10)


def test_an_object_behind_the_camera_is_not_seen():
    truth = one(box(1, 1, 1), (0, 0, -3.0))
    assert truth.mask.max() == 0
    assert truth.visible_px.tolist() == truth.amodal_px.tolist() == [0]


def test_a_camera_inside_an_object_sees_its_back_faces_all_around():
    truth = one(box(1, 1, 1), (0, 0, 0.0))
    assert truth.mask.min() == 1
    assert np.all(truth.depth == 0.5)


def test_pixel_centres_on_shared_edges_leave_no_holes():
    # f / z = 16 / 1, so the cube's front face spans pixels 8..24 and every one of its edges lies on pixel centres, diagonals too
    K = np.array([[16.0, 0, 16], [0, 16, 16], [0, 0, 1]])
    truth = frame_truth([Caster(*grid_cube(16))], EYE[None], [[0, 0, 1.5]], [1.0], K, 33, 33)
    expected = np.zeros((33, 33), np.uint8)
    expected[8:25, 8:25] = 1
    assert np.array_equal(truth.mask, expected)
    assert np.all(truth.depth[expected == 1] == 1.0)


@pytest.mark.parametrize("seed", range(6))
def test_a_subdivided_cube_turned_anyhow_has_the_silhouette_of_its_twelve_triangles(seed):
    R = random_rotation(stream(seed, "rotation"))
    fine, coarse = one(grid_cube(16), R=R, size=200), one(grid_cube(1), R=R, size=200)
    # rounding moves the finer mesh's vertices by 1e-16 off the faces, so only a pixel centre that close to the outline could differ
    assert np.array_equal(fine.mask, coarse.mask)


def test_a_plane_across_the_view_has_one_depth_everywhere():
    truth = one(plane(2.0), (0, 0, 2.0))
    assert truth.mask.min() == 1
    assert np.all(truth.depth == 2.0)


def test_depth_is_z_and_not_the_distance_along_the_ray():
    truth = one(plane(3.0), (0, 0, 2.0), K=full_K(), size=512)
    x, y = pixel_rays(full_K(), 512, 512)
    along_ray = truth.depth[0, 0] * math.hypot(x[0], y[0], 1)
    assert truth.depth[0, 0] == 2.0
    assert along_ray / truth.depth[255, 255] == pytest.approx(1.1971585, abs=5e-8)


def test_a_slanted_plane_has_the_depth_of_its_equation():
    angle = math.radians(40)
    R = np.array([[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]])
    truth = one(plane(4.0), (0, 0, 3.0), R=R)
    x, _ = pixel_rays(frame_K(64, 64), 64, 64)
    # points are (p cos, q, 3 - p sin): z = 3 - tan(angle) * x_ray * z
    assert truth.depth == pytest.approx(np.broadcast_to(3 / (1 + math.tan(angle) * x), (64, 64)), rel=1e-13)


def test_a_sphere_on_the_axis_is_centred_between_pixels():
    truth = one(sphere(5), K=full_K(), size=512)
    rows, columns = np.nonzero(truth.mask)
    assert rows.mean() == pytest.approx(255.5, abs=0.01)
    assert columns.mean() == pytest.approx(255.5, abs=0.01)


def test_a_principal_point_half_a_pixel_off_shifts_the_sphere():
    K = full_K()
    K[0, 2] = 256
    rows, columns = np.nonzero(one(sphere(5), K=K, size=512).mask)
    assert columns.mean() == pytest.approx(256, abs=0.01)
    assert rows.mean() == pytest.approx(255.5, abs=0.01)


def test_a_sphere_has_the_area_of_its_cone():
    truth = one(sphere(6), K=full_K(), size=512)
    radius_px = full_K()[0, 0] * 0.5 / math.sqrt(9 - 0.25)
    assert truth.visible_px[0] == pytest.approx(math.pi * radius_px**2, rel=2e-3)


@pytest.fixture(scope="module")
def three():
    """Return three cubes: 1 and 3 overlap in the picture, 2 lies wholly behind 1."""
    meshes, t, s = [box(1, 1, 1)] * 3, np.array([[-0.2, 0, 3], [-0.3, 0, 6], [0.4, 0.3, 4]]), np.array([1.0, 0.5, 1.0])
    R = np.stack([EYE] * 3)
    return frame_truth([Caster(*mesh) for mesh in meshes], R, t, s, frame_K(128, 128), 128, 128)


def test_no_id_of_a_hidden_object_shows_at_a_border_of_two_others(three):
    assert set(np.unique(three.mask)) == {0, 1, 3}


def test_depth_at_a_border_is_that_of_one_surface_or_the_other(three):
    assert np.all(np.abs(three.depth[three.mask == 1] - 2.5) == 0)
    depth = three.depth[three.mask == 3]
    assert depth.min() == 3.5
    assert depth.max() < 4.5


def test_depth_is_finite_exactly_where_the_mask_is_set(three):
    assert np.array_equal(np.isfinite(three.depth), three.mask > 0)
    assert np.isnan(three.depth[three.mask == 0]).all()


def test_what_is_visible_is_part_of_what_is_amodal(three):
    for k in (1, 2, 3):
        assert not np.any((three.mask == k) & ~three.amodal[k - 1])


def test_an_amodal_mask_is_that_of_the_object_alone(three):
    assert np.array_equal(three.amodal[1], one(box(1, 1, 1), (-0.3, 0, 6), s=0.5, size=128).mask == 1)


def test_counts_are_those_of_the_masks(three):
    assert three.visible_px.tolist() == [(three.mask == k).sum() for k in (1, 2, 3)]
    assert three.amodal_px.tolist() == three.amodal.sum(axis=(1, 2)).tolist()
    assert three.visible_frac == pytest.approx(three.visible_px / three.amodal_px)


def test_of_two_surfaces_at_one_depth_the_lower_object_is_seen():
    caster = Caster(*plane(1.0))
    truth = frame_truth([caster, caster], [EYE, EYE], [[0, 0, 3.0]] * 2, [1.0, 1.0], frame_K(32, 32), 32, 32)
    assert set(np.unique(truth.mask)) == {0, 1}


def test_an_object_out_of_the_picture_has_a_share_of_zero():
    truth = one(box(1, 1, 1), (9, 0, 3.0))
    assert truth.visible_frac.tolist() == [0.0]
    assert truth.visible_frac.dtype == np.float64


def test_an_object_cut_by_the_edge_is_counted_within_the_picture():
    truth = one(plane(0.5), (-0.5, 0, 0.5), K=frame_K(64, 64))
    assert truth.amodal_px[0] == truth.amodal[0].sum() == truth.visible_px[0]
    assert truth.amodal[0, 31, 0]
    assert not truth.amodal[0, 31, 33]


def test_the_visibility_of_a_clip_is_that_of_its_frames():
    casters, T_cw, R_wo, t_wo, s, K, width, height = clip_arguments()
    seen = clip_visibility(casters, T_cw, R_wo, t_wo, s, K, width, height)
    assert seen.visible_px.shape == (32, 3)
    for t in (0, 13, 31):
        R_co, t_co, _ = pose_in_camera(T_cw[t], R_wo, t_wo, s[:, None].repeat(3, axis=1))
        truth = frame_truth(casters, R_co, t_co, s, K, width, height)
        assert seen.visible_px[t].tolist() == truth.visible_px.tolist()
        assert seen.amodal_px[t].tolist() == truth.amodal_px.tolist()
        assert seen.visible_frac[t].tolist() == truth.visible_frac.tolist()


def test_threads_that_share_casters_see_the_same():
    arguments = clip_arguments()
    expected = clip_visibility(*arguments).visible_px
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(clip_visibility, *arguments) for _ in range(8)]:
            assert np.array_equal(future.result().visible_px, expected)


FRAME_DIGEST = """
import hashlib, numpy as np
from tests.sam3dvid.solids import frame_digest
print(frame_digest())
"""


def test_another_process_with_other_threads_and_instructions_draws_the_same_bytes():
    env = {**plain_processor(), "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FRAME_DIGEST], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == frame_digest()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"R_co": np.eye(3)}, "shapes"),
        ({"s": [0.0]}, "scale"),
        ({"t_co": [[0, 0, math.nan]]}, "finite"),
        ({"K": [[9, 1, 5], [0, 9, 5], [0, 0, 1]]}, "skew"),
    ],
)
def test_a_frame_that_makes_no_sense_is_refused(change, word):
    arguments = {"R_co": EYE[None], "t_co": [[0, 0, 3.0]], "s": [1.0], "K": frame_K(8, 8), **change}
    with pytest.raises(ValueError, match=word):
        frame_truth([Caster(*plane(1.0))], **arguments, width=8, height=8)
