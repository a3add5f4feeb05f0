"""A pool's pictures on one contact sheet, so that a person sees whether they are upright, seamless and well exposed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from sam3dvid.backgrounds.images import open_picture, to_rgb
from sam3dvid.backgrounds.pool import Pool, read_pool
from sam3dvid.codes import AssetRefused
from sam3dvid.stage import is_frozen
from shardwork.files import atomic_path
from shardwork.step import Fields

TILE_WIDTH, TILE_HEIGHT, LABEL_HEIGHT, GAP = 320, 160, 18, 6
"""Pixels. The tiles have the shape of a panorama's views; a photo of another shape is fitted in."""
COLUMNS = 4
PAPER, INK, EMPTY = (24, 24, 24), (230, 230, 230), (70, 40, 40)
MAX_PIXELS = 1_000_000_000
"""The pool's own limit was applied when it was frozen."""


def write_sheet(out: Path, pool: Path, limit: int = 48) -> None:
    """Write a PNG with the pictures of a frozen pool, each with its image id and split.

    out : the PNG.   pool : the pool's folder.   limit : so many pictures at most, spread evenly over all, eval first.
    A picture that is not there or cannot be read is a tile that says so. Of a pool that is not frozen yet, the PNG says that.
    Raises AssetRefused (bad_pool) if the pool's index is not what was frozen.
    """
    if not is_frozen(pool):
        _save(out, _notice("This pool is not frozen yet:", "see the rows of its manifest for what was refused."))
        return
    found = read_pool(pool)
    _save(out, _sheet(found, spread((*found.eval, *found.train), limit)))


def spread(rows: Sequence[Fields], limit: int) -> list[Fields]:
    """Return at most `limit` rows, spread evenly over all, in their order."""
    count = min(limit, len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]


def _sheet(pool: Pool, rows: Sequence[Fields]) -> Image.Image:
    columns = min(COLUMNS, len(rows))
    down = -(-len(rows) // columns)
    title = f"{pool.kind}: {len(pool.eval)} eval, {len(pool.train)} train, {len(rows)} shown"
    sheet = Image.new("RGB", (GAP + columns * (TILE_WIDTH + GAP), LABEL_HEIGHT + GAP + down * (TILE_HEIGHT + LABEL_HEIGHT + GAP)), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), title, INK, _font())
    for index, row in enumerate(rows):
        left = GAP + index % columns * (TILE_WIDTH + GAP)
        top = LABEL_HEIGHT + GAP + index // columns * (TILE_HEIGHT + LABEL_HEIGHT + GAP)
        tile = _tile(pool.picture(row), row["image_id"])
        sheet.paste(tile, (left + (TILE_WIDTH - tile.width) // 2, top + (TILE_HEIGHT - tile.height) // 2))
        draw.text((left, top + TILE_HEIGHT + 2), f"{row['image_id']}  {row['pool']}", INK, _font())
    return sheet


def _tile(path: Path, image_id: str) -> Image.Image:
    try:
        with open_picture(path, MAX_PIXELS, image_id) as picture:
            tile = Image.fromarray(to_rgb(picture, image_id))
    except FileNotFoundError:
        return _notice("no such file")
    except AssetRefused as refusal:
        return _notice(refusal.code)
    tile.thumbnail((TILE_WIDTH, TILE_HEIGHT), reducing_gap=3.0)
    return tile


def _notice(*lines: str) -> Image.Image:
    notice = Image.new("RGB", (TILE_WIDTH, TILE_HEIGHT), EMPTY)
    draw = ImageDraw.Draw(notice)
    for number, line in enumerate(lines):
        draw.text((GAP, GAP + number * LABEL_HEIGHT), line, INK, _font())
    return notice


def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(12)


def _save(out: Path, sheet: Image.Image) -> None:
    with atomic_path(out) as temp:
        sheet.save(temp, format="PNG")
