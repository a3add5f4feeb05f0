"""One frame of a clip, drawn in six ways at its own size, so that a pixel of a panel is a pixel of the frame."""

from __future__ import annotations

from functools import cache
from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray

from sam3dvid.colours import PALETTE
from sam3dvid.preview.clip import Clip, Float, Frame, Mask, Rgb
from sam3dvid.preview.project import object_axes, segment, strays, voxels_in_frame, world_up
from sam3dvid.preview.survey import Survey
from sam3dvid.preview.window import Window, whole

ALARM = (255, 0, 0)
"""What must not be: no other panel's colour comes near it."""
AXES = ((235, 50, 50), (70, 200, 60), (70, 110, 255))
"""Colours of x, y and z."""
UP = (255, 255, 255)
TINT, DIM, DARK = 0.5, 0.45, 0.6
CHECKS, CHECK_PX = (205, 240), 16
HATCH, HATCH_PX = (70, 88), 6
"""Where depth is NaN: grey stripes, which no depth looks like."""
SHIFT = 4
"""Bits behind the binary point of the lines' ends."""


def paint_masks(clip: Clip, frame: Frame) -> Rgb:
    """Return rgb tinted by mask_visible, with the edges of the whole silhouettes.

    Red: values above N, and visible pixels outside of their object's silhouette.   Returns (H, W, 3) uint8.
    """
    picture = frame.rgb.copy()
    for one, silhouette in zip(clip.objects, frame.amodal, strict=True):
        own = frame.mask == one.k
        picture[own] = _mixed(picture[own], PALETTE[one.k - 1], TINT)
        picture[own & ~silhouette] = ALARM
    _outline(picture, clip, frame)
    picture[frame.mask > len(clip.objects)] = ALARM
    return picture


def paint_depth(frame: Frame, survey: Survey) -> Rgb:
    """Return inverse depth on the scale of the whole clip, near is yellow and far is blue; grey stripes where it is NaN.

    Red: depth where mask_visible has none or the other way round, and depths that are infinite or not above 0.   Returns (H, W, 3) uint8.
    """
    empty, good = np.isnan(frame.depth), np.isfinite(frame.depth) & (frame.depth > 0)
    picture = _stripes(frame.depth.shape).copy()
    if survey.nearest <= survey.farthest:
        near, far = 1 / survey.nearest, 1 / survey.farthest
        picture[good] = depth_colours((1 / frame.depth[good, None].astype(np.float64) - far) / max(near - far, 1e-12))[:, 0]
    picture[(empty == (frame.mask > 0)) | ~(empty | good)] = ALARM
    return picture


