"""What a clip's plan and settings make of Blender's scenes, and what the record says of what was read back."""

from __future__ import annotations

import numpy as np
import pytest

from sam3dvid.blender import clip as clips
from sam3dvid.blender import clip_passes
from sam3dvid.blender.clip import noise_seed
from sam3dvid.render.settings import RenderSettings
from tests.sam3dvid import render_cases as cases
from tests.sam3dvid.render_cases import render_here


def test_frames_and_clips_have_noise_of_their_own():
    assert len({noise_seed(seed, t) for seed in range(20) for t in range(32)}) == 640


@pytest.fixture(scope="module")
def set_up(tmp_path_factory):
    """What Cycles is set to in each frame of colours of the pair, and the light there."""
    found = []

    def note(self, scene, box):
        if scene.name == "colours":
            (sun,) = [one.data for one in scene.objects if one.type == "LIGHT"]
            sky = next(node for node in scene.world.node_tree.nodes if node.type == "BACKGROUND")
            cycles = scene.cycles
            bounces = [getattr(cycles, f"{kind}_bounces") for kind in ("max", "diffuse", "glossy", "transmission")]
            found.append({"seed": cycles.seed, "bounces": bounces, "light": (sun.energy, sun.angle, sky.inputs["Strength"].default_value)})
        return rendering(self, scene, box)

    light = {**cases.SUNNY, "sun_strength": 2.5, "ambient_strength": 0.75, "sun_angle_deg": 7.0}
    rendering = clip_passes.Film.render
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clip_passes.Film, "render", note)
        render_here(tmp_path_factory.mktemp("set_up"), settings=RenderSettings(samples=1, denoise=False, bounces=3), light=light)
    return found


def test_each_frame_has_the_noise_that_its_seed_and_number_give(set_up):
    assert [one["seed"] for one in set_up] == [noise_seed(7, t) for t in range(cases.FRAMES)]


def test_light_of_all_kinds_is_followed_as_often_as_the_settings_say(set_up):
    assert all(one["bounces"] == [3, 3, 3, 3] for one in set_up)


def test_sun_and_sky_are_as_strong_and_the_sun_as_wide_as_the_plan_says(set_up):
    assert set_up[0]["light"] == pytest.approx((2.5, np.radians(7.0), 0.75), rel=1e-6)


def test_the_record_says_how_far_the_camera_was_off_in_the_worst_frame(tmp_path, monkeypatch):
    off = {"frame 0": (1e-6, 2e-6), "frame 1": (4e-6, 3e-6), "frame 2": (2e-6, 5e-6), "frame 3": (0.0, 0.0)}
    monkeypatch.setattr(clips, "check_camera", lambda scene, K, T_cw, where: off[where])
    record, _, _ = render_here(tmp_path)
    assert (record["read_back"]["K_px"], record["read_back"]["T_cw"]) == (4e-6, 5e-6)
