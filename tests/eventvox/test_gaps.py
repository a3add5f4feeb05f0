"""Gaps: what counts as missing, worked out on timestamps alone."""

from __future__ import annotations

from fractions import Fraction

import pytest

from eventvox.gaps import MAX_STEPS, FrameTally, Promise, verdict, whole_prefix

NOTHING = Promise(None, None, None)
MS = Fraction(1, 1000)


def tally(pts, time_base=MS, **more):
    made = FrameTally(time_base)
    for value in pts:
        made.add_frame(value, False)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def kinds(made, promise=NOTHING):
    return [(gap.kind, gap.frame) for gap in made.gaps(promise)]


def test_a_jump_of_more_than_three_periods_is_a_gap_before_the_frame_that_follows():
    assert kinds(tally([*range(0, 400, 40), *range(500, 900, 40)])) == [("jump", 10)]  # 360 -> 500: 140 ms


def test_a_jump_of_three_periods_is_none():
    assert kinds(tally([*range(0, 400, 40), *range(480, 900, 40)])) == []


def test_the_rounding_of_matroska_does_not_hide_a_constant_rate():
    pts = [round(1000 * frame / 24) for frame in range(100) if not 50 <= frame < 54]
    made = tally(pts)
    assert made.constant_rate and kinds(made) == [("jump", 50)]


def test_a_variable_rate_has_no_jumps():
    made = tally([0, 33, 66, 400, 433, 466, 900, 933, 966, 1500])
    assert not made.constant_rate and kinds(made) == []


def test_timestamps_out_of_order_show_no_jumps():
    made = tally([0, 101, 67, 134, 34, 234, 201, 267, 167, 367, 334, 401, 301])
    assert not made.constant_rate and kinds(made) == []


def test_frames_without_timestamps_are_counted():
    made = tally([None] * 8)
    assert made.frames == 8 and made.constant_rate and kinds(made) == []


def test_many_different_steps_take_no_more_room():
    made = tally([frame * frame for frame in range(3 * MAX_STEPS)])
    assert len(made._steps) <= MAX_STEPS + 1 and not made.constant_rate


def test_a_failure_is_a_gap_only_once_something_is_decoded_after_it():
    made = tally(range(0, 400, 40))
    made.add_failure("broken")
    assert kinds(made) == []
    made.add_success()
    assert kinds(made) == [("failure", 10)] and verdict(made.gaps(NOTHING)) == "decode_gap"


def test_a_damaged_frame_is_a_gap():
    made = tally([0, 40])
    made.add_frame(80, True)
    assert kinds(made) == [("corrupt", 2)]


@pytest.mark.parametrize(
    ("decoded", "reported", "short"), [(99, 100, False), (98, 100, True), (990, 1000, False), (989, 1000, True), (1, 2, False), (0, 2, True)]
)
def test_one_frame_or_one_percent_may_be_missing(decoded, reported, short):
    found = tally(range(decoded)).gaps(Promise(reported, None, None))
    assert (verdict(found) == "truncated") is short


def test_packets_that_the_container_discards_are_not_missing():
    assert kinds(tally(range(50), discarded=50), Promise(100, None, None)) == []


def test_frames_missing_inside_are_no_truncation():
    made = tally([0, 6, 13, 19, 26, 32, 39], Fraction(1, 15))
    found = made.gaps(Promise(44, Fraction(44, 15), None))
    assert verdict(found) == "decode_gap" and whole_prefix(found) is None


def test_frames_missing_at_the_end_are_a_truncation():
    found = tally(range(0, 2000, 40)).gaps(Promise(100, Fraction(4), None))
    assert verdict(found) == "truncated" and whole_prefix(found) == 50


def test_without_a_count_the_end_of_the_file_is_held_against_its_duration():
    made = tally(range(0, 2000, 40), file_end=Fraction(2))
    assert kinds(made, Promise(None, None, Fraction(4))) == [("tail", 50)]
    assert kinds(made, Promise(None, None, Fraction(204, 100))) == [], "one frame may be missing"


def test_the_prefix_ends_at_the_first_gap():
    made = tally([0, 40])
    made.add_failure("broken")
    made.add_success()
    made.add_frame(80, True)
    assert whole_prefix(made.gaps(NOTHING)) == 2
