"""Wavefront OBJ files: what is wrong with one that Blender would not say, and the plain form of it that Blender is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.assets.found import Found, far_origin
from sam3dvid.assets.mtl import read_materials, write_plain_materials
from sam3dvid.assets.parts import parts_of
from sam3dvid.assets.textures import Parts, Textures
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings

LINE = re.compile(rb"^[ \t]*([a-z]+)[ \t]+([^\r\n]*)", re.MULTILINE)
KINDS = (b"v", b"vt", b"vn")


def check_obj(parts: Parts, settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what an OBJ file holds, with a plain copy of it in `scratch` for Blender. Raises AssetRefused for what is not usable.

    The copy's faces name no vertex twice; its materials lie beside it. A face that names a vertex twice has no area there, so nothing shows of it.
    """
    main = parts.main
    data = main.read_bytes()
    if not data.strip():
        raise _refuse(main, "empty_mesh", f"{len(data)} bytes without anything", "a mesh")
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\\\n", b" ")
    lines = [(match[1], match[2] if match[1] == b"usemtl" else match[2].partition(b"#")[0]) for match in LINE.finditer(data)]  # names may hold a #
    words = {kind: [rest for key, rest in lines if key == kind] for kind in (*KINDS, b"p", b"l", b"f")}
    positions = _numbers(main, words[b"v"], 3)
    counts = {b"v": len(positions), b"vt": len(_numbers(main, words[b"vt"], 1, "texture coordinate")), b"vn": len(words[b"vn"])}
    has_colours = _check_colours(main, words[b"v"])
    stated = _count(main, words)
    if stated > settings.max_triangles:
        raise _refuse(main, "too_many_triangles", f"{stated} triangles", f"at most {settings.max_triangles}")
    lines, used, triangles = _plain_faces(main, lines, counts)
    origin = far_origin(positions)
    if origin.any():
        lines = _shifted(lines, positions - origin)
    libraries = [parts.require(part.path, part.name, "missing_part") for part in parts_of(main) if part.kind == "material"]
    try:
        materials = read_materials(libraries)
    except ValueError as error:
        raise _refuse(main, "unreadable_mesh", f"a material library with a bad number: {error}", "numbers") from error
    undefined = sorted(used - materials.keys() - {""})
    if undefined and settings.untextured == "refuse" and (libraries or not has_colours):
        raise _refuse(main, "missing_part", f"no material {undefined[0]!r} in {len(libraries)} libraries", "a library that defines every material in use")
    textures = Textures(main.name)
    shown = [materials[name] for name in sorted(used) if name in materials]
    notes = write_plain_materials(shown, parts, textures, settings, scratch / "asset.mtl")
    path = scratch / "asset.obj"
    path.write_bytes(b"mtllib asset.mtl\n" + b"".join(b"%b %b\n" % line for line in lines))
    return Found("obj", path, notes, textures.digests, (triangles, triangles), tuple(origin.tolist()))


def _refuse(main: Path, code: str, found: str, expected: str) -> AssetRefused:
    return AssetRefused(code, main.name, found, expected)


def _numbers(main: Path, rows: list[bytes], least: int, what: str = "vertex") -> NDArray[Any]:
    """Return the first `least` numbers of every row, (N, least) float64. Raises AssetRefused (unreadable_mesh, not_finite)."""
    try:
        values = np.array([row.split()[:least] for row in rows], dtype=np.float64).reshape(len(rows), least)
    except ValueError as error:
        raise _refuse(main, "unreadable_mesh", f"a {what} that is not {least} numbers ({error})", f"{least} numbers for each") from error
    if bad := int((~np.isfinite(values)).any(axis=1).sum()):
        raise _refuse(main, "not_finite", f"{bad} of {len(rows)} rows of kind {what}", "finite numbers")
    return values


def _check_colours(main: Path, rows: list[bytes]) -> bool:
    """Return whether there are vertex colours, which stand behind the position. Raises AssetRefused (not_finite) for those that are NaN."""
    if not rows or len(rows[0].split()) < 6:
        return False
    if bad := [row for row in rows if re.search(rb"nan|inf", row, re.IGNORECASE)]:
        raise _refuse(main, "not_finite", f"the colours of {len(bad)} of {len(rows)} vertices", "finite numbers")
    return True


