"""Ray casting: equal to rational arithmetic on every small mesh, and the facts of a frame that the specification states."""

from __future__ import annotations

import concurrent.futures
import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import trimesh

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import K as full_K
from sam3dvid.conventions import Orbit, frame_K, pixel_rays, pose_in_camera, random_rotation, trajectory
from sam3dvid.raycast import Caster, clip_visibility, frame_truth
from sam3dvid.raycast.exact import exact_det, side
from shardwork.streams import stream
from tests.sam3dvid import brute
from tests.sam3dvid.processor import plain_processor

EYE = np.eye(3)
QUAD = np.array([[0, 1, 2], [0, 2, 3]], np.int32)


def box(*sides):
    mesh = trimesh.creation.box(sides)
    return np.asarray(mesh.vertices), np.asarray(mesh.faces, np.int32)


def plane(side, z=0.0):
    return np.array([[-side, -side, z], [side, -side, z], [side, side, z], [-side, side, z]]), QUAD


def sphere(level):
    mesh = trimesh.creation.icosphere(level, radius=0.5)
    return np.asarray(mesh.vertices), np.asarray(mesh.faces, np.int32)


def grid_cube(cells):
    """Return a unit cube whose sides are divided into cells x cells squares of two triangles, edges at multiples of 1 / cells."""
    steps = np.arange(cells + 1) / cells - 0.5
    p, q = np.meshgrid(steps, steps, indexing="ij")
    vertices: list[np.ndarray] = []
    faces: list[np.ndarray] = []
    i, j = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
    corner = (i * (cells + 1) + j).ravel()
    for axis in range(3):
        for end in (-0.5, 0.5):
            square = np.empty((p.size, 3))
            square[:, axis], square[:, axis - 1], square[:, axis - 2] = end, p.ravel(), q.ravel()
            start = len(vertices) * p.size
            vertices.append(square)
            for a, b, c in ((0, 1, cells + 1), (1, cells + 2, cells + 1)):
                faces.append(start + np.stack([corner + a, corner + b, corner + c], axis=1))
    return np.concatenate(vertices), np.concatenate(faces).astype(np.int32)


def one(mesh, t=(0, 0, 3.0), R=EYE, s=1.0, K=None, size=64, caster=Caster):
    return frame_truth([caster(*mesh)], R[None], [t], [s], frame_K(size, size) if K is None else K, size, size)


def same_hits(t, triangle, true_t, true_triangles):
    assert np.array_equal(np.isinf(t), np.isinf(true_t))
    assert np.array_equal(triangle < 0, np.isinf(true_t))
    hit = np.isfinite(t)
    assert t[hit] == pytest.approx(true_t[hit], rel=1e-9)
    # of triangles that meet the ray within rounding, any may be the nearest
    wrong = [i for i in np.nonzero(hit)[0] if triangle[i] not in true_triangles[i] and abs(t[i] - true_t[i]) > 1e-12 * true_t[i]]
    assert wrong == []


@pytest.fixture(scope="module")
def soup():
    rng = stream(11, "soup")
    return rng.uniform(-0.5, 0.5, (24, 3)), rng.integers(0, 24, (30, 3)).astype(np.int32)


# the sign that decides


def det(a, b, d):
    return brute.dot(brute.exact(d), brute.cross(brute.exact(a), brute.exact(b)))


def sign(value):
    return int(value > 0) - int(value < 0)


def test_the_sign_of_a_side_is_exact_where_rounding_would_change_it():
    rng = stream(5, "sides")
    a, b = rng.uniform(-1, 1, (2, 400, 3))
    weights = rng.uniform(-1, 1, (2, 400, 1))
    # d lies in the plane of a and b, up to the rounding of this line
    d = weights[0] * a + weights[1] * b
    expected = [sign(det(*row)) for row in zip(a, b, d, strict=True)]
    plain = (d * np.cross(a, b)).sum(axis=1)
    assert [sign(side(*p, *q, *r)) for p, q, r in zip(a, b, d, strict=True)] == expected
    assert [sign(value) for value in plain] != expected


def test_the_exact_side_errs_by_few_units_in_the_last_place():
    rng = stream(6, "sides")
    a, b = rng.uniform(-1, 1, (2, 200, 3))
    for p, q in zip(a, b, strict=True):
        d = 0.3 * p - 0.7 * q
        assert exact_det(*p, *q, *d) == pytest.approx(float(det(p, q, d)), rel=1e-15)


def test_a_side_is_zero_only_on_the_line():
    assert side(1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.5, 0.5, 1.0) == 0
    assert side(1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.5, np.nextafter(0.5, 1), 1.0) != 0


# single rays


def test_rays_through_a_soup_of_triangles_meet_what_rational_arithmetic_says(soup):
    rng = stream(12, "rays")
    origins, ends = rng.uniform(-1, 1, (300, 3)), rng.uniform(-0.5, 0.5, (300, 3))
    same_hits(*Caster(*soup).hits(origins, ends - origins), *brute.cast(soup[0], soup[1], origins, ends - origins))


