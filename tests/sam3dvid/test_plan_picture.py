"""Plans as pictures: colours stand where the plan says."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.colours import PALETTE
from sam3dvid.plan.catalogue import read_assets
from sam3dvid.plan.picture import END, FINE, SIDE, START, TEXT_HEIGHT, Above, draw_above, draw_frame, draw_plan, read_photo, stack
from sam3dvid.plan.plan_step import stock_of
from sam3dvid.plan.planfile import read_plan
from sam3dvid.plan.planner import plan_clip
from sam3dvid.stage import plans_place
from tests.sam3dvid.stock import SMALL, pool_row, write_assets, write_pool

ROOT = Path(__file__).resolve().parents[2]
CLIPS = [f"{index:08d}" for index in range(4)]
GREY = 225
ORIENTATION = 0x0112
"""Of EXIF; 6 is a quarter turn."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_assets(folder / "dataset")
    write_pool(folder / "pool", [pool_row("a", 512, 256), pool_row("b", 256, 256)])
    return folder


@pytest.fixture(scope="module")
def planned(world):
    stock = stock_of("eval", read_assets(world / "dataset", "eval"), read_pool(world / "pool"), world / "dataset")
    by_id = {asset.asset_id: asset for asset in stock.assets}
    plans = [plan_clip(clip_id, stock, SMALL) for clip_id in CLIPS]
    return [(plan, [stock.shape_of(by_id[one["asset_id"]]) for one in plan["objects"]]) for plan in plans]


def near(picture, colour, by=60):
    return np.abs(picture.astype(int) - colour).sum(axis=-1) < by


