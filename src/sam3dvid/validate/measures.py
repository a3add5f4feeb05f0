"""T3, its limits and its figures: what was measured of each clip, and what that comes to for a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sam3dvid.validate.kinds import Float
from shardwork.jsonio import Json

MISMATCH = 0.05
"""Pixels of a mask that may differ, for each pixel at the edge of the cast one, in every frame of every object. Source: format v0.1, 6."""
DEPTH = 5e-4
"""How far depth may lie from the cast one, the median over an object's pixels in a frame, in units of its scale. Source: format v0.1, 6."""
FAR_DEPTH, FAR_SHARE = 5e-3, 0.05
"""What depth may be off by in all but so many of an object's pixels in a frame: rays beside an edge meet another surface. Renders of scans have .0014."""
POOLED, TYPICAL, TYPICAL_SHARE, EXACT_DEPTH = 0.001, 0.014, 0.99, 5e-5
"""What exact renders keep: the mismatch of all of a clip's masks together, the mismatch of so many object-frames, and every median of depth.

One pixel of the smallest object that the format allows is a mismatch of .0139.   Source: synthetic spec, section 5.
"""
AMODAL, VISIBLE = "silhouette", "visible mask"
KINDS = (AMODAL, VISIBLE)
HALF_PIXEL = "half_pixel"
CONTROLS = (HALF_PIXEL, "turned_x", "turned_y", "moved")
"""Casts that must not fit: the principal point half a pixel off, the object turned 5 degrees about canonical x or y, or moved by .1 s across the view."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What T3 measured of a clip of F frames and N objects.

    wrong_px, edge_px : (F, N, 2) int64, of the silhouette and the visible mask: pixels that differ, and pixels at the edge of the cast one; -1 where a
    mask is missing or not in order.   depth : (F, N), median |dz| / s, NaN where no pixel shows the object in both.
    controls : mismatches of each control, those of one object-frame for each object that fits.
    """

    clip: str
    wrong_px: NDArray[np.int64]
    edge_px: NDArray[np.int64]
    depth: Float
    controls: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in CONTROLS})

    @classmethod
    def empty(cls, clip: str, frames: int, num_objects: int) -> Measures:
        """Return measures of nothing yet."""
        shape = (frames, num_objects, len(KINDS))
        return cls(clip, np.full(shape, -1, np.int64), np.full(shape, -1, np.int64), np.full(shape[:2], np.nan))

    @property
    def mismatch(self) -> Float:
        """Return the mismatch of each mask, (F, N, 2), NaN where it is not known. A mask that should be empty counts its pixels."""
        share: Float = np.where(self.wrong_px >= 0, self.wrong_px / np.maximum(self.edge_px, 1), np.nan)
        return share

    @property
    def pooled(self) -> Float:
        """Return the mismatch of all silhouettes and of all visible masks together, (2,)."""
        known = self.wrong_px >= 0
        share: Float = (self.wrong_px * known).sum(axis=(0, 1)) / np.maximum((self.edge_px * known).sum(axis=(0, 1)), 1)
        return share

    def unseen(self) -> list[str]:
        """Return the controls that were tried and fit every object of the clip, as a turned sphere does."""
        return [name for name, values in self.controls.items() if values and max(values) <= MISMATCH]


@dataclass(frozen=True, slots=True)
class Worst:
    """An object-frame.   k : from 1.   what : silhouette, visible mask or depth.   value : mismatch, or median |dz| / s."""

    clip: str
    k: int
    t: int
    what: str
    value: float


def worst_mismatch(measures: Sequence[Measures]) -> Worst | None:
    """Return the mask that differs most; of equal ones the first."""
    worst = None
    for one in measures:
        values = one.mismatch
        if (at := _greatest(values)) is not None and (worst is None or values[at] > worst.value):
            t, k, kind = at
            worst = Worst(one.clip, k + 1, t, KINDS[kind], float(values[at]))
    return worst