def test_rays_aimed_at_corners_and_edges_meet_what_rational_arithmetic_says(soup):
    rng = stream(13, "rays")
    vertices, triangles = soup
    a, b = vertices[triangles[:, 0]], vertices[triangles[:, 1]]
    ends = np.concatenate([vertices, (a + b) / 2, a + (b - a) * 0.3])
    origins = rng.uniform(-2, 2, ends.shape)
    same_hits(*Caster(*soup).hits(origins, ends - origins), *brute.cast(soup[0], soup[1], origins, ends - origins))


def test_no_ray_is_lost_between_the_triangles_of_a_closed_mesh():
    vertices, triangles = sphere(2)
    rng = stream(14, "rays")
    a, b = vertices[triangles[:, 0]], vertices[triangles[:, 1]]
    weights = rng.uniform(0, 1, (40, len(a), 1))
    ends = (a + (b - a) * weights).reshape(-1, 3)
    origins = rng.uniform(-0.2, 0.2, ends.shape)
    _, triangle = Caster(vertices, triangles).hits(origins, ends - origins)
    assert (triangle >= 0).all()


def test_of_two_triangles_equally_near_the_lower_is_named():
    _, triangle = Caster(*plane(1.0)).hits([[0.0, 0, -2]], [[0.0, 0, 1]])
    assert triangle.tolist() == [0]


def test_a_back_face_is_met_like_a_front_face():
    caster = Caster(*plane(1.0))
    t, _ = caster.hits([[0.3, 0.1, -2.0], [0.3, 0.1, 2.0]], [[0.0, 0.0, 1.0], [0.0, 0.0, -4.0]])
    assert t.tolist() == [2.0, 0.5]


def test_what_lies_behind_the_origin_is_missed():
    t, triangle = Caster(*plane(1.0)).hits([[0.3, 0.1, 2]], [[0.0, 0, 1]])
    assert (t.tolist(), triangle.tolist()) == ([math.inf], [-1])


def test_a_ray_within_the_plane_of_a_triangle_misses_it():
    assert Caster(*plane(1.0)).hits([[-3.0, 0.1, 0]], [[1.0, 0, 0]])[1].tolist() == [-1]


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_far_coordinates_give_the_verdict_of_rational_arithmetic(offset):
    vertices, triangles = sphere(1)
    far = vertices + [offset, -offset, offset / 3]
    rng = stream(15, "rays")
    ends = far[triangles].mean(axis=1) + rng.uniform(-0.2, 0.2, (len(triangles), 3))
    origins = ends + rng.uniform(-2, 2, ends.shape)
    same_hits(*Caster(far, triangles).hits(origins, ends - origins), *brute.cast(far, triangles, origins, ends - origins))


def test_an_origin_far_away_gives_the_verdict_of_rational_arithmetic():
    vertices, triangles = sphere(1)
    rng = stream(16, "rays")
    ends = rng.uniform(-0.5, 0.5, (60, 3))
    origins = rng.standard_normal((60, 3)) * 1e7
    same_hits(*Caster(vertices, triangles).hits(origins, ends - origins), *brute.cast(vertices, triangles, origins, ends - origins))


def test_triangles_without_area_are_never_met():
    vertices = np.array([[0.0, 0, 0], [0.25, 0, 0], [0.5, 0, 0], [0, 0, 0]])
    triangles = np.array([[0, 1, 2], [0, 0, 0], [0, 3, 0], [1, 1, 2]], np.int32)
    origins = np.array([[0.0, 0, -1], [0.25, 0, -1], [0.1, 0, -1]])
    _, triangle = Caster(vertices, triangles).hits(origins, np.tile([0.0, 0, 1], (3, 1)))
    assert triangle.tolist() == [-1, -1, -1]


def test_triangles_without_area_do_not_disturb_the_others(soup):
    vertices, triangles = soup
    more = np.concatenate([triangles, np.stack([triangles[:, 0], triangles[:, 1], triangles[:, 1]], axis=1)])
    rng = stream(17, "rays")
    origins, ends = rng.uniform(-1, 1, (500, 3)), rng.uniform(-0.5, 0.5, (500, 3))
    t, triangle = Caster(vertices, triangles).hits(origins, ends - origins)
    again, same = Caster(vertices, more).hits(origins, ends - origins)
    assert np.array_equal(t, again)
    assert np.array_equal(triangle, same)


@pytest.mark.parametrize(("origin", "direction"), [([0, 0, 0], [0, 0, 0]), ([math.nan, 0, 0], [0, 0, 1]), ([0, 0, 0], [0, math.inf, 1])])
def test_what_is_no_ray_is_refused(origin: list[float], direction: list[float]):
    with pytest.raises(ValueError, match="ray"):
        Caster(*plane(1.0)).hits(np.array([origin]), np.array([direction]))


