"""Embree, where it is installed, meets and shows what the exact caster does."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sam3dvid.conventions import frame_K, pixel_rays, random_rotation
from sam3dvid.raycast import Caster, frame_truth
from shardwork.streams import stream
from tests.sam3dvid.solids import EYE, frame_digest, grid_cube, one, sphere, triangle_soup


@pytest.fixture(scope="module")
def soup():
    return triangle_soup()


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
    program = "import sys; sys.modules['embreex'] = None; from tests.sam3dvid.solids import frame_digest; print(frame_digest())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == frame_digest()
