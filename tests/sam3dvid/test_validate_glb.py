"""The reader of meshes: every way in which glTF may lay out vertices and indices gives the same mesh, and what is broken is refused."""

import struct

import numpy as np
import pytest

from sam3dvid.validate.dataset import Unreadable
from sam3dvid.validate.glb import read_mesh
from tests.sam3dvid.datasets import corner_mesh, glb_bytes, packed_glb

POINTS = np.array([[0, 0, 0], [0.5, 0, 0], [0, 0.25, 0], [0, 0, -0.5]], np.float32)
TRIANGLES = [[0, 1, 2], [0, 2, 3]]
CANONICAL = [[0, 0, 0], [0.5, 0, 0], [0, 0, 0.25], [0, 0.5, 0]]
"""POINTS by (x, y, z) -> (x, -z, y), written out."""
BOUNDS = {"min": [0, 0, -0.5], "max": [0.5, 0.25, 0]}


def scene_of(accessors, views, length, **part):
    return {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [1]}],
        "nodes": [{"mesh": 0}, {"children": [0]}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, **part}]}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": length}],
    }


def position(**more):
    return {"componentType": 5126, "count": 4, "type": "VEC3", **BOUNDS, **more}


def with_indices(code, dtype):
    body = POINTS.tobytes() + np.array(TRIANGLES, dtype).tobytes()
    indices = {"bufferView": 1, "componentType": code, "count": 6, "type": "SCALAR"}
    views = [{"buffer": 0, "byteLength": 48}, {"buffer": 0, "byteOffset": 48, "byteLength": len(body) - 48}]
    return scene_of([position(bufferView=0), indices], views, len(body), indices=1), body


@pytest.mark.parametrize(("code", "dtype"), [(5121, "<u1"), (5123, "<u2"), (5125, "<u4")])
def test_indices_of_every_width_give_the_same_mesh(code, dtype):
    mesh = read_mesh(packed_glb(*with_indices(code, dtype)), "mesh")
    assert mesh.vertices.tolist() == CANONICAL
    assert mesh.triangles.tolist() == TRIANGLES


def test_without_indices_every_three_vertices_are_a_triangle():
    points = POINTS[np.ravel(TRIANGLES)]
    scene = scene_of([position(bufferView=0, count=6)], [{"buffer": 0, "byteLength": 72}], 72)
    mesh = read_mesh(packed_glb(scene, points.tobytes()), "mesh")
    assert mesh.vertices.tolist() == [CANONICAL[one] for one in np.ravel(TRIANGLES)]
    assert mesh.triangles.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_vertices_that_lie_between_other_values_are_read_by_their_stride():
    body = b"".join(struct.pack("<fff", 9, 9, 9) + point.tobytes() for point in POINTS[[0, 1, 2]])
    scene = scene_of(
        [{**position(bufferView=0, count=3, byteOffset=12), "min": [0, 0, 0], "max": [0.5, 0.25, 0]}],
        [{"buffer": 0, "byteLength": 72, "byteStride": 24}],
        72,
    )
    assert read_mesh(packed_glb(scene, body), "mesh").vertices.tolist() == CANONICAL[:3]


@pytest.mark.parametrize("base", ["values", "zeros"])
def test_replaced_vertices_count_and_the_others_are_the_file_s_or_zero(base):
    scene, body = with_indices(5121, "<u1")
    held = POINTS.copy()
    held[[1, 3]] = 7
    body = held.tobytes() + body[48:] + b"\1\3" + POINTS[[1, 3]].tobytes()
    scene["bufferViews"] += [{"buffer": 0, "byteOffset": 54, "byteLength": 2}, {"buffer": 0, "byteOffset": 56, "byteLength": 24}]
    scene["buffers"][0]["byteLength"] = 80
    scene["accessors"][0]["sparse"] = {"count": 2, "indices": {"bufferView": 2, "componentType": 5121}, "values": {"bufferView": 3}}
    wanted = [list(row) for row in CANONICAL]
    if base == "zeros":
        del scene["accessors"][0]["bufferView"]
        scene["accessors"][0] |= {"max": [0.5, 0, 0]}
        wanted[2] = [0, 0, 0]
    assert read_mesh(packed_glb(scene, body), "mesh").vertices.tolist() == wanted


def test_triangles_of_a_second_part_count_on_from_the_first_s_vertices():
    scene, body = with_indices(5125, "<u4")
    scene["meshes"][0]["primitives"] *= 2
    mesh = read_mesh(packed_glb(scene, body), "mesh")
    assert mesh.vertices.tolist() == CANONICAL * 2
    assert mesh.triangles.tolist() == [*TRIANGLES, [4, 5, 6], [4, 6, 7]]


def spoil(change):
    scene, body = with_indices(5125, "<u4")
    change(scene)
    return packed_glb(scene, body)


def accessor(index, **changes):
    return lambda scene: scene["accessors"][index].update(changes)


REFUSED = {
    "a negative accessor": lambda scene: scene["meshes"][0]["primitives"][0].update(indices=-1),
    "an accessor that is true": lambda scene: scene["meshes"][0]["primitives"][0].update(indices=True),
    "vertices of whole numbers": accessor(0, componentType=5122),
    "indices that are floats": accessor(1, componentType=5126),
    "indices with a sign": accessor(1, componentType=5124),
    "more vertices than bytes": accessor(0, count=5),
    "a billion vertices": accessor(0, count=10**18),
    "no vertices": accessor(0, count=0),
    "half a triangle": accessor(1, count=5),
    "bytes before the file": lambda scene: scene["bufferViews"][0].update(byteOffset=-4),
    "a view beyond the buffer": lambda scene: scene["bufferViews"][1].update(byteOffset=52),
    "a buffer beyond the file": lambda scene: scene["buffers"][0].update(byteLength=10**6),
    "a stride shorter than a vertex": lambda scene: scene["bufferViews"][0].update(byteStride=4),
    "bounds a bit aside": accessor(0, max=[0.5, float(np.nextafter(np.float32(0.25), np.float32(1))), 0]),
    "no bounds": lambda scene: scene["accessors"][0].pop("min"),
    "a circle of nodes": lambda scene: scene["nodes"][0].update(children=[1]),
    "a node that is not there": lambda scene: scene["scenes"][0].update(nodes=[7]),
    "a scene that is not there": lambda scene: scene.update(scene=1),
    "lines": lambda scene: scene["meshes"][0]["primitives"][0].update(mode=1),
    "compressed triangles": lambda scene: scene["meshes"][0]["primitives"][0].update(extensions={"KHR_draco_mesh_compression": {}}),
    "a parent that moves it": lambda scene: scene["nodes"][1].update(scale=[1, 1, 2]),
    "a skin": lambda scene: scene["nodes"][0].update(skin=0),
    "morph targets": lambda scene: scene["meshes"][0]["primitives"][0].update(targets=[{"POSITION": 0}]),
    "an animation": lambda scene: scene.update(animations=[{}]),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_plain_mesh_is_refused(change):
    with pytest.raises(Unreadable):
        read_mesh(spoil(change), "mesh")


def test_the_mesh_that_those_are_made_from_is_read():
    assert len(read_mesh(spoil(lambda scene: None), "mesh").triangles) == 2


@pytest.mark.parametrize("kind", [b"BIN\0", b"JUNK"])
def test_a_third_part_of_the_file_is_refused(kind):
    data = glb_bytes(*corner_mesh(0)) + struct.pack("<I4s", 4, kind) + b"junk"
    with pytest.raises(Unreadable, match=r"JUNK|BIN"):
        read_mesh(data[:8] + struct.pack("<I", len(data)) + data[12:], "mesh")
