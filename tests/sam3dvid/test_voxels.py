"""Voxels are those of Open3D's rule, to the bit: by count, by digest, against plain NumPy, and against Open3D itself where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from sam3dvid.assets.voxels import voxelize
from sam3dvid.codes import AssetRefused
from tests.sam3dvid.voxel_cases import OPEN3D, SIZE, SQUARE, arrays, digest, mesh_of, open3d_voxels, reference_voxels, soup

plain = settings(max_examples=60)


def box(*sides):
    return arrays(trimesh.creation.box(sides))


def test_a_unit_cube_has_23816_voxels():
    assert voxelize(*box(1, 1, 1)).sum() == 23816  # 64^3 - 62^3


def test_a_box_has_7074_voxels():
    assert voxelize(*box(1, 0.5, 0.25)).sum() == 7074


@pytest.mark.parametrize(("subdivisions", "count"), [(3, 19160), (5, 19232)])
def test_a_sphere_has_as_many_voxels_as_open3d_gives_it(subdivisions, count):
    assert voxelize(*arrays(trimesh.creation.icosphere(subdivisions, 0.5))).sum() == count


@pytest.mark.parametrize(("x", "layer"), [(0.0, 32), (0.5, 63), (-0.5, 0), (1 / 64, 33)])
def test_a_plane_between_two_layers_belongs_to_the_upper_one_alone(x, layer):
    grid = voxelize(SQUARE[0] + [x, 0, 0], SQUARE[1])
    assert grid.sum() == 4096 and grid[layer].all()


def test_a_triangle_without_area_sets_the_voxels_of_its_line():
    grid = voxelize(np.array([[0, 0, 0], [0.2, 0, 0], [0.4, 0, 0]]), np.array([[0, 1, 2]], np.int32))
    assert grid.sum() == 26 and grid[32:58, 32, 32].all()


def test_a_point_sets_its_voxel():
    grid = voxelize(np.array([[0.1, -0.2, 0.3]]), np.array([[0, 0, 0]], np.int32))
    assert np.argwhere(grid).tolist() == [[38, 19, 51]]  # floor((x + 0.5) 64)


def test_what_lies_outside_is_clipped_to_the_outer_voxels():
    grid = voxelize(np.array([[9.0, -9, 0.5]]), np.array([[0, 0, 0]], np.int32))
    assert np.argwhere(grid).tolist() == [[63, 0, 63]]


def test_axes_are_x_y_z_in_this_order():
    grid = voxelize(*soup([[[-0.5, 0, 0.25], [0.49, 0, 0.25], [0.49, 0, 0.25]]]))
    assert np.argwhere(grid).max(0).tolist() == [63, 32, 48] and np.argwhere(grid).min(0).tolist() == [0, 32, 48]


def test_only_the_surface_is_set():
    assert not voxelize(*box(1, 1, 1))[1:-1, 1:-1, 1:-1].any()


def test_the_grid_is_64_64_64_bool_in_c_order():
    grid = voxelize(*box(1, 1, 1))
    assert (grid.shape, grid.dtype.name, grid.flags.c_contiguous) == ((64, 64, 64), "bool", True)


def test_no_triangle_gives_no_voxel():
    assert not voxelize(np.zeros((0, 3)), np.zeros((0, 3), np.int32)).any()


@pytest.mark.parametrize("kind", OPEN3D)
def test_the_voxels_are_those_that_open3d_gave(kind):
    grid = voxelize(*mesh_of(kind))
    assert (int(grid.sum()), digest(grid)) == OPEN3D[kind]


@pytest.mark.parametrize("kind", OPEN3D)
def test_the_voxels_are_those_of_open3d_itself(kind):
    pytest.importorskip("open3d", reason="Open3D is a development extra", exc_type=ImportError)
    assert np.array_equal(voxelize(*mesh_of(kind)), open3d_voxels(*mesh_of(kind)))


@pytest.mark.parametrize("kind", ["random", "float32", "small", "points", "slivers", "turned box", "turned cone"])
def test_the_voxels_are_those_of_the_plain_rule(kind):
    vertices, triangles = mesh_of(kind)
    assert np.array_equal(voxelize(vertices, triangles), reference_voxels(vertices, triangles))


# Multiples of 1/128 within the clipping limit: every product is exact, so that the plain rule and the compiled one cannot differ by rounding.
corner = st.tuples(*[st.integers(-63, 63)] * 3)


@plain
@given(st.lists(st.tuples(corner, corner, corner), min_size=1, max_size=4))
def test_triangles_with_vertices_on_faces_edges_and_corners_of_voxels_follow_the_plain_rule(triangles):
    vertices, faces = soup(np.array(triangles) / 128)
    assert np.array_equal(voxelize(vertices, faces), reference_voxels(vertices, faces))


# Multiples of 2^-14: every product and sum of the rule is exact, and so is where a vertex lies.
inside = st.integers(-8191, 8191).map(lambda n: n / 2**14)
triangle = st.lists(st.tuples(inside, inside, inside), min_size=3, max_size=3)


@plain
@given(st.lists(triangle, min_size=1, max_size=4))
def test_every_vertex_lies_in_a_set_voxel(triangles):
    vertices, faces = soup(np.array(triangles))
    assert voxelize(vertices, faces)[tuple(np.floor((vertices + 0.5) * SIZE).astype(int).T)].all()


def test_a_vertex_a_trace_below_a_face_counts_to_the_voxel_above_for_candidates_as_in_open3d():
    """-1.4e-17 + 0.5 rounds to 0.5, so the search starts above the face, where the surface is not: the vertex at z = -1.4e-17 has no voxel."""
    vertices, faces = soup(np.array([[(0, 0, 0), (0, 0, 0), (0, 0.25, -1.3643583197898643e-17)]]))
    grid = voxelize(vertices, faces)
    assert np.array_equal(grid, reference_voxels(vertices, faces))
    assert grid[32, 32, 32] and not grid[32, 48, 31] and not grid[32, 48, 32]


@plain
@given(triangle)
def test_every_set_voxel_has_its_centre_near_the_surface(corners):
    centres = (np.argwhere(voxelize(*soup([corners]))) + 0.5) / SIZE - 0.5
    nearest = trimesh.triangles.closest_point(np.repeat([corners], len(centres), 0), centres)
    # half a voxel's diagonal, and a trace of rounding
    assert len(centres) and np.linalg.norm(nearest - centres, axis=1).max() <= np.sqrt(3) / 2 / SIZE + 1e-9


@plain
@given(st.randoms(use_true_random=False))
def test_neither_the_order_of_triangles_nor_of_their_vertices_counts(random):
    vertices, faces = mesh_of("small")
    order = list(range(len(faces)))
    random.shuffle(order)
    assert np.array_equal(voxelize(vertices, faces[order][:, [1, 2, 0]]), voxelize(vertices, faces))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_vertex_that_is_no_number_is_refused(value):
    vertices, faces = box(1, 1, 1)
    vertices[3, 1] = value
    with pytest.raises(AssetRefused, match="not_finite"):
        voxelize(vertices, faces)


def test_finite_vertices_whose_sum_is_not_are_accepted():
    assert voxelize(np.full((3, 3), 1e308), np.array([[0, 1, 2]], np.int32)).sum() == 1


@pytest.mark.parametrize("index", [8, -1])
def test_an_index_of_no_vertex_is_refused(index):
    vertices, faces = box(1, 1, 1)
    faces[0, 0] = index
    with pytest.raises(AssetRefused, match="unreadable_mesh"):
        voxelize(vertices, faces)


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(AssetRefused, match="unreadable_mesh"):
        voxelize(np.zeros((4, 2)), np.zeros((1, 3), np.int32))