@cache
def _stripes(shape: tuple[int, int]) -> Rgb:
    rows, columns = np.indices(shape)
    return np.repeat(np.array(HATCH, np.uint8)[(rows + columns) // HATCH_PX % 2][..., None], 3, axis=2)


def depth_colours(level: Float) -> Rgb:
    """Return colours of depths: (H, W) from 0 (far) to 1 (near) gives (H, W, 3) uint8."""
    bgr = cv2.applyColorMap(np.rint(255 * np.clip(level, 0, 1)).astype(np.uint8), cv2.COLORMAP_VIRIDIS)
    return np.ascontiguousarray(bgr[..., ::-1], np.uint8)


def paint_voxels(clip: Clip, t: int, frame: Frame, survey: Survey) -> Rgb:
    """Return dimmed rgb with the voxels' centres, near ones lighter and over far ones, and the silhouettes' edges.

    Red: voxels that lie too far from their object's silhouette.   Returns (H, W, 3) uint8.
    """
    picture = _dimmed(frame.rgb)
    _dots(picture, clip, t)
    _outline(picture, clip, frame, lighter=0.6)
    _alarms(picture, clip, t, frame, survey)
    return picture


def paint_axes(clip: Clip, t: int, frame: Frame, window: Window) -> Rgb:
    """Return darker rgb with each object's axes (x red, y green, z blue, half a canonical unit long) and the world's up (white), as the window shows it.

    Returns (H', W', 3) uint8: lines are drawn last, and so are fine where the frame is enlarged.
    """
    picture = np.rint(frame.rgb * DARK).astype(np.uint8)
    _outline(picture, clip, frame)
    picture = window.shown(picture)
    _axes(picture, clip, t, window, labels=True)
    return picture


def paint_all(clip: Clip, t: int, frame: Frame, survey: Survey) -> Rgb:
    """Return masks, voxels and axes in one picture, for the film: the whole frame, as `window.whole` shows it.   Returns (H', W', 3) uint8."""
    picture = paint_masks(clip, frame)
    _dots(picture, clip, t, strength=0.55)
    _alarms(picture, clip, t, frame, survey)
    window = whole(clip.size)
    picture = window.shown(picture)
    _axes(picture, clip, t, window, labels=False)
    return picture


def paint_foreground(rgba: Rgb) -> Rgb:
    """Return straight-alpha colours over a checkerboard: (H, W, 4) to (H, W, 3) uint8. A dark rim shows colours that were multiplied by alpha."""
    rows, columns = np.indices(rgba.shape[:2])
    board = np.array(CHECKS, np.float64)[(rows // CHECK_PX + columns // CHECK_PX) % 2][..., None]
    alpha = rgba[..., 3:] / 255
    picture: Rgb = np.rint(rgba[..., :3] * alpha + board * (1 - alpha)).astype(np.uint8)
    return picture


def _mixed(pixels: Rgb, colour: tuple[int, ...], strength: float) -> Rgb:
    return np.rint(pixels * (1 - strength) + np.array(colour) * strength).astype(np.uint8)


def _dimmed(rgb: Rgb) -> Rgb:
    """Return a picture in grey and darker, so that colours over it are told from its own."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    return np.repeat(np.rint(grey * DIM + 20).astype(np.uint8)[..., None], 3, axis=2)


def _outline(picture: Rgb, clip: Clip, frame: Frame, lighter: float = 0.35) -> None:
    """Draw the inner edge of each whole silhouette in its object's colour, somewhat lighter.   picture : (H, W, 3), changed."""
    for one, silhouette in zip(clip.objects, frame.amodal, strict=True):
        picture[edge(silhouette)] = _mixed(np.array(PALETTE[one.k - 1], np.uint8), (255, 255, 255), lighter)


def edge(mask: Mask) -> Mask:
    """Return the pixels of a mask that touch what is outside of it, the frame's own edge apart: (H, W) bool."""
    whole = cv2.copyMakeBorder(mask.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_REPLICATE).astype(np.bool_)
    inside = whole[:-2, 1:-1] & whole[2:, 1:-1] & whole[1:-1, :-2] & whole[1:-1, 2:]
    return cast(Mask, mask & ~inside)


def _dots(picture: Rgb, clip: Clip, t: int, strength: float = 1.0) -> None:
    """Draw each object's voxels, far ones first.   picture : (H, W, 3), changed."""
    pixels, depths, colours, sizes = [], [], [], []
    for one in clip.objects:
        dots = voxels_in_frame(clip, t, one)
        if not len(dots.z):
            continue
        low, reach = float(dots.z.min()), max(float(np.ptp(dots.z)), 1e-9)
        shade = 1.0 - 0.6 * (dots.z - low) / reach
        pixels.append(dots.pixels())
        depths.append(dots.z)
        colours.append(np.rint(shade[:, None] * np.array(PALETTE[one.k - 1])).astype(np.uint8))
        # half as large as the voxel looks, and odd, so that its middle is the pixel of its centre
        sizes.append(2 * (np.clip(dots.side_px, 0, 15) / 4).astype(np.int64) + 1)
    if not pixels:
        return
    size, order = np.concatenate(sizes), np.argsort(-np.concatenate(depths), kind="stable")
    _stamp(picture, np.concatenate(pixels)[order], np.concatenate(colours)[order], size[order], strength)


def _stamp(picture: Rgb, pixels: NDArray[np.int64], colours: Rgb, sizes: NDArray[np.int64], strength: float) -> None:
    """Draw squares around pixels, later ones over earlier ones.   pixels : (V, 2), (column, row).   colours : (V, 3).   sizes : (V,), odd."""
    height, width = picture.shape[:2]
    order, places = [np.empty(0, np.int64)], [np.empty((0, 2), np.int64)]
    for dy, dx in np.ndindex(int(sizes.max(initial=1)), int(sizes.max(initial=1))):
        chosen = np.flatnonzero(np.maximum(dy, dx) < sizes)
        order.append(chosen)
        places.append(pixels[chosen] + np.stack([dx - sizes[chosen] // 2, dy - sizes[chosen] // 2], axis=1))
    rank, place = np.concatenate(order), np.concatenate(places)
    within = (place >= 0).all(axis=1) & (place < (width, height)).all(axis=1)
    # the nearest dot of each pixel: the greatest rank
    owner = np.full(height * width, -1, np.int64)
    np.maximum.at(owner, place[within, 1] * width + place[within, 0], rank[within])
    drawn = np.flatnonzero(owner >= 0)
    flat = picture.reshape(-1, 3)
    flat[drawn] = np.rint(flat[drawn] * (1 - strength) + colours[owner[drawn]] * strength).astype(np.uint8)


def _alarms(picture: Rgb, clip: Clip, t: int, frame: Frame, survey: Survey) -> None:
    """Draw the voxels that lie too far from their object's silhouette, in red.   picture : (H, W, 3), changed."""
    for one, silhouette in zip(clip.objects, frame.amodal, strict=True):
        if survey.strays[t, one.k - 1]:
            dots = voxels_in_frame(clip, t, one)
            wrong = dots.pixels()[strays(dots, silhouette)]
            _stamp(picture, wrong, np.full((len(wrong), 3), ALARM, np.uint8), np.full(len(wrong), 3), 1.0)


def _axes(picture: Rgb, clip: Clip, t: int, window: Window, labels: bool) -> None:
    """Draw the world's up from the middle between the objects, and each object's axes, the farthest end first.   picture : as the window shows it, changed."""
    lines = [(np.inf, segment(clip, t, *world_up(clip)), UP, "up")]
    for one in clip.objects:
        origin, *ends = object_axes(one)
        for name, colour, end in zip("xyz", AXES, ends, strict=True):
            lines.append((float(clip.T_cw[t, 2, :3] @ end), segment(clip, t, origin, end), colour, name))
    for _, uv, colour, name in sorted(lines, key=lambda line: -line[0]):
        if uv is not None:
            _arrow(picture, window.place(uv), colour, name if labels else "")
    for one in clip.objects if labels else ():
        if (uv := segment(clip, t, one.t_wo, one.t_wo)) is not None:
            _write(picture, str(one.k), window.place(uv[0]), PALETTE[one.k - 1], 0.6)


def _arrow(picture: Rgb, uv: Float, colour: tuple[int, ...], label: str) -> None:
    """Draw a line with a dark rim and a dot at its end.   uv : (2, 2), px."""
    start, end = ((int(x), int(y)) for x, y in np.rint(uv * (1 << SHIFT)))
    for shade, rim in (((0, 0, 0), 2), (colour, 0)):
        cv2.line(picture, start, end, shade, 2 + rim, cv2.LINE_AA, SHIFT)
        cv2.circle(picture, end, (3 << SHIFT) + (rim << SHIFT) // 2, shade, cv2.FILLED, cv2.LINE_AA, SHIFT)
    if label:
        way = uv[1] - uv[0]
        _write(picture, label, uv[1] + 12 * way / max(float(np.hypot(*way)), 1e-9), colour, 0.45)


def _write(picture: Rgb, text: str, uv: Float, colour: tuple[int, ...], size: float) -> None:
    """Write a few letters with a dark rim around a point.   uv : (2,), px."""
    (width, height), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
    place = (round(float(uv[0]) - width / 2), round(float(uv[1]) + height / 2))
    for shade, thickness in (((0, 0, 0), 3), (colour, 1)):
        cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, size, shade, thickness, cv2.LINE_AA)
