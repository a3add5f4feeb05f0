"""Voxels: grouping, interpolation, rounding, saturation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eventvox.settings import VoxelSettings
from eventvox.voxels import bin_weights, divide_half_even, group_slices, saturate

slice_stacks = st.integers(0, 17).flatmap(lambda n: hnp.arrays(np.int32, (n, 2, 3), elements=st.integers(-300, 300)))


def pulse(count, at, value):
    stack = np.zeros((count, 1, 1), np.int32)
    stack[at] = value
    return stack


def bins_of(stack, **settings):
    """Return the bins of the only pixel, one row a voxel."""
    return [voxel.events[:, 0, 0].tolist() for voxel in group_slices(stack, VoxelSettings(**settings))]


@given(slice_stacks, st.integers(1, 3), st.booleans())
def test_starts_and_counts_follow_from_the_number_of_slices(stack, f, interpolate):
    voxels = list(group_slices(stack, VoxelSettings(frames_per_bin=f, interpolate_bins=interpolate)))
    assert len(voxels) == -(-len(stack) // (5 * f))
    assert [voxel.start for voxel in voxels] == [5 * f * t for t in range(len(voxels))]
    assert sum(voxel.count for voxel in voxels) == len(stack)
    assert all(voxel.count == 5 * f for voxel in voxels[:-1])


@given(slice_stacks)
def test_bins_laid_end_to_end_are_the_slices_whatever_the_voxel_borders(stack):
    voxels = list(group_slices(stack, VoxelSettings()))
    flat = np.concatenate([voxel.events for voxel in voxels]) if voxels else np.zeros((0, 2, 3))
    assert np.array_equal(flat[: len(stack)], stack)
    assert not flat[len(stack) :].any()


@given(slice_stacks)
def test_for_one_frame_per_bin_interpolation_changes_nothing(stack):
    plain, smooth = (list(group_slices(stack, VoxelSettings(interpolate_bins=flag))) for flag in (False, True))
    assert [v.events.tolist() for v in plain] == [v.events.tolist() for v in smooth]


@given(slice_stacks, st.integers(1, 7))
def test_interpolated_bins_are_the_exact_sums_rounded_half_to_even(stack, f):
    found = list(group_slices(stack, VoxelSettings(frames_per_bin=f, interpolate_bins=True)))
    for t, voxel in enumerate(found):
        members = stack[5 * f * t : 5 * f * (t + 1)]
        for b in range(5):
            weights = [max(Fraction(0), 1 - abs(Fraction(4 * i, 5 * f - 1) - b)) for i in range(len(members))]
            exact = sum((w * int(s[1, 2]) for w, s in zip(weights, members, strict=True)), Fraction(0))
            assert int(voxel.events[b, 1, 2]) == round(exact)


def test_two_frames_per_bin_are_summed_in_pairs():
    assert bins_of(np.arange(1, 13, dtype=np.int32).reshape(12, 1, 1), frames_per_bin=2) == [[3, 7, 11, 15, 19], [23, 0, 0, 0, 0]]


def test_a_slice_between_two_bins_is_shared_by_its_distance():
    # f = 2: slice 1 lies at 4/9, so bin 0 gets 5/9 and bin 1 gets 4/9 of its 9 events
    assert bins_of(pulse(10, 1, 9), frames_per_bin=2, interpolate_bins=True) == [[5, 4, 0, 0, 0]]


@pytest.mark.parametrize(("value", "half"), [(1, 0), (-1, 0), (3, 2), (-3, -2), (5, 2), (7, 4)])
def test_halves_go_to_the_even_number(value, half):
    # f = 5: slice 3 lies at 12/24, half way between bins 0 and 1
    assert bins_of(pulse(25, 3, value), frames_per_bin=5, interpolate_bins=True) == [[half, half, 0, 0, 0]]


@given(hnp.arrays(np.int64, 5, elements=st.integers(-(2**40), 2**40)), st.integers(1, 5000))
def test_integer_rounding_is_that_of_fractions(total, divisor):
    assert divide_half_even(total.copy(), divisor).tolist() == [round(Fraction(int(value), divisor)) for value in total]


@pytest.mark.parametrize("f", [1, 2, 3, 10])
def test_the_weights_of_a_slice_add_up_to_one(f):
    shares, unit = bin_weights(VoxelSettings(frames_per_bin=f, interpolate_bins=True))
    assert len(shares) == 5 * f and {sum(weight for _, weight in row) for row in shares} == {unit}


def test_sums_beyond_int16_are_saturated_and_counted():
    stack = np.array([20000, 20000, -20000, -20000, 32767, 0, -32768, 0, 1, 0], np.int32).reshape(10, 1, 1)
    (voxel,) = group_slices(stack, VoxelSettings(frames_per_bin=2))
    assert voxel.events[:, 0, 0].tolist() == [32767, -32768, 32767, -32768, 1]
    assert voxel.clipped == 2 and voxel.events.dtype == np.int16


def test_saturation_of_40000_gives_32767():
    events, clipped = saturate(np.array([40000, -40000, 32767, -32768], np.int32))
    assert (events.tolist(), clipped) == ([32767, -32768, 32767, -32768], 2)


def test_the_largest_interpolated_sum_does_not_wrap():
    f, n = 1000, 20_700
    found = bins_of(np.full((5 * f, 1, 1), n, np.int32), frames_per_bin=f, interpolate_bins=True)
    assert found == [[32767] * 5]


def test_a_voxel_keeps_its_values_when_the_next_one_is_made():
    first, second = group_slices(np.arange(10, dtype=np.int32).reshape(10, 1, 1), VoxelSettings())
    assert (first.events[:, 0, 0].tolist(), second.events[:, 0, 0].tolist()) == ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
