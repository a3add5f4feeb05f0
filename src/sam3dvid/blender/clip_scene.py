"""The objects, the light and the two scenes of a clip: one for colours, one for masks and depth. Both hold the same objects and camera.

Each clip has new scenes with Blender's own defaults, so nothing of the last clip is left in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Vector
from numpy.typing import NDArray

from sam3dvid.assets.found import Found
from sam3dvid.assets.gltf import read_gltf
from sam3dvid.assets.gltf_check import not_opaque
from sam3dvid.assets.textures import Parts
from sam3dvid.blender.importers import import_file
from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import rotate
from shardwork.errors import Fault
from shardwork.jsonio import Json

Float = NDArray[np.float64]

VIEW = {"view_transform": "Standard", "look": "None", "exposure": 0.0, "gamma": 1.0}
POSE_TOLERANCE = 1e-5
"""How far an object's matrix that is read back may be from the plan's, scene units."""


@dataclass(frozen=True, slots=True)
class Posed:
    """An object of a clip.   k : its number in masks, from 1.   vertices : (V, 3) float64, world."""

    k: int
    object: bpy.types.Object
    vertices: Float


def import_objects(objects: Sequence[dict[str, Json]], meshes: Sequence[Path]) -> tuple[list[Posed], float]:
    """Return the posed objects of a plan, in no scene that is rendered yet, and by how much their matrices differ from the plan's.

    objects : the plan's.   meshes : the mesh.glb of each.
    Raises AssetRefused: transparent_material, bad_asset; Fault (fault_bug) if Blender does not take a pose.
    """
    posed, worst = [], 0.0
    for entry, mesh in zip(objects, meshes, strict=True):
        made = _import(mesh, entry["asset_id"])
        R, t, s = (np.array(entry[name], np.float64) for name in ("R_wo", "t_wo", "s_wo"))
        world = np.eye(4)
        world[:3, :3], world[:3, 3] = R * s, t
        made.rotation_mode = "QUATERNION"
        made.matrix_world = Matrix(world.tolist())
        made.pass_index = entry["k"]
        bpy.context.view_layer.update()
        error = float(np.abs(np.array(made.matrix_world) - world).max())
        if not error <= POSE_TOLERANCE:
            raise Fault("fault_bug", f"object {entry['k']}", f"Blender's pose differs by {error:g}", f"at most {POSE_TOLERANCE:g}", "report it with the plan")
        worst = max(worst, error)
        points = np.empty(3 * len(made.data.vertices), np.float32)
        made.data.vertices.foreach_get("co", points)
        posed.append(Posed(entry["k"], made, rotate(R, s * points.reshape(-1, 3).astype(np.float64)) + t))
    return posed, worst


def _import(mesh: Path, asset_id: str) -> bpy.types.Object:
    """Return the one object of a finished asset's mesh. Raises AssetRefused."""
    for material in read_gltf(mesh, Parts([mesh])).all("materials"):
        if not_opaque(material):
            raise AssetRefused("transparent_material", asset_id, f"material {material.get('name', '')!r} lets something through", "opaque materials")
    before = set(bpy.data.objects)
    import_file(Found("gltf", mesh, set(), set()), asset_id, "file")
    made = [each for each in bpy.data.objects if each not in before]
    if len(made) != 1 or made[0].type != "MESH" or not made[0].data.polygons or np.abs(np.array(made[0].matrix_world) - np.eye(4)).max() > 0:
        found = ", ".join(sorted(f"{each.type} {each.name}" for each in made)) or "nothing"
        raise AssetRefused("bad_asset", asset_id, f"{mesh.name} holds {found}", "one mesh with an identity transform")
    return made[0]


def strip(posed: Sequence[Posed]) -> None:
    """Take the materials and pictures off all objects: Cycles would load them for masks and depth too, which have a material of their own."""
    for each in posed:
        each.object.data.materials.clear()
    bpy.data.batch_remove([*bpy.data.materials, *bpy.data.images])


