"""One clip: rendered objects over the warped photo, and the three JSON files that describe it.

Everything is made in memory first, so that a published clip can be compared with what would be written now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from sam3dvid.backgrounds.images import Rgb
from sam3dvid.backgrounds.warp import homography, warp
from sam3dvid.codes import AssetRefused
from sam3dvid.composite.blend import over, png_bytes, png_pixels
from sam3dvid.composite.origin import Origin
from sam3dvid.composite.rendered import Rendered, frame_names
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.stage import COMPOSITE_VERSION
from shardwork.files import link_or_copy
from shardwork.jsonio import Json, dumps_pretty

IDENTITY = ("clip_id", "split", "seed", "attempt", "num_objects")
COPIED = ("light", "reference_T_cw", "arc_retries", "rejections")
"""Keys of meta.json that a plan holds under the same names, beside those of its trajectory."""


@dataclass(frozen=True, slots=True)
class Made:
    """A clip in memory.   written : name -> bytes of the files that are this step's own.   meta : what its meta.json says."""

    written: dict[str, bytes]
    meta: dict[str, Json]


def composite_clip(plan: Mapping[str, Json], rendered: Rendered, photo: Rgb, settings: CompositeSettings, origin: Origin) -> Made:
    """Return a clip's own files: rgb, cameras.json, objects.json, meta.json. The others are the render's, as they are.

    plan : as plan_clips seals it.   photo : (PH, PW, 3) uint8, the plan's background.
    Raises AssetRefused (render_disagrees) if an object shows too little; Fault (fault_stale) if a file changed since it was rendered; ValueError for a
    render of another form.   Source: seed 002, sections 2 to 5.
    """
    frames, num_objects = len(plan["cameras"]["frames"]), plan["num_objects"]
    if sorted(rendered.files) != frame_names(frames, num_objects):
        raise ValueError(f"{len(rendered.files)} rendered files, not those of {frames} frames with {num_objects} objects")
    visibility = count_visible(plan, rendered)
    check_visible(plan, visibility, settings)
    written = {f"rgb/{t:03d}.png": png_bytes(picture) for t, picture in enumerate(_composited(plan, rendered, photo))}
    for name in rendered.files:
        if name.startswith("depth/"):  # all others were compared when they were decoded
            rendered.read(name)
    meta = meta_of(plan, rendered, visibility, origin)
    records = {"cameras": plan["cameras"], "objects": plan["objects"], "meta": meta}
    return Made({**written, **{f"{name}.json": dumps_pretty(value).encode() for name, value in records.items()}}, meta)


def _composited(plan: Mapping[str, Json], rendered: Rendered, photo: Rgb) -> list[Rgb]:
    cameras = plan["cameras"]
    K, K_bg, R_ref = (np.array(matrix) for matrix in (cameras["K"], plan["background"]["K_bg"], plan["reference_T_cw"]))
    pictures = []
    for t, frame in enumerate(cameras["frames"]):
        rgba = _pixels(plan, rendered, f"rgba_fg/{t:03d}.png", 4)
        H = homography(np.array(frame["T_cw"])[:3, :3], R_ref[:3, :3], K, K_bg)
        pictures.append(over(rgba, warp(photo, H, cameras["width"], cameras["height"])))
    return pictures


def _pixels(plan: Mapping[str, Json], rendered: Rendered, name: str, channels: int) -> Rgb:
    pixels = png_pixels(rendered.read(name), channels)
    if pixels.shape[:2] != (plan["cameras"]["height"], plan["cameras"]["width"]):
        raise ValueError(f"{name} has the shape {pixels.shape}")
    return pixels


def count_visible(plan: Mapping[str, Json], rendered: Rendered) -> dict[str, Json]:
    """Return what the rendered masks show: visible_px, amodal_px (whole numbers) and visible_frac, each [F][N]; a fraction of nothing is 0."""
    count = plan["num_objects"]
    visible_px, amodal_px = [], []
    for t in range(len(plan["cameras"]["frames"])):
        mask = _pixels(plan, rendered, f"mask_visible/{t:03d}.png", 1)
        visible_px.append(np.bincount(mask.ravel(), minlength=count + 1)[1 : count + 1].tolist())
        whole = [_pixels(plan, rendered, f"mask_amodal/obj{k}/{t:03d}.png", 1) for k in range(1, count + 1)]
        amodal_px.append([int(np.count_nonzero(pixels)) for pixels in whole])
    parts = [[v / a if a else 0.0 for v, a in zip(*pair, strict=True)] for pair in zip(visible_px, amodal_px, strict=True)]
    return {"visible_px": visible_px, "amodal_px": amodal_px, "visible_frac": parts}


def check_visible(plan: Mapping[str, Json], visibility: Mapping[str, Json], settings: CompositeSettings) -> None:
    """Raise AssetRefused (render_disagrees) for the object and frame that show least, if any shows too little."""
    least = settings.least_px(plan["cameras"]["width"], plan["cameras"]["height"])
    hidden = [
        (visible, t, k, amodal, part)
        for t, frame in enumerate(zip(visibility["visible_px"], visibility["amodal_px"], visibility["visible_frac"], strict=True))
        for k, (visible, amodal, part) in enumerate(zip(*frame, strict=True), 1)
        if visible < least or part < settings.min_visible_frac
    ]
    if hidden:
        visible, t, k, amodal, part = min(hidden)
        foreseen = plan["visibility"]["visible_px"][t][k - 1]
        found = f"object {k} shows {visible} of its {amodal} px in frame {t} ({part:.4f}), where the plan foresaw {foreseen}"
        raise AssetRefused("render_disagrees", plan["clip_id"], found, f"at least {least} px and {settings.min_visible_frac:g} of its own in every frame")


def meta_of(plan: Mapping[str, Json], rendered: Rendered, visibility: dict[str, Json], origin: Origin) -> dict[str, Json]:
    """Return what meta.json says.   Source: seed 002, section 5; what depends on the host stands under `timing` alone, and in `git_commit`."""
    background = plan["background"]
    # `file` counts from the pool's folder, and paths in a dataset count from the dataset
    provenance = {key: value for key, value in background["provenance"].items() if key != "file"}
    return {
        **{key: plan[key] for key in (*IDENTITY, *COPIED)},
        **plan["trajectory"],
        "background": {**background, "provenance": provenance},
        "blender_version": rendered.blender_version,
        "generator_version": origin.generator_version,
        "git_commit": origin.git_commit,
        "render": {
            **rendered.about,
            "composite": {"opencv": str(cv2.__version__), "version": COMPOSITE_VERSION},
        },
        "timing": rendered.timing,
        "visibility": visibility,
    }


def write_clip(made: Made, rendered: Rendered, folder: Path) -> None:
    """Write a clip into an empty folder: its own files, and the render's as hard links where the disk has them, else as copies."""
    for place in sorted({(folder / name).parent for name in (*rendered.files, *made.written)}):
        place.mkdir(parents=True, exist_ok=True)
    for name in rendered.files:
        link_or_copy(rendered.folder / name, folder / name)
    for name, data in made.written.items():
        (folder / name).write_bytes(data)