def worst_depth(measures: Sequence[Measures]) -> Worst | None:
    """Return the object-frame whose depth is off most; of equal ones the first."""
    worst = None
    for one in measures:
        if (at := _greatest(one.depth)) is not None and (worst is None or one.depth[at] > worst.value):
            t, k = at
            worst = Worst(one.clip, k + 1, t, "depth", float(one.depth[at]))
    return worst


def _greatest(values: Float) -> tuple[int, ...] | None:
    """Return where the greatest value stands, of equal ones the first; None if all are NaN."""
    if np.isnan(values).all():
        return None
    return tuple(int(index) for index in np.unravel_index(int(np.nanargmax(values)), values.shape))


def typical_share(measures: Sequence[Measures]) -> float | None:
    """Return the share of object-frames both of whose masks differ by at most .014; None if there are none."""
    most = np.concatenate([one.mismatch.max(axis=2).ravel() for one in measures]) if measures else np.zeros(0)
    most = most[~np.isnan(most)]
    return float((most <= TYPICAL).mean()) if len(most) else None


def figures_of(measures: Sequence[Measures]) -> Json:
    """Return the figures ready for JSON, null for what could not be measured."""
    mask, depth = worst_mismatch(measures), worst_depth(measures)
    pooled = max(((float(one.pooled.max()), one.clip) for one in measures), key=lambda pair: pair[0], default=(None, None))
    return {
        "object_frames": sum(int((one.wrong_px[..., 0] >= 0).sum()) for one in measures),
        "mismatch": {
            "limit": MISMATCH,
            "pooled_worst": pooled[0],
            "pooled_worst_clip": pooled[1],
            "share_typical": typical_share(measures),
            "typical": TYPICAL,
            "worst": mask and mask.value,
            "worst_at": mask and _place(mask),
        },
        "depth": {"limit": DEPTH, "worst": depth and depth.value, "worst_at": depth and _place(depth)},
        "controls": {name: _range([value for one in measures for value in one.controls[name]]) for name in CONTROLS},
        "clips": {one.clip: _clip_figures(one) for one in measures},
    }


def _place(worst: Worst) -> Json:
    return {"clip": worst.clip, "object": worst.k, "frame": worst.t, "what": worst.what}


def _range(values: Sequence[float]) -> Json:
    """Return [least, greatest], or null."""
    return [min(values), max(values)] if values else None


def _clip_figures(one: Measures) -> Json:
    mask, depth = worst_mismatch([one]), worst_depth([one])
    return {
        "controls": {name: _range(values) for name, values in one.controls.items()},
        "controls_unseen": one.unseen(),
        "depth_worst": depth and depth.value,
        "mismatch_worst": mask and mask.value,
        "pooled": dict(zip(("silhouette", "visible"), one.pooled.tolist(), strict=True)),
        "share_typical": typical_share([one]),
    }


def line_of(figures: Json) -> str:
    """Return those figures in one line for people."""
    mask, depth, half = figures["mismatch"], figures["depth"], figures["controls"][HALF_PIXEL]
    if mask["worst"] is None:
        return "nothing measured"
    text = (
        f"{figures['object_frames']} object-frames, mismatch at most {mask['worst']:.4f} ({_at(mask)}), pooled {mask['pooled_worst']:.5f} in the worst clip"
        f" ({mask['pooled_worst_clip']})"
    )
    if mask["share_typical"] is not None:
        text += f", {mask['share_typical']:.2%} at most {mask['typical']}"
    if depth["worst"] is not None:
        text += f"; depth off by at most {depth['worst']:.1e} s ({_at(depth)})"
    return text + (f"; half a pixel off gives {half[0]:.2f} to {half[1]:.2f}" if half else "")


def _at(figure: Json) -> str:
    at = figure["worst_at"]
    return f"{at['clip']}: object {at['object']} in frame {at['frame']}, {at['what']}"


def worst_at(figures: Json) -> Json:
    """Return what of those figures comes nearest to its limit or passes it furthest: clip, object, frame and what; None where nothing was measured."""
    found = [figures[name] for name in ("mismatch", "depth") if figures[name]["worst"] is not None]
    return max(found, key=lambda one: float(one["worst"]) / float(one["limit"]))["worst_at"] if found else None
