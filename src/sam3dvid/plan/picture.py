"""A plan as a picture: the scene from above with its cameras, and what some frames are predicted to show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sam3dvid.backgrounds.warp import homography, warp
from sam3dvid.colours import PALETTE
from sam3dvid.conventions import pose_in_camera
from sam3dvid.raycast import Caster, frame_truth
from shardwork.jsonio import Json

Rgb = NDArray[np.uint8]
Float = NDArray[np.float64]

START, END, INK, FAINT, PAPER = (0, 0, 0), (214, 0, 28), (40, 40, 40), (170, 170, 170), (255, 255, 255)
SIDE = 384
"""Pixels of a view."""
FINE = 2
"""The view from above is drawn so many times larger, then reduced, so that lines are smooth."""
MARGIN = 0.08
TEXT_HEIGHT = 58


@dataclass(frozen=True, slots=True)
class Above:
    """The scene from above: X to the right, Y up.   middle, half : of the square that is shown, scene units."""

    draw: ImageDraw.ImageDraw
    middle: Float
    half: float

    def px(self, points: Any) -> list[tuple[float, float]]:
        """Return where world points lie in the picture.   points : (..., 2 or 3)."""
        flat = (np.asarray(points, float).reshape(-1, np.shape(points)[-1])[:, :2] - self.middle) / self.half
        size = SIDE * FINE / 2
        return [(size * (1 + x), size * (1 - y)) for x, y in flat]

    def circle(self, centre: Sequence[float], radius: float, colour: tuple[int, ...], width: int, fill: tuple[int, ...] | None = None) -> None:
        """Draw a circle of the world."""
        ((x, y),) = self.px([centre])
        r = radius / self.half * SIDE * FINE / 2
        self.draw.ellipse((x - r, y - r, x + r, y + r), outline=colour, width=width * FINE, fill=fill)


def draw_plan(plan: dict[str, Json], casters: Sequence[Caster], photo: Rgb | None) -> Rgb:
    """Return a panel: from above; frames 0, middle, last.

    casters : of the plan's objects.   photo : (H, W, 3) uint8, the plan's background, or None for a plain one.
    Returns (442, 1536, 3) uint8.
    """
    frames = len(plan["cameras"]["frames"])
    shown = (0, frames // 2, frames - 1)
    views = [draw_above(plan), *(draw_frame(plan, t, casters, photo) for t in shown)]
    panel = Image.new("RGB", (SIDE * len(views), SIDE + TEXT_HEIGHT), PAPER)
    write = ImageDraw.Draw(panel)
    for column, (view, lines) in enumerate(zip(views, [_about(plan), *(_seen(plan, t) for t in shown)], strict=True)):
        panel.paste(view, (column * SIDE, 0))
        for row, (text, colour) in enumerate(lines):
            write.text((column * SIDE + 6, SIDE + 3 + 13 * row), text, fill=colour, font=_font(12))
    return np.asarray(panel)


def draw_text(text: str) -> Rgb:
    """Return a panel that says one line: (58, 1536, 3) uint8."""
    panel = Image.new("RGB", (SIDE * 4, TEXT_HEIGHT), PAPER)
    ImageDraw.Draw(panel).text((6, 20), text, fill=INK, font=_font(16))
    return np.asarray(panel)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _about(plan: dict[str, Json]) -> list[tuple[str, tuple[int, ...]]]:
    way, light = plan["trajectory"], plan["light"]
    reasons = ", ".join(rejection["reason"] for rejection in plan["rejections"])
    return [
        (f"{plan['split']} {plan['clip_id']}: N={plan['num_objects']}, attempt {plan['attempt']}" + (f" ({reasons})" if reasons else ""), INK),
        (f"span {way['arc_direction'] * way['arc_span_deg']:+.1f}, elevation {way['start_elevation_deg']:.1f} {way['elevation_drift_deg']:+.1f} deg", INK),
        (f"distance {way['orbit_radius']:.2f}, geometry within {plan['scene_radius']:.2f}", INK),
        (f"sun {math.degrees(math.asin(light['sun_direction'][2])):.0f} deg high, {plan['background']['image_id']}", INK),
    ]


def _seen(plan: dict[str, Json], t: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return what a frame shows of each object, in its colour."""
    seen = plan["visibility"]
    return [
        (f"frame {t}: object {k} shows {visible} of {amodal} px ({part:.2f})", PALETTE[k - 1])
        for k, (visible, amodal, part) in enumerate(zip(seen["visible_px"][t], seen["amodal_px"][t], seen["visible_frac"][t], strict=True), 1)
    ]


