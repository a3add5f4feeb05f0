"""What an imported scene shows, as arrays: every instance of every mesh as it stands, posed and with its modifiers, in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np
from numpy.typing import NDArray

UV, COLOUR = "UVMap", "Color"
"""Names of the layers that materials show; a mesh's other layers keep theirs."""


@dataclass(slots=True)
class Piece:
    """One instance of one mesh: only its triangles and what they use.

    vertices : (V, 3) float64, in the object's own frame.   world : (4, 4) float64.   triangles : (T, 3) int64.   smooth : whether the file gave normals.
    normals : (T*3, 3) float64 per corner, own frame.   uvs : name -> (T*3, 2) float32.   colours : (T*3, 4) float32, linear, or None.
    slots : (T,) index into materials.   source : name of the mesh that instances share.
    """

    vertices: NDArray[Any]
    world: NDArray[Any]
    triangles: NDArray[Any]
    normals: NDArray[Any]
    uvs: dict[str, NDArray[Any]]
    colours: NDArray[Any] | None
    slots: NDArray[Any]
    materials: list[bpy.types.Material | None]
    source: str
    notes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Loose:
    """What the scene shows that is no surface."""

    meshes: int = 0
    edges: int = 0
    points: int = 0


def collect(before: NDArray[Any]) -> tuple[list[Piece], Loose]:
    """Return the visible pieces of the scene that have triangles, and what else its meshes hold.

    before : (4, 4), put before every world matrix. Lights, cameras, empties, curves and hidden objects are no pieces.
    """
    depsgraph = bpy.context.evaluated_depsgraph_get()
    pieces, loose = [], Loose()
    for instance in depsgraph.object_instances:
        shown = instance.object
        if shown.type != "MESH" or not instance.show_self:
            continue
        original = shown.original
        world = before @ np.array(instance.matrix_world, np.float64)
        mesh = shown.to_mesh(preserve_all_data_layers=True, depsgraph=depsgraph)
        try:
            loose.meshes += 1
            loose.edges += len(mesh.edges)
            loose.points += len(mesh.vertices)
            if len(mesh.loop_triangles) or len(mesh.polygons):
                pieces.append(_piece(mesh, world, original))
        finally:
            shown.to_mesh_clear()
    return [piece for piece in pieces if len(piece.triangles)], loose


def _get(items: bpy.types.bpy_prop_collection, name: str, width: int, dtype: type) -> NDArray[Any]:
    values: NDArray[Any] = np.empty(len(items) * width, dtype)
    items.foreach_get(name, values)
    return values.reshape(-1, width) if width > 1 else values


def _piece(mesh: bpy.types.Mesh, world: NDArray[Any], original: bpy.types.Object) -> Piece:
    mesh.calc_loop_triangles()
    corners = _get(mesh.loop_triangles, "loops", 3, np.int32).ravel()
    slots = _get(mesh.loop_triangles, "material_index", 1, np.int32)
    vertex_of = _get(mesh.loops, "vertex_index", 1, np.int32)
    vertices = _get(mesh.vertices, "co", 3, np.float32).astype(np.float64)
    used, triangles = np.unique(vertex_of[corners], return_inverse=True)
    normals = _get(mesh.corner_normals, "vector", 3, np.float32)[corners].astype(np.float64)
    materials = [slot.material for slot in original.material_slots] or [None]
    notes = {"skinned"} if any(modifier.type == "ARMATURE" for modifier in original.modifiers) else set()
    if original.data.shape_keys is not None:
        notes.add("morphed")
    return Piece(
        vertices=vertices[used],
        world=world,
        triangles=triangles.reshape(-1, 3).astype(np.int64),
        normals=normals,
        uvs=_uvs(mesh, corners),
        colours=_colours(mesh, corners, vertex_of),
        slots=np.clip(slots, 0, len(materials) - 1),
        materials=materials,
        source=original.data.name,
        notes=notes,
    )


def _uvs(mesh: bpy.types.Mesh, corners: NDArray[Any]) -> dict[str, NDArray[Any]]:
    shown = next((layer.name for layer in mesh.uv_layers if layer.active_render), None)
    return {UV if layer.name == shown else layer.name: _get(layer.uv, "vector", 2, np.float32)[corners] for layer in mesh.uv_layers}


def _colours(mesh: bpy.types.Mesh, corners: NDArray[Any], vertex_of: NDArray[Any]) -> NDArray[Any] | None:
    layers = mesh.color_attributes
    if not len(layers):
        return None
    layer = layers[max(0, layers.render_color_index)]
    values = _get(layer.data, "color", 4, np.float32)
    return values[vertex_of[corners] if layer.domain == "POINT" else corners] if layer.domain in ("POINT", "CORNER") else None
