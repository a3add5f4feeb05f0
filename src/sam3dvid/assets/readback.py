"""A normalised GLB read back without Blender: whether it is what the format promises."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sam3dvid.assets.gltf import MALFORMED, TRIANGLES, read_gltf
from sam3dvid.assets.textures import Parts, Textures
from sam3dvid.codes import AssetRefused
from shardwork.errors import Fault

SLACK = 1e-6
IDENTITY = {"translation": [0, 0, 0], "rotation": [0, 0, 0, 1], "scale": [1, 1, 1]}


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What a normalised GLB holds.

    low, high : (3,) float64, box of its vertices, canonical.   textures : name, width, height of each, in pixels.
    pictures : (name of the material, baseColorTexture or emissiveTexture) of all that show a picture.
    """

    num_vertices: int
    num_triangles: int
    materials: int
    low: NDArray[Any]
    high: NDArray[Any]
    textures: tuple[dict[str, str | int], ...]
    pictures: frozenset[tuple[str, str]]


def read_back(path: Path, textures: Textures) -> ReadBack:
    """Return what a normalised GLB holds.   textures : those of its source, which need no second decoding.

    Raises Fault (fault_bug) unless it is one node with an identity transform, triangles alone, within half a unit (and 1e-6) of the origin.
    """
    try:
        return _read(path, textures)
    except (AssetRefused, *MALFORMED) as error:
        raise _bug(path, str(error)) from error


def _bug(path: Path, found: str) -> Fault:
    return Fault("fault_bug", path.name, found, "one triangulated mesh in its canonical frame", "this is a fault of the program: report it with the asset")


def _read(path: Path, textures: Textures) -> ReadBack:
    gltf = read_gltf(path, Parts([path]))
    (node,), (mesh,) = gltf.all("nodes"), gltf.all("meshes")
    moved = [key for key in ("matrix", *IDENTITY) if node.get(key, IDENTITY.get(key)) != IDENTITY.get(key)]
    if moved or node.get("mesh") != 0 or gltf.all("skins") or gltf.all("animations") or gltf.all("cameras"):
        raise _bug(path, f"a node with {sorted(node)}")
    vertices, triangles = [], 0
    for primitive in mesh["primitives"]:
        if primitive.get("mode", TRIANGLES) != TRIANGLES:
            raise _bug(path, f"a primitive of mode {primitive['mode']}")
        positions, corners = gltf.accessor(primitive["attributes"]["POSITION"]), gltf.accessor(primitive["indices"])
        if positions is None or corners is None or int(corners.max()) >= len(positions) or len(corners) % 3:
            raise _bug(path, "a primitive with broken indices")
        vertices.append(positions.astype(np.float64)[:, [0, 2, 1]] * [1, -1, 1])  # (x, y, z) of glTF is (x, -z, y) here
        triangles += len(corners) // 3
    points = np.concatenate(vertices)
    low, high = points.min(axis=0), points.max(axis=0)
    if not np.isfinite(points).all() or low.min() < -0.5 - SLACK or high.max() > 0.5 + SLACK:
        raise _bug(path, f"vertices from {low.tolist()} to {high.tolist()}")
    pictures: list[dict[str, str | int]] = []
    for image in gltf.all("images"):
        data = bytes(gltf.view(image["bufferView"])[0])
        textures.check(data, image["name"])
        with Image.open(io.BytesIO(data)) as picture:
            pictures.append({"name": str(image["name"]), "width": picture.width, "height": picture.height})
    materials = gltf.all("materials")
    return ReadBack(len(points), triangles, len(materials), low, high, tuple(pictures), frozenset(_shown(materials)))


def _shown(materials: list[Any]) -> Iterator[tuple[str, str]]:
    for material in materials:
        if "baseColorTexture" in material.get("pbrMetallicRoughness", {}):
            yield material["name"], "baseColorTexture"
        if "emissiveTexture" in material:
            yield material["name"], "emissiveTexture"
