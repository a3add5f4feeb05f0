"""One clip's plan: what is in it, what rejects an attempt, and that nothing but the seed decides."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest

from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.conventions import FRAMES, pose_in_camera
from sam3dvid.plan import planner
from sam3dvid.plan.catalogue import read_assets
from sam3dvid.plan.draw import draw_arc, draw_poses, fixed_draws
from sam3dvid.plan.plan_step import stock_of
from sam3dvid.plan.planner import PlanExhausted, find_hidden, plan_clip
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.stage import seed_of
from shardwork.errors import DataError
from shardwork.jsonio import dumps
from tests.sam3dvid.processor import plain_processor
from tests.sam3dvid.stock import SMALL, pool_row, write_asset, write_assets, write_pool

CLIPS = [f"{index:08d}" for index in range(40)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planner")
    write_assets(folder / "dataset")
    write_pool(folder / "pool", [pool_row("wide", 512, 256), pool_row("low", 640, 200), pool_row("square", 256, 256)])
    return folder


def stock_in(world):
    return stock_of("eval", read_assets(world / "dataset", "eval"), read_pool(world / "pool"), world / "dataset")


@pytest.fixture(scope="module")
def plans(world):
    stock = stock_in(world)
    return [plan_clip(clip_id, stock, SMALL) for clip_id in CLIPS]


def matrices(plan):
    return np.array([frame["T_cw"] for frame in plan["cameras"]["frames"]])


def test_a_plan_has_every_key_that_later_steps_need(plans):
    keys = {"attempt", "arc_retries", "background", "cameras", "clip_id", "light", "num_objects", "objects", "position_tries", "reference_T_cw"}
    assert plans[0].keys() == keys | {"meshes", "rejections", "scene_radius", "seed", "split", "trajectory", "visibility"}
    assert plans[0]["objects"][0].keys() == {"k", "asset_id", "source", "mesh", "voxels", "R_wo", "t_wo", "s_wo"}
    assert plans[0]["light"].keys() == {"sun_direction", "sun_strength", "ambient_strength", "sun_angle_deg"}
    assert plans[0]["background"].keys() == {"image_id", "width", "height", "virtual_hfov_deg", "K_bg", "provenance"}
    names = {"arc_span_deg", "arc_direction", "start_azimuth_deg", "start_elevation_deg", "elevation_drift_deg", "orbit_radius", "scene_center", "hfov_deg"}
    assert plans[0]["trajectory"].keys() == names


PLANS = """
import hashlib, sys
from pathlib import Path
from shardwork.jsonio import dumps
from tests.sam3dvid.test_plan_planner import CLIPS, SMALL, plan_clip, stock_in
stock = stock_in(Path(sys.argv[1]))
print(*[hashlib.sha256(dumps(plan_clip(clip_id, stock, SMALL)).encode()).hexdigest() for clip_id in reversed(CLIPS)])
"""


def test_plans_are_the_same_bytes_in_another_order_on_a_processor_without_wide_or_fused_instructions(world, plans):
    command = [sys.executable, "-W", "ignore", "-c", PLANS, str(world)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain_processor())
    assert done.stdout.split() == [hashlib.sha256(dumps(plan).encode()).hexdigest() for plan in reversed(plans)]


def test_a_clip_whose_seed_another_split_may_have_is_refused():
    assert seed_of("00999999", "eval") == 999_999
    with pytest.raises(DataError, match="bad_argument"):
        seed_of("01000000", "eval")


def test_seed_of_an_eval_clip_is_its_number_and_of_a_train_clip_a_million_more(world, plans):
    assert [plan["seed"] for plan in plans[:3]] == [0, 1, 2]
    train = dataclasses.replace(stock_in(world), split="train")
    assert plan_clip("00000003", train, SMALL)["seed"] == 1_000_003


def test_objects_are_numbered_from_1_and_name_their_files_in_the_dataset(world, plans):
    for plan in plans:
        assert [one["k"] for one in plan["objects"]] == list(range(1, plan["num_objects"] + 1))
        assert all((world / "dataset" / one["mesh"]).is_file() for one in plan["objects"])
        assert all(one["voxels"] == f"assets/eval/{one['asset_id']}/voxels.npy" for one in plan["objects"])


def test_spheres_around_the_objects_are_disjoint(plans):
    for plan in plans:
        spheres = [(one["t_wo"], one["s_wo"][0] * math.sqrt(3) / 2) for one in plan["objects"]]
        assert all(math.dist(a, b) > ra + rb for i, (a, ra) in enumerate(spheres) for b, rb in spheres[:i])


def test_every_object_is_seen_in_every_frame_with_the_margin(plans):
    assert SMALL.planned_px == 8  # 528 / 64
    for plan in plans:
        seen = plan["visibility"]
        shape = (SMALL.frames, plan["num_objects"])
        assert all(np.shape(values) == shape for values in seen.values())
        assert np.min(seen["visible_px"]) >= 8 and np.min(seen["visible_frac"]) >= 0.102
        assert (np.array(seen["visible_px"]) <= np.array(seen["amodal_px"])).all()


def test_every_corner_of_every_frame_lies_on_the_background(plans):
    for plan in plans:
        K, back = np.array(plan["cameras"]["K"]), plan["background"]
        rays = np.linalg.inv(K) @ np.array([[0, 63, 0, 63], [0, 0, 63, 63], [1, 1, 1, 1]])
        for T_cw in matrices(plan):
            x, y, z = np.array(back["K_bg"]) @ np.array(plan["reference_T_cw"])[:3, :3] @ T_cw[:3, :3].T @ rays
            assert z.min() > 0
            assert (x / z).min() >= 0 and (x / z).max() <= back["width"] - 1
            assert (y / z).min() >= 0 and (y / z).max() <= back["height"] - 1


def test_geometry_lies_within_the_radius_that_the_cameras_keep(plans):
    for plan in plans:
        factor = plan["trajectory"]["orbit_radius"] * math.tan(math.radians(25)) / plan["scene_radius"]
        assert 1.0 <= factor < 1.4
        assert plan["trajectory"]["scene_center"] == pytest.approx(np.mean([one["t_wo"] for one in plan["objects"]], axis=0))


def test_cameras_see_the_centre_in_the_middle_of_the_frame(plans):
    for plan in plans:
        _, t_co, _ = pose_in_camera(matrices(plan), np.eye(3), np.array(plan["trajectory"]["scene_center"]), np.ones(3))
        assert np.abs(t_co[:, :2]).max() < 1e-12 and np.allclose(t_co[:, 2], plan["trajectory"]["orbit_radius"])


def test_a_plan_keeps_the_poses_of_its_attempt_whatever_became_of_the_camera(plans):
    again = [plan for plan in plans if plan["arc_retries"]]
    assert again, "the low picture lets some arcs be drawn again"
    for plan in again:
        poses = draw_poses(plan["seed"], plan["attempt"], plan["num_objects"], 1000)
        assert poses is not None
        assert [one["t_wo"] for one in plan["objects"]] == list(poses.positions)
        assert [one["s_wo"] for one in plan["objects"]] == [[scale] * 3 for scale in poses.scales]


def test_assets_background_and_light_do_not_change_with_attempts(plans):
    later = [plan for plan in plans if plan["attempt"] > 0]
    assert later
    for plan in plans:
        fixed = fixed_draws(plan["seed"], 5, 3, PlanSettings())
        assert [one["asset_id"] for one in plan["objects"]] == [f"box_{index}" for index in fixed.assets]
        assert plan["background"]["image_id"] == ["low", "square", "wide"][fixed.background]
        assert plan["light"]["sun_strength"] == fixed.light.sun_strength


def test_rejections_name_every_attempt_before_the_one_that_passed(plans):
    assert all([one["attempt"] for one in plan["rejections"]] == list(range(plan["attempt"])) for plan in plans)
    assert {one["reason"] for plan in plans for one in plan["rejections"]} == {"visibility"}


def test_a_rejection_names_the_object_and_frame_that_show_least(world, plans, monkeypatch):
    attempts, see = [], planner.see

    def look(*arguments):
        attempts.append(see(*arguments))
        return attempts[-1]

    monkeypatch.setattr(planner, "see", look)
    choices = 0
    for plan in (plan for plan in plans if plan["rejections"]):
        attempts.clear()
        plan_clip(plan["clip_id"], stock_in(world), SMALL)
        for told, seen in zip(plan["rejections"], attempts[:-1], strict=True):
            counts, parts = np.array(seen["visible_px"]), np.array(seen["visible_frac"])
            hidden = (counts < 8) | (parts < 0.102)
            t, k = np.argwhere(hidden & (counts == counts[hidden].min()))[0]
            assert (told["t"], told["k"], told["visible_px"], told["visible_frac"]) == (t, k + 1, counts[t, k], parts[t, k])
            choices += len(set(counts[hidden].tolist())) > 1
    assert choices > 0, "some attempt hides objects by different counts"


def test_of_several_hidden_objects_the_one_that_shows_least_is_named_and_of_equals_the_first():
    seen = {
        "visible_px": [[9000, 500], [400, 9000], [9000, 400]],
        "amodal_px": [[9000, 600], [800, 9000], [9000, 900]],
        "visible_frac": [[1.0, 0.8], [0.5, 1.0], [1.0, 0.4]],
    }
    assert find_hidden(seen, PlanSettings()) == {"reason": "visibility", "t": 1, "k": 1, "visible_px": 400, "amodal_px": 800, "visible_frac": 0.5}


def test_a_frame_that_shows_one_pixel_too_few_is_hidden():
    settings = PlanSettings()

    def seen(px, frac):
        return {"visible_px": [[9000, px]], "amodal_px": [[9000, 60000]], "visible_frac": [[1.0, frac]]}

    assert find_hidden(seen(528, 0.102), settings) is None
    assert find_hidden(seen(527, 0.102), settings) == {"reason": "visibility", "t": 0, "k": 2, "visible_px": 527, "amodal_px": 60000, "visible_frac": 0.102}
    assert find_hidden(seen(528, 0.1019), settings) is not None
    assert find_hidden(seen(0, 0.0), settings) is not None


def test_same_seed_gives_the_same_bytes_alone_and_in_another_order(world, plans):
    stock = stock_in(world)
    for index in (39, 7, 20):
        assert dumps(plan_clip(CLIPS[index], stock, SMALL)) == dumps(plans[index])
        assert dumps(plan_clip(CLIPS[index], stock_in(world), SMALL)) == dumps(plans[index])


def test_order_of_the_folder_on_the_disk_does_not_matter(world, plans, tmp_path):
    for index in reversed(range(5)):
        rng = np.random.default_rng(index)
        write_asset(tmp_path / "dataset", f"box_{index}", rng.uniform(0.5, 1.0, 3))
    other = stock_of("eval", read_assets(tmp_path / "dataset", "eval"), read_pool(world / "pool"), tmp_path / "dataset")
    assert dumps(plan_clip(CLIPS[3], other, SMALL)) == dumps(plans[3])


def test_positions_that_never_fit_end_in_a_verdict_that_says_so(world):
    crowded = [seed for seed in range(100) if fixed_draws(seed, 5, 3, PlanSettings()).num_objects == 4]
    seed = next(seed for seed in crowded if all(draw_poses(seed, attempt, 4, 1) is None for attempt in range(3)))
    with pytest.raises(PlanExhausted) as error:
        plan_clip(f"{seed:08d}", stock_in(world), dataclasses.replace(SMALL, max_attempts=3, max_position_tries=1))
    assert error.value.code == "plan_exhausted"
    assert error.value.facts() == {"num_objects": 4, "rejected_by": {"overlap": 3}}
    assert "3 attempts with 4 objects" in str(error.value) and "1 draws of the positions overlap" in str(error.value)


def test_a_background_that_is_a_strip_ends_in_a_verdict_that_says_so(world, tmp_path):
    write_pool(tmp_path, [pool_row("strip", 2000, 100)])
    stock = dataclasses.replace(stock_in(world), backgrounds=read_pool(tmp_path).eval)
    with pytest.raises(PlanExhausted) as error:
        plan_clip("00000000", stock, dataclasses.replace(SMALL, max_attempts=2, max_arc_retries=5))
    assert error.value.facts()["rejected_by"] == {"cover": 2}
    assert "uncovered on 6 arcs" in str(error.value)


def test_an_attempt_draws_one_arc_and_then_as_many_again_as_are_allowed(world, tmp_path, monkeypatch):
    drawn = []

    def draw(seed, attempt, retry):
        drawn.append((attempt, retry))
        return draw_arc(seed, attempt, retry)

    monkeypatch.setattr(planner, "draw_arc", draw)
    write_pool(tmp_path, [pool_row("strip", 2000, 100)])
    stock = dataclasses.replace(stock_in(world), backgrounds=read_pool(tmp_path).eval)
    with pytest.raises(PlanExhausted):
        plan_clip("00000000", stock, dataclasses.replace(SMALL, max_attempts=2, max_arc_retries=3))
    assert drawn == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_an_asset_too_thin_to_be_seen_ends_in_a_verdict_that_says_so(world, tmp_path):
    for index in range(4):
        write_asset(tmp_path, f"needle_{index}", (1, 0.001, 0.001))
    stock = stock_of("eval", read_assets(tmp_path, "eval"), read_pool(world / "pool"), tmp_path)
    with pytest.raises(PlanExhausted) as error:
        plan_clip("00000003", stock, dataclasses.replace(SMALL, max_attempts=2))
    assert error.value.facts()["rejected_by"] == {"visibility": 2}
    assert "object 1 shows" in str(error.value)


def test_first_and_last_frame_do_not_depend_on_how_many_there_are(world, plans):
    """The random streams know nothing of the frames: what tests plan with few is what a release plans with all."""
    whole = plan_clip(CLIPS[3], stock_in(world), dataclasses.replace(SMALL, frames=FRAMES))
    assert plans[3]["attempt"] == whole["attempt"] == 0
    assert np.array_equal(matrices(plans[3])[[0, -1]], matrices(whole)[[0, -1]])
