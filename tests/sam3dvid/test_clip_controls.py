"""Control videos of clips: every frame's depth and mask as the format of controls says, and every pixel of it read back by another decoder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from sam3dvid.codes import AssetRefused
from sam3dvid.composite.composite_step import Stock, composite_items, composite_step
from sam3dvid.composite.origin import Origin
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.composite.validate_step import clip_items, validate_step
from sam3dvid.controls.controls_step import control_items
from sam3dvid.controls.pictures import depth_picture, depth_range, mask_picture
from sam3dvid.controls.settings import ControlSettings
from sam3dvid.stage import CLIP_STEPS, clip_controls_place, clip_of, clips_place
from shardwork.errors import Fault
from shardwork.place import the_manifest
from shardwork.run import Options, run_shard
from tests.sam3dvid.renders import LIMITED, SHARD, SPLIT, Renders

ROOT = Path(__file__).resolve().parents[2]
CLIPS = [f"{index:08d}" for index in range(3)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Three clips, of which the last has no plan, with their control videos."""
    world = Renders(tmp_path_factory.mktemp("w"), settings=LIMITED)
    planned = world.plan(CLIPS)
    rendered = world.render()
    clips = replace(clips_place(world.folder / "run" / "clips", world.dataset), before=world.renders)
    step = composite_step(CompositeSettings(), Stock(world.plans, world.pool, Origin("0.1.0", "0" * 40)))
    made = run_shard(step, SHARD, composite_items(rendered, planned, SPLIT, world.renders, clips), clips, Options(workers=0))
    run_shard(validate_step(world.dataset, any_size=True), SHARD, clip_items(made, clips, SPLIT), clips, Options(workers=0))
    done = program(world)
    assert done.returncode == 0, done.stderr
    return world


def program(world, *flags):
    where = [f"--clips={world.folder / 'run' / 'clips'}", f"--dataset={world.dataset}", f"--stage={stage(world)}"]
    line = [sys.executable, str(ROOT / "scripts" / "render_clip_controls.py"), *where, f"--split={SPLIT}", f"--shard={SHARD}", *flags]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def stage(world):
    return world.folder / "run" / "controls" / "clips"


def by_opencv(path):
    capture, frames = cv2.VideoCapture(str(path)), list[np.ndarray]()
    while (read := capture.read())[0]:
        frames.append(read[1][..., ::-1])
    return np.stack(frames), capture.get(cv2.CAP_PROP_FPS)


def depths_of(world, clip_id):
    return np.stack([np.load(clip_of(world.dataset, clip_id, SPLIT) / f"depth/{t:03d}.npz")["depth"] for t in range(4)]).astype(np.float64)


def sidecar(world, clip_id):
    return json.loads((stage(world) / "sidecars" / SPLIT / f"{clip_id}.json").read_text())


@pytest.mark.parametrize("clip_id", CLIPS[:2])
def test_a_depth_video_holds_inverse_depth_from_1_at_far_to_255_at_near_of_the_clip_and_0_behind(world, clip_id):
    depth = depths_of(world, clip_id)
    near, far = np.nanmin(depth), np.nanmax(depth)
    expected = np.nan_to_num(1 + 254 * (1 / depth - 1 / far) / (1 / near - 1 / far), nan=0.0)
    found, _ = by_opencv(stage(world) / SPLIT / f"{clip_id}.depth.mkv")
    assert np.abs(found - expected[..., None]).max() <= 0.5
    assert found[depth == near].tolist() == [[255] * 3] and found[depth == far].tolist() == [[1] * 3]
    assert not found[np.isnan(depth)].any()


def test_depth_is_told_back_from_its_gray_by_the_near_and_far_of_the_sidecar(world):
    depth, record = depths_of(world, CLIPS[0]), sidecar(world, CLIPS[0])["record"]
    gray = by_opencv(stage(world) / SPLIT / f"{CLIPS[0]}.depth.mkv")[0][..., 0].astype(float)
    there = ~np.isnan(depth)
    inverse = 1 / record["far"] + (gray[there] - 1) / 254 * (1 / record["near"] - 1 / record["far"])
    assert np.abs(inverse - 1 / depth[there]).max() <= (1 / record["near"] - 1 / record["far"]) / 254 / 2 * (1 + 1e-9)


