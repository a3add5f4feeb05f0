"""A file into Blender's scene, with the axis that points up made Blender's Z."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from numpy.typing import NDArray

from sam3dvid.assets.found import Found
from sam3dvid.blender.session import silence
from sam3dvid.codes import AssetRefused

KEPT = {"forward_axis": "Y", "up_axis": "Z"}
"""Arguments of Blender's OBJ, PLY and STL readers that keep the file's frame. Their own turn is a rotation in float32, wrong by 1e-7."""
FROM_Y_UP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""Takes a frame with Y up to one with Z up: (x, y, z) -> (x, -z, y)."""
STATED = ("gltf", "fbx")
"""Kinds whose importer turns the file's frame to Z up as the format states it."""


def import_file(found: Found, where: str, up_axis: str) -> NDArray[Any]:
    """Import an asset's file into the empty scene and return what is to be put before its objects' world matrices, (4, 4) float64.

    where : what messages call the asset.   up_axis : file (as the format states), Y or Z.   Raises AssetRefused (unreadable_mesh).
    """
    path = str(found.path)
    try:
        with silence():
            if found.kind == "gltf":
                bpy.ops.import_scene.gltf(filepath=path, disable_bone_shape=True, import_scene_extras=False, import_pack_images=True, loglevel=50)
            elif found.kind == "fbx":
                axes = {} if up_axis == "file" else {"use_manual_orientation": True, "axis_forward": "-Z" if up_axis == "Y" else "Y", "axis_up": up_axis}
                bpy.ops.import_scene.fbx(filepath=path, use_anim=False, use_image_search=False, use_custom_props=False, **axes)
            elif found.kind == "obj":
                bpy.ops.wm.obj_import(filepath=path, validate_meshes=False, **KEPT)
            elif found.kind == "ply":
                bpy.ops.wm.ply_import(filepath=path, import_attributes=False, **KEPT)
            else:
                bpy.ops.wm.stl_import(filepath=path, use_mesh_validate=False, **KEPT)
    except RuntimeError as error:  # what an operator reports, and what its Python raises inside
        said = [line.replace(path, where) for line in str(error).splitlines() if line.strip()]
        shown = said[-1] if said and "Traceback" in said[0] else said[0] if said else "no message"
        raise AssetRefused("unreadable_mesh", where, f"Blender says: {shown.strip()}", "a file that Blender reads") from error
    bpy.context.view_layer.update()
    if found.kind not in STATED:
        return FROM_Y_UP if up_axis == "Y" else np.eye(4)
    return FROM_Y_UP.T if found.kind == "gltf" and up_axis == "Z" else np.eye(4)