def _count(main: Path, words: dict[bytes, list[bytes]]) -> int:
    """Return how many triangles the faces state. Raises AssetRefused: empty_mesh, points_only, lines_only, unreadable_mesh."""
    sizes = [len(row.split()) for row in words[b"f"]]
    if not sizes:
        code = "lines_only" if words[b"l"] else "points_only" if words[b"v"] else "empty_mesh"
        raise _refuse(main, code, f"{len(words[b'v'])} vertices and no face", "faces")
    if min(sizes) < 3:
        raise _refuse(main, "unreadable_mesh", f"{sum(size < 3 for size in sizes)} of {len(sizes)} faces with fewer than three corners", "three or more")
    return sum(sizes) - 2 * len(sizes)


def _plain_faces(main: Path, lines: list[tuple[bytes, bytes]], counts: dict[bytes, int]) -> tuple[list[tuple[bytes, bytes]], set[str], int]:
    """Return the lines without what is no surface, the materials of the faces, and the number of triangles that are left. Raises AssetRefused."""
    kept: list[tuple[bytes, bytes]] = []
    used: set[str] = set()
    sofar = dict.fromkeys(KINDS, 0)
    triangles, material = 0, ""
    for key, rest in lines:
        if key in sofar:
            sofar[key] += 1
        elif key == b"usemtl":
            material = rest.strip().decode("utf-8", "surrogateescape")
        elif key == b"f":
            corners = rest.split()
            if b"-" in rest:
                corners = [_absolute(main, corner, sofar) for corner in corners]
            _check_corners(main, corners, counts)
            corners = _without_repeats(corners)
            if len(corners) < 3:
                continue
            used.add(material)
            triangles += len(corners) - 2
            rest = b" ".join(corners)
        elif key not in (b"o", b"g", b"s"):
            continue
        kept.append((key, rest))
    if not triangles:
        raise _refuse(main, "zero_extent", "faces that name the same vertices again", "faces with an area")
    return kept, used, triangles


def _absolute(main: Path, corner: bytes, sofar: dict[bytes, int]) -> bytes:
    """Return a corner whose negative numbers, which count back from the line, are made ordinary ones."""
    try:
        numbers = [(int(text), kind) if text else None for text, kind in zip(corner.split(b"/"), KINDS, strict=False)]
    except ValueError as error:
        raise _refuse(main, "unreadable_mesh", f"a corner {corner!r}", "whole numbers") from error
    return b"/".join(b"" if pair is None else b"%d" % (pair[0] if pair[0] >= 0 else sofar[pair[1]] + 1 + pair[0]) for pair in numbers)


def _check_corners(main: Path, corners: list[bytes], counts: dict[bytes, int]) -> None:
    for corner in corners:
        for text, kind in zip(corner.split(b"/"), KINDS, strict=False):
            if text and not (text.isdigit() and 1 <= int(text) <= counts[kind]):
                found = f"a face's {kind.decode()} number {text.decode(errors='replace')}"
                raise _refuse(main, "unreadable_mesh", found, f"1 to {counts[kind]}")


def _without_repeats(corners: list[bytes]) -> list[bytes]:
    """Return corners of which no two neighbours name one vertex; exporters write triangles as quads that way."""
    vertices = [corner.partition(b"/")[0] for corner in corners]
    if len(set(vertices)) == len(vertices):
        return corners
    return [corner for index, corner in enumerate(corners) if vertices[index] != vertices[index - 1]]


def _shifted(lines: list[tuple[bytes, bytes]], positions: NDArray[Any]) -> list[tuple[bytes, bytes]]:
    rows = iter(positions.tolist())
    shifted = []
    for key, rest in lines:
        if key == b"v":
            rest = b" ".join([*(repr(value).encode() for value in next(rows)), *rest.split()[3:]])
        shifted.append((key, rest))
    return shifted
