"""Timing: intervals in seconds to voxels, by hand-worked values of the format's formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventvox.timing import encoder_rate, interval_to_voxels, rational_fps, voxel_to_seconds
from shardwork.errors import DataError


@pytest.mark.parametrize(
    ("interval", "fps", "voxels", "expected"),
    [
        ((0.0, 1.0), (30, 1), 100, (0, 6)),  # frames 0..30
        ((1.0, 2.0), (30, 1), 100, (6, 12)),
        ((1.01, 2.01), (30, 1), 100, (6, 13)),  # frames 30..61
        ((0.0, 0.5), (30000, 1001), 100, (0, 3)),  # ceil(14.985) = 15
        ((10.0, 20.0), (30000, 1001), 1000, (59, 120)),  # floor(299.70), ceil(599.40) = 600
        ((0.0, 2.2), (10, 1), 100, (0, 5)),  # frame 22 exactly, though the double lies above 2.2
        ((0.0, 0.5), (10, 1), 100, (0, 1)),  # frame 5 exactly: voxel 0 alone
        ((0.0, 99.0), (30, 1), 7, (0, 7)),  # clipped to the file
        ((50.0, 99.0), (30, 1), 7, (7, 7)),  # past the end: empty
        ((-3.0, -1.0), (30, 1), 7, (0, 0)),  # before the start: empty
        ((-1.0, 0.1), (30, 1), 7, (0, 1)),
        ((2.0, 1.0), (30, 1), 100, (12, 12)),  # backwards: empty, never negative
        ((0.0, 1.0), (30, 1), 0, (0, 0)),
        ((0, 1), (30, 1), 100, (0, 6)),
        ((Fraction(1, 6), Fraction(1, 3)), (30, 1), 100, (1, 2)),
    ],
)
def test_an_interval_covers_the_voxels_of_the_formula(interval, fps, voxels, expected):
    assert interval_to_voxels(interval[0], interval[1], fps[0], fps[1], voxels) == expected


def test_a_decimal_second_means_the_decimal_and_not_its_double():
    # 4.35 s at 100 fps is frame 435; the double of 4.35 gives floor 434, which lies in voxel 86
    assert math.floor(4.35 * 100) == 434
    assert interval_to_voxels(4.35, 5.0, 100, 1, 1000) == (87, 100)
    # 1.1 s at 50 fps is frame 55; the double gives ceil 56, one voxel more
    assert math.ceil(1.1 * 50) == 56
    assert interval_to_voxels(0.0, 1.1, 50, 1, 1000) == (0, 11)


@given(st.floats(-10, 1e5), st.floats(-10, 1e5), st.integers(1, 10**6), st.integers(1, 10**5), st.integers(0, 10**5))
def test_a_range_is_never_negative_and_never_leaves_the_file(start, end, num, den, voxels):
    first, last = interval_to_voxels(start, end, num, den, voxels)
    assert 0 <= first <= last <= voxels


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_no_number_is_refused(seconds):
    with pytest.raises(DataError, match="bad_argument"):
        interval_to_voxels(0.0, seconds, 30, 1, 10)


@pytest.mark.parametrize("fps", [(0, 1), (30, 0), (-30, 1)])
def test_a_rate_of_nothing_is_refused(fps):
    with pytest.raises(DataError, match="bad_argument"):
        interval_to_voxels(0.0, 1.0, fps[0], fps[1], 10)


def test_a_voxel_starts_at_five_frames_times_its_number():
    assert voxel_to_seconds(2, 25, 1, 100) == (0.4, 0.6)
    assert voxel_to_seconds(1, 30000, 1001, 8) == (5 * 1001 / 30000, 8 * 1001 / 30000), "the last voxel ends with the last transition"


@pytest.mark.parametrize("voxel", [-1, 2])
def test_a_voxel_that_is_not_there_has_no_time(voxel):
    with pytest.raises(DataError, match="bad_argument"):
        voxel_to_seconds(voxel, 25, 1, 10)


@pytest.mark.parametrize(
    ("num", "den"),
    [(25, 1), (30000, 1001), (24000, 1001), (60000, 1001), (15000, 1001), (179, 6), (456000, 15217), (1000000, 66667), (750000, 71393), (480000, 19319)],
)
def test_the_usual_rates_are_found_from_their_doubles(num, den):
    assert rational_fps(num / den) == (num, den)


def test_a_rounded_rate_stays_what_it_says():
    assert rational_fps(29.97) == (2997, 100)
    assert rational_fps(23.976) == (2997, 125)


@given(st.floats(1e-3, 1e6))
def test_the_fraction_has_exactly_the_double(fps):
    num, den = rational_fps(fps)
    assert num / den == fps


@pytest.mark.parametrize("fps", [0.0, -1.0, math.nan, math.inf])
def test_no_fraction_for_what_is_no_rate(fps):
    with pytest.raises(DataError, match="bad_fps"):
        rational_fps(fps)


LARGEST = 2**31 - 1


@given(st.fractions(Fraction(1, LARGEST), LARGEST, max_denominator=10**14))
def test_the_encoded_rate_fits_32_bits_and_is_the_source_s_to_one_part_in_a_billion(rate):
    found = encoder_rate(rate)
    assert max(found.numerator, found.denominator) <= LARGEST and abs(found / rate - 1) < Fraction(1, 10**9)
    assert found == rate or max(rate.numerator, rate.denominator) > LARGEST


def test_the_encoded_rate_is_the_nearest_of_those_that_fit():
    # 2298443723 / 95737421 is beyond 2^31 - 1; its continued fraction gives the neighbours, found here by trying every denominator near the largest
    rate = Fraction(2298443723, 95737421)
    den = np.arange(LARGEST * rate.denominator // rate.numerator, 89_000_000, -1)
    num = (2 * rate.numerator * den + rate.denominator) // (2 * rate.denominator)  # the nearest; all stays below 2^63
    off = abs(num * rate.denominator - rate.numerator * den)
    best = min(abs(Fraction(int(num[i]), int(den[i])) - rate) for i in np.argsort(off / den)[:100])
    assert abs(encoder_rate(rate) - rate) <= best


@pytest.mark.parametrize("rate", [Fraction(2**31), Fraction(1, 2**31), LARGEST + Fraction(1, 3)])
def test_a_rate_that_no_encoder_can_hold_is_refused(rate):
    with pytest.raises(DataError, match="bad_fps"):
        encoder_rate(rate)