def new_scene(name: str, posed: Sequence[Posed], camera: bpy.types.Object, size: tuple[int, int], threads: int) -> bpy.types.Scene:
    """Return a scene with these objects, rendered by Cycles on the processor, transparent where nothing is.   size : width and height, px.

    Raises Fault (fault_bug) if Blender does not take a view setting.
    """
    scene = bpy.data.scenes.new(name)
    for made in (*(each.object for each in posed), camera):
        scene.collection.objects.link(made)
    scene.camera = camera
    render = scene.render
    render.engine = "CYCLES"
    scene.cycles.device = "CPU"
    render.threads_mode, render.threads = "FIXED", threads
    render.resolution_x, render.resolution_y = size
    render.resolution_percentage = 100
    render.pixel_aspect_x = render.pixel_aspect_y = 1.0
    render.film_transparent = True
    # only the camera moves: what was loaded for one frame serves the next
    render.use_persistent_data = True
    render.use_motion_blur = False
    render.dither_intensity = 0.0
    render.use_file_extension = False
    scene.display_settings.display_device = "sRGB"
    for key, value in VIEW.items():
        setattr(scene.view_settings, key, value)
        if (found := getattr(scene.view_settings, key)) != value:
            raise Fault("fault_bug", f"view_settings.{key}", repr(found), repr(value), "see the installed Blender's colour management")
    return scene


def add_light(scene: bpy.types.Scene, light: dict[str, Json]) -> None:
    """Light a scene as a plan says: a sun that shines from `sun_direction`, and white from everywhere of strength `ambient_strength`."""
    data = bpy.data.lights.new("sun", "SUN")
    data.energy, data.angle = light["sun_strength"], math.radians(light["sun_angle_deg"])
    sun = bpy.data.objects.new("sun", data)
    sun.rotation_mode = "QUATERNION"
    # a sun shines along its own -Z
    sun.rotation_quaternion = Vector(light["sun_direction"]).to_track_quat("Z", "Y")
    scene.collection.objects.link(sun)
    world = bpy.data.worlds.new("ambient")
    world.use_nodes = True
    background = next(node for node in world.node_tree.nodes if node.type == "BACKGROUND")
    background.inputs["Color"].default_value = (1.0, 1.0, 1.0, 1.0)
    background.inputs["Strength"].default_value = light["ambient_strength"]
    scene.world = world


def opaque_material() -> bpy.types.Material:
    """Return a material that stops every ray and gives no light: with the assets' own, depth would be that of what lies behind transparent texels."""
    material, tree = _bare_material("opaque")
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(_black(tree), output.inputs["Surface"])
    return material


def single_material() -> tuple[bpy.types.Material, Any]:
    """Return a material that stops a ray only where the object's number is that of a socket, and the socket.

    So one object is seen alone without a change to the scene: hiding the others would have Cycles sort all triangles again.
    """
    material, tree = _bare_material("single")
    node = tree.nodes.new
    number, same, mix, output = node("ShaderNodeObjectInfo"), node("ShaderNodeMath"), node("ShaderNodeMixShader"), node("ShaderNodeOutputMaterial")
    same.operation = "COMPARE"
    same.inputs[2].default_value = 0.5
    tree.links.new(number.outputs["Object Index"], same.inputs[0])
    tree.links.new(same.outputs["Value"], mix.inputs[0])
    tree.links.new(node("ShaderNodeBsdfTransparent").outputs["BSDF"], mix.inputs[1])
    tree.links.new(_black(tree), mix.inputs[2])
    tree.links.new(mix.outputs["Shader"], output.inputs["Surface"])
    return material, same.inputs[1]


def _bare_material(name: str) -> tuple[bpy.types.Material, Any]:
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    material.node_tree.nodes.clear()
    material.cycles.emission_sampling = "NONE"
    return material, material.node_tree


def _black(tree: Any) -> Any:
    emission = tree.nodes.new("ShaderNodeEmission")
    emission.inputs["Strength"].default_value = 0.0
    return emission.outputs["Emission"]