@pytest.mark.parametrize("t", [0, 3])
def test_coloured_pixels_of_a_frame_are_as_many_as_the_plan_predicts(planned, t):
    larger = (SIDE // SMALL.width) ** 2
    for plan, casters in planned:
        picture = np.asarray(draw_frame(plan, t, casters, None))
        assert (picture != GREY).any(axis=-1).sum() == larger * sum(plan["visibility"]["visible_px"][t])


def test_a_frame_without_objects_before_a_photo_is_the_warped_photo_in_its_other_pixels(planned, world):
    plan, casters = planned[1]
    photo = np.full((plan["background"]["height"], plan["background"]["width"], 3), (10, 20, 30), np.uint8)
    picture, plain = (np.asarray(draw_frame(plan, 0, casters, one)) for one in (photo, None))
    free = (plain == GREY).all(axis=-1)
    assert free.any() and (picture[free] == (10, 20, 30)).all()
    assert np.array_equal(picture[~free], plain[~free])


def test_first_and_last_camera_stand_where_the_trajectory_says(planned):
    for plan, _ in planned:
        picture, way = np.asarray(draw_above(plan)), plan["trajectory"]
        for name, colour, part in (("first", START, 0), ("last", END, 1)):
            azimuth = math.radians(way["start_azimuth_deg"] + part * way["arc_direction"] * way["arc_span_deg"])
            elevation = math.radians(way["start_elevation_deg"] + part * way["elevation_drift_deg"])
            away = way["orbit_radius"] * math.cos(elevation) * np.array([math.cos(azimuth), -math.sin(azimuth)])  # pixels go down, Y goes up
            rows, columns = np.nonzero(near(picture, colour, 30))
            assert len(rows) > 30, name
            # the frustum is pale, the dot is not: it lies on the side of the picture that the camera stands on
            farthest = np.argmax(np.stack([columns, rows], axis=1) @ away)
            assert (np.array([columns[farthest], rows[farthest]]) - SIDE / 2) @ away > 0, name


def test_from_above_x_runs_to_the_right_and_y_upwards():
    above = Above(None, np.array([1.0, 2.0]), 2.0)  # type: ignore[arg-type]
    assert above.px([[1.0, 2.0, 9.0], [3.0, 2.0, 9.0], [1.0, 4.0, 9.0]]) == [
        (SIDE * FINE / 2, SIDE * FINE / 2),
        (SIDE * FINE, SIDE * FINE / 2),
        (SIDE * FINE / 2, 0.0),
    ]


def test_spheres_of_all_objects_are_in_the_view_from_above(planned):
    for plan, _ in planned:
        picture = np.asarray(draw_above(plan))
        assert all(near(picture, PALETTE[one["k"] - 1]).any() for one in plan["objects"])
        edges = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert (edges == 255).all(), "nothing is cut"


def test_panels_are_stacked_with_a_line_between(planned):
    panels = [draw_plan(plan, casters, None) for plan, casters in planned[:2]]
    assert panels[0].shape == (SIDE + TEXT_HEIGHT, 4 * SIDE, 3)
    assert stack(panels).shape == (2 * (SIDE + TEXT_HEIGHT) + 2, 4 * SIDE, 3)


def test_a_photo_is_read_with_its_height_first_and_red_before_blue(tmp_path):
    Image.new("RGB", (48, 16), (200, 120, 40)).save(tmp_path / "a.jpg", quality=95)
    photo = read_photo(tmp_path / "a.jpg")
    assert photo.shape == (16, 48, 3) and np.abs(photo.astype(int) - (200, 120, 40)).max() <= 3  # what a JPEG may be off by


def test_a_photo_that_says_it_lies_on_its_side_is_read_as_it_is_stored(tmp_path):
    turned = Image.Exif()
    turned[ORIENTATION] = 6
    Image.new("RGB", (48, 16), (200, 120, 40)).save(tmp_path / "a.jpg", exif=turned)
    assert read_photo(tmp_path / "a.jpg").shape == (16, 48, 3)


def program(name, *flags):
    return subprocess.run([sys.executable, str(ROOT / "scripts" / name), *map(str, flags)], capture_output=True, text=True, check=False)


def test_program_draws_the_clips_that_are_named(world):
    sizes = ("--frames=4", "--width=64", "--height=64", "--clips=4", "--clips-per-shard=4", "--shard=0000-of-250000", "--workers=0")
    where = (f"--stage={world / 'plans'}", f"--dataset={world / 'dataset'}", f"--pool={world / 'pool'}", "--split=eval")
    assert program("plan_clips.py", *where, *sizes).returncode == 0
    out = world / "report" / "plans.png"
    done = program("draw_plans.py", *where, "--clip=00000003", "--clip=00000001", f"--out={out}")
    assert done.returncode == 0, done.stderr
    with Image.open(out) as image:
        assert image.size == (4 * SIDE, 2 * (SIDE + TEXT_HEIGHT) + 2)
    assert program("draw_plans.py", *where, "--clip=3", f"--out={out}").stderr.count("[bad_argument]") == 1
    over = world / "plans" / "eval" / "00000001.json"
    kept = over.read_bytes()
    assert "[bad_argument]" in program("draw_plans.py", *where, "--clip=00000001", f"--out={over}").stderr and over.read_bytes() == kept
    # of an earlier run: no verdict names it
    shutil.copy(world / "plans" / "eval" / "00000003.json", world / "plans" / "eval" / "00000009.json")
    done = program("draw_plans.py", *where, "--clips=4", "--clips-per-shard=4", f"--out={out}")
    assert done.returncode == 0, done.stderr
    with Image.open(out) as image:
        assert image.size == (4 * SIDE, 4 * (SIDE + TEXT_HEIGHT) + 6)


def test_program_says_on_the_sheet_that_no_clip_has_a_plan(world, tmp_path):
    place = plans_place(tmp_path / "plans")
    sizes = ("--frames=4", "--width=64", "--height=64", "--clips=1", "--clips-per-shard=1", "--shard=0000-of-1000000", "--workers=0")
    where = (f"--stage={place.stage}", f"--dataset={world / 'dataset'}", f"--pool={world / 'pool'}", "--split=eval")
    assert program("plan_clips.py", *where, *sizes, "--planned-visible-px=262144", "--max-attempts=1").returncode == 0
    done = program("draw_plans.py", *where, "--clips=1", "--clips-per-shard=1", f"--out={tmp_path / 'plans.png'}")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "plans.png") as image:
        assert image.size == (4 * SIDE, TEXT_HEIGHT)


def test_program_names_the_asset_of_a_plan_that_is_gone(world, tmp_path):
    dataset = tmp_path / "dataset"
    shutil.copytree(world / "dataset", dataset)
    sizes = ("--frames=4", "--width=64", "--height=64", "--clips=1", "--clips-per-shard=1", "--shard=0000-of-1000000", "--workers=0")
    where = (f"--stage={tmp_path / 'plans'}", f"--dataset={dataset}", f"--pool={world / 'pool'}", "--split=eval")
    assert program("plan_clips.py", *where, *sizes).returncode == 0
    gone = read_plan(tmp_path / "plans" / "eval" / "00000000.json")["objects"][0]["asset_id"]
    shutil.rmtree(dataset / "assets" / "eval" / gone)
    done = program("draw_plans.py", *where, "--clip=00000000", f"--out={tmp_path / 'plans.png'}")
    assert done.returncode == 2 and f"asset {gone}" in done.stderr and "[bad_plan]" in done.stderr and not (tmp_path / "plans.png").exists()
