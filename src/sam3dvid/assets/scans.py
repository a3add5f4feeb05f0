"""PLY, STL and FBX files: what is wrong with one that Blender would not say, and the plain form of it where Blender needs one."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.assets.found import Found, count_distinct, far_origin
from sam3dvid.assets.gltf import MALFORMED
from sam3dvid.assets.textures import Parts
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings

HEADER_BYTES = 1 << 16
FBX_MAGIC = b"Kaydara FBX Binary  \x00\x1a\x00"
OLDEST_FBX = 7100
PLY_TYPES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "f4": "float", "f8": "double"}
PLY_KEPT = ("nx", "ny", "nz", "red", "green", "blue", "alpha")
"""What a vertex of a plain PLY keeps beside its position."""
STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def check_ply(parts: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what a PLY file holds, with a plain copy of it in `scratch` if it is far away. Raises AssetRefused for what is not usable."""
    main = parts.main
    head = _head(main)
    end = re.search(rb"^end_header\s*$", head, re.MULTILINE)
    if not head.startswith(b"ply") or end is None:
        raise AssetRefused("unreadable_mesh", main.name, f"a file that begins with {head[:4]!r}", "a PLY header")
    elements = {match[1].decode(): int(match[2]) for match in re.finditer(rb"^element\s+(\w+)\s+(\d+)", head[: end.start()], re.MULTILINE)}
    vertices, faces = elements.get("vertex", 0), elements.get("face", 0) + elements.get("tristrips", 0)
    if not faces:
        code = "empty_mesh" if not vertices else "lines_only" if elements.get("edge") else "points_only"
        raise AssetRefused(code, main.name, f"{vertices} vertices and no face", "faces")
    _check_count(main, faces, settings)
    data = main.read_bytes()
    if re.search(rb"^format\s+ascii", head[: end.start()], re.MULTILINE):  # text may say more than the float that it is said to be
        data = re.sub(rb"^(property\s+)float(?:32)?(\s+[xyz]\s*)$", rb"\1double\2", data[: end.start()], flags=re.MULTILINE) + data[end.start() :]
    mesh = _load(main, data, "ply")
    if "tristrips" not in elements and (len(mesh.vertices) < vertices or len(mesh.faces) < faces):
        raise AssetRefused("unreadable_mesh", main.name, f"{len(mesh.vertices)} vertices, {len(mesh.faces)} faces", f"{vertices} and {faces} as stated")
    positions = _check_mesh(main, mesh, settings)
    path, origin = main.absolute(), far_origin(positions)
    polygons = _polygons(mesh)
    if origin.any():
        path = scratch / "asset.ply"
        path.write_bytes(_plain_ply(mesh, positions - origin, polygons))
    return Found("ply", path, set(), set(), (_count_polygons(polygons, vertices), len(mesh.faces)), tuple(origin.tolist()))


def _polygons(mesh: Any) -> Any:
    """Return the corners of each face as the file has them: (F, n) ints, or a sequence of F rows of different lengths."""
    raw = mesh.metadata["_ply_raw"]["face"]["data"]
    if isinstance(raw, np.ndarray) and raw.dtype.names is None:
        return raw
    names = raw.keys() if isinstance(raw, dict) else raw.dtype.names
    name = next((name for name in ("vertex_index", "vertex_indices") if name in names), next(iter(names)))
    return raw[name] if isinstance(raw, dict) else raw[name]["f1"]


def _count_polygons(polygons: Any, total: int) -> int:
    """Return how many triangles there are at least: a face that names a vertex again elsewhere, or the same vertices as another, may count for none."""
    if isinstance(polygons, np.ndarray) and polygons.ndim == 2 and polygons.shape[1] == 3:
        return count_distinct(polygons.astype(np.int64), total)
    found: set[frozenset[int]] = set()
    for polygon in polygons:
        corners = [int(corner) for corner in polygon]
        corners = [corner for index, corner in enumerate(corners) if corner != corners[index - 1]]  # as exporters write triangles as quads
        if len(corners) >= 3 and len(set(corners)) == len(corners):
            found.add(frozenset(corners))
    return sum(len(corners) - 2 for corners in found)


def _plain_ply(mesh: Any, positions: NDArray[Any], polygons: Any) -> bytes:
    """Return a binary PLY of these positions, (V, 3), with the colours and normals of the vertices and the faces of the file."""
    raw = mesh.metadata["_ply_raw"]["vertex"]["data"]
    names = raw.keys() if isinstance(raw, dict) else raw.dtype.names
    columns = {axis: positions[:, index].astype("<f4") for index, axis in enumerate("xyz")}
    for name in PLY_KEPT:
        if name in names:
            values = np.asarray(raw[name]).ravel()
            columns[name] = values.astype(values.dtype.newbyteorder("<"))
    vertices = np.empty(len(positions), [(name, values.dtype) for name, values in columns.items()])
    for name, values in columns.items():
        vertices[name] = values
    properties = [f"property {PLY_TYPES[values.dtype.str[1:]]} {name}" for name, values in columns.items()]
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}", *properties, f"element face {len(polygons)}"]
    head = "\n".join([*lines, "property list int int vertex_indices", "end_header", ""])
    if isinstance(polygons, np.ndarray) and polygons.ndim == 2:
        faces = np.insert(polygons.astype("<i4"), 0, polygons.shape[1], axis=1).tobytes()
    else:
        faces = b"".join(np.array([len(polygon), *polygon], "<i4").tobytes() for polygon in polygons)
    return head.encode() + vertices.tobytes() + faces


