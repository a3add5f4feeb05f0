"""One clip's plan into the pictures of its objects: colours with alpha, visible and amodal masks, depth. Source: seed 002, section 4; synthetic spec, 8."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import bpy
import numpy as np
from numpy.typing import NDArray

from sam3dvid.blender import session
from sam3dvid.blender.clip_camera import check_camera, make_camera, place_camera
from sam3dvid.blender.clip_device import find_device
from sam3dvid.blender.clip_passes import Colours, Data, Film, film
from sam3dvid.blender.clip_scene import Posed, add_light, import_objects, new_scene, strip
from sam3dvid.render.boxes import CONTEXT_PX, Seen, around, around_pixels, find_object, grown, hidden_pixels, inside
from sam3dvid.render.encode import depth_bytes, png_bytes, straight_rgba8
from sam3dvid.render.settings import RenderHost, RenderSettings
from shardwork.jsonio import Json
from shardwork.streams import stream

Float = NDArray[np.float64]


@dataclass(slots=True)
class Clock:
    """Seconds by what they were spent on.   wall, cpu : name -> seconds; cpu of all threads."""

    wall: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpu: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Count what is done inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.wall[name] += time.perf_counter() - wall
            self.cpu[name] += time.process_time() - cpu

    def facts(self) -> dict[str, Json]:
        """Return the seconds, rounded to milliseconds."""
        return {name: {key: round(value, 3) for key, value in sorted(each.items())} for name, each in (("cpu_seconds", self.cpu), ("wall_seconds", self.wall))}


@dataclass(slots=True)
class Files:
    """The files of a clip.   folder : where they are written.   digests : path relative to it -> sha256."""

    folder: Path
    level: int
    digests: dict[str, str] = field(default_factory=dict)

    def png(self, name: str, pixels: NDArray[np.uint8]) -> None:
        """Write a picture."""
        self._write(name, png_bytes(pixels, self.level))

    def depth(self, name: str, depth: NDArray[np.float32]) -> None:
        """Write a depth file."""
        self._write(name, depth_bytes(depth, self.level))

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.digests[name] = hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Shot:
    """A clip in Blender.   T_cw : (F, 4, 4).   K : (3, 3).   seen : of each frame and object.   errors : largest differences of what was read back."""

    plan: dict[str, Json]
    posed: Sequence[Posed]
    camera: bpy.types.Object
    T_cw: Float
    K: Float
    size: tuple[int, int]
    seen: Sequence[Sequence[Seen]]
    errors: dict[str, float]


def render_clip(
    plan: dict[str, Json], meshes: Sequence[Path], folder: Path, settings: RenderSettings, host: RenderHost
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Write a clip's pictures into an empty folder and return its record and its timing.

    plan : of `plan_clips`.   meshes : the mesh.glb of each of its objects.   folder : gets rgba_fg/{t}.png, RGBA, straight alpha, sRGB, 0 where alpha is 0;
    mask_visible/{t}.png, 8-bit gray, 0..N; mask_amodal/obj{k}/{t}.png, 0 and 255; depth/{t}.npz, member depth.npy (H, W) float32, z in scene units, NaN
    where the mask is 0. t has three digits.
    Returns the record (files with their sha256, visible_px and amodal_px [F][N], versions, largest errors of what was read back), which is the same on
    any machine with the same device, and the timing, which is not.
    Raises AssetRefused (transparent_material, bad_asset, unreadable_mesh), OSError, Fault: no_gpu, fault_bug.
    """
    version, clock = session.start(), Clock()
    device = find_device(host.device)
    try:
        with film() as to, clock.on("all"):
            with clock.on("setup"):
                shot = set_up(plan, meshes)
                colours = Colours(scene_of("colours", shot, host.threads), settings, device)
                add_light(colours.scene, plan["light"])
            files = Files(folder, settings.png_level)
            _render_colours(shot, colours, to, files, clock)
            with clock.on("setup"):
                _drop(colours.scene)
                strip(shot.posed)
                data = Data(scene_of("data", shot, host.threads), len(shot.posed))
            counts = _render_data(shot, data, to, files, clock)
    finally:
        for scene in [each for each in bpy.data.scenes if each != bpy.context.scene]:
            _drop(scene)
        session.clear()
    record = {
        "blender_version": version,
        "files": files.digests,
        "numpy_version": np.__version__,
        "read_back": shot.errors,
        **{name: values.tolist() for name, values in counts.items()},
    }
    return record, {"device": device.facts(), "threads": host.threads, **clock.facts()}