@pytest.mark.parametrize("clip_id", CLIPS[:2])
def test_a_mask_video_shows_each_object_in_its_colour_over_black(world, clip_id):
    colours = [(0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (204, 121, 167)]
    found, _ = by_opencv(stage(world) / SPLIT / f"{clip_id}.mask.mkv")
    for t, shown in enumerate(found):
        with Image.open(clip_of(world.dataset, clip_id, SPLIT) / f"mask_visible/{t:03d}.png") as image:
            mask = np.asarray(image)
        for number in np.unique(mask):
            assert (shown[mask == number] == colours[number]).all()


def test_control_videos_have_a_frame_for_each_of_rgb_at_the_stated_rate(world):
    for kind in ("depth", "mask"):
        frames, fps = by_opencv(stage(world) / SPLIT / f"{CLIPS[0]}.{kind}.mkv")
        assert (frames.shape, fps) == ((4, 64, 64, 3), 16.0)


def test_a_clip_without_a_plan_has_no_control_and_names_the_step_that_gave_it_up(world):
    rows = {row["id"]: row for row in the_manifest(controls_place_of(world), "render_clip_controls", SHARD)}
    assert rows[CLIPS[2]] == {"id": CLIPS[2], "status": "upstream", "code": "plan_exhausted", "step": "plan_clips"}
    names = {path.relative_to(stage(world)).as_posix() for path in stage(world).rglob("*") if path.suffix in (".mkv", ".json")}
    assert {name for name in names if name.endswith(".mkv")} == {f"eval/{clip_id}.{kind}.mkv" for clip_id in CLIPS[:2] for kind in ("depth", "mask")}


def controls_place_of(world):
    return clip_controls_place(stage(world), clips_place(world.folder / "run" / "clips", world.dataset))


def test_a_second_run_keeps_every_video_and_another_rate_makes_them_again(world):
    assert "2 kept" in program(world).stderr
    assert "2 ok (2 made)" in program(world, "--fps=8").stderr
    assert by_opencv(stage(world) / SPLIT / f"{CLIPS[0]}.mask.mkv")[1] == 8.0
    assert "2 ok (2 made)" in program(world).stderr


def test_a_mask_with_more_objects_than_colours_is_no_picture():
    with pytest.raises(IndexError):
        mask_picture(np.array([[5]], np.uint8))


def test_near_and_far_are_of_all_frames_and_pass_over_those_that_show_nothing():
    nothing = np.full((2, 2), np.nan, np.float32)
    one, other = nothing.copy(), nothing.copy()
    one[0, 0], other[1, 1] = 4.0, 2.5
    assert depth_range([nothing, one, other]) == (2.5, 4.0)


def test_a_clip_that_shows_nothing_has_no_near_and_far():
    with pytest.raises(ValueError, match="no frame"):
        depth_range([np.full((2, 2), np.nan, np.float32)])


def test_a_clip_of_one_depth_is_white():
    assert depth_picture(np.array([[3.0, np.nan]], np.float32), 3.0, 3.0).tolist() == [[[255] * 3, [0] * 3]]


@pytest.mark.parametrize("fps", [0, 1001, 16.0])
def test_a_rate_that_no_clip_has_is_refused(fps):
    with pytest.raises(AssetRefused, match="bad_asset_setting"):
        ControlSettings(fps=fps)


def test_manifests_of_different_clips_are_a_fault(world):
    rows = the_manifest(clips_place(world.folder / "run" / "clips", world.dataset), CLIP_STEPS[0], SHARD)
    place = controls_place_of(world)
    with pytest.raises(Fault, match="manifest_mismatch"):
        control_items(rows, rows[:1], SPLIT, place, place)
