"""A clip on one picture: what it is, what must be seen at a glance, and some of its frames from several sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sam3dvid.colours import PALETTE
from sam3dvid.preview.clip import Clip, Frame, Rgb
from sam3dvid.preview.panels import depth_colours, paint_axes, paint_depth, paint_foreground, paint_masks, paint_voxels
from sam3dvid.preview.survey import LEAST_FRACTION, Survey
from sam3dvid.preview.window import Window, fit, window_of
from sam3dvid.validate.visibility import least_visible_px
from shardwork.errors import plain

PAPER, INK, FAINT, RED, GREEN = (255, 255, 255), (40, 40, 40), (120, 120, 120), (200, 0, 0), (0, 120, 60)
GAP, SIDE_PX, LINE_PX, TITLE_PX = 8, 200, 34, 48
TITLE, LARGE, SMALL, NOTE = 38, 25, 22, 17
"""Sizes of letters."""
Color = tuple[int, int, int]
ROWS = (
    ("rgb", ""),
    ("masks", "tint: mask_visible\nline: mask_amodal\nred: id above N, or\nvisible outside amodal"),
    ("depth", "1/z, one scale for\nthe clip, stripes: NaN\nred: not where the\nmask is"),
    ("voxels", "centres by pose\nline: mask_amodal\nred: off the silhouette"),
    ("axes", "x red, y green, z blue\nwhite: world's up\nline: mask_amodal"),
    ("rgba_fg", "over a checkerboard"),
)
"""Name of each row, and how to read it; rgb says which part of it the others show."""


def chosen_frames(frames: int, wanted: Sequence[int] = ()) -> list[int]:
    """Return the frames of a sheet: those wanted, or first, quarter, half, three quarters and last, each once."""
    return list(dict.fromkeys(wanted or [*(frames * part // 4 for part in range(4)), frames - 1]))


def draw_column(clip: Clip, t: int, frame: Frame, survey: Survey) -> list[Rgb]:
    """Return the panels of a frame in the order of ROWS, rgb whole, the others as large as the objects allow: (H', W', 3) uint8 each.

    Raises as `Clip.foreground` does.
    """
    foreground, window = clip.foreground(t), window_of(clip.size, survey.shown)
    painted = (paint_masks(clip, frame), paint_depth(frame, survey), paint_voxels(clip, t, frame, survey))
    shown = [window.shown(picture) for picture in painted]
    return [fit(frame.rgb), *shown, paint_axes(clip, t, frame, window), window.shown(paint_foreground(foreground))]


def draw_sheet(clip: Clip, survey: Survey, columns: Sequence[tuple[int, list[Rgb]]]) -> Image.Image:
    """Return the sheet.   columns : frame and its panels, from `draw_column`."""
    texts = [*_heading(clip, survey), *object_lines(clip, survey)]
    above = GAP + TITLE_PX + LINE_PX * len(texts) + 2 * GAP
    corners, width, height = panel_corners([panels for _, panels in columns], above)
    least = max(_font(SMALL).getlength(text) for text, *_ in texts) + 2 * LINE_PX
    sheet = Image.new("RGB", (max(width, int(least)), height), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), f"{clip.split} {clip.clip_id}", INK, _font(TITLE))
    for line, (text, colour, swatch) in enumerate(texts):
        y = GAP + TITLE_PX + line * LINE_PX
        if swatch is not None:
            draw.rectangle((GAP, y + 4, GAP + 20, y + 24), swatch)
        draw.text((GAP + (30 if swatch is not None else 0), y), text, colour, _font(SMALL))
    for (t, panels), places in zip(columns, corners, strict=True):
        off = int(survey.strays[t].sum()) + int(survey.bare[t].sum())
        draw.text((places[0][0], above), f"frame {t}" + (f": {off:,} off" if off else ""), RED if off else INK, _font(LARGE))
        for panel, place in zip(panels, places, strict=True):
            sheet.paste(Image.fromarray(panel), place)
    for (name, text), (_, y), panel in zip(ROWS, corners[0], columns[0][1], strict=True):
        draw.text((GAP, y), name, INK, _font(LARGE))
        draw.multiline_text((GAP, y + LINE_PX), text or _window(window_of(clip.size, survey.shown)), FAINT, _font(NOTE), spacing=4)
        if name == "depth":
            _scale(sheet, survey, y + 140, panel.shape[0] - 150)
    return sheet


def panel_corners(columns: Sequence[Sequence[Rgb]], above: int) -> tuple[list[list[tuple[int, int]]], int, int]:
    """Return for each column the left upper pixel of each panel, and the width and height that all take.   above : px of what stands above the columns."""
    wide = max(panel.shape[1] for panel in columns[0])
    tops = [above + LINE_PX]
    for panel in columns[0]:
        tops.append(tops[-1] + panel.shape[0] + GAP)
    corners = [[(SIDE_PX + column * (wide + GAP), top) for top in tops[:-1]] for column in range(len(columns))]
    return corners, SIDE_PX + len(columns) * (wide + GAP), tops[-1]


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _heading(clip: Clip, survey: Survey) -> list[tuple[str, Color, Color | None]]:
    """Return the lines above the objects': text, its colour, no swatch."""
    size, verdict = clip.size, survey.verdict()
    facts = f"seed {clip.seed}, N = {len(clip.objects)}, {size.frames} frames of {size.width} x {size.height}, span {clip.arc_span_deg:+.1f} deg"
    good = f"{survey.voxels:,} projected voxels and all silhouettes agree"
    said = [(text, RED, None) for text in verdict] or [(good, GREEN, None)]
    return [(f"{facts}, background {plain(clip.image_id)}", INK, None), *said]


def object_lines(clip: Clip, survey: Survey) -> list[tuple[str, Color, Color | None]]:
    """Return a line for each object, red where it is seen too little: text, its colour, the object's colour."""
    least_px, lines = least_visible_px(clip.size.width, clip.size.height), list[tuple[str, Color, Color | None]]()
    for one, (pixels, t, fraction, u) in zip(clip.objects, survey.least_visible(), strict=True):
        text = f"{one.k}  {one.asset_id} ({plain(one.source)}), scale {one.s_wo[0]:.3f}, {len(one.centres):,} voxels; "
        text += f"least visible: {pixels:,} px (frame {t}), {fraction:.2f} of its silhouette (frame {u})"
        lines.append((text, INK if pixels >= least_px and fraction >= LEAST_FRACTION else RED, PALETTE[one.k - 1]))
    return lines


def _window(window: Window) -> str:
    """Return which part of the frames the rows below rgb show."""
    box = window.box
    times = f"\n{window.zoom} times as large" if window.zoom > 1 else ""
    return f"rows below show\ncolumns {box.left} to {box.right - 1},\nrows {box.top} to {box.bottom - 1}{times}"


def _scale(sheet: Image.Image, survey: Survey, top: int, height: int) -> None:
    """Draw the colours of depth beside their row, near at the top, evenly in 1/z."""
    if height < 60 or not survey.nearest <= survey.farthest:
        return
    bar = depth_colours(np.repeat(np.linspace(1, 0, height)[:, None], 22, axis=1))
    sheet.paste(Image.fromarray(bar), (GAP, top))
    draw = ImageDraw.Draw(sheet)
    for part in (0.0, 0.5, 1.0):
        z = 1 / (1 / survey.nearest * (1 - part) + 1 / survey.farthest * part)
        draw.text((GAP + 30, top + part * (height - 1)), f"z {z:.2f}", INK, _font(NOTE), anchor="lm")
