"""Buckets: windows, frames used and dropped, sizes, and the part of a frame that is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidlatents.buckets import Used, covered_part, latent_shape, native_part, nearest_size, own_frames, own_layout, used_frames
from vidlatents.codes import SampleRefused


@pytest.mark.parametrize(("frames", "sections", "dropped"), [(33, 1, 0), (49, 1, 16), (50, 1, 17), (65, 1, 32), (66, 2, 0), (121, 3, 22), (129, 3, 30)])
def test_sections_are_windows_of_33_frames_and_the_tail_is_dropped(frames, sections, dropped):
    assert used_frames(frames, "sections", 4) == Used(sections, frames - dropped, dropped, 9)


@pytest.mark.parametrize(("frames", "latent"), [(1, 1), (5, 2), (29, 8), (49, 13), (121, 31), (129, 33)])
def test_whole_uses_every_frame(frames, latent):
    assert used_frames(frames, "whole", 4) == Used(1, frames, 0, latent)


def test_whole_does_not_take_50_frames_for_49():
    with pytest.raises(SampleRefused, match="such as 49") as caught:
        used_frames(50, "whole", 4)
    assert caught.value.code == "E_FRAMES_4N1"


def test_the_latent_of_the_seeds_example_has_the_public_shape():
    assert latent_shape(used_frames(49, "sections", 4), "sections", 16, 8, (480, 1920)) == (1, 16, 9, 60, 240)


def test_the_latent_of_a_whole_clip_has_no_axis_of_sections():
    assert latent_shape(used_frames(29, "whole", 4), "whole", 48, 16, (512, 512)) == (48, 8, 32, 32)


@pytest.mark.parametrize(("frames", "layout", "taken"), [(250, "sections", 241), (120, "sections", 101), (40, "sections", 33), (32, "sections", None)])
def test_an_own_video_takes_the_largest_bucket_or_one_window(frames, layout, taken):
    assert own_frames(frames, layout, 4) == taken


@pytest.mark.parametrize(("frames", "taken"), [(32, 29), (1, 1), (4, 1), (5, 5), (0, None)])
def test_an_own_video_is_whole_on_the_largest_4k_plus_1(frames, taken):
    assert own_frames(frames, "whole", 4) == taken


@pytest.mark.parametrize(("frames", "layout"), [(33, "sections"), (32, "whole")])
def test_an_own_video_belongs_to_sections_from_33_frames_on(frames, layout):
    assert own_layout(frames) == layout


def test_of_equally_near_sizes_the_last_is_taken():
    assert nearest_size(100, 100, ((64, 64), (128, 128))) == (128, 128)


def test_the_nearest_size_has_the_least_product_across_as_the_public_producer_takes_it():
    # |100 x 64 - 200 x 64| = 6400 and |100 x 1200 - 200 x 512| = 17600, although 512 : 1200 is nearer to 100 : 200
    assert nearest_size(100, 200, ((64, 64), (512, 1200))) == (64, 64)


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 300).map(lambda n: 8 * n), st.integers(1, 300).map(lambda n: 8 * n))
def test_the_kept_part_is_centred_full_in_one_direction_and_of_the_buckets_shape(height, width, high, wide):
    top, bottom, left, right = covered_part(height, width, (high, wide))
    kept_h, kept_w = bottom - top, right - left
    assert (kept_h == height or kept_w == width) and 0 <= top < bottom <= height and 0 <= left < right <= width
    assert abs(top - (height - bottom)) <= 1 and abs(left - (width - right)) <= 1
    assert max(1, kept_w * high // wide) == kept_h or max(1, kept_h * wide // high) == kept_w


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_nothing_is_cut_from_a_frame_of_bucket_size(height, width):
    assert covered_part(height, width, (height, width)) == (0, height, 0, width)


@pytest.mark.parametrize(("height", "width", "part"), [(272, 640, (0, 640, 0, 272)), (239, 427, (5, 421, 7, 231)), (15, 64, None)])
def test_the_native_part_is_the_largest_centred_multiple(height, width, part):
    assert native_part(height, width, 16) == part
