"""Voxels against meshes: what Open3D's rule sets is never refused, and what lies a voxel aside is."""

import numpy as np
import pytest

from sam3dvid.assets.voxels import voxelize
from sam3dvid.validate.glb import Mesh
from sam3dvid.validate.surface import wrong_voxels
from tests.sam3dvid.voxel_cases import OPEN3D, SQUARE, mesh_of


def seen(grid, vertices, triangles):
    return wrong_voxels(grid, Mesh(vertices, triangles.astype(np.int64)))


@pytest.mark.parametrize("kind", OPEN3D)
def test_the_voxels_of_open3d_s_rule_are_in_order(kind):
    vertices, triangles = mesh_of(kind)
    assert seen(voxelize(vertices, triangles), vertices, triangles) == (0, 0)


@pytest.mark.parametrize("kind", ["turned cone", "small", "slivers", "turned box"])
def test_every_voxel_beside_the_surface_is_told(kind):
    vertices, triangles = mesh_of(kind)
    grid = voxelize(vertices, triangles)
    missing, stray = seen(np.ones_like(grid), vertices, triangles)
    assert missing == 0
    assert stray == pytest.approx(grid.size - grid.sum(), rel=1e-3)


@pytest.mark.parametrize("kind", ["turned cone", "small", "slivers", "turned box", "turned sphere"])
def test_every_voxel_of_the_surface_that_is_empty_is_told(kind):
    vertices, triangles = mesh_of(kind)
    grid = voxelize(vertices, triangles)
    assert seen(np.zeros_like(grid), vertices, triangles) == (grid.sum(), 0)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["turned cone", "turned box"])
def test_a_mirrored_grid_is_refused(kind, axis):
    vertices, triangles = mesh_of(kind)
    missing, stray = seen(np.flip(voxelize(vertices, triangles), axis), vertices, triangles)
    assert missing > 100 and stray > 100


@pytest.mark.parametrize("index", [31, 32])
def test_a_face_between_two_voxels_may_be_in_either(index):
    grid = np.zeros((64, 64, 64), bool)
    grid[index] = True
    assert seen(grid, *SQUARE) == (0, 0)


def test_a_face_between_two_voxels_is_in_neither_further_one():
    grid = np.zeros((64, 64, 64), bool)
    grid[33] = True
    missing, stray = seen(grid, *SQUARE)
    assert missing > 0 and stray == 64 * 64


def test_a_vertex_a_trace_below_a_face_may_be_above_it():
    vertices = np.array([[-1e-17, 0.1, 0.1], [0.3, 0.12, 0.1], [0.3, 0.1, 0.13]])
    triangles = np.array([[0, 1, 2]])
    assert seen(voxelize(vertices, triangles.astype(np.int32)), vertices, triangles) == (0, 0)


def test_vertices_that_no_triangle_uses_are_nowhere():
    vertices, triangles = mesh_of("turned cone")
    more = np.concatenate([vertices, [[0.49, 0.49, 0.49]]])
    assert seen(voxelize(vertices, triangles), more, triangles) == (0, 0)
