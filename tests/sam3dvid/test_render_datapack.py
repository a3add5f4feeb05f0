"""A real scan with its texture, from its source to rendered frames: against the ray caster, and in its colours."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sam3dvid.assets.mesh import read_canonical
from sam3dvid.conventions import pose_in_camera
from sam3dvid.raycast import Caster, frame_truth
from tests.sam3dvid import render_cases as cases
from tests.sam3dvid.test_render_clip import depth_of, mismatch, picture

SCAN = "objects/gso_libero/chefmate_8_frypan"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """The frying pan, rendered once."""
    root = os.environ.get("REELMILL_DATAPACK")
    if not root:
        pytest.skip("REELMILL_DATAPACK is not set: no real scans")
    folder = tmp_path_factory.mktemp("scan")
    cases.render_apart(folder, 2, f"scan={Path(root) / SCAN}")
    return folder


def test_a_scans_silhouette_and_depth_are_the_ray_casters(rendered):
    plan = cases.scan()
    caster, size = Caster(*read_canonical(rendered / "scan.glb")), plan["cameras"]["width"]
    (one,) = plan["objects"]
    for t, frame in enumerate(plan["cameras"]["frames"]):
        R_co, t_co, _ = pose_in_camera(frame["T_cw"], one["R_wo"], one["t_wo"], one["s_wo"])
        truth = frame_truth([caster], R_co[None], t_co[None], np.ones(1), plan["cameras"]["K"], size, size)
        mask = picture(rendered / "scan", f"mask_amodal/obj1/{t:03d}.png") > 0
        both = mask & truth.amodal[0]
        assert mismatch(mask, truth.amodal[0]) <= 0.05
        # a release's bound, at pixels 4 times as wide
        assert np.median(np.abs(depth_of(rendered / "scan", t) - truth.depth)[both]) <= 4 * 5e-5


def test_a_scan_has_its_textures_colours(rendered):
    rgba = picture(rendered / "scan", "rgba_fg/000.png")
    # in even white light a surface shows about its own colour: the pan is black, and without its texture it would be 231
    assert 10 < rgba[rgba[..., 3] == 255][:, :3].mean() < 110
