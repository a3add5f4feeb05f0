"""What encoding costs, counted without a value."""

from __future__ import annotations

import pytest

from vidlatents.cost import cost_of, section_cost

WAN21 = {"base_dim": 96, "z_dim": 16, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2, "temperal_downsample": [False, True, True]}
WAN22 = {
    "base_dim": 160,
    "decoder_base_dim": 256,
    "z_dim": 48,
    "dim_mult": [1, 2, 4, 4],
    "num_res_blocks": 2,
    "is_residual": True,
    "patch_size": 2,
    "in_channels": 12,
    "out_channels": 12,
    "scale_factor_spatial": 16,
    "scale_factor_temporal": 4,
    "temperal_downsample": [False, True, True],
    "latents_mean": [0.0] * 48,
    "latents_std": [1.0] * 48,
}
TINY = {"base_dim": 8, "z_dim": 16, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1, "temperal_downsample": [False, True, True]}


@pytest.fixture(scope="module")
def wan21():
    return section_cost(WAN21, 33, 480, 1920)


def test_a_section_of_wan21_takes_157_tflop(wan21):
    assert round(wan21.flops / 1e12) == 157


def test_a_section_of_wan21_takes_about_22_kib_a_pixel(wan21):
    assert wan21.peak_bytes / (480 * 1920) / 1024 == pytest.approx(22, rel=0.1)


def test_a_section_of_wan22_takes_108_tflop():
    assert round(section_cost(WAN22, 33, 480, 1920).flops / 1e12) == 108


def test_half_precision_takes_half_the_memory_and_the_same_operations():
    full, half = (section_cost(TINY, 33, 64, 64, dtype) for dtype in ("float32", "bfloat16"))
    assert half.flops == full.flops and half.peak_bytes == pytest.approx(full.peak_bytes / 2, rel=0.02)


def test_a_plans_cost_counts_both_videos_of_every_section():
    rows = [{"used": 99, "sections": 3, "height": 64, "width": 64}, {"used": 33, "sections": 1, "height": 64, "width": 64}]
    one = section_cost(TINY, 33, 64, 64).flops
    assert cost_of(rows, TINY)["tera_flops"] == round(8 * one / 1e12, 3)


def test_a_whole_clip_is_one_section_of_all_its_frames():
    rows = [{"used": 29, "sections": 1, "height": 64, "width": 64}]
    assert list(cost_of(rows, TINY)["buckets"]) == ["29x64x64"]
