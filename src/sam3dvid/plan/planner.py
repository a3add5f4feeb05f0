"""One clip's plan: draw, look whether the background covers every frame and every object is seen in every frame, else draw again.

The same seed gives the same plan alone, in another order, in another process or on another machine: nothing is carried from one clip to the next, poses
and cameras are computed by operations that round in one way (see `elementary`), and the predicted visibility is the ray caster's, which is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import BACKGROUND_HFOV_DEG, HFOV_DEG, K_bg, frame_K
from sam3dvid.plan.catalogue import Asset
from sam3dvid.plan.draw import Fixed, Poses, draw_arc, draw_poses, fixed_draws
from sam3dvid.plan.layout import Cameras, cameras_of, centre_of, covered, radius_around
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.raycast import Caster, clip_visibility
from sam3dvid.stage import seed_of
from shardwork.jsonio import Json
from shardwork.step import Fields

Float = NDArray[np.float64]
BACKGROUND_KEYS = ("image_id", "width", "height")
"""What of a pool's row stands in the plan's background itself; the rest is its provenance."""


class PlanExhausted(AssetRefused):
    """The verdict on a seed whose attempts all failed.   rejections : one for each."""

    def __init__(self, seed: int, num_objects: int, rejections: Sequence[Fields]) -> None:
        counts = Counter(rejection["reason"] for rejection in rejections)
        said = ", ".join(f"{count} by {reason}" for reason, count in sorted(counts.items()))
        found = f"{len(rejections)} attempts with {num_objects} objects, rejected {said}; the last: {describe(rejections[-1])}"
        super().__init__("plan_exhausted", f"seed {seed}", found, "an attempt that shows every object in every frame before a background that covers it")
        self.counts, self.num_objects = dict(counts), num_objects

    def facts(self) -> dict[str, object]:
        """Return how often each reason rejected an attempt."""
        return {"num_objects": self.num_objects, "rejected_by": self.counts}


def describe(rejection: Fields) -> str:
    """Return a rejection in words."""
    match rejection["reason"]:
        case "overlap":
            return f"{rejection['position_tries']} draws of the positions overlap"
        case "cover":
            return f"the background leaves a frame uncovered on {rejection['arc_retries'] + 1} arcs"
        case _:
            return (
                f"object {rejection['k']} shows {rejection['visible_px']} of its {rejection['amodal_px']} px in frame {rejection['t']}"
                f" ({rejection['visible_frac']:.3f})"
            )


@dataclass(frozen=True, slots=True)
class Stock:
    """What clips of a split are made of.

    assets : sorted by id.   backgrounds : rows of the pool, sorted by image_id.   shape_of : what casts rays at an asset's mesh.
    """

    split: str
    assets: Sequence[Asset]
    backgrounds: Sequence[Fields]
    shape_of: Callable[[Asset], Caster]


@dataclass(frozen=True, slots=True)
class Staged:
    """A drawn scene with its cameras.   radius : of the geometry around the point that they look at."""

    poses: Poses
    cameras: Cameras
    radius: float
    arc_retries: int


def plan_clip(clip_id: str, stock: Stock, settings: PlanSettings) -> dict[str, Json]:
    """Return the plan of a clip: all that its renderer, its compositor and its meta.json need. Raises PlanExhausted."""
    seed = seed_of(clip_id, stock.split)
    fixed = fixed_draws(seed, len(stock.assets), len(stock.backgrounds), settings)
    assets, row = [stock.assets[index] for index in fixed.assets], stock.backgrounds[fixed.background]
    shapes = [stock.shape_of(asset) for asset in assets]
    rejections: list[Fields] = []
    for attempt in range(settings.max_attempts):
        staged = stage_attempt(seed, attempt, shapes, row, settings)
        if isinstance(staged, Staged):
            visibility = see(staged, shapes, settings)
            fault = find_hidden(visibility, settings)
            if fault is None:
                plan = _record(staged, fixed, assets, row, settings, stock.split)
                return {**plan, "attempt": attempt, "clip_id": clip_id, "rejections": rejections, "seed": seed, "split": stock.split, "visibility": visibility}
            rejections.append({"attempt": attempt, "arc_retries": staged.arc_retries, **fault})
        else:
            rejections.append({"attempt": attempt, **staged})
    raise PlanExhausted(seed, fixed.num_objects, rejections)


def stage_attempt(seed: int, attempt: int, shapes: Sequence[Caster], row: Fields, settings: PlanSettings) -> Staged | Fields:
    """Return the scene of an attempt with an arc that the background covers, or why there is none."""
    poses = draw_poses(seed, attempt, len(shapes), settings.max_position_tries)
    if poses is None:
        return {"reason": "overlap", "position_tries": settings.max_position_tries}
    centre = centre_of(poses.positions)
    radius = radius_around(centre, poses, [shape.vertices for shape in shapes])
    for retry in range(settings.max_arc_retries + 1):
        cameras = cameras_of(draw_arc(seed, attempt, retry), centre, radius, settings.frames)
        if covered(cameras, row, settings):
            return Staged(poses, cameras, radius, retry)
    return {"reason": "cover", "arc_retries": settings.max_arc_retries}


def see(staged: Staged, shapes: Sequence[Caster], settings: PlanSettings) -> dict[str, Json]:
    """Return the predicted visibility: visible_px, amodal_px, visible_frac, each [F][N]."""
    poses = staged.poses
    seen = clip_visibility(
        shapes,
        staged.cameras.frames,
        np.array(poses.rotations),
        np.array(poses.positions),
        np.array(poses.scales),
        frame_K(settings.width, settings.height),
        settings.width,
        settings.height,
    )
    return {name: values.tolist() for name, values in asdict(seen).items()}


def find_hidden(visibility: dict[str, Json], settings: PlanSettings) -> Fields | None:
    """Return the object and frame that show least of all that show too little, or None if every object is seen in every frame."""
    hidden = [
        {"reason": "visibility", "t": t, "k": k, "visible_px": visible, "amodal_px": amodal, "visible_frac": part}
        for t, frame in enumerate(zip(visibility["visible_px"], visibility["amodal_px"], visibility["visible_frac"], strict=True))
        for k, (visible, amodal, part) in enumerate(zip(*frame, strict=True), 1)
        if visible < settings.planned_px or part < settings.planned_visible_frac
    ]
    return min(hidden, key=lambda one: (one["visible_px"], one["t"], one["k"])) if hidden else None


def _record(staged: Staged, fixed: Fixed, assets: Sequence[Asset], row: Fields, settings: PlanSettings, split: str) -> dict[str, Json]:
    poses, orbit = staged.poses, staged.cameras.orbit
    objects = [
        {
            "k": k,
            "asset_id": asset.asset_id,
            "source": asset.source,
            "mesh": f"assets/{split}/{asset.asset_id}/mesh.glb",
            "voxels": f"assets/{split}/{asset.asset_id}/voxels.npy",
            "R_wo": rotation.tolist(),
            "t_wo": position,
            "s_wo": [scale] * 3,
        }
        for k, (asset, rotation, position, scale) in enumerate(zip(assets, poses.rotations, poses.positions, poses.scales, strict=True), 1)
    ]
    return {
        "num_objects": len(objects),
        "objects": objects,
        "meshes": {asset.asset_id: asset.mesh_sha256 for asset in assets},
        "cameras": {
            "convention": "opencv",
            "width": settings.width,
            "height": settings.height,
            "K": frame_K(settings.width, settings.height).tolist(),
            "frames": [{"t": t, "T_cw": T_cw.tolist()} for t, T_cw in enumerate(staged.cameras.frames)],
        },
        "reference_T_cw": staged.cameras.reference.tolist(),
        "trajectory": {
            "arc_span_deg": orbit.arc_span_deg,
            "arc_direction": orbit.arc_direction,
            "start_azimuth_deg": orbit.start_azimuth_deg,
            "start_elevation_deg": orbit.start_elevation_deg,
            "elevation_drift_deg": orbit.elevation_drift_deg,
            "orbit_radius": orbit.radius,
            "scene_center": orbit.center,
            "hfov_deg": HFOV_DEG,
        },
        "scene_radius": staged.radius,
        "position_tries": poses.tries,
        "arc_retries": staged.arc_retries,
        "light": asdict(fixed.light),
        "background": {
            **{key: row[key] for key in BACKGROUND_KEYS},
            "virtual_hfov_deg": BACKGROUND_HFOV_DEG,
            "K_bg": K_bg(row["width"], row["height"]).tolist(),
            "provenance": {key: value for key, value in row.items() if key not in (*BACKGROUND_KEYS, "virtual_hfov_deg")},
        },
    }
