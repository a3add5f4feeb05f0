"""What encoding costs, counted without a value."""

from __future__ import annotations

import pytest

from vidlatents import cost
from vidlatents.cost import HEAP_BYTES, SectionCost, _scaled, bucket_cost, cost_of, section_cost
from vidlatents.tiling import Tiling

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


def test_an_untiled_section_of_wan21_takes_about_17_gib(wan21):
    assert (wan21.peak_bytes + wan21.weight_bytes) / 2**30 == pytest.approx(17, rel=0.1)


def test_a_tile_of_wan21_takes_no_more_than_the_22_kib_a_pixel_that_tiles_are_cut_for():
    assert 17 < section_cost(WAN21, 9, 256, 256).peak_bytes / (256 * 256) / 1024 < 22


def test_wan21_weighs_127_million_numbers(wan21):
    assert wan21.weight_bytes / 4 == pytest.approx(127e6, rel=0.01)


def test_a_section_of_wan22_takes_108_tflop():
    assert round(section_cost(WAN22, 33, 480, 1920).flops / 1e12) == 108


def test_half_precision_takes_half_the_memory_and_the_same_operations():
    full, half = (section_cost(WAN21, 5, 256, 256, dtype) for dtype in ("float32", "bfloat16"))
    assert half.flops == full.flops and half.peak_bytes - HEAP_BYTES == pytest.approx((full.peak_bytes - HEAP_BYTES) / 2, rel=0.02)


def row(frames=33, sections=1, **more):
    return {"used": frames, "num_frame": frames, "sections": sections, "height": 64, "width": 64, **more}


def test_a_plans_cost_counts_both_videos_of_every_section():
    one = section_cost(TINY, 5, 64, 64).flops
    assert cost_of([row(15, 3), row(5)], TINY)["tera_flops"] == round(8 * one / 1e12, 3)


def test_a_whole_clip_is_one_section_of_all_its_frames():
    assert list(cost_of([row(29)], TINY)["buckets"]) == ["29x64x64"]


def test_the_frames_of_the_longest_pair_are_held_beside_the_model():
    one = section_cost(TINY, 5, 64, 64)
    rows = [row(5), row(5, num_frame=500 * 33), row(5)]
    assert cost_of(rows, TINY)["peak_gib"] == round((one.peak_bytes + one.weight_bytes + 500 * 33 * 64 * 64 * 3 * 2) / 2**30, 3)


def test_tiles_take_the_operations_of_all_and_the_memory_of_one():
    whole, tiled = section_cost(TINY, 5, 64, 128), bucket_cost(TINY, 5, 64, 128, tiling=Tiling(64, 72, 16))
    assert tiled.flops == 2 * section_cost(TINY, 5, 64, 72).flops > whole.flops
    assert tiled.peak_bytes == section_cost(TINY, 5, 64, 72).peak_bytes < whole.peak_bytes


def test_of_unequal_tiles_the_memory_is_that_of_the_largest():
    tiled = bucket_cost(TINY, 5, 64, 120, tiling=Tiling(64, 72, 16))
    assert tiled.peak_bytes == section_cost(TINY, 5, 64, 72).peak_bytes > section_cost(TINY, 5, 64, 64).peak_bytes


def test_a_plans_cost_is_counted_with_the_tiles_of_each_bucket(monkeypatch):
    asked = []

    def noted(config, frames, height, width, dtype, tiling):
        asked.append((frames, height, width, tiling))
        return SectionCost(1, 1, 1)

    monkeypatch.setattr(cost, "bucket_cost", noted)
    cost_of([row(33, height=64, width=96)], TINY, tiling_of=lambda height, width: Tiling(height, width // 2, 8))
    assert asked == [(33, 64, 96, Tiling(64, 48, 8))]


def test_a_size_that_is_not_counted_is_scaled_from_one_of_its_frames():
    counted = {(33, 64, 64): SectionCost(400, 7, 1), (5, 32, 32): SectionCost(9, 9, 1)}
    assert _scaled(counted, (33, 32, 32)) == SectionCost(100, 7, 1)


def test_a_small_convolution_is_counted_with_the_columns_that_it_is_unfolded_to():
    # 8 channels of 6 frames of 66 rows are below the bound: 8 x 27 numbers for each value of 4 x 64 x 64
    assert section_cost(TINY, 9, 64, 64).peak_bytes - HEAP_BYTES > 8 * 27 * 4 * 64 * 64 * 4
