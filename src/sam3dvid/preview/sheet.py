"""A clip on one picture: what it is, what must be seen at a glance, and some of its frames from several sides."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sam3dvid.preview.clip import Clip, Frame, Rgb
from sam3dvid.preview.panels import PALETTE, depth_colours, paint_axes, paint_depth, paint_foreground, paint_masks, paint_voxels
from sam3dvid.preview.survey import LEAST_FRACTION, LEAST_PARTS, Survey
from shardwork.errors import plain

PAPER, INK, FAINT, RED, GREEN = (255, 255, 255), (40, 40, 40), (120, 120, 120), (200, 0, 0), (0, 120, 60)
COLUMN_PX = 256
"""A frame that is narrower is enlarged, by a whole number, until it is about as wide; one above LARGEST_PX is reduced."""
LARGEST_PX = 512
GAP, SIDE_PX, LINE_PX, TITLE_PX = 8, 170, 24, 34
Color = tuple[int, int, int]
ROWS = (
    ("rgb", "what a model sees"),
    ("masks", "tint: mask_visible\nline: mask_amodal\nred: id above N, or\nvisible outside amodal"),
    ("depth", "1/z, one scale for\nthe clip, stripes: NaN\nred: not where the\nmask is"),
    ("voxels", "centres by pose\nline: mask_amodal\nred: off the silhouette"),
    ("axes", "x red, y green, z blue\nwhite: world's up\nline: mask_amodal"),
    ("rgba_fg", "over a checkerboard"),
)
"""Name of each row, and how to read it."""


def chosen_frames(frames: int, wanted: Sequence[int] = ()) -> list[int]:
    """Return the frames of a sheet: those wanted, or first, quarter, half, three quarters and last, each once."""
    return list(dict.fromkeys(wanted or [*(frames * part // 4 for part in range(4)), frames - 1]))


def fit(picture: Rgb) -> Rgb:
    """Return a panel as a sheet shows it: frames of 256 to 512 px as they are, small ones enlarged by a whole number, large ones reduced."""
    height, width = picture.shape[:2]
    if width > LARGEST_PX:
        size = (LARGEST_PX, max(1, round(height * LARGEST_PX / width)))
        return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    times = max(1, COLUMN_PX // width)
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def draw_column(clip: Clip, t: int, frame: Frame, survey: Survey) -> list[Rgb]:
    """Return the panels of a frame in the order of ROWS: (H', W', 3) uint8 each. Raises as `Clip.foreground` does."""
    foreground = clip.foreground(t)
    painted = (
        frame.rgb,
        paint_masks(clip, frame),
        paint_depth(frame, survey),
        paint_voxels(clip, t, frame),
        paint_axes(clip, t, frame),
        paint_foreground(foreground),
    )
    return [fit(picture) for picture in painted]


def draw_sheet(clip: Clip, survey: Survey, columns: Sequence[tuple[int, list[Rgb]]]) -> Image.Image:
    """Return the sheet.   columns : frame and its panels, from `draw_column`."""
    height, width = columns[0][1][0].shape[:2]
    lines = _heading(clip, survey)
    top = GAP + TITLE_PX + LINE_PX * (len(lines) + len(clip.objects)) + 2 * GAP
    body = SIDE_PX + len(columns) * (width + GAP)
    about = _objects(clip, survey)
    least = max(_width(text, size) for text, _, size in (*lines, *((text, INK, 17) for text, _ in about))) + 60
    sheet = Image.new("RGB", (max(body, least), top + LINE_PX + len(ROWS) * (height + GAP)), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), f"{clip.split} {clip.clip_id}", INK, _font(26))
    y = GAP + TITLE_PX
    for text, colour, size in lines:
        draw.text((GAP, y), text, colour, _font(size))
        y += LINE_PX
    for (text, colour), swatch in zip(about, PALETTE, strict=False):
        draw.rectangle((GAP + 1, y + 3, GAP + 16, y + 17), swatch)
        draw.text((GAP + 24, y), text, colour, _font(17))
        y += LINE_PX
    for column, (t, panels) in enumerate(columns):
        x = SIDE_PX + column * (width + GAP)
        marks = int(survey.strays[t].sum()) + int(survey.bare[t].sum())
        draw.text((x, top), f"frame {t}" + (f": {marks:,} off" if marks else ""), RED if marks else INK, _font(17))
        for row, panel in enumerate(panels):
            sheet.paste(Image.fromarray(panel), (x, top + LINE_PX + row * (height + GAP)))
    for row, (name, text) in enumerate(ROWS):
        y = top + LINE_PX + row * (height + GAP)
        draw.text((GAP, y), name, INK, _font(20))
        draw.multiline_text((GAP, y + 28), text, FAINT, _font(14), spacing=3)
        if name == "depth":
            _scale(sheet, survey, y + 112, height - 124)
    return sheet


def panel_corner(sheet: Image.Image, columns: int, panel: Rgb, row: int, column: int) -> tuple[int, int]:
    """Return where a panel's left upper pixel lies in a sheet.   panel : any of its panels, all of one size."""
    height, width = panel.shape[:2]
    return SIDE_PX + column * (width + GAP), sheet.height - (len(ROWS) - row) * (height + GAP)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _width(text: str, size: int) -> int:
    return int(_font(size).getlength(text))


def _heading(clip: Clip, survey: Survey) -> list[tuple[str, Color, int]]:
    """Return the lines above the objects': text, colour, size."""
    size = clip.size
    facts = f"seed {clip.seed}, N = {len(clip.objects)}, {size.frames} frames of {size.width} x {size.height}, span {clip.arc_span_deg:+.1f} deg"
    verdict = survey.verdict()
    said: list[tuple[str, Color, int]] = [(text, RED, 19) for text in verdict]
    good = f"{survey.voxels:,} projected voxels and all silhouettes agree"
    return [(f"{facts}, background {plain(clip.image_id)}", INK, 17), *(said or [(good, GREEN, 17)])]


def _objects(clip: Clip, survey: Survey) -> list[tuple[str, Color]]:
    """Return a line for each object, red where it is seen too little."""
    least_px = clip.size.width * clip.size.height / LEAST_PARTS
    lines: list[tuple[str, Color]] = []
    for one, (pixels, t, fraction, u) in zip(clip.objects, survey.least_visible(), strict=True):
        text = f"{one.k}  {one.asset_id} ({plain(one.source)}), scale {one.s_wo[0]:.3f}, {len(one.centres):,} voxels; "
        text += f"least visible: {pixels:,} px (frame {t}), {fraction:.2f} of its silhouette (frame {u})"
        lines.append((text, INK if pixels >= least_px and fraction >= LEAST_FRACTION else RED))
    return lines


def _scale(sheet: Image.Image, survey: Survey, top: int, height: int) -> None:
    """Draw the colours of depth beside their row, near at the top, evenly in 1/z."""
    if height < 60 or not survey.nearest <= survey.farthest:
        return
    bar = depth_colours(np.repeat(np.linspace(1, 0, height)[:, None], 18, axis=1))
    sheet.paste(Image.fromarray(bar), (GAP, top))
    draw = ImageDraw.Draw(sheet)
    for part in (0.0, 0.5, 1.0):
        z = 1 / (1 / survey.nearest * (1 - part) + 1 / survey.farthest * part)
        draw.text((GAP + 26, top + part * (height - 1)), f"z {z:.2f}", INK, _font(14), anchor="lm")


