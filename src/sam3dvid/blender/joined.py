"""All pieces of an asset as one triangulated mesh in its canonical frame, and that as a GLB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from numpy.typing import NDArray

from sam3dvid.blender.collect import COLOUR, Piece
from sam3dvid.blender.session import silence
from sam3dvid.codes import AssetRefused
from shardwork.errors import Fault

NAME = "asset"
THINNEST = 1e-6
"""An asset whose thinnest side is less than this of its longest is flat: float32 keeps no more of a shape whose longest side is 1."""
CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float64)


@dataclass(frozen=True, slots=True)
class Box:
    """How an asset is normalised.   low, high : (3,) float64, before, Z up.   scale : float.   offset : (3,), in scaled units.

    origin : (3,), what was subtracted from the source's vertices before all that.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    scale: float
    offset: NDArray[Any]
    origin: NDArray[Any]


def oriented_box(pieces: Sequence[Piece], where: str) -> Box:
    """Return the axis-aligned box of the pieces' own boxes as they stand, and what makes its longest side 1 and centres it.

    Raises AssetRefused: zero_extent, flat_mesh, not_finite.   Source: TRELLIS, scene_bbox and normalize_scene.
    """
    corners = []
    for piece in pieces:
        low, high = piece.vertices.min(axis=0), piece.vertices.max(axis=0)
        corners.append((low + CORNERS * (high - low)) @ piece.world[:3, :3].T + piece.world[:3, 3])
    points = np.concatenate(corners)
    if not np.isfinite(points).all():
        raise AssetRefused("not_finite", where, "a coordinate that is NaN or infinite", "finite coordinates")
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float((high - low).max())
    if longest == 0.0 or not any(_has_area(piece, longest) for piece in pieces):
        raise AssetRefused("zero_extent", where, f"longest side {longest:g}, no triangle with an area", "triangles with an area")
    placed = [piece.vertices @ piece.world[:3, :3].T + piece.world[:3, 3] for piece in pieces]
    sides = np.max([points.max(axis=0) for points in placed], axis=0) - np.min([points.min(axis=0) for points in placed], axis=0)
    if sides.min() < THINNEST * longest:
        raise AssetRefused("flat_mesh", where, f"sides {sides[0]:g} x {sides[1]:g} x {sides[2]:g}", f"each at least {THINNEST:g} of the longest")
    scale = 1.0 / longest
    return Box(low, high, scale, -scale * (low + high) / 2, np.zeros(3))


def _has_area(piece: Piece, longest: float) -> bool:
    a, b, c = ((piece.vertices @ piece.world[:3, :3].T / longest)[piece.triangles[:, corner]] for corner in range(3))
    return bool((np.linalg.norm(np.cross(b - a, c - a), axis=1) > 1e-14).any())


def join(pieces: Sequence[Piece], box: Box) -> bpy.types.Object:
    """Return one object with an identity transform that holds all pieces, in the scene alone."""
    names = sorted({name for piece in pieces for name in piece.uvs}, key=lambda name: (name != "UVMap", name))
    has_colours = any(piece.colours is not None for piece in pieces)
    materials: dict[str | None, int] = {}
    parts: dict[str, list[NDArray[Any]]] = {key: [] for key in ("vertices", "triangles", "normals", "colours", "slots", *(f"uv {name}" for name in names))}
    total = 0
    for piece in pieces:
        linear = piece.world[:3, :3]
        mirrored = np.linalg.det(linear) < 0
        order = np.array([0, 2, 1] if mirrored else [0, 1, 2])
        corners = (np.arange(len(piece.triangles))[:, None] * 3 + order).ravel()  # a mirrored triangle turns inside out unless it is turned back
        parts["vertices"].append((piece.vertices @ linear.T + piece.world[:3, 3]) * box.scale + box.offset)
        parts["triangles"].append(piece.triangles[:, order] + total)
        parts["normals"].append(_turned(piece.normals, linear)[corners])
        blank = np.ones((len(corners), 4), np.float32)
        parts["colours"].append(blank if piece.colours is None else piece.colours[corners])
        for name in names:
            parts[f"uv {name}"].append(piece.uvs[name][corners] if name in piece.uvs else np.zeros((len(corners), 2), np.float32))
        keys = [material.name if material else None for material in piece.materials]
        index = np.array([materials.setdefault(keys[slot], len(materials)) if slot in piece.slots else 0 for slot in range(len(keys))])
        parts["slots"].append(index[piece.slots])
        total += len(piece.vertices)
    joined = {key: np.concatenate(values) for key, values in parts.items()}
    mesh = _mesh(joined, names, has_colours)
    for material in materials:
        mesh.materials.append(bpy.data.materials[material] if material else None)
    return _only(mesh)


