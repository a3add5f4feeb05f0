"""Contrast: the table and the crossings, against an exact model that shares nothing with the library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eventvox.contrast import STEP, intensity_table, negative_step
from eventvox.kernel import ContrastKernel
from eventvox.settings import VoxelSettings

frames = hnp.arrays(np.uint8, (3, 4))


def gray(*values):
    return np.array([values], np.uint8)


def slices(sequence, settings=VoxelSettings()):  # noqa: B008 (frozen)
    slicer = ContrastKernel(sequence[0], settings)
    return [slicer.slice_events(frame) for frame in sequence[1:]]


def test_the_table_of_power_holds_hand_worked_values():
    table = intensity_table(VoxelSettings())
    assert table.dtype == np.int32 and table.shape == (256,)
    assert table[0] == -2263533  # 327680 ln 0.001 = 327680 * -6.907755279
    assert table[255] == 328  # 327680 ln 1.001 = 327680 * 0.000999500 = 327.516
    assert table[128] == -495376  # 327680 ln(0.001 + (128/255)^2.2) = 327680 * -1.511767


def test_the_table_of_linlog_is_linear_to_20_and_logarithmic_above():
    table = intensity_table(VoxelSettings(intensity="linlog"))
    assert table[0] == 0
    assert table[10] == round(327680 * math.log(20) / 2)
    assert table[20] == round(327680 * math.log(20))
    assert table[21] == round(327680 * math.log(21))
    assert table[255] == round(327680 * math.log(255))


def test_the_table_of_linear_is_the_share_of_255():
    table = intensity_table(VoxelSettings(intensity="linear", threshold_pos=0.1))
    assert (table[0], table[51], table[255]) == (0, 2 * STEP, 10 * STEP)


def test_gamma_1_is_the_logarithm_of_the_share():
    table = intensity_table(VoxelSettings(gamma=1))
    assert [int(table[v]) for v in (0, 1, 100, 255)] == [round(327680 * math.log(1e-3 + v / 255)) for v in (0, 1, 100, 255)]


def test_the_table_crosses_exactly_where_real_numbers_do_for_all_pairs_of_grays():
    level = [math.log(1e-3 + (v / 255) ** 2.2) / 0.2 for v in range(256)]
    table = intensity_table(VoxelSettings()).tolist()
    for a in range(256):
        for b in range(a):
            real = level[a] - level[b]
            assert abs(real - round(real)) > 1e-6, "floats can tell"
            assert math.floor(real) == (table[a] - table[b]) // STEP
            assert math.ceil(real) == -((table[b] - table[a]) // STEP)


def test_every_setting_in_range_fits_int32():
    for settings in (VoxelSettings(eps=1e-9, threshold_pos=0.001), VoxelSettings(intensity="linlog", threshold_pos=0.001, threshold_neg=10.0)):
        table = intensity_table(settings).astype(object)
        assert max(table) - min(table) + STEP < 2**31
        assert 1 <= negative_step(settings) < 2**31


def test_a_step_gives_the_whole_thresholds_it_crosses_and_keeps_the_rest():
    # 100 -> 200: (ln(0.001+(200/255)^2.2) - ln(0.001+(100/255)^2.2)) / 0.2 = 7.59; 200 -> 220 adds 1.05: 8.64 in all
    assert [int(s[0, 0]) for s in slices([gray(100), gray(200), gray(220)])] == [7, 1]


def test_small_changes_add_up_when_the_reference_is_carried_and_vanish_when_it_is_not():
    ramp = [gray(v) for v in range(200, 221, 4)]
    assert sum(int(s[0, 0]) for s in slices(ramp)) == 1
    assert sum(int(s[0, 0]) for s in slices(ramp, VoxelSettings(reference="adjacent"))) == 0


def test_unequal_thresholds_count_rises_and_falls_by_their_own():
    settings = VoxelSettings(intensity="linear", threshold_pos=0.1, threshold_neg=0.2)
    assert [int(s[0, 0]) for s in slices([gray(0), gray(255), gray(0)], settings)] == [10, -5]
    settings = VoxelSettings(intensity="linear", threshold_pos=0.2, threshold_neg=0.1)
    assert [int(s[0, 0]) for s in slices([gray(255), gray(0), gray(255)], settings)] == [-10, 5]


def test_the_rest_of_a_fall_counts_for_the_next_fall_with_unequal_thresholds():
    # 255 -> 128 is a fall of 0.498: two of 0.2, 0.098 left; 128 -> 102 adds 0.102: one more exactly at 0.2
    settings = VoxelSettings(intensity="linear", threshold_pos=0.1, threshold_neg=0.2)
    assert [int(s[0, 0]) for s in slices([gray(255), gray(128), gray(101)], settings)] == [-2, -1]


@given(frames, frames, st.sampled_from(["power", "linlog", "linear"]))
def test_there_and_back_sums_to_zero(a, b, intensity):
    there, back = slices([a, b, a], VoxelSettings(intensity=intensity))
    assert np.array_equal(there, -back)


@given(frames, frames, st.sampled_from(["carried", "adjacent"]))
def test_polarity_is_symmetric(a, b, reference):
    settings = VoxelSettings(reference=reference)
    assert np.array_equal(slices([a, b], settings)[0], -slices([b, a], settings)[0])


@given(hnp.arrays(np.uint8, (6, 1, 1)), st.sampled_from([0.05, 0.2, 0.3, 0.7]), st.sampled_from([0.05, 0.2, 0.5]), st.booleans())
def test_slices_equal_a_model_in_python_integers(video, pos, neg, carried):
    settings = VoxelSettings(threshold_pos=pos, threshold_neg=neg, reference="carried" if carried else "adjacent")
    table, down = intensity_table(settings).tolist(), negative_step(settings)
    ref, expected = table[video[0, 0, 0]], []
    for value in video[1:, 0, 0]:
        d = table[value] - ref
        n = d // STEP if d >= 0 else -(-d // down)
        ref = table[value] if not carried else ref + n * (STEP if n >= 0 else down)
        expected.append(n)
    assert [int(s[0, 0]) for s in slices(list(video), settings)] == expected


@given(hnp.arrays(np.uint8, (4, 6, 8)))
def test_slices_do_not_depend_on_tiles(video):
    whole = np.stack(slices(list(video)))
    left, right = np.stack(slices(list(video[:, :, :3]))), np.stack(slices(list(video[:, :, 3:])))
    assert np.array_equal(whole, np.concatenate([left, right], axis=2))


def test_a_slice_is_the_callers_own_array():
    slicer = ContrastKernel(gray(0, 0), VoxelSettings())
    first = slicer.slice_events(gray(255, 0))
    kept = first.copy()
    slicer.slice_events(gray(0, 255))
    assert np.array_equal(first, kept) and first.dtype == np.int32


def exact_events(video):
    """The definition, pixel by pixel, in floats: thresholds crossed so far is the whole part of the change, held where it turns back."""
    level = [math.log(1e-3 + (v / 255) ** 2.2) / 0.2 for v in range(256)]
    out = np.zeros((len(video) - 1, *video[0].shape), int)
    for y, x in np.ndindex(video[0].shape):
        start, k = level[video[0][y, x]], 0
        for e in range(len(video) - 1):
            n = math.trunc(round(level[video[e + 1][y, x]] - start - k, 9))
            out[e, y, x], k = n, k + n
    return out


@pytest.mark.parametrize(("name", "crop"), [("bikes.mp4", np.s_[100:148, 300:364]), ("bigbuckbunny.mp4", np.s_[300:340, 600:648])])
def test_real_videos_give_what_the_exact_model_gives(sample_videos, name, crop):
    from eventvox.decode import open_video

    with open_video(sample_videos / name, VoxelSettings()) as video:
        frames = [frame[crop] for frame, _ in zip(video.frames(), range(40), strict=False)]
    expected = exact_events(frames)
    assert np.count_nonzero(expected) > 1000
    assert np.array_equal(np.stack(slices(frames)), expected)
