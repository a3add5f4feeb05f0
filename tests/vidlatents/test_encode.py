from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import KINDS, frames, of, vae
from vidlatents.encode import (
    EncodeSettings,
    encode,
    encode_pair,
    pixels,
    seeds,
    windows,
)
from vidlatents.models import MODELS
from vidlatents.settings import EncodeFlags
from vidlatents.tiling import LEAST_BUDGET_BYTES, TILE_BYTES_PER_PIXEL, Tiling, spans, tiled_pixels, tiling_for

CPU = torch.device("cpu")


def refused(code, run):
    with pytest.raises(DataError) as caught:
        run()
    assert caught.value.code == code
    return caught.value


class Averaging:
    """An autoencoder whose latent is the mean of its input over each block: z channels repeat red, green, blue."""

    def __init__(self, log_variance=0.0):
        self.log_variance, self.batches, self.cleared = log_variance, [], 0

    def encode(self, batch):
        self.batches.append(batch)
        first, rest = batch[:, :, :1], batch[:, :, 1:]
        times = torch.cat([first, rest.reshape(*rest.shape[:2], -1, 4, *rest.shape[3:]).mean(3)], 2) if rest.shape[2] else first
        blocks = times.reshape(*times.shape[:3], times.shape[3] // 8, 8, times.shape[4] // 8, 8).mean((4, 6))
        mean = blocks[:, [index % 3 for index in range(16)]]
        return SimpleNamespace(latent_dist=SimpleNamespace(parameters=torch.cat([mean, torch.full_like(mean, self.log_variance)], 1)))

    def clear_cache(self):
        self.cleared += 1


def averaging(**options):
    plain = torch.zeros(16, 1, 1, 1)
    return replace(vae("wan21"), model=Averaging(**options), mean=plain, std=plain + 1)


def plain_video(colour, count=33):
    return np.full((count, 16, 24, 3), colour, np.uint8)


@pytest.mark.parametrize(("grey", "value"), [(0, -1.0), (255, 1.0), (51, -0.6)])
def test_a_grey_code_becomes_its_value_between_minus_1_and_1(grey, value):
    latent = encode(averaging(), plain_video(grey), "sections", "mode", of())
    torch.testing.assert_close(latent, torch.full((1, 16, 9, 2, 3), value), rtol=0, atol=1e-6)


def test_black_and_white_are_exactly_minus_1_and_plus_1():
    assert {float(value) for value in pixels(np.array([[[[0, 255, 255]]]], np.uint8), CPU, torch.float32).flatten()} == {-1.0, 1.0}


def test_red_comes_first():
    latent = encode(averaging(), plain_video((255, 0, 0)), "sections", "mode", of())
    assert (latent[:, 0::3] == 1).all() and (latent[:, 1::3] == -1).all()


def test_time_height_and_width_keep_their_places():
    video = plain_video(0, 37)
    video[5:9, 8:, 16:] = 255  # the third latent frame, the lower right block
    latent = encode(averaging(), video, "whole", "mode", of())
    assert latent.shape == (16, 10, 2, 3)
    assert torch.nonzero(latent[0] > 0).tolist() == [[2, 1, 2]]


def test_the_model_sees_one_window_at_a_time_and_no_pixel_twice():
    model = averaging()
    encode(model, frames(70, 16, 24), "sections", "mode", of())
    assert [tuple(batch.shape) for batch in model.model.batches] == [(1, 3, 33, 16, 24)] * 2


def test_mean_and_deviation_of_the_model_are_taken_out():
    model = replace(averaging(), mean=torch.full((16, 1, 1, 1), 0.5), std=torch.full((16, 1, 1, 1), 4.0))
    assert float(encode(model, plain_video(255), "sections", "mode", of())[0, 0, 0, 0, 0]) == 0.125


def test_a_sample_has_the_deviation_that_the_model_says():
    model = averaging(log_variance=float(np.log(0.25)))
    latent = encode(model, np.full((33, 64, 64, 3), 255, np.uint8), "sections", "sample", of())
    assert float((latent - 1).std()) == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize(("frames_", "expected"), [(33, [(0, 33)]), (65, [(0, 33)]), (66, [(0, 33), (33, 66)]), (121, [(0, 33), (33, 66), (66, 99)])])
def test_sections_are_windows_of_33_and_the_tail_is_dropped(frames_, expected):
    assert windows("sections", frames_) == expected


def test_frames_after_the_last_window_change_nothing():
    video = frames(40)
    other = video.copy()
    other[33:] = 0
    assert torch.equal(*(encode(vae("wan21"), one, "sections", "mode", of()) for one in (video, other)))


@pytest.mark.parametrize(
    ("code", "kind", "layout", "size"),
    [
        ("E_WINDOW", "wan21", "sections", (32, 32, 32)),
        ("E_FRAMES_4N1", "wan21", "whole", (50, 32, 32)),
        ("E_FRAMES_4N1", "wan21", "whole", (16, 32, 32)),
        ("E_MULTIPLE", "wan21", "whole", (49, 60, 64)),
        ("E_MULTIPLE", "wan22-5b", "sections", (49, 64, 40)),
    ],
)
def test_a_bucket_that_a_model_cannot_take_is_refused(code, kind, layout, size):
    count, height, width = size
    refused(code, lambda: encode(vae(kind), frames(count, height, width), layout, "mode", of()))


@pytest.mark.parametrize("count", [1, 5, 49, 121, 129])
def test_whole_takes_every_4n_plus_1(count):
    assert encode(averaging(), plain_video(9, count), "whole", "mode", of()).shape == (16, 1 + (count - 1) // 4, 2, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_latent_does_not_depend_on_what_was_encoded_before(kind):
    alone = encode(vae(kind), frames(), "sections", "sample", of())
    encode(vae(kind), frames(seed=9), "sections", "sample", of(0, "b"))
    assert torch.equal(encode(vae(kind), frames(), "sections", "sample", of()), alone)


def test_the_process_s_own_random_stream_plays_no_part():
    found = []
    for start in (1, 2):
        torch.manual_seed(start)
        found.append(encode(averaging(), plain_video(9), "sections", "sample", of()))
    assert torch.equal(*found)


@pytest.mark.parametrize("other", [seeds(1, "a"), seeds(0, "b")])
def test_seed_and_uttid_change_the_noise(other):
    assert other("rgb", 0) != seeds(0, "a")("rgb", 0)


def test_streams_and_sections_have_noise_of_their_own():
    assert len({seeds(0, "a")(name, section) for name in ("rgb", "control") for section in range(3)}) == 6


def test_a_pair_of_one_video_twice_has_two_draws():
    pair = encode_pair(averaging(), plain_video(9), plain_video(9), EncodeSettings(), of())
    assert not torch.equal(pair.video, pair.control)


def test_each_video_of_a_pair_is_drawn_with_the_stream_of_its_name():
    pair = encode_pair(averaging(), plain_video(9), plain_video(9), EncodeSettings(), of())
    for latent, name in ((pair.video, "rgb"), (pair.control, "control")):
        noise = torch.randn((16, 9, 2, 3), generator=torch.Generator().manual_seed(seeds(0, "a")(name, 0)))
        torch.testing.assert_close(latent[0], 9 / 127.5 - 1 + noise, rtol=0, atol=1e-6)


def test_two_sections_of_one_still_picture_have_two_draws():
    latent = encode(averaging(), plain_video(9, 66), "sections", "sample", of())
    assert not torch.equal(latent[0], latent[1])


def test_a_pair_of_two_sizes_is_not_encoded():
    with pytest.raises(ValueError, match="control"):
        encode_pair(averaging(), plain_video(9), plain_video(9, 34), EncodeSettings(), of())


def test_swapping_rgb_and_control_swaps_their_modes():
    settings_ = EncodeSettings(how="mode")
    one, two = (encode_pair(averaging(), a, b, settings_, of()) for a, b in ((plain_video(0), plain_video(255)), (plain_video(255), plain_video(0))))
    assert torch.equal(one.video, two.control) and not torch.equal(one.video, two.video)


def test_a_variance_that_is_absurd_but_a_number_is_held_down_as_the_library_does():
    latent = encode(averaging(log_variance=300.0), plain_video(9), "sections", "sample", of())
    assert float(latent.std()) == pytest.approx(np.exp(10), rel=0.2)


@pytest.mark.parametrize("how", ["sample", "mode"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_that_returns_no_number_refuses_the_sample(value, how):
    error = refused("E_NONFINITE", lambda: encode(averaging(log_variance=value), plain_video(9), "sections", how, of(), where="u1"))
    assert error.where == "u1"


class Hungry(Averaging):
    """An autoencoder without memory for more than `pixels` of a tile."""

    def __init__(self, pixels, error):
        super().__init__()
        self.pixels, self.error = pixels, error

    def encode(self, batch):
        if batch.shape[3] * batch.shape[4] > self.pixels:
            raise self.error
        return super().encode(batch)


OUT_OF_MEMORY = [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: not enough memory")]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_a_sample_that_needs_too_much_memory_is_refused_and_what_the_model_kept_of_it_let_go(error):
    model = Hungry(0, error)
    refused("E_OOM", lambda: encode(replace(averaging(), model=model), plain_video(9), "sections", "mode", of()))
    assert model.cleared == 1


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_a_sample_that_needs_too_much_memory_is_cut_into_tiles_where_that_is_set(error):
    fallback = Tiling(16, 16, 8)
    model = replace(averaging(), model=Hungry(16 * 16, error))
    pair = encode_pair(model, plain_video(255), plain_video(0), EncodeSettings(how="mode", fallback=fallback), of())
    assert pair.tiling == fallback
    torch.testing.assert_close(pair.video, torch.ones(1, 16, 9, 2, 3))


def test_the_tiling_that_was_used_is_none_where_memory_sufficed():
    assert encode_pair(averaging(), plain_video(9), plain_video(9), EncodeSettings(fallback=Tiling(16, 16, 8)), of()).tiling is None


def test_another_error_of_the_model_is_let_through():
    with pytest.raises(RuntimeError, match="broken"):
        encode(replace(averaging(), model=Hungry(0, RuntimeError("broken"))), plain_video(9), "sections", "mode", of())


def test_a_picture_that_is_larger_than_its_tiles_in_one_direction_alone_is_cut_in_that_direction():
    model = averaging()
    encode(model, frames(33, 16, 48), "sections", "mode", of(), Tiling(32, 32, 16))
    encode(model, frames(33, 48, 16), "sections", "mode", of(), Tiling(32, 32, 16))
    assert [tuple(batch.shape[3:]) for batch in model.model.batches] == [(16, 32), (16, 32), (32, 16), (32, 16)]


def test_rows_of_tiles_are_blended_linearly_across_their_overlap():
    latent = encode(replace(averaging(), model=Counting()), frames(33, 48, 16), "sections", "mode", of(), Tiling(32, 32, 16))
    torch.testing.assert_close(latent[0, 0, 0, :, 0], torch.tensor([0, 0, 1 / 3, 2 / 3, 1, 1]))


class Noting(Averaging):
    """An autoencoder that notes whether it runs under autocast."""

    def encode(self, batch):
        self.autocast = torch.is_autocast_enabled("cpu")
        return super().encode(batch)


def test_a_model_in_bfloat16_gets_bfloat16_and_its_latent_is_float32():
    model = replace(averaging(), dtype=torch.bfloat16)
    latent = encode(model, plain_video(255), "sections", "sample", of())
    assert (model.model.batches[0].dtype, latent.dtype) == (torch.bfloat16, torch.float32)


def test_tiles_of_a_model_in_bfloat16_are_blended_in_float32():
    model, video = replace(averaging(), dtype=torch.bfloat16), frames(33, 64, 72)
    whole, tiled = (encode(model, video, "sections", "mode", of(), tiling) for tiling in (None, Tiling(32, 32, 16)))
    torch.testing.assert_close(tiled, whole, rtol=0, atol=1e-6)


def test_a_caller_s_autocast_plays_no_part():
    model = replace(averaging(), model=Noting())
    with torch.autocast("cpu", torch.bfloat16):
        encode(model, plain_video(9), "sections", "mode", of())
    assert model.model.autocast is False


def test_tiles_of_a_model_without_reach_are_blended_to_the_untiled_latent():
    video = frames(33, 64, 72)
    whole, tiled = (encode(averaging(), video, "sections", "mode", of(), tiling) for tiling in (None, Tiling(32, 32, 16)))
    torch.testing.assert_close(tiled, whole, rtol=0, atol=1e-6)


class Counting(Averaging):
    """An autoencoder whose latent of the nth tile is n everywhere."""

    def encode(self, batch):
        found = super().encode(batch)
        found.latent_dist.parameters.fill_(len(self.batches) - 1)
        return found


def test_neighbouring_tiles_are_blended_linearly_across_their_overlap():
    latent = encode(replace(averaging(), model=Counting()), frames(33, 16, 48), "sections", "mode", of(), Tiling(32, 32, 16))
    torch.testing.assert_close(latent[0, 0, 0, 0], torch.tensor([0, 0, 1 / 3, 2 / 3, 1, 1]))


def test_what_one_tile_alone_has_seen_is_its_own_value_to_the_bit():
    video = frames(33, 64, 72)
    whole, tiled = (encode(averaging(), video, "sections", "mode", of(), tiling) for tiling in (None, Tiling(32, 32, 16)))
    assert torch.equal(tiled[..., :2, :2], whole[..., :2, :2]) and torch.equal(tiled[..., -2:, -1:], whole[..., -2:, -1:])


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_change_a_real_model_s_latent_little_but_do_change_it(kind):
    video = frames(33, 64, 96)
    whole, tiled = (encode(vae(kind), video, "sections", "mode", of(), tiling) for tiling in (None, Tiling(64, 64, 32)))
    assert 0 < float((whole - tiled).abs().mean()) < 0.5 * float(whole.abs().mean())


@settings(max_examples=200)
@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 29))
def test_spans_cover_a_side_and_none_adds_nothing(length, tile, overlap):
    overlap = min(overlap, tile - 1)
    found = list(spans(length, tile, overlap))
    ends = [0, *(end for _, end in found)]
    assert ends[-1] == length and ends == sorted(set(ends))
    assert all(start <= before for (start, _), before in zip(found, ends, strict=False)) and all(end - start <= tile for start, end in found)


def test_a_picture_that_fits_the_budget_is_not_tiled():
    assert tiling_for(MODELS["wan21"], 240, 320, 240 * 320 * 22 * 1024) is None


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_of_480x1920_fit_a_budget_of_4_gib_with_few_pixels_twice(kind):
    tiling = tiling_for(MODELS[kind], 480, 1920, 4 * 2**30)
    assert tiling is not None
    assert tiling.height * tiling.width * 22 * 1024 <= 4 * 2**30
    seen = sum((b - a) * (d - c) for a, b in spans(480, tiling.height, tiling.overlap) for c, d in spans(1920, tiling.width, tiling.overlap))
    assert seen < 1.2 * 480 * 1920


def test_tiles_of_a_bucket_count_the_pixels_of_overlaps_twice():
    assert tiled_pixels(64, 96, Tiling(64, 64, 32)) == 64 * (64 + 64)


def test_a_budget_that_no_tile_fits_is_refused():
    refused("E_OOM", lambda: tiling_for(MODELS["wan21"], 480, 1920, 1 << 20))


def test_tiles_that_cut_a_latent_value_are_refused():
    refused("E_MULTIPLE", lambda: encode(averaging(), plain_video(9), "sections", "mode", of(), Tiling(12, 16, 4)))


@pytest.mark.parametrize("kind", KINDS)
def test_encoding_costs_no_more_operations_than_one_pass_of_the_model(kind):
    from torch.utils.flop_counter import FlopCounterMode

    video = frames()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        vae(kind).model.encode(pixels(video, CPU, torch.float32))
    with FlopCounterMode(display=False) as ours:
        encode(vae(kind), video, "sections", "mode", of())
    assert ours.get_total_flops() == counter.get_total_flops()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(128, 128), (136, 1920), (480, 1920), (4320, 7680), (144, 16)])
def test_the_least_budget_fits_tiles_of_every_picture(kind, size):
    high, wide = (side // MODELS[kind].spatial * MODELS[kind].spatial for side in size)
    tiling = tiling_for(MODELS[kind], high, wide, LEAST_BUDGET_BYTES)
    assert tiling is None or tiling.height * tiling.width * TILE_BYTES_PER_PIXEL <= LEAST_BUDGET_BYTES


@pytest.mark.parametrize("gib", [-1.0, 0.34, float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["memory_gib", "fallback_gib"])
def test_budget_that_no_tile_fits_is_refused_with_the_settings(key, gib):
    with pytest.raises(DataError) as caught:
        EncodeFlags(memory_gib=gib) if key == "memory_gib" else EncodeFlags(fallback_gib=gib)
    assert (caught.value.code, caught.value.where) == ("bad_argument", key)
    assert EncodeFlags(memory_gib=0.35).tilings(480, 1920)[0] and EncodeFlags(fallback_gib=0.35).tilings(480, 1920)[1]