def set_up(plan: dict[str, Json], meshes: Sequence[Path]) -> Shot:
    """Return a clip in Blender: its objects imported and posed, and where they are in every frame. Raises as `render_clip`."""
    cameras = plan["cameras"]
    size = cameras["width"], cameras["height"]
    K, T_cw = np.array(cameras["K"], np.float64), np.array([frame["T_cw"] for frame in cameras["frames"]], np.float64)
    posed, pose_error = import_objects(plan["objects"], meshes)
    camera = make_camera(K, size[0], T_cw)
    seen = [[find_object(each.vertices, at, K, *size) for each in posed] for at in T_cw]
    return Shot(plan, posed, camera, T_cw, K, size, seen, {"pose": pose_error, "K_px": 0.0, "T_cw": 0.0})


def scene_of(name: str, shot: Shot, threads: int) -> bpy.types.Scene:
    """Return a scene of a clip whose camera was read back in every frame. Raises Fault (fault_bug)."""
    scene = new_scene(name, shot.posed, shot.camera, shot.size, threads)
    for t, T_cw in enumerate(shot.T_cw):
        place_camera(shot.camera, T_cw)
        K_error, T_error = check_camera(scene, shot.K, T_cw, f"frame {t}")
        shot.errors["K_px"], shot.errors["T_cw"] = max(shot.errors["K_px"], K_error), max(shot.errors["T_cw"], T_error)
    return scene


def _drop(scene: bpy.types.Scene) -> None:
    """Remove a scene, and what Cycles keeps of it: it goes only with the setting."""
    scene.render.use_persistent_data = False
    bpy.data.scenes.remove(scene)


def noise_seed(clip_seed: int, t: int) -> int:
    """Return the seed of a frame's noise, 0 to 2^31 - 1, so that no two frames have the same pattern."""
    return int(stream(clip_seed, "cycles", t).integers(1 << 31))


def _render_colours(shot: Shot, colours: Colours, to: Film, files: Files, clock: Clock) -> None:
    width, height = shot.size
    for t, T_cw in enumerate(shot.T_cw):
        picture = np.zeros((height, width, 4), np.uint8)
        box = around([each.box for each in shot.seen[t]])
        box = None if box is None else grown(box, CONTEXT_PX, width, height)
        if box is not None:
            with clock.on("colours"):
                place_camera(shot.camera, T_cw)
                part = colours.render(to, box, noise_seed(shot.plan["seed"], t))
            with clock.on("encode"):
                picture[inside(box)] = straight_rgba8(part)
        with clock.on("encode"):
            files.png(f"rgba_fg/{t:03d}.png", picture)


def _render_data(shot: Shot, data: Data, to: Film, files: Files, clock: Clock) -> dict[str, NDArray[np.int64]]:
    """Write masks and depth and return visible_px and amodal_px, (F, N) int64 each. Of each object only what others may hide is rendered again."""
    width, height = shot.size
    masks: list[NDArray[np.uint8]] = []
    hidden: list[list[NDArray[np.bool_]]] = []
    counts = {name: np.zeros((len(shot.T_cw), len(shot.posed)), np.int64) for name in ("visible_px", "amodal_px")}
    for t, T_cw in enumerate(shot.T_cw):
        mask, depth = np.zeros((height, width), np.uint8), np.full((height, width), np.nan, np.float32)
        if (box := around([each.box for each in shot.seen[t]])) is not None:
            with clock.on("visible"):
                place_camera(shot.camera, T_cw)
                mask[inside(box)], depth[inside(box)] = data.visible(to, box)
        masks.append(mask)
        hidden.append([hidden_pixels(each.k, seen, mask, depth) for each, seen in zip(shot.posed, shot.seen[t], strict=True)])
        counts["visible_px"][t] = [np.count_nonzero(mask == each.k) for each in shot.posed]
        with clock.on("encode"):
            files.png(f"mask_visible/{t:03d}.png", mask)
            files.depth(f"depth/{t:03d}.npz", depth)
    for i, each in enumerate(shot.posed):
        for t, T_cw in enumerate(shot.T_cw):
            whole = masks[t] == each.k
            if (box := around_pixels(hidden[t][i])) is not None:
                with clock.on("amodal"):
                    place_camera(shot.camera, T_cw)
                    whole[inside(box)] |= data.alone(to, box, each.k) & hidden[t][i][inside(box)]
            counts["amodal_px"][t, i] = np.count_nonzero(whole)
            with clock.on("encode"):
                files.png(f"mask_amodal/obj{each.k}/{t:03d}.png", whole.astype(np.uint8) * 255)
    return counts
