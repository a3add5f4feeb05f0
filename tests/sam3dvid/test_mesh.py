"""Reading a canonical GLB: glTF axes to the canonical frame, transforms of nodes, and files that are none."""

from __future__ import annotations

import io

import numpy as np
import pytest
import trimesh
from PIL import Image

from sam3dvid.assets.mesh import check_canonical, read_canonical
from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import CANONICAL_FROM_GLTF

L_SHAPE = ([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], [[0, 1, 2], [0, 2, 3]])


def mesh(vertices, faces):
    return trimesh.Trimesh(vertices, faces, process=False)


def written(path, scene):
    path.write_bytes(scene.export(file_type="glb"))
    return path


def test_the_matrix_takes_gltf_y_up_to_canonical_z():
    assert (CANONICAL_FROM_GLTF @ [1, 2, 3]).tolist() == [1, -3, 2]


def test_vertices_come_in_canonical_axes(tmp_path):
    vertices, triangles = read_canonical(written(tmp_path / "a.glb", trimesh.Scene(mesh(*L_SHAPE))))
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 2], [0, -3, 0]]
    assert triangles.tolist() == L_SHAPE[1]
    assert (vertices.dtype, triangles.dtype) == (np.float64, np.int32)


def test_nodes_that_share_a_mesh_each_put_it_where_they_stand(tmp_path):
    scene, shape = trimesh.Scene(), mesh(*L_SHAPE)
    turn = trimesh.transformations.rotation_matrix(np.pi / 2, [0, 1, 0])
    scene.add_geometry(shape, node_name="a", geom_name="g")
    scene.add_geometry(shape, node_name="b", geom_name="g", transform=trimesh.transformations.translation_matrix([5, 0, 0]) @ turn)
    vertices, triangles = read_canonical(written(tmp_path / "a.glb", scene))
    assert len(vertices) == 8 and triangles.tolist() == [*L_SHAPE[1], [4, 5, 6], [4, 6, 7]]
    # the turn about y takes (x, y, z) to (z, y, -x): (0, 0, 3) to (3, 0, 0), moved to (8, 0, 0)
    assert np.allclose(sorted(map(tuple, vertices[4:].round(6))), sorted([(5, 0, 0), (5, 1, 0), (5, 0, 2), (8, 0, 0)]), atol=1e-6)


def test_two_primitives_are_one_mesh(tmp_path):
    scene = trimesh.Scene({"a": mesh(*L_SHAPE), "b": mesh(*L_SHAPE)})
    assert len(read_canonical(written(tmp_path / "a.glb", scene))[1]) == 4


def test_textures_are_not_decoded(tmp_path, monkeypatch):
    shape = mesh(*L_SHAPE)
    image = Image.new("RGB", (8, 8), (200, 10, 10))
    shape.visual = trimesh.visual.TextureVisuals(uv=np.zeros((4, 2)), image=image)
    path = written(tmp_path / "a.glb", trimesh.Scene(shape))
    monkeypatch.setattr(Image, "open", lambda *args, **kwargs: pytest.fail("a picture was opened"))
    assert len(read_canonical(path)[1]) == 2


@pytest.mark.parametrize("keep", [0, 3, 20, 100, 0.5, 0.99])
def test_a_cut_file_is_refused(tmp_path, keep):
    data = trimesh.Scene(mesh(*L_SHAPE)).export(file_type="glb")
    path = tmp_path / "a.glb"
    path.write_bytes(data[: keep if isinstance(keep, int) else int(keep * len(data))])
    with pytest.raises(AssetRefused, match=r"a\.glb.*unreadable_mesh"):
        read_canonical(path)


@pytest.mark.parametrize("data", [b"<html>", b"glTF" * 20, b"\0" * 100])
def test_a_file_of_another_kind_is_refused(tmp_path, data):
    (tmp_path / "a.glb").write_bytes(data)
    with pytest.raises(AssetRefused, match="unreadable_mesh"):
        read_canonical(tmp_path / "a.glb")


def test_a_missing_file_is_a_fault_of_the_machine(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_canonical(tmp_path / "none.glb")


def test_points_alone_are_no_mesh(tmp_path):
    scene = trimesh.Scene(trimesh.PointCloud([[0, 0, 0], [1, 1, 1]]))
    with pytest.raises(AssetRefused, match="empty_mesh"):
        read_canonical(written(tmp_path / "a.glb", scene))


def test_a_vertex_that_is_no_number_is_refused(tmp_path):
    data = io.BytesIO(trimesh.Scene(mesh(*L_SHAPE)).export(file_type="glb")).getvalue()
    spoilt = data.replace(np.float32(3).tobytes(), np.float32("nan").tobytes())
    assert spoilt != data
    (tmp_path / "a.glb").write_bytes(spoilt)
    with pytest.raises(AssetRefused, match="not_finite"):
        read_canonical(tmp_path / "a.glb")


def test_a_vertex_may_overshoot_the_cube_by_a_millionth():
    check_canonical(np.array([[0.5000009, 0, -0.5000009]]), "a")
    with pytest.raises(AssetRefused, match="not_canonical"):
        check_canonical(np.array([[0, 0, -0.500002]]), "a")
