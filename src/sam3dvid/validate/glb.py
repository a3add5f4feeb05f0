"""The mesh of a GLB file: a small strict reader of what the format allows, without the libraries that made the file."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.validate.dataset import Unreadable
from shardwork.errors import DataError
from shardwork.jsonio import Json, loads

Float = NDArray[np.float64]
TRIANGLES, FLOAT32 = 4, 5126
INDEX_TYPES = {5121: "<u1", 5123: "<u2", 5125: "<u4"}
"""componentType of an accessor -> dtype of indices."""
MOVES = {"translation": [0, 0, 0], "rotation": [0, 0, 0, 1], "scale": [1, 1, 1], "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]}
"""Transforms of a node, and the value that does nothing."""
MOST_VERTICES = 1 << 27
"""More than any mesh here has; what a file alone says must not fill the memory."""
GLB_WHOLE, GLTF = "a whole GLB file", "a glTF scene"


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh, all parts together.   vertices : (V, 3) float64, canonical frame.   triangles : (T, 3) int64, indices of vertices, T at least 1."""

    vertices: Float
    triangles: NDArray[np.int64]


def read_mesh(data: bytes, where: str) -> Mesh:
    """Return the mesh of the bytes of a GLB file; (x, y, z) of glTF is (x, -z, y) here.

    Raises Unreadable unless it is a whole file of version 2 with one mesh, which the scene shows once and nothing moves, of triangles alone, with
    finite vertices whose stated bounds are theirs, and indices of vertices.   Source: format v0.1, 3.3; glTF 2.0, 3.6, 3.7 and 4.4.
    """
    text, binary = _chunks(data, where)
    try:
        scene = loads(text, where)
        return _mesh(scene, binary, where)
    except DataError as error:
        raise Unreadable(where, error.found, GLTF) from error
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise Unreadable(where, f"a scene of another form ({type(error).__name__}: {error})", GLTF) from error


def _chunks(data: bytes, where: str) -> tuple[bytes, memoryview]:
    """Return the JSON and the binary part of a GLB file."""
    if len(data) < 20 or data[:4] != b"glTF":
        raise Unreadable(where, f"begins with {data[:4]!r}", "a GLB file")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2 or length != len(data):
        raise Unreadable(where, f"version {version}, {len(data)} bytes where it says {length}", "a whole GLB file of version 2")
    at, parts = 12, list[tuple[bytes, memoryview]]()
    while at + 8 <= len(data):
        size, kind = struct.unpack_from("<I4s", data, at)
        parts.append((kind, memoryview(data)[at + 8 : at + 8 + size]))
        at += 8 + size
    if at != len(data) or [kind for kind, _ in parts] != [b"JSON", b"BIN\0"]:
        raise Unreadable(where, f"the parts {', '.join(str(kind) for kind, _ in parts)}" + ("" if at == len(data) else ", cut short"), "a JSON and a BIN part")
    return bytes(parts[0][1]), parts[1][1]


def _mesh(scene: Json, binary: memoryview, where: str) -> Mesh:
    nodes, meshes = scene["nodes"], scene["meshes"]
    shown = [index for index, node in enumerate(nodes) if "mesh" in node]
    if len(shown) != 1 or len(meshes) != 1:
        raise Unreadable(where, f"{len(shown)} mesh nodes of {len(meshes)} meshes", "one mesh object")
    if moved := [key for node in nodes for key, nothing in MOVES.items() if key in node and node[key] != nothing]:
        raise Unreadable(where, f"a node with a {moved[0]}", "an identity transform")
    if _reached(scene, nodes).count(shown[0]) != 1:
        raise Unreadable(where, "a scene that does not show the mesh", "a scene with the mesh in it")
    if "skin" in nodes[shown[0]] or scene.get("animations"):
        raise Unreadable(where, "a mesh that a skin or an animation moves", "a mesh at rest")
    parts = _item(meshes, nodes[shown[0]]["mesh"])["primitives"]
    vertices, triangles, count = [], [], 0
    for part in parts:
        points, corners = _part(scene, binary, part, where)
        vertices.append(points)
        triangles.append(corners + count)
        count += len(points)
    if not vertices:
        raise Unreadable(where, "no triangles", "a mesh of triangles")
    raw = np.concatenate(vertices).astype(np.float64)
    return Mesh(np.stack([raw[:, 0], -raw[:, 2], raw[:, 1]], axis=1), np.concatenate(triangles))


def _item(values: Sequence[Any], index: Json) -> Any:
    """Return a member of a list by its index, which JSON may state as anything."""
    if type(index) is not int or not 0 <= index < len(values):
        raise LookupError(f"no number {index!r} of {len(values)}")
    return values[index]


def _whole(value: Json, low: int = 0, high: int = MOST_VERTICES) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r} instead of a whole number from {low} to {high}")
    return value


