"""Where voxels and axes lie in a frame, worked out from cameras.json and objects.json, and whether the silhouettes agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from sam3dvid.conventions import pose_in_camera, project, rotate
from sam3dvid.preview.clip import GRID, Clip, Float, Mask, Placed
from sam3dvid.preview.window import box_of

LEAST_PX = 2.0
"""How far a voxel may lie from a silhouette before it is said."""
ROUNDING_PX = 1.5
"""A voxel's centre and the end of a silhouette are both known to a pixel: sqrt(1/2) px each."""
MOST_PX = 32.0
"""What is allowed at most: from 2.14 radii, as near as an orbit is, half the diagonal of no voxel takes more than 15 px of 512."""
HALF_DIAGONAL = math.sqrt(3) / 2 / GRID
"""How far a voxel's centre may lie from the surface in it, canonical units."""


@dataclass(frozen=True, slots=True)
class Dots:
    """An object's voxels in a frame.

    uv : (V, 2) float64, px.   z : (V,) float64, scene units, camera z; what is behind the camera has no place in the picture.
    allowed_px : (V,) float64, how far from its silhouette each may lie.   side_px : (V,) float64, how large each looks.
    """

    uv: Float
    z: Float
    allowed_px: Float
    side_px: Float

    def pixels(self) -> NDArray[np.int64]:
        """Return the pixels that the voxels' centres lie in: (V, 2) int64, (column, row), far outside for those behind the camera."""
        near = np.where(self.z[:, None] > 0, np.nan_to_num(self.uv, nan=-1e6, posinf=1e6, neginf=-1e6), -1e6)
        pixels: NDArray[np.int64] = np.rint(np.clip(near, -1e6, 1e6)).astype(np.int64)
        return pixels


def voxels_in_frame(clip: Clip, t: int, placed: Placed) -> Dots:
    """Return where an object's voxels lie in a frame.

    A point of the surface and the centre of its voxel are at most h = s sqrt(3)/2/64 apart, so their pixels at most f h sqrt(1 + (x/z)^2 + (y/z)^2) / (z - h):
    a silhouette may end so far from the centre. 2 px are allowed, or that and 1.5 px of rounding where a voxel is larger.
    """
    R_co, t_co, s_co = pose_in_camera(clip.T_cw[t], placed.R_wo, placed.t_wo, placed.s_wo)
    x_c = rotate(R_co, s_co * placed.centres) + t_co
    h, f, z = HALF_DIAGONAL * float(np.abs(s_co).max()), float(max(clip.K[0, 0], clip.K[1, 1])), x_c[:, 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        uv = project(clip.K, x_c)
        apart = f * h * np.sqrt(1 + (x_c[:, 0] / z) ** 2 + (x_c[:, 1] / z) ** 2) / (z - h)
        side = f * float(np.abs(s_co).max()) / GRID / z
    before = z > h
    return Dots(uv, np.where(before, z, 0.0), np.where(before, np.clip(apart + ROUNDING_PX, LEAST_PX, MOST_PX), LEAST_PX), np.where(before, side, 0.0))


def strays(dots: Dots, silhouette: Mask) -> Mask:
    """Return which voxels lie further from the silhouette than they may, or behind the camera.

    silhouette : (H, W) bool.   Returns (V,) bool. Where the frame ends the silhouette is cut: a voxel outside of the frame is none.
    """
    height, width = silhouette.shape
    pixels, stray = dots.pixels(), dots.z <= 0
    within = (pixels >= 0).all(axis=1) & (pixels < (width, height)).all(axis=1)
    # what lies outside of this box is too far from the silhouette, wherever that is
    box = box_of(silhouette).grown(math.ceil(float(dots.allowed_px.max(initial=LEAST_PX))), width, height)
    near = within & (pixels >= (box.left, box.top)).all(axis=1) & (pixels < (box.right, box.bottom)).all(axis=1)
    stray[within & ~near] = True
    if not box.empty:
        columns, rows = (pixels[near] - (box.left, box.top)).T
        stray[near] = _distance_to(box.of(silhouette))[rows, columns] > dots.allowed_px[near]
    return stray


def bare(dots: Dots, silhouette: Mask) -> Mask:
    """Return which pixels of the silhouette have no voxel as near as the surface behind them must have one.

    silhouette : (H, W) bool.   Returns (H, W) bool. It sees what `strays` cannot: an object drawn too small, or moved out of the frame.
    """
    most = float(dots.allowed_px.max(initial=LEAST_PX))
    height, width = silhouette.shape
    box, found = box_of(silhouette), np.zeros((height, width), np.bool_)
    if box.empty:
        return found
    # voxels a little outside of the box, and of the frame, count too
    margin = min(math.ceil(most), max(height, width))
    pixels = dots.pixels() - (box.left, box.top) + margin
    seen = np.zeros((box.bottom - box.top + 2 * margin, box.right - box.left + 2 * margin), np.bool_)
    within = (pixels >= 0).all(axis=1) & (pixels < (seen.shape[1], seen.shape[0])).all(axis=1)
    seen[pixels[within, 1], pixels[within, 0]] = True
    box.of(found)[:] = box.of(silhouette) & (_distance_to(seen)[margin:-margin, margin:-margin] > most)
    return found


def _distance_to(mask: Mask) -> NDArray[np.float32]:
    """Return how far each pixel is from the nearest one of a mask: (H, W) float32, px, infinite where the mask is empty."""
    if not mask.any():
        return np.full(mask.shape, np.inf, np.float32)
    distance: Any = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return cast(NDArray[np.float32], distance)


def segment(clip: Clip, t: int, start: Float, end: Float) -> Float | None:
    """Return a segment of the world in a frame: (2, 2) float64, px; None if an end is behind the camera or far outside.   start, end : (3,), world."""
    x_c = rotate(clip.T_cw[t, :3, :3], np.stack([start, end])) + clip.T_cw[t, :3, 3]
    if not (x_c[:, 2] > 1e-6).all():
        return None
    uv = project(clip.K, x_c)
    return uv if bool((np.abs(uv) < 1e5).all()) else None


def object_axes(placed: Placed) -> Float:
    """Return an object's origin and the ends of its x, y and z axes, half a canonical unit long: (4, 3) float64, world, scene units."""
    ends = np.concatenate([np.zeros((1, 3)), np.eye(3) / 2])
    return rotate(placed.R_wo, placed.s_wo * ends) + placed.t_wo


def world_up(clip: Clip) -> Float:
    """Return the middle between the objects and a point above it, half as far as the objects are large: (2, 3) float64, world, scene units."""
    middle = np.mean([one.t_wo for one in clip.objects], axis=0)
    reach = float(np.mean([np.abs(one.s_wo).max() for one in clip.objects]))
    return np.stack([middle, middle + [0.0, 0.0, reach / 2]])