@pytest.mark.parametrize(
    ("vertices", "triangles", "code"),
    [
        (np.zeros((3, 2)), [[0, 1, 2]], "unreadable_mesh"),
        (np.zeros((3, 3)), [[0, 1, 3]], "unreadable_mesh"),
        (np.zeros((3, 3)), [[0, 1, -1]], "unreadable_mesh"),
        (np.full((3, 3), np.nan), [[0, 1, 2]], "not_finite"),
        (np.zeros((3, 3)), np.zeros((0, 3)), "empty_mesh"),
    ],
)
def test_a_mesh_that_is_none_is_refused_by_code(vertices, triangles, code):
    with pytest.raises(AssetRefused) as caught:
        Caster(vertices, triangles)
    assert caught.value.code == code


# frames


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


CLIP = Orbit(30.0, 20.0, 8.0, 60.0, -1, 4.0, (0.1, -0.1, 0.0))
PLACES, SCALES = np.array([[0.4, 0.3, 0], [-0.6, 0.1, 0.2], [0.2, -0.7, -0.3]]), np.array([0.6, 0.7, 0.5])


def clip_arguments():
    casters = [Caster(*sphere(3)), Caster(*grid_cube(6)), Caster(*box(1, 0.5, 0.3))]
    return casters, trajectory(CLIP), random_rotation(stream(31, "rotation"), (3,)), PLACES, SCALES, frame_K(96, 96), 96, 96


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
from tests.sam3dvid.test_raycast import frame_digest
print(frame_digest())
"""


def frame_digest():
    casters, T_cw, R_wo, t_wo, s, K, width, height = clip_arguments()
    R_co, t_co, _ = pose_in_camera(T_cw[9], R_wo, t_wo, s[:, None].repeat(3, axis=1))
    truth = frame_truth(casters, R_co, t_co, s, K, width, height)
    return hashlib.sha256(truth.mask.tobytes() + truth.amodal.tobytes() + truth.depth.tobytes()).hexdigest()


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


# Embree


@pytest.fixture(scope="module")
def embree():
    pytest.importorskip("embreex", reason="embreex is not installed")
    from sam3dvid.raycast.embree import EmbreeCaster

    return EmbreeCaster


def test_embree_sees_no_holes_where_pixel_centres_fall_on_shared_edges(embree):
    K = np.array([[16.0, 0, 16], [0, 16, 16], [0, 0, 1]])
    mesh = grid_cube(16)
    expected = frame_truth([Caster(*mesh)], EYE[None], [[0, 0, 1.5]], [1.0], K, 33, 33)
    truth = frame_truth([embree(*mesh)], EYE[None], [[0, 0, 1.5]], [1.0], K, 33, 33)
    assert np.array_equal(truth.mask, expected.mask)
    assert np.array_equal(truth.depth, expected.depth, equal_nan=True)


@pytest.mark.parametrize("seed", range(3))
def test_embree_and_drawing_agree_on_turned_objects(embree, seed):
    R = random_rotation(stream(seed, "rotation"))
    drawn, cast = (one(grid_cube(16), R=R, size=256, caster=caster) for caster in (Caster, embree))
    assert np.array_equal(drawn.mask, cast.mask)
    seen = drawn.mask == 1
    assert cast.depth[seen] == pytest.approx(drawn.depth[seen], rel=1e-9)


def test_embree_alone_agrees_but_for_the_outline(embree):
    mesh = sphere(4)
    x, y = pixel_rays(frame_K(256, 256), 256, 256)
    directions = np.stack(np.broadcast_arrays(x[None, :], y[:, None], 1.0), axis=-1).reshape(-1, 3)
    origins = np.broadcast_to([0.0, 0, -3], directions.shape)
    _, triangle = Caster(*mesh).hits(origins, directions)
    assert np.count_nonzero((triangle >= 0) != (embree(*mesh).propose(origins, directions) >= 0)) <= 2


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_embree_meets_what_the_exact_caster_meets_near_and_far(embree, offset, soup):
    vertices, triangles = soup
    rng = stream(41, "rays")
    origins, ends = rng.uniform(-1, 1, (2000, 3)) + offset, rng.uniform(-0.5, 0.5, (2000, 3)) + offset
    mesh = vertices + offset, triangles
    t, triangle = Caster(*mesh).hits(origins, ends - origins)
    cast_t, cast_triangle = embree(*mesh).hits(origins, ends - origins)
    assert np.array_equal(triangle < 0, cast_triangle < 0)
    assert cast_t[triangle >= 0] == pytest.approx(t[triangle >= 0], abs=1e-5)


def test_frames_need_no_embree():
    program = "import sys; sys.modules['embreex'] = None; from tests.sam3dvid.test_raycast import frame_digest; print(frame_digest())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == frame_digest()
