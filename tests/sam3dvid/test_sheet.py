"""The contact sheet of a pool: every picture in its tile, and no failure for what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from sam3dvid.backgrounds.polyhaven_pool import build_polyhaven_pool
from sam3dvid.backgrounds.pool import Panorama
from sam3dvid.backgrounds.settings import PanoramaSettings
from sam3dvid.backgrounds.sheet import EMPTY, GAP, LABEL_HEIGHT, TILE_HEIGHT, TILE_WIDTH, spread, write_sheet
from shardwork.run import Options

COLOURS = {"a": (200, 30, 30), "b": (30, 200, 30), "c": (30, 30, 200)}


@pytest.fixture
def pool(tmp_path):
    found = []
    for slug, colour in COLOURS.items():
        path = tmp_path / f"{slug}.png"
        Image.new("RGB", (1024, 512), colour).save(path)
        found.append(Panorama(slug, path, path.stat().st_size, path.stat().st_mtime_ns))
    settings = PanoramaSettings(width=512, height=256, eval_fraction=0.0)
    build_polyhaven_pool(found, tmp_path / "pool", tmp_path / "books", settings, Options(workers=0))
    return tmp_path / "pool"


def middle_of(sheet, index):
    """Return the colour in the middle of a tile: four in a row, from the left and from the top."""
    left, top = GAP + index % 4 * (TILE_WIDTH + GAP), LABEL_HEIGHT + GAP + index // 4 * (TILE_HEIGHT + LABEL_HEIGHT + GAP)
    return sheet.getpixel((left + TILE_WIDTH // 2, top + TILE_HEIGHT // 2))


def sheet_of(pool, limit=48):
    out = pool.parent / "sheets" / "sheet.png"
    write_sheet(out, pool, limit)
    assert [path.name for path in out.parent.iterdir()] == ["sheet.png"]
    return Image.open(out).convert("RGB")


def test_the_four_views_of_each_panorama_stand_in_one_row_in_the_order_of_their_ids(pool):
    sheet = sheet_of(pool)
    for index in range(12):
        assert np.abs(np.subtract(middle_of(sheet, index), COLOURS["abc"[index // 4]])).max() <= 3


def test_the_same_pool_gives_the_same_bytes(pool):
    one, other = (np.asarray(sheet_of(pool)) for _ in range(2))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("damage", ["lost", "spoilt"])
def test_a_picture_that_cannot_be_read_is_a_tile_that_says_so(pool, damage):
    path = pool / "train" / "ph_b_v2.jpg"
    path.unlink() if damage == "lost" else path.write_bytes(b"no picture")
    sheet = sheet_of(pool)
    assert middle_of(sheet, 6) == EMPTY and middle_of(sheet, 7) != EMPTY


def test_the_limit_takes_pictures_spread_over_all(pool):
    assert [row["id"] for row in spread([{"id": number} for number in range(10)], 4)] == [0, 2, 5, 7]
    sheet = sheet_of(pool, 3)
    for index, slug in enumerate("abc"):
        assert np.abs(np.subtract(middle_of(sheet, index), COLOURS[slug])).max() <= 3


def test_a_pool_that_is_not_frozen_gives_a_picture_that_says_so(tmp_path):
    write_sheet(tmp_path / "sheet.png", tmp_path / "pool")
    sheet = Image.open(tmp_path / "sheet.png")
    assert sheet.getpixel((0, 0)) == EMPTY and len(set(map(tuple, np.asarray(sheet).reshape(-1, 3).tolist()))) > 2
