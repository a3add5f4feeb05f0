"""Seconds to voxels and back, in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

from shardwork.errors import DataError

BINS_PER_VOXEL = 5
LARGEST_TERM = 2**31 - 1
"""The largest numerator or denominator of a rate in FFmpeg."""


def _fraction(name: str, seconds: float | int | Fraction) -> Fraction:
    """Return the number that was meant."""
    # A float enters as its shortest decimal text: captions are written in decimals, and the binary 2.2 lies a little above 2.2, which would
    # move a ceiling by one whole frame at 10 frames per second.
    if isinstance(seconds, Fraction | int):
        return Fraction(seconds)
    value = float(seconds)
    if not math.isfinite(value):
        raise DataError("bad_argument", name, repr(seconds), "a finite number of seconds", "correct the interval")
    return Fraction(repr(value))


def _check_rate(fps_num: int, fps_den: int) -> None:
    if fps_num <= 0 or fps_den <= 0:
        raise DataError("bad_argument", "fps", f"{fps_num}/{fps_den}", "two whole numbers above 0", "take them from the manifest, or from rational_fps(fps)")


def interval_to_voxels(start_seconds: float | Fraction, end_seconds: float | Fraction, fps_num: int, fps_den: int, num_voxels: int) -> tuple[int, int]:
    """Return the voxels [start, end_exclusive) that a caption or action interval covers; equal numbers mean none.

    start_seconds, end_seconds : seconds from the first frame.   fps_num / fps_den : source frame rate.   num_voxels : T, length of `events`.
    Raises DataError (bad_argument).   Source: EventActivityNet format, "Timing Metadata" (v1.0, five frames a voxel).
    """
    _check_rate(fps_num, fps_den)
    fps = Fraction(fps_num, fps_den)
    start_frame = math.floor(_fraction("start_seconds", start_seconds) * fps)
    end_frame = math.ceil(_fraction("end_seconds", end_seconds) * fps)
    start = min(max(0, start_frame // BINS_PER_VOXEL), num_voxels)
    end = min(num_voxels, -(-end_frame // BINS_PER_VOXEL))
    return start, max(start, end)


def voxel_to_seconds(voxel: int, fps_num: int, fps_den: int, num_slices: int) -> tuple[float, float]:
    """Return the seconds from the first to the last source frame of a voxel.

    voxel : t, 0 <= t < T.   num_slices : N - 1, the sum of `voxel_event_count`.   Returns (start_seconds, end_seconds), from the first frame.
    Raises DataError (bad_argument).   Source: EventActivityNet format, "Timing Metadata".
    """
    _check_rate(fps_num, fps_den)
    first = BINS_PER_VOXEL * voxel
    if not 0 <= first < num_slices:
        raise DataError("bad_argument", "voxel", str(voxel), f"0 to {-(-num_slices // BINS_PER_VOXEL) - 1}", "ask for a voxel of this file")
    last = min(first + BINS_PER_VOXEL, num_slices)
    return float(Fraction(first * fps_den, fps_num)), float(Fraction(last * fps_den, fps_num))


def encoder_rate(rate: Fraction, largest_den: int = LARGEST_TERM) -> Fraction:
    """Return the rate that a video of this rate is encoded with: itself, or the nearest whose two numbers FFmpeg can hold.

    rate : frames a second. Of a video of variable rate the exact one may have a numerator above 2^31 - 1; what is off is less than one part in 10^9.
    largest_den : the largest denominator, for a format that holds less.
    Raises DataError (bad_fps) for a rate that has no such neighbour: above 2^31 - 1 or below 1 / largest_den.
    """
    if not Fraction(1, largest_den) <= rate <= LARGEST_TERM:
        raise DataError("bad_fps", "fps", f"{float(rate):g}", f"1 / {largest_den} to {LARGEST_TERM}", "re-encode the video with a frame rate that players know")
    # of a rate above 1 the numerator is the one to hold down; both steps leave alone what fits
    fitting = 1 / (1 / rate).limit_denominator(LARGEST_TERM) if rate > 1 else rate
    return fitting.limit_denominator(largest_den)


def rational_fps(fps: float) -> tuple[int, int]:
    """Return (fps_num, fps_den), the simplest usual fraction whose double is exactly `fps`.

    Denominators up to 1, 1001, 10,000, 100,000 and so on are tried in turn. Raises DataError (bad_fps).   Source: events spec D8.
    """
    if not (math.isfinite(fps) and fps > 0):
        raise DataError("bad_fps", "fps", repr(fps), "a finite number above 0", "re-encode the video with a frame rate")
    exact, limit = Fraction(fps), 1
    while float(found := exact.limit_denominator(limit)) != fps:
        limit = {1: 1001, 1001: 10_000}.get(limit, limit * 10)
    return found.numerator, found.denominator