def check_stl(parts: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what an STL file holds, binary or text. Raises AssetRefused for what is not usable.

    Blender is given a plain binary copy in `scratch` of text, and of what is far away or has bytes behind its last triangle.
    """
    main = parts.main
    head, size = _head(main), main.stat().st_size
    count = struct.unpack_from("<I", head, 80)[0] if len(head) >= 84 else 0
    text = head.lstrip()[:5].lower() == b"solid" and size != 84 + 50 * count and b"\0" not in head
    data = main.read_bytes()
    if not text:
        if size < 84 + 50 * count or size < 84:
            raise AssetRefused("unreadable_mesh", main.name, f"{size} bytes", f"{84 + 50 * count} for the {count} triangles that it states")
        if not count:
            raise AssetRefused("empty_mesh", main.name, "0 triangles", "triangles")
        _check_count(main, count, settings)
        mesh = _load(main, data[: 84 + 50 * count], "stl")
    else:
        mesh = _read_text_stl(main, data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    positions = _check_mesh(main, mesh, settings)
    path, origin = main.absolute(), far_origin(positions)
    corners = (positions - origin).astype(np.float32)[mesh.faces]
    if text or origin.any() or size != 84 + 50 * count:
        path = scratch / "asset.stl"
        triangles = np.zeros(len(corners), STL_TRIANGLE)
        triangles["corners"] = corners
        path.write_bytes(bytes(80) + struct.pack("<I", len(triangles)) + triangles.tobytes())
    names = _same_places(corners.reshape(-1, 3))
    return Found("stl", path, set(), set(), (count_distinct(names.reshape(-1, 3), len(names)), len(corners)), tuple(origin.tolist()))


def _same_places(points: NDArray[Any]) -> NDArray[Any]:
    """Return a number for each of (N, 3) points, (N,) int64 below N: the same for those in one place."""
    order = np.lexsort(points.T)
    ordered = points[order]
    names = np.zeros(len(points), np.int64)
    names[order[1:]] = np.cumsum((ordered[1:] != ordered[:-1]).any(axis=1))
    return names


def _read_text_stl(main: Path, data: bytes) -> Any:
    """Return the mesh of an STL file that is text, in letters of any case. Raises AssetRefused (empty_mesh, unreadable_mesh)."""
    facets = len(re.findall(rb"^\s*facet\b", data, re.MULTILINE | re.IGNORECASE))
    if not re.search(rb"^\s*endsolid\b[^\n]*\s*\Z", data, re.MULTILINE | re.IGNORECASE):
        raise AssetRefused("unreadable_mesh", main.name, f"text that ends without endsolid, after {facets} facets", "a whole STL file")
    if not facets:
        raise AssetRefused("empty_mesh", main.name, "text without a facet", "triangles")
    mesh = _load(main, data, "stl_ascii")
    if len(mesh.faces) != facets:
        raise AssetRefused("unreadable_mesh", main.name, f"{facets} facets with {len(mesh.faces)} triangles", "three vertices of three numbers in each facet")
    return mesh


def check_fbx(parts: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what an FBX file is. Its contents are looked at after the import. Raises AssetRefused."""
    main = parts.main
    head = _head(main)
    if not head.startswith(FBX_MAGIC):
        if re.search(rb"FBXHeaderExtension|FBX \d", head):
            raise AssetRefused("format_unsupported", main.name, "FBX as text", "binary FBX")
        raise AssetRefused("unreadable_mesh", main.name, f"a file that begins with {head[:8]!r}", "a binary FBX file")
    if len(head) < len(FBX_MAGIC) + 4:
        raise AssetRefused("unreadable_mesh", main.name, f"{len(head)} bytes", "a whole FBX file")
    version = struct.unpack_from("<I", head, len(FBX_MAGIC))[0]
    if version < OLDEST_FBX:
        raise AssetRefused("format_unsupported", main.name, f"FBX version {version}", f"{OLDEST_FBX} or later")
    return Found("fbx", main.absolute(), set(), set())


def _head(main: Path) -> bytes:
    with open(main, "rb") as file:
        head = file.read(HEADER_BYTES)
    if not head:
        raise AssetRefused("empty_mesh", main.name, "0 bytes", "a mesh")
    return head


def _check_count(main: Path, count: int, settings: NormalizeSettings) -> None:
    if count > settings.max_triangles:
        raise AssetRefused("too_many_triangles", main.name, f"{count} faces", f"at most {settings.max_triangles}")


def _load(main: Path, data: bytes, kind: str) -> Any:
    """Return a mesh as trimesh reads it from a file's bytes, unchanged. Raises AssetRefused (unreadable_mesh)."""
    import trimesh

    try:
        options: Any = {"fix_texture": False} if kind == "ply" else {}
        mesh = trimesh.load(io.BytesIO(data), file_type=kind, process=False, maintain_order=True, force="mesh", **options)
    except (*MALFORMED, UnboundLocalError) as error:  # what trimesh's parsers happen to raise
        raise AssetRefused("unreadable_mesh", main.name, f"{type(error).__name__}: {error}", f"a whole {kind[:3]} file") from error
    if not hasattr(mesh, "faces"):
        raise AssetRefused("points_only", main.name, "no faces", "faces")
    return mesh


def _check_mesh(main: Path, mesh: Any, settings: NormalizeSettings) -> NDArray[Any]:
    """Check the numbers of a mesh and return its vertices, (V, 3) float64. Raises AssetRefused."""
    vertices, faces = np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces)
    if bad := int((~np.isfinite(vertices)).any(axis=1).sum()):
        raise AssetRefused("not_finite", main.name, f"{bad} of {len(vertices)} vertices", "finite numbers")
    if len(faces) and not 0 <= int(faces.min()) <= int(faces.max()) < len(vertices):
        raise AssetRefused("unreadable_mesh", main.name, f"vertex number {int(faces.max())}", f"0 to {len(vertices) - 1}")
    _check_count(main, len(faces), settings)
    return vertices
