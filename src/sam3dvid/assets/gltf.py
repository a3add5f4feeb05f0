"""glTF 2.0 files, GLB or JSON: their document, buffers and numbers. Nothing but NumPy and the standard library."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sam3dvid.assets.parts import local_file
from sam3dvid.assets.textures import Parts
from sam3dvid.codes import AssetRefused

DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
POINTS, TRIANGLES = 0, 4
"""Primitive modes: 0 points, 1 to 3 lines, 4 triangles, 5 strips, 6 fans."""
DRACO = "KHR_draco_mesh_compression"
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, struct.error, RecursionError, OverflowError)
"""What reading a document of another structure raises."""

Document = dict[str, Any]


@dataclass(slots=True)
class Gltf:
    """A glTF document with its buffers.   where : what messages call it.   files : resolved path of each buffer that is a file of its own, by index."""

    where: str
    document: Document
    buffers: list[bytes]
    files: dict[int, Path]
    folder: Path

    def refuse(self, found: str, code: str = "unreadable_mesh", expected: str = "a valid glTF 2.0 file") -> AssetRefused:
        """Return the verdict on this file."""
        return AssetRefused(code, self.where, found, expected)

    def all(self, key: str) -> list[Any]:
        """Return one of the document's lists, empty if it is not there."""
        value = self.document.get(key, [])
        if not isinstance(value, list):
            raise self.refuse(f"{key} is no list")
        return value

    def pick(self, key: str, index: Any) -> Any:
        """Return an entry of one of the document's lists. Raises AssetRefused for an index out of range."""
        entries = self.all(key)
        if type(index) is not int or not 0 <= index < len(entries):
            raise self.refuse(f"{key}[{index}] does not exist")
        return entries[index]

    def view(self, index: int) -> tuple[memoryview, int]:
        """Return a buffer view's bytes and its stride (0: packed). Raises AssetRefused if it leaves its buffer."""
        view = self.pick("bufferViews", index)
        start, size = view.get("byteOffset", 0), view["byteLength"]
        data = self.buffers[self._buffer(view)]
        if start < 0 or size < 0 or start + size > len(data):
            raise self.refuse(f"bufferViews[{index}] ends at byte {start + size} of {len(data)}")
        return memoryview(data)[start : start + size], view.get("byteStride", 0)

    def _buffer(self, view: Document) -> int:
        index = view["buffer"]
        self.pick("buffers", index)
        return int(index)

    def accessor(self, index: int) -> NDArray[Any] | None:
        """Return an accessor's numbers as stored, (count, width), or None if they lie in a compressed block. Raises AssetRefused."""
        entry = self.pick("accessors", index)
        width, dtype, count = WIDTHS[entry["type"]], np.dtype(DTYPES[entry["componentType"]]), entry["count"]
        if type(count) is not int or count < 0:
            raise self.refuse(f"accessors[{index}] has count {count!r}")
        if "bufferView" in entry:
            values = self._strided(entry["bufferView"], entry.get("byteOffset", 0), count, width, dtype)
        elif "sparse" in entry:
            if count > 100_000_000:
                raise self.refuse(f"accessors[{index}] has count {count}")
            values = np.zeros((count, width), dtype)
        else:
            return None
        if "sparse" in entry:
            values = self._sparse(values.copy(), entry["sparse"])
        return values

    def _strided(self, view: int, offset: int, count: int, width: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        data, stride = self.view(view)
        stride = stride or width * dtype.itemsize
        end = offset + (stride * (count - 1) + width * dtype.itemsize if count else 0)
        if offset < 0 or stride < 0 or end > len(data):
            raise self.refuse(f"bufferViews[{view}] has {len(data)} bytes, its accessor needs {end}")
        return np.ndarray((count, width), dtype, data, offset, (stride, dtype.itemsize))

    def _sparse(self, values: NDArray[Any], sparse: Document) -> NDArray[Any]:
        count, where, what = sparse["count"], sparse["indices"], sparse["values"]
        rows = self._strided(where["bufferView"], where.get("byteOffset", 0), count, 1, np.dtype(DTYPES[where["componentType"]]))
        if count and int(rows.max()) >= len(values):
            raise self.refuse("a sparse accessor has an index out of range")
        values[rows[:, 0]] = self._strided(what["bufferView"], what.get("byteOffset", 0), count, values.shape[1], values.dtype)
        return values

    def shown_nodes(self) -> list[int]:
        """Return the nodes of the default scene, or of all if the file names no scene. Raises AssetRefused if they are no trees."""
        nodes = self.all("nodes")
        if self.all("scenes"):
            roots = self.pick("scenes", self.document.get("scene", 0)).get("nodes", [])
        else:
            roots = sorted(set(range(len(nodes))) - {child for node in nodes for child in node.get("children", [])})
        found: list[int] = []
        seen: set[int] = set()
        stack = list(reversed(roots))
        while stack:
            index = stack.pop()
            node = self.pick("nodes", index)
            if index in seen:
                raise self.refuse(f"nodes[{index}] has two parents or is its own ancestor")
            seen.add(index)
            found.append(index)
            stack.extend(reversed(node.get("children", [])))
        return found

    def primitives(self) -> Iterator[tuple[int, Document]]:
        """Yield the number of each shown node's mesh and its primitives, once for every node that shows them."""
        for index in self.shown_nodes():
            node = self.all("nodes")[index]
            if "mesh" in node:
                for primitive in self.pick("meshes", node["mesh"])["primitives"]:
                    yield node["mesh"], primitive


def read_gltf(path: Path, parts: Parts) -> Gltf:
    """Return a GLB or glTF file with all its buffers.

    Raises AssetRefused: empty_mesh, unreadable_mesh, not_finite, format_unsupported, missing_part.
    """
    data = path.read_bytes()
    if not data:
        raise AssetRefused("empty_mesh", path.name, "0 bytes", "a mesh")
    binary = b""
    text: bytes | memoryview = data
    if path.suffix.lower() == ".glb":
        text, binary = _chunks(path.name, data)
    gltf = Gltf(path.name, _document(path.name, bytes(text)), [], {}, path.parent)
    try:
        version = str(gltf.document["asset"]["version"])
        if version.split(".")[0] != "2":
            raise gltf.refuse(f"glTF version {version}", "format_unsupported", "glTF 2.0")
        for index, buffer in enumerate(gltf.all("buffers")):
            gltf.buffers.append(_buffer(gltf, index, buffer, binary, parts))
    except MALFORMED as error:
        raise gltf.refuse(f"a structure that cannot be read ({error!r})") from error
    return gltf


def _chunks(where: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the JSON and the binary chunk of a GLB. Raises AssetRefused (unreadable_mesh, format_unsupported)."""
    if data[:4] != b"glTF" or len(data) < 20:
        raise AssetRefused("unreadable_mesh", where, f"{len(data)} bytes that begin with {data[:4]!r}", "a GLB file, which begins with b'glTF'")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise AssetRefused("format_unsupported", where, f"GLB version {version}", "version 2")
    if length != len(data):
        raise AssetRefused("unreadable_mesh", where, f"{len(data)} bytes", f"the {length} bytes that its header states")
    found: dict[int, bytes] = {}
    at = 12
    while at + 8 <= length:
        size, kind = struct.unpack_from("<II", data, at)
        if at + 8 + size > length:
            raise AssetRefused("unreadable_mesh", where, f"a chunk that ends at byte {at + 8 + size}", f"at most the file's {length}")
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    if 0x4E4F534A not in found:
        raise AssetRefused("unreadable_mesh", where, "no JSON chunk", "a GLB file")
    return found[0x4E4F534A], found.get(0x004E4942, b"")


def _document(where: str, text: bytes) -> Document:
    def refuse(name: str) -> NoReturn:
        raise AssetRefused("not_finite", where, f"a number of its document is {name}", "finite numbers")

    try:
        document = json.loads(text.decode("utf-8-sig").rstrip("\0 "), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise AssetRefused("unreadable_mesh", where, f"no JSON: {error}", "a glTF document") from error
    if not isinstance(document, dict) or not isinstance(document.get("asset"), dict):
        raise AssetRefused("unreadable_mesh", where, "JSON without an asset section", "a glTF document")
    return document


def _buffer(gltf: Gltf, index: int, buffer: Document, binary: bytes, parts: Parts) -> bytes:
    uri, size = buffer.get("uri"), buffer["byteLength"]
    if uri is None:
        # a fallback buffer of meshopt holds nothing; the views that need it are refused where they are read
        data = binary if index == 0 else b""
        if len(data) < size and not buffer.get("extensions"):
            raise gltf.refuse(f"buffers[{index}] has {len(data)} bytes", expected=f"the {size} that its document states")
        return data
    if uri.startswith("data:"):
        data = decode_data_uri(gltf, uri)
    else:
        gltf.files[index] = parts.require(local_file(gltf.folder, uri), uri, "missing_part")
        data = gltf.files[index].read_bytes()
    if len(data) < size:
        raise gltf.refuse(f"buffers[{index}] has {len(data)} bytes", expected=f"the {size} that its document states")
    return data


def decode_data_uri(gltf: Gltf, uri: str) -> bytes:
    """Return the bytes of a base64 data URI. Raises AssetRefused (unreadable_mesh)."""
    head, comma, body = uri.partition(",")
    if not comma or not head.endswith(";base64"):
        raise gltf.refuse(f"a data URI of another kind: {head[:40]}")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise gltf.refuse(f"a data URI that is no base64: {error}") from error
