"""Rays of any origin and direction: equal to rational arithmetic on every small mesh."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sam3dvid.codes import AssetRefused
from sam3dvid.raycast import Caster
from sam3dvid.raycast.exact import exact_det, side
from shardwork.streams import stream
from tests.sam3dvid import brute
from tests.sam3dvid.solids import plane, sphere, triangle_soup


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
    return triangle_soup()


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
