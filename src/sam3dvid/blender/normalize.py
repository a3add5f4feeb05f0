"""One asset, as its source gives it, into one normalised GLB: look, import, collect, join, export, read back."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import bpy
import numpy as np

from sam3dvid.assets.found import Found
from sam3dvid.assets.inspect import inspect
from sam3dvid.assets.readback import ReadBack, read_back
from sam3dvid.assets.textures import Parts, Textures
from sam3dvid.blender import session
from sam3dvid.blender.collect import Loose, Piece, collect
from sam3dvid.blender.degenerate import drop_degenerate
from sam3dvid.blender.importers import import_file
from sam3dvid.blender.joined import Box, export, join, oriented_box
from sam3dvid.blender.materials import check_images, name_layers, pictures_of, settle_colour, settle_opacity, used_materials
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings
from shardwork.errors import Fault
from shardwork.files import write_bytes
from shardwork.jsonio import Json

TOUCHES = 1e-5
"""How far the longest side of a normalised asset may be from 1, in its own units, where the file's box is that of its vertices."""


def normalize(sources: Sequence[Path], up_axis: str, out: Path, settings: NormalizeSettings) -> dict[str, Json]:
    """Write one asset as a normalised GLB, atomically, and return its record.

    sources : the main file, then all others of the asset.   up_axis : file, Y or Z.   out : the GLB, in glTF's axes.
    Returns scale, offset [3] in scaled units, raw_bbox [[3], [3]] with Z up, num_vertices, num_triangles, num_parts, materials, textures,
    mesh_bytes, mesh_sha256, blender_version, notes (sorted words).
    Raises AssetRefused, OSError; Fault (fault_bug) if what was written is not what it should be.
    """
    with tempfile.TemporaryDirectory(prefix="normalize-") as folder:
        scratch = Path(folder)
        found = inspect(sources, settings, scratch)
        version = session.start()
        try:
            pieces, box, notes = _load(found, Parts(sources), up_axis, settings)
            shown = pictures_of(used_materials(pieces))
            made = scratch / f"{sources[0].stem}-normalized.glb"
            join(pieces, box)
            export(made)
            held = read_back(made, Textures(made.name, set(found.digests)))
            _check(made, held, pieces, box)
            _check_pictures(sources[0].name, shown - held.pictures)
            data = made.read_bytes()
        finally:
            session.clear()
    write_bytes(out, data)
    return {
        "scale": box.scale,
        "offset": (box.offset - box.scale * box.origin + 0.0).tolist(),
        "raw_bbox": [(box.low + box.origin).tolist(), (box.high + box.origin).tolist()],
        "num_vertices": held.num_vertices,
        "num_triangles": held.num_triangles,
        "num_parts": len(pieces),
        "materials": held.materials,
        "textures": list(held.textures),
        "mesh_bytes": len(data),
        "mesh_sha256": hashlib.sha256(data).hexdigest(),
        "blender_version": version,
        "notes": sorted(notes),
    }


def _load(found: Found, parts: Parts, up_axis: str, settings: NormalizeSettings) -> tuple[list[Piece], Box, set[str]]:
    """Return the pieces of an asset, how they are normalised, and what is to be noted. Raises AssetRefused."""
    where = parts.main.name
    before = import_file(found, where, up_axis)
    pieces, loose = collect(before)
    total = sum(len(piece.triangles) for piece in pieces)
    _check_count(where, total, loose, found, settings)
    pieces, dropped = drop_degenerate(pieces, where)
    notes = found.notes | dropped
    materials = used_materials(pieces)
    check_images(materials, parts, Textures(where, found.digests))
    notes |= settle_opacity(materials, settings, where)
    name_layers(materials, list(bpy.data.meshes))
    if any(piece.colours is not None and not np.isfinite(piece.colours).all() for piece in pieces):
        raise AssetRefused("not_finite", where, "a vertex colour that is NaN or infinite", "finite colours")
    box = oriented_box(pieces, where)
    notes |= settle_colour(pieces, settings, where)
    for piece in pieces:
        notes |= piece.notes
    if any(np.linalg.det(piece.world[:3, :3]) < 0 for piece in pieces):
        notes.add("mirrored")
    if len({piece.source for piece in pieces}) < len(pieces):
        notes.add("instanced")
    if any(found.origin):
        notes.add("far")
    return pieces, replace(box, origin=before[:3, :3] @ np.array(found.origin)), notes


def _check_count(where: str, total: int, loose: Loose, found: Found, settings: NormalizeSettings) -> None:
    """Raise AssetRefused unless Blender found the triangles that the file states."""
    if not total:
        code = "empty_mesh" if not loose.points else "lines_only" if loose.edges else "points_only"
        raise AssetRefused(code, where, f"{loose.meshes} meshes without a triangle", "triangles")
    if total > settings.max_triangles:
        raise AssetRefused("too_many_triangles", where, f"{total} triangles", f"at most {settings.max_triangles}")
    if found.triangles is not None and not found.triangles[0] <= total <= found.triangles[1]:
        low, high = found.triangles
        raise AssetRefused("unreadable_mesh", where, f"Blender reads {total} triangles", f"{high}" if low == high else f"{low} to {high}")


def _check_pictures(where: str, lost: set[tuple[str, str]]) -> None:
    """Raise AssetRefused (unreadable_texture) for pictures that the source's materials show and the written file does not.

    It is a verdict, not a fault: whether Blender can write a material's nodes depends on the source alone.
    """
    if lost:
        name, key = min(lost)
        raise AssetRefused("unreadable_texture", where, f"material {name!r} loses its picture as {key}", "pictures that a glTF material can show")


def _check(made: Path, held: ReadBack, pieces: Sequence[Piece], box: Box) -> None:
    """Raise Fault (fault_bug) unless the file holds what was joined."""
    total = sum(len(piece.triangles) for piece in pieces)
    if held.num_triangles != total:
        raise Fault("fault_bug", made.name, f"{held.num_triangles} triangles", f"the {total} that were joined", "report it with the asset")
    placed = [piece.vertices @ piece.world[:3, :3].T + piece.world[:3, 3] for piece in pieces]
    low = np.min([points.min(axis=0) for points in placed], axis=0) * box.scale + box.offset
    high = np.max([points.max(axis=0) for points in placed], axis=0) * box.scale + box.offset
    if max(np.abs(held.low - low).max(), np.abs(held.high - high).max()) > TOUCHES:
        raise Fault("fault_bug", made.name, f"a box from {held.low} to {held.high}", f"{low} to {high}", "report it with the asset")
