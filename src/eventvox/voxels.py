"""From event slices to voxels of five bins: grouping, exact sums, saturation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventvox.settings import VoxelSettings

INT16 = np.iinfo(np.int16)


@dataclass(frozen=True, slots=True, eq=False)
class Voxel:
    """One timestep.

    start : int, number of its first slice.   count : int, slices in it.   events : (5, H, W) int16.
    clipped : int, values that lay outside int16 and were saturated.
    """

    start: int
    count: int
    events: NDArray[np.int16]
    clipped: int


def bin_weights(settings: VoxelSettings) -> tuple[list[list[tuple[int, int]]], int]:
    """Return, for each slice of a voxel, the bins it goes to with whole-number weights, and the number all weights are divided by.

    Plain: slice i goes to bin i // f. Interpolated: t = 4i / (5f - 1), weight max(0, 1 - |t - b|), times 5f - 1.
    Source: events spec D4, D5.
    """
    f, bins = settings.frames_per_bin, settings.num_bins
    if not settings.interpolate_bins:
        return [[(i // f, 1)] for i in range(bins * f)], 1
    unit = bins * f - 1
    shares = [[(b, unit - abs((bins - 1) * i - b * unit)) for b in range(bins)] for i in range(bins * f)]
    return [[(b, weight) for b, weight in row if weight > 0] for row in shares], unit


def divide_half_even(total: NDArray[np.int64], divisor: int) -> NDArray[np.int64]:
    """Return total / divisor rounded to the nearest whole number, halves to the even one, without leaving the integers."""
    quotient, rest = np.divmod(total, divisor)
    rest *= 2
    quotient += (rest > divisor) | ((rest == divisor) & (quotient & 1 == 1))
    return quotient


def saturate(total: NDArray[np.signedinteger[Any]]) -> tuple[NDArray[np.int16], int]:
    """Return the values as int16, those outside its range set to the nearest end, and how many those were."""
    if total.size == 0 or (total.min() >= INT16.min and total.max() <= INT16.max):
        return total.astype(np.int16), 0
    clipped = int(np.count_nonzero(total < INT16.min) + np.count_nonzero(total > INT16.max))
    return np.clip(total, INT16.min, INT16.max).astype(np.int16), clipped


def group_slices(slices: Iterable[NDArray[np.int32]], settings: VoxelSettings) -> Iterator[Voxel]:
    """Yield the voxels of a video, the last one perhaps partial; no slices, no voxels.

    slices : (H, W) int32 each, in order.   Yields Voxel, each with an array of its own.
    Bins that no slice of a partial voxel reaches are 0. Source: events spec D4 to D6.
    """
    weights, unit = bin_weights(settings)
    # Interpolated sums reach 20,700 events x 5f - 1 x 2f, beyond int32 for large f; plain ones stay below it.
    total = np.zeros((0, 0, 0), np.int32)
    start = count = 0
    for events in slices:
        if count == 0:
            total = np.zeros((settings.num_bins, *events.shape), np.int32 if unit == 1 else np.int64)
        for b, weight in weights[count]:
            total[b] += events if weight == 1 else events * np.int64(weight)
        count += 1
        if count == settings.slices_per_voxel:
            yield _finish(start, count, total, unit)
            start, count = start + count, 0
    if count:
        yield _finish(start, count, total, unit)


def _finish(start: int, count: int, total: NDArray[np.signedinteger[Any]], unit: int) -> Voxel:
    events, clipped = saturate(total if unit == 1 else divide_half_even(total.astype(np.int64, copy=False), unit))
    return Voxel(start, count, events, clipped)
