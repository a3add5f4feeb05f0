"""What a frame shows: masks, depth and visible pixels of posed objects, one ray through each pixel centre. Source: seed 002, 4; synthetic spec, section 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam3dvid.conventions import pose_in_camera
from sam3dvid.raycast import raster
from sam3dvid.raycast.caster import Box, View

Float = NDArray[np.float64]
Int = NDArray[np.int64]


class Draws(Protocol):
    """What an object must do to be in a frame; see `Caster.draw`."""

    def draw(self, view: View, R_co: Float, t_co: Float, s: float) -> Box:
        """Write z to `view.drawn` within a box and return the box."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One frame of N objects; H rows, W columns, pixel centres at integers."""

    mask: NDArray[np.uint8]
    """(H, W): 0 = background, k = object 1..N, the nearest."""
    amodal: NDArray[np.bool_]
    """(N, H, W): where object k would be seen alone, clipped to the picture."""
    depth: Float
    """(H, W): z in the camera, scene units; NaN exactly where the mask is 0."""
    visible_px: Int
    """(N,)."""
    amodal_px: Int
    """(N,)."""
    visible_frac: Float
    """(N,): visible_px / amodal_px, 0.0 where that is 0 / 0."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """Of each frame and object: visible_px, amodal_px (F, N) int64, visible_frac (F, N) float64, 0.0 for an object out of the picture."""

    visible_px: Int
    amodal_px: Int
    visible_frac: Float


def visible_share(visible_px: Int, amodal_px: Int) -> Float:
    """Return visible / amodal, and 0.0 where nothing is seen at all: JSON has no NaN."""
    share: Float = visible_px / np.maximum(amodal_px, 1)
    return share


def _poses(count: int, R: ArrayLike, t: ArrayLike, s: ArrayLike) -> tuple[Float, Float, Float]:
    """Return the poses of `count` objects in C order. Raises ValueError for other shapes, values that are not finite, or a scale not above 0."""
    if count > 255:
        raise ValueError(f"{count} objects, expected at most 255: masks have one byte")
    rotations, places, scales = (np.ascontiguousarray(value, np.float64) for value in (R, t, s))
    if rotations.shape != (count, 3, 3) or places.shape != (count, 3) or scales.shape != (count,):
        raise ValueError(f"poses of shapes {rotations.shape}, {places.shape}, {scales.shape}, expected ({count}, 3, 3), ({count}, 3), ({count},)")
    if not (np.isfinite(rotations).all() and np.isfinite(places).all() and np.isfinite(scales).all() and (scales > 0).all()):
        raise ValueError("a pose that is not finite, or a scale that is not above 0")
    return rotations, places, scales


def frame_truth(casters: Sequence[Draws], R_co: ArrayLike, t_co: ArrayLike, s: ArrayLike, K: ArrayLike, width: int, height: int) -> Truth:
    """Return all that a frame shows of N objects.

    casters : N of them, one an asset.   R_co : (N, 3, 3), t_co : (N, 3), s : (N,) float64: x_c = R_co (s x_o) + t_co, OpenCV axes, scene units.
    K : (3, 3) without skew.   Of surfaces at one depth the object of the lower number is seen.   Raises ValueError for other shapes or values.
    """
    rotations, places, scales = _poses(len(casters), R_co, t_co, s)
    view = View.of(K, width, height)
    depth, mask = np.full((height, width), np.inf), np.zeros((height, width), np.uint8)
    visible = np.zeros(len(casters) + 1, np.int64)
    amodal, amodal_px = np.zeros((len(casters), height, width), np.bool_), np.zeros(len(casters), np.int64)
    for i, caster in enumerate(casters):
        box = caster.draw(view, rotations[i], places[i], float(scales[i]))
        amodal_px[i] = raster.lay_over(view.drawn, box, i + 1, depth, mask, visible)
        within = np.s_[box[2] : box[3], box[0] : box[1]]
        amodal[i][within] = view.drawn[within] < np.inf
    depth[mask == 0] = np.nan
    return Truth(mask, amodal, depth, visible[1:], amodal_px, visible_share(visible[1:], amodal_px))


def clip_visibility(
    casters: Sequence[Draws], T_cw: ArrayLike, R_wo: ArrayLike, t_wo: ArrayLike, s: ArrayLike, K: ArrayLike, width: int, height: int
) -> Visibility:
    """Return how many pixels each frame shows of each object: the same numbers as `frame_truth` for every frame.

    T_cw : (F, 4, 4), world to camera.   R_wo : (N, 3, 3), t_wo : (N, 3), s : (N,) float64.   The rest as for `frame_truth`.   Memory: two pictures of
    float64 and one of bytes, and what the largest mesh takes in one camera; nothing is kept.
    """
    rotations, places, scales = _poses(len(casters), R_wo, t_wo, s)
    cameras = np.asarray(T_cw, np.float64)
    if cameras.ndim != 3 or cameras.shape[1:] != (4, 4) or not np.isfinite(cameras).all():
        raise ValueError(f"T_cw of shape {cameras.shape}, expected (F, 4, 4), finite")
    R_co, t_co, _ = pose_in_camera(cameras[:, None], rotations, places, np.repeat(scales[:, None], 3, axis=1))
    view = View.of(K, width, height)
    depth, mask = np.empty((height, width)), np.empty((height, width), np.uint8)
    visible_px, amodal_px = np.zeros((len(cameras), len(casters)), np.int64), np.zeros((len(cameras), len(casters)), np.int64)
    for t in range(len(cameras)):
        depth.fill(np.inf)
        mask.fill(0)
        visible = np.zeros(len(casters) + 1, np.int64)
        for i, caster in enumerate(casters):
            box = caster.draw(view, R_co[t, i], t_co[t, i], float(scales[i]))
            amodal_px[t, i] = raster.lay_over(view.drawn, box, i + 1, depth, mask, visible)
        visible_px[t] = visible[1:]
    return Visibility(visible_px, amodal_px, visible_share(visible_px, amodal_px))
