"""The camera of a clip: put where the plan says, then read back, since Blender keeps its numbers in float32."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from mathutils import Matrix
from numpy.typing import NDArray

from sam3dvid.conventions import T_cw_from_blender, blender_from_T_cw
from shardwork.errors import Fault

SENSOR_WIDTH = 36.0
TOLERANCE = 1e-4
"""How far K (px) and T_cw (scene units) that are read back may be from the plan's. Source: synthetic spec, section 1."""


def make_camera(K: NDArray[np.float64], width: int, T_cw: NDArray[np.float64]) -> bpy.types.Object:
    """Return a camera with intrinsics K (3, 3), in no scene yet.   T_cw : (F, 4, 4), all cameras of the clip, for its clipping distances."""
    data = bpy.data.cameras.new("camera")
    data.type, data.sensor_fit, data.sensor_width = "PERSP", "HORIZONTAL", SENSOR_WIDTH
    data.lens = float(K[0, 0]) * SENSOR_WIDTH / width
    data.shift_x = data.shift_y = 0.0
    data.dof.use_dof = False
    # what lies beyond is not rendered: far more than any scene takes
    farthest = float(np.sqrt((T_cw[:, :3, 3] ** 2).sum(axis=1)).max())
    data.clip_start, data.clip_end = 1e-3, 100.0 + 10.0 * farthest
    camera = bpy.data.objects.new("camera", data)
    camera.rotation_mode = "QUATERNION"
    return camera


def place_camera(camera: bpy.types.Object, T_cw: NDArray[np.float64]) -> None:
    """Put the camera where a frame is taken from.   T_cw : (4, 4) float64, world to camera, OpenCV axes."""
    camera.matrix_world = Matrix(blender_from_T_cw(T_cw).tolist())


def read_back(scene: bpy.types.Scene) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return K (3, 3) and T_cw (4, 4) float64 as Blender renders with them, from the evaluated camera of a scene."""
    layer = scene.view_layers[0]
    layer.update()
    camera: Any = scene.camera.evaluated_get(layer.depsgraph)
    data, render = camera.data, scene.render
    width, height = render.resolution_x * render.resolution_percentage / 100, render.resolution_y * render.resolution_percentage / 100
    # with a horizontal fit the sensor's width spans the picture's, and shifts count in that width
    fx = data.lens * width / data.sensor_width
    fy = fx * render.pixel_aspect_x / render.pixel_aspect_y
    K = np.array([[fx, 0.0, (width - 1) / 2 - data.shift_x * width], [0.0, fy, (height - 1) / 2 + data.shift_y * width], [0.0, 0.0, 1.0]])
    if data.type != "PERSP" or data.sensor_fit != "HORIZONTAL":
        K[:] = np.inf
    return K, T_cw_from_blender(np.array(camera.matrix_world))


def check_camera(scene: bpy.types.Scene, K: NDArray[np.float64], T_cw: NDArray[np.float64], where: str) -> tuple[float, float]:
    """Return by how much K (px) and T_cw (scene units) that are read back differ from the plan's. Raises Fault (fault_bug) beyond TOLERANCE."""
    found_K, found_T = read_back(scene)
    errors = float(np.abs(found_K - K).max()), float(np.abs(found_T - T_cw).max())
    for name, error in zip(("K", "T_cw"), errors, strict=True):
        if not error <= TOLERANCE:
            raise Fault("fault_bug", f"{where}: {name}", f"Blender's differs by {error:g}", f"at most {TOLERANCE:g}", "report it with the plan")
    return errors
