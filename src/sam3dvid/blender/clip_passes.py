"""Pixels out of Blender, exact: what a scene shows within a box, as float32, through an OpenEXR file that no disk holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import bpy
import numpy as np
from numpy.typing import NDArray

from sam3dvid.blender.clip_device import Device
from sam3dvid.blender.clip_scene import opaque_material, single_material
from sam3dvid.blender.session import silence
from sam3dvid.render.boxes import Box
from sam3dvid.render.settings import RenderSettings
from shardwork.errors import Fault

DATA_FILTER_PX = 0.01
"""Width of the pixel filter of masks and depth. Source: synthetic spec, section 8. The pinned Blender ignores it: a BOX is one pixel wide whatever is set.

What puts the ray through the pixel's centre is that Cycles takes the first sample of every pixel from the middle of the filter, and writes object index and
depth of the first sample alone. Measured on slanted planes, the ray misses the centre by 0.0005 px in u and in v: half a step of Cycles' table of the filter.
"""
COLOUR_FILTER_PX = 1.5
SOLID = 254.5 / 255
"""Alpha from which on a pixel has the code 255."""
MOST_LAYERS = 1024
"""Surfaces of other objects that a ray passes on its way to the one that is seen alone."""


class Film:
    """A file in memory that Blender renders into. It is gone with the process, however that ends."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("frame")
        self.path = f"/proc/self/fd/{self.descriptor}"

    def close(self) -> None:
        """Give the memory back."""
        os.close(self.descriptor)

    def render(self, scene: bpy.types.Scene, box: Box) -> dict[str, NDArray[np.float32]]:
        """Return the channels that a scene shows within a box, each (H, W) float32, by their names without layer: Combined.R, IndexOB.X and so on.

        Raises Fault (fault_bug) if Blender renders nothing, or another size.
        """
        import OpenEXR

        _set_border(scene.render, box)
        scene.render.filepath = self.path
        os.ftruncate(self.descriptor, 0)
        with silence():
            done = bpy.ops.render.render(scene=scene.name, write_still=True)
        if done != {"FINISHED"} or not os.fstat(self.descriptor).st_size:
            raise Fault("fault_bug", scene.name, f"Blender's rendering ended with {done}", "a picture", "report it with the plan")
        with OpenEXR.File(self.path, separate_channels=True) as file:
            found = {name.partition(".")[2]: channel.pixels for name, channel in file.channels().items()}
        wanted = (box[3] - box[2], box[1] - box[0])
        if wrong := {pixels.shape for pixels in found.values()} - {wanted}:
            raise Fault("fault_bug", scene.name, f"a picture of {sorted(wrong)} pixels", f"{wanted}", "report it with the plan")
        return found


@contextmanager
def film() -> Iterator[Film]:
    """Yield a film, and give its memory back."""
    made = Film()
    try:
        yield made
    finally:
        made.close()


def _set_border(render: bpy.types.RenderSettings, box: Box) -> None:
    """Have a scene render a box alone. Blender cuts the borders' fractions down to whole pixels: a hundredth of one keeps float32 from the pixel before."""
    width, height = render.resolution_x, render.resolution_y
    render.use_border = render.use_crop_to_border = True
    render.border_min_x, render.border_max_x = (box[0] + 0.01) / width, (box[1] + 0.01) / width
    render.border_min_y, render.border_max_y = (height - box[3] + 0.01) / height, (height - box[2] + 0.01) / height


def _set_format(scene: bpy.types.Scene) -> None:
    """Have a scene's pixels written as they are: all passes, float32, without compression."""
    image = scene.render.image_settings
    image.file_format = "OPEN_EXR_MULTILAYER"
    image.color_depth, image.exr_codec = "32", "NONE"


