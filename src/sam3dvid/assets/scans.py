"""PLY, STL and FBX files: what is wrong with one that Blender would not say."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from sam3dvid.assets.found import Found
from sam3dvid.assets.gltf import MALFORMED
from sam3dvid.assets.textures import Parts
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings

HEADER_BYTES = 1 << 16
FBX_MAGIC = b"Kaydara FBX Binary  \x00\x1a\x00"
OLDEST_FBX = 7100


def check_ply(parts: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what a PLY file holds. Raises AssetRefused for what is not usable."""
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
    mesh = _load(main, "ply")
    if "tristrips" not in elements and (len(mesh.vertices) < vertices or len(mesh.faces) < faces):
        raise AssetRefused("unreadable_mesh", main.name, f"{len(mesh.vertices)} vertices, {len(mesh.faces)} faces", f"{vertices} and {faces} as stated")
    return Found("ply", main.absolute(), set(), set(), _check_mesh(main, mesh, settings))


def check_stl(parts: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what an STL file holds, binary or text. Raises AssetRefused for what is not usable."""
    main = parts.main
    head, size = _head(main), main.stat().st_size
    count = struct.unpack_from("<I", head, 80)[0] if len(head) >= 84 else 0
    text = head.lstrip().startswith(b"solid") and size != 84 + 50 * count
    if not text:
        if size < 84 + 50 * count or size < 84:
            raise AssetRefused("unreadable_mesh", main.name, f"{size} bytes", f"{84 + 50 * count} for the {count} triangles that it states")
        if not count:
            raise AssetRefused("empty_mesh", main.name, "0 triangles", "triangles")
        _check_count(main, count, settings)
    elif b"facet" not in head:
        raise AssetRefused("empty_mesh", main.name, "text without a facet", "triangles")
    return Found("stl", main.absolute(), set(), set(), _check_mesh(main, _load(main, "stl_ascii" if text else "stl"), settings))


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


def _load(main: Path, kind: str) -> Any:
    """Return a mesh as trimesh reads it, unchanged. Raises AssetRefused (unreadable_mesh)."""
    import trimesh

    try:
        with open(main, "rb") as file:
            mesh = trimesh.load(file, file_type=kind, process=False, maintain_order=True, force="mesh")
    except MALFORMED as error:  # what trimesh's parsers happen to raise
        raise AssetRefused("unreadable_mesh", main.name, f"{type(error).__name__}: {error}", f"a whole {kind[:3]} file") from error
    if not hasattr(mesh, "faces"):
        raise AssetRefused("points_only", main.name, "no faces", "faces")
    return mesh


def _check_mesh(main: Path, mesh: Any, settings: NormalizeSettings) -> tuple[int, int]:
    """Check the numbers of a mesh; return how many triangles there must be at least and at most."""
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    if bad := int((~np.isfinite(vertices)).any(axis=1).sum()):
        raise AssetRefused("not_finite", main.name, f"{bad} of {len(vertices)} vertices", "finite numbers")
    if len(faces) and not 0 <= int(faces.min()) <= int(faces.max()) < len(vertices):
        raise AssetRefused("unreadable_mesh", main.name, f"vertex number {int(faces.max())}", f"0 to {len(vertices) - 1}")
    _check_count(main, len(faces), settings)
    return 0, len(faces)