def _reached(scene: Json, nodes: Sequence[Any]) -> list[int]:
    """Return the nodes that the scene shows, in the order of a walk. Raises ValueError for one that is reached twice."""
    left = list(_item(scene["scenes"], scene.get("scene", 0)).get("nodes", []))
    reached: list[int] = []
    seen: set[int] = set()
    while left:
        index = left.pop()
        node = _item(nodes, index)
        if index in seen:
            raise ValueError(f"node {index} is reached twice")
        seen.add(index)
        reached.append(index)
        left += node.get("children", [])
    return reached


def _part(scene: Json, binary: memoryview, part: Json, where: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the vertices (V, 3) of a primitive, glTF axes, and its triangles (T, 3)."""
    if part.get("mode", TRIANGLES) != TRIANGLES:
        raise Unreadable(where, "parts that are no triangles", "triangles")
    if part.get("targets") or "KHR_draco_mesh_compression" in part.get("extensions", {}):
        raise Unreadable(where, "a part with morph targets or compressed", "plain triangles")
    corner = _item(scene["accessors"], part["attributes"]["POSITION"])
    points = _values(scene, binary, corner, "VEC3", {FLOAT32: "<f4"})
    if not np.isfinite(points).all():
        raise Unreadable(where, "a vertex that is NaN or infinite", "finite vertices")
    for key, bound in (("min", points.min(axis=0)), ("max", points.max(axis=0))):
        if np.float32(corner[key]).tolist() != bound.tolist():
            raise Unreadable(where, f"{key} {corner[key]} of a part's vertices", f"{bound.tolist()}, as the vertices have it")
    if "indices" in part:
        indices = _values(scene, binary, _item(scene["accessors"], part["indices"]), "SCALAR", INDEX_TYPES).astype(np.int64)[:, 0]
    else:
        indices = np.arange(len(points))
    if len(indices) % 3:
        raise Unreadable(where, f"{len(indices)} corners of triangles", "three a triangle")
    if int(indices.max()) >= len(points):
        raise Unreadable(where, f"the index {int(indices.max())} of {len(points)} vertices", "indices of vertices")
    return points, indices.reshape(-1, 3)


def _values(scene: Json, binary: memoryview, accessor: Json, kind: str, dtypes: dict[int, str]) -> NDArray[Any]:
    """Return what an accessor names: (count, 3) for VEC3, (count, 1) for SCALAR. Bytes may lie interleaved, and some may be replaced (sparse)."""
    if accessor["type"] != kind or accessor["componentType"] not in dtypes or accessor.get("normalized"):
        raise ValueError(f"{accessor['type']} of componentType {accessor['componentType']}")
    dtype, width, count = np.dtype(dtypes[accessor["componentType"]]), 3 if kind == "VEC3" else 1, _whole(accessor["count"], 1)
    sparse = accessor.get("sparse")
    if "bufferView" in accessor:
        values = _view(scene, binary, accessor, dtype, width, count)
    elif sparse is not None:
        values = np.zeros((count, width), dtype)
    else:
        raise ValueError("an accessor without bytes")
    if sparse is not None:
        replaced = _whole(sparse["count"], 1, count)
        at = _view(scene, binary, sparse["indices"], np.dtype(INDEX_TYPES[sparse["indices"]["componentType"]]), 1, replaced)[:, 0].astype(np.int64)
        if int(at[-1]) >= count or (np.diff(at) <= 0).any():
            raise ValueError("replaced values out of order")
        values = values.copy()
        values[at] = _view(scene, binary, sparse["values"], dtype, width, replaced)
    return values


def _view(scene: Json, binary: memoryview, named: Json, dtype: np.dtype[Any], width: int, count: int) -> NDArray[Any]:
    """Return (count, width) values that lie in the binary part.   named : what holds bufferView and byteOffset."""
    view = _item(scene["bufferViews"], named["bufferView"])
    buffer = _item(scene["buffers"], view["buffer"])
    if view["buffer"] != 0 or "uri" in buffer or "EXT_meshopt_compression" in view.get("extensions", {}):
        raise ValueError("bytes outside the file, or compressed")
    element = dtype.itemsize * width
    stride = _whole(view.get("byteStride", element), element, 255)
    size, start = _whole(view["byteLength"], 1, len(binary)), _whole(view.get("byteOffset", 0), 0, len(binary))
    offset = _whole(named.get("byteOffset", 0), 0, len(binary))
    if offset + stride * (count - 1) + element > size or start + size > _whole(buffer["byteLength"], 1, len(binary)):
        raise ValueError(f"{count} values beyond the bytes that hold them")
    return np.ndarray((count, width), dtype, binary, start + offset, (stride, dtype.itemsize))