class Colours:
    """The colours of a clip's scene. It sets the scene up for them."""

    def __init__(self, scene: bpy.types.Scene, settings: RenderSettings, device: Device) -> None:
        self.scene = scene
        cycles = scene.cycles
        cycles.device = "CPU" if device.kind == "CPU" else "GPU"
        cycles.samples = settings.samples
        cycles.use_adaptive_sampling = settings.adaptive_threshold > 0
        cycles.adaptive_threshold, cycles.adaptive_min_samples = settings.adaptive_threshold, settings.adaptive_min_samples
        cycles.max_bounces = cycles.diffuse_bounces = cycles.glossy_bounces = cycles.transmission_bounces = settings.bounces
        cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", COLOUR_FILTER_PX
        cycles.use_denoising = settings.denoise
        cycles.denoiser = "OPENIMAGEDENOISE"
        cycles.denoising_prefilter = cycles.denoising_quality = "FAST"
        # normals as a further guide made it worse by 1 dB
        cycles.denoising_input_passes = "RGB_ALBEDO"
        cycles.denoising_use_gpu = device.kind != "CPU"
        # the picture before it was denoised too
        scene.view_layers[0].cycles.denoising_store_passes = settings.denoise
        self.edges = "Noisy Image" if settings.denoise else "Combined"
        _set_format(scene)

    def render(self, to: Film, box: Box, seed: int) -> NDArray[np.float32]:
        """Return the picture within a box: (H, W, 4) float32, linear light, colour times alpha.   seed : of the noise.   Raises Fault (fault_bug).

        Where an object covers a pixel in part the colour is as sampled. The denoiser leaves alpha alone, and what it does to colour times alpha there shows
        as a fringe of up to 20 codes on an even surface. What is left of the noise at edges is less: with edges as sampled a frame is 0.4 to 0.7 dB better.
        """
        self.scene.cycles.seed = seed
        found = to.render(self.scene, box)
        picture, sampled = (np.stack([found[f"{name}.{channel}"] for channel in "RGBA"], axis=-1) for name in ("Combined", self.edges))
        picture[picture[..., 3] < SOLID] = sampled[picture[..., 3] < SOLID]
        if not np.isfinite(picture).all():
            raise Fault("fault_bug", self.scene.name, "pixels that are NaN or infinite", "finite colours", "report it with the plan")
        return picture


class Data:
    """Masks and depth of a clip's scene: one ray through each pixel centre. It sets the scene up for them."""

    def __init__(self, scene: bpy.types.Scene, num_objects: int) -> None:
        self.scene, self.num_objects = scene, num_objects
        self.opaque = opaque_material()
        self.single, self.number = single_material()
        cycles, layer = scene.cycles, scene.view_layers[0]
        cycles.samples, cycles.seed, cycles.max_bounces, cycles.transparent_max_bounces = 1, 0, 0, MOST_LAYERS
        cycles.use_adaptive_sampling = cycles.use_denoising = False
        cycles.pixel_filter_type, cycles.filter_width = "BOX", DATA_FILTER_PX
        layer.use_pass_combined, layer.use_pass_object_index, layer.use_pass_z = False, True, True
        _set_format(scene)

    def visible(self, to: Film, box: Box) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Return the mask of all objects within a box, (H, W) uint8, 0..N, and their depth, (H, W) float32: z in scene units, NaN where the mask is 0.

        Raises Fault (fault_bug) for other numbers, or a depth that is none.
        """
        self.scene.view_layers[0].material_override = self.opaque
        mask, z = self._render(to, box)
        depth = np.where(mask > 0, z, np.float32(np.nan)).astype(np.float32)
        shown = depth[mask > 0]
        if not (np.isfinite(shown).all() and (shown > 0).all() and (shown < self.scene.camera.data.clip_end).all()):
            raise Fault("fault_bug", self.scene.name, "an object without a depth", "finite depths above 0", "report it with the plan")
        return mask, depth

    def alone(self, to: Film, box: Box, k: int) -> NDArray[np.bool_]:
        """Return where object k would be seen within a box if it were alone: (H, W) bool."""
        self.number.default_value = float(k)
        self.scene.view_layers[0].material_override = self.single
        mask, _ = self._render(to, box)
        if odd := sorted(set(np.unique(mask).tolist()) - {0, k}):
            raise Fault("fault_bug", self.scene.name, f"object {odd[0]}", f"object {k} alone", "report it with the plan")
        whole: NDArray[np.bool_] = mask == k
        return whole

    def _render(self, to: Film, box: Box) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        found = to.render(self.scene, box)
        number = found["IndexOB.X"]
        if not np.isin(number, np.arange(self.num_objects + 1)).all():
            raise Fault("fault_bug", self.scene.name, "a mask with other numbers", f"0 to {self.num_objects}", "report it with the plan")
        return number.astype(np.uint8), found["Depth.Z"]
