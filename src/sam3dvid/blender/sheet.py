"""A normalised asset from four sides, to be looked at: what is grey, on its side, inside out or has foreign parts shows at a glance."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Vector
from numpy.typing import NDArray
from PIL import Image

from sam3dvid.blender import session
from sam3dvid.blender.session import silence
from shardwork.errors import Fault

AZIMUTHS_DEG = (0.0, 90.0, 180.0, 270.0)
ELEVATION_DEG = 20.0
DISTANCE = 3.0
FOV_DEG = 34.0
"""At distance 3 this shows a sphere of radius sqrt(3)/2, in which every asset lies: asin(.866 / 3) is 16.8 degrees."""
SAMPLES = 16
GRAY = 0.18
VIEW = {"view_transform": "Standard", "look": "None", "exposure": 0.0, "gamma": 1.0}


def render_sides(glb: Path, size: int, threads: int = 1) -> NDArray[Any]:
    """Return four views of a canonical GLB side by side, (size, 4*size, 3) uint8, sRGB: from +X, +Y, -X and -Y, each 20 degrees above.

    threads : of the renderer; the pixels do not depend on it.
    Raises Fault (fault_bug) if Blender does not take a view setting.
    """
    session.start()
    try:
        with silence():
            bpy.ops.import_scene.gltf(filepath=str(glb), loglevel=50)
        camera = _set_up(size, threads)
        with tempfile.TemporaryDirectory(prefix="sides-") as folder:
            return np.concatenate([_render(camera, azimuth, Path(folder) / "side.png") for azimuth in AZIMUTHS_DEG], axis=1)
    finally:
        session.clear()


def _set_up(size: int, threads: int) -> bpy.types.Object:
    """Set light, background and render settings; return the camera."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.device, scene.cycles.samples, scene.cycles.seed = "CPU", SAMPLES, 0
    scene.cycles.use_denoising = False
    scene.render.threads_mode, scene.render.threads = "FIXED", threads
    scene.render.resolution_x = scene.render.resolution_y = size
    scene.render.resolution_percentage = 100
    scene.render.film_transparent = False
    scene.render.image_settings.file_format, scene.render.image_settings.color_mode = "PNG", "RGB"
    for name, value in VIEW.items():
        setattr(scene.view_settings, name, value)
        if (found := getattr(scene.view_settings, name)) != value:
            raise Fault("fault_bug", f"view_settings.{name}", repr(found), repr(value), "see the installed Blender's colour management")
    scene.world = bpy.data.worlds.new("soft")
    scene.world.use_nodes = True
    _gray_to_camera(scene.world.node_tree)
    sun = bpy.data.objects.new("sun", bpy.data.lights.new("sun", "SUN"))
    sun.data.energy, sun.data.angle = 2.0, math.radians(20)
    sun.rotation_euler = (math.radians(35), 0, math.radians(30))
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.data.sensor_fit, camera.data.angle = "HORIZONTAL", math.radians(FOV_DEG)
    for made in (sun, camera):
        scene.collection.objects.link(made)
    scene.camera = camera
    return camera


def _gray_to_camera(tree: bpy.types.NodeTree) -> None:
    """Light everything with white, and show the camera a neutral gray."""
    background = next(node for node in tree.nodes if node.type == "BACKGROUND")
    path, mix = tree.nodes.new("ShaderNodeLightPath"), tree.nodes.new("ShaderNodeMix")
    mix.data_type = "RGBA"
    mix.inputs[6].default_value, mix.inputs[7].default_value = (0.7, 0.7, 0.7, 1), (GRAY, GRAY, GRAY, 1)
    tree.links.new(path.outputs["Is Camera Ray"], mix.inputs[0])
    tree.links.new(mix.outputs[2], background.inputs["Color"])


def _render(camera: bpy.types.Object, azimuth_deg: float, path: Path) -> NDArray[Any]:
    azimuth, elevation = math.radians(azimuth_deg), math.radians(ELEVATION_DEG)
    towards = Vector((math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)))
    camera.location = DISTANCE * towards
    camera.rotation_euler = towards.to_track_quat("Z", "Y").to_euler()
    bpy.context.scene.render.filepath = str(path)
    with silence():
        bpy.ops.render.render(write_still=True)
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))