def _turned(normals: NDArray[Any], linear: NDArray[Any]) -> NDArray[Any]:
    """Return normals as a linear map takes them, of length 1; zero where there is none."""
    cofactors = np.array([np.cross(linear[1], linear[2]), np.cross(linear[2], linear[0]), np.cross(linear[0], linear[1])])
    turned = normals @ cofactors.T * (1 if np.linalg.det(linear) >= 0 else -1)
    lengths = np.linalg.norm(turned, axis=1, keepdims=True)
    return np.where(lengths > 0, turned / np.where(lengths > 0, lengths, 1), 0.0)


def _mesh(joined: dict[str, NDArray[Any]], names: Sequence[str], has_colours: bool) -> bpy.types.Mesh:
    vertices, triangles = joined["vertices"].astype(np.float32), joined["triangles"]
    mesh = bpy.data.meshes.new(NAME)
    mesh.vertices.add(len(vertices))
    mesh.vertices.foreach_set("co", vertices.ravel())
    mesh.loops.add(triangles.size)
    mesh.loops.foreach_set("vertex_index", triangles.ravel().astype(np.int32))
    mesh.polygons.add(len(triangles))
    mesh.polygons.foreach_set("loop_start", np.arange(0, triangles.size, 3, dtype=np.int32))
    mesh.update(calc_edges=True)
    mesh.polygons.foreach_set("material_index", joined["slots"].astype(np.int32))
    for name in names:
        mesh.uv_layers.new(name=name, do_init=False).uv.foreach_set("vector", joined[f"uv {name}"].astype(np.float32).ravel())
    if has_colours:
        colours = joined["colours"].astype(np.float32)
        colours[:, 3] = 1.0
        layer = mesh.color_attributes.new(COLOUR, "FLOAT_COLOR", "CORNER")
        layer.data.foreach_set("color", colours.ravel())
        mesh.color_attributes.active_color_index = mesh.color_attributes.render_color_index = 0
    mesh.normals_split_custom_set(joined["normals"].astype(np.float32))
    return mesh


def _only(mesh: bpy.types.Mesh) -> bpy.types.Object:
    """Return the object of a mesh in a scene that is otherwise empty."""
    bpy.data.batch_remove(list(bpy.data.objects))
    bpy.data.batch_remove(list(bpy.data.collections))
    made = bpy.data.objects.new(NAME, mesh)
    bpy.context.scene.collection.objects.link(made)
    bpy.context.view_layer.update()
    return made


def export(path: Path) -> None:
    """Write the scene as a GLB in glTF's axes; the same scene gives the same bytes. Raises Fault (fault_bug)."""
    with silence():
        done = bpy.ops.export_scene.gltf(
            filepath=str(path),
            export_format="GLB",
            export_yup=True,
            export_apply=False,
            export_animations=False,
            export_skins=False,
            export_morph=False,
            export_cameras=False,
            export_lights=False,
            export_extras=False,
            export_image_format="AUTO",
            export_vertex_color="MATERIAL",
            export_all_vertex_colors=False,
            export_active_vertex_color_when_no_material=False,
            use_selection=False,
        )
    if done != {"FINISHED"} or not path.is_file():
        raise Fault("fault_bug", NAME, f"Blender's export ended with {done}", "a GLB file", "report it with the asset")