def draw_above(plan: dict[str, Json]) -> Image.Image:
    """Return the scene from above, X to the right: spheres around the objects, the orbit, the first (black) and last (red) camera, the reference (dashed)."""
    T_cw = np.array([frame["T_cw"] for frame in plan["cameras"]["frames"]])
    stands = -np.einsum("fij,fi->fj", T_cw[:, :3, :3], T_cw[:, :3, 3])
    centre, radius = plan["trajectory"]["scene_center"], plan["scene_radius"]
    spheres = [(one["t_wo"], one["s_wo"][0] * math.sqrt(3) / 2) for one in plan["objects"]]
    corners = [np.array(middle[:2]) + sign * reach for middle, reach in (*spheres, (centre, radius)) for sign in (-1, 1)]
    points = np.concatenate([stands[:, :2], corners])
    low, high = points.min(axis=0), points.max(axis=0)
    image = Image.new("RGB", (SIDE * FINE, SIDE * FINE), PAPER)
    above = Above(ImageDraw.Draw(image, "RGBA"), (low + high) / 2, float((high - low).max()) / 2 * (1 + 2 * MARGIN))
    above.circle(centre, radius, FAINT, 1)
    _draw_axes(above)
    for k, ((middle, reach), colour) in enumerate(zip(spheres, PALETTE, strict=False), 1):
        above.circle(middle, reach, colour, 2, (*colour, 90))
        above.draw.text(above.px([middle])[0], str(k), fill=INK, font=_font(15 * FINE), anchor="mm")
    _draw_cross(above, centre)
    above.draw.line(above.px(stands), fill=INK, width=2 * FINE)
    for point in stands:
        above.circle(point, above.half * 0.006, INK, 1, INK)
    reference = np.array(plan["reference_T_cw"])
    _draw_dashes(above, -reference[:3, :3].T @ reference[:3, 3], centre)
    for index, colour in ((0, START), (-1, END)):
        _draw_frustum(above, T_cw[index], np.array(plan["cameras"]["K"]), plan["cameras"]["width"], colour, float(np.linalg.norm(stands[index] - centre)))
    return image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def _draw_axes(above: Above) -> None:
    size = above.half * 0.15
    corner = above.middle - above.half * 0.92
    for name, way in (("X", (size, 0.0)), ("Y", (0.0, size))):
        above.draw.line(above.px([corner, corner + way]), fill=FAINT, width=2 * FINE)
        above.draw.text(above.px([corner + np.array(way) * 1.25])[0], name, fill=FAINT, font=_font(11 * FINE), anchor="mm")


def _draw_cross(above: Above, centre: Sequence[float]) -> None:
    ((x, y),) = above.px([centre])
    arm = 4 * FINE
    above.draw.line([(x - arm, y), (x + arm, y)], fill=INK, width=FINE)
    above.draw.line([(x, y - arm), (x, y + arm)], fill=INK, width=FINE)


def _draw_dashes(above: Above, start: Float, end: Sequence[float]) -> None:
    ways = np.linspace(start, np.asarray(end, float), 24)
    for first, last in zip(ways[::2], ways[1::2], strict=True):
        above.draw.line(above.px([first, last]), fill=FAINT, width=FINE)


def _draw_frustum(above: Above, T_cw: Float, K: Float, width: int, colour: tuple[int, ...], length: float) -> None:
    """Draw the rays through the outer edges of the frame's middle row, as long as the way to the centre."""
    stand = -T_cw[:3, :3].T @ T_cw[:3, 3]
    rays = [T_cw[:3, :3].T @ np.array([(u - K[0, 2]) / K[0, 0], 0.0, 1.0]) for u in (-0.5, width - 0.5)]
    left, right = (above.px([stand + length * ray])[0] for ray in rays)
    ((x, y),) = above.px([stand])
    above.draw.polygon([(x, y), left, right], fill=(*colour, 24))
    for end in (left, right):
        above.draw.line([(x, y), end], fill=colour, width=FINE)
    above.draw.ellipse((x - 5 * FINE, y - 5 * FINE, x + 5 * FINE, y + 5 * FINE), fill=colour)


def draw_frame(plan: dict[str, Json], t: int, casters: Sequence[Caster], photo: Rgb | None) -> Image.Image:
    """Return a frame's background with its predicted mask over it: the palette, shaded by depth, and an outline where one object hides another."""
    cameras, back = plan["cameras"], plan["background"]
    T_cw, K, width, height = np.array(cameras["frames"][t]["T_cw"]), np.array(cameras["K"]), cameras["width"], cameras["height"]
    objects = plan["objects"]
    s_wo = np.array([one["s_wo"] for one in objects])
    R_co, t_co, _ = pose_in_camera(T_cw, np.array([one["R_wo"] for one in objects]), np.array([one["t_wo"] for one in objects]), s_wo)
    truth = frame_truth(casters, R_co, t_co, s_wo[:, 0], K, width, height)
    if photo is None:
        picture = np.full((height, width, 3), 225, np.uint8)
    else:
        H = homography(T_cw[:3, :3], np.array(plan["reference_T_cw"])[:3, :3], K, np.array(back["K_bg"]))
        picture = warp(photo, H, width, height).copy()
    for k, (colour, amodal) in enumerate(zip(PALETTE, truth.amodal, strict=False), 1):
        ours = truth.mask == k
        z = truth.depth[ours]
        near = (z.max() - z) / max(float(np.ptp(z)), 1e-9) if z.size else z
        picture[ours] = np.round(np.array(colour) * (0.55 + 0.45 * near[:, None]))
        picture[_edge(amodal)] = colour
    image = Image.fromarray(picture)
    return image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE), Image.Resampling.LANCZOS if width > SIDE else Image.Resampling.NEAREST)


def _edge(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels of a mask that touch what is outside."""
    padded = np.pad(mask, 1)
    inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.logical_and(mask, ~inside)


def read_photo(path: Path) -> Rgb:
    """Return a background picture: (H, W, 3) uint8. A pool's pictures are sRGB without transparency, upright as they are stored."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def stack(panels: Sequence[Rgb]) -> Rgb:
    """Return panels one below the other, a line between them."""
    line = np.full((2, panels[0].shape[1], 3), FAINT, np.uint8)
    parts = [part for panel in panels for part in (line, panel)]
    return np.concatenate(parts[1:])
