"""The inner loops, compiled: from gray frames to crossed thresholds, in 32-bit integers, laid out as the chunks of an event file hold them.

The NumPy form of the same arithmetic stands in tests/eventvox/reference.py and decides what is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventvox.compiled import compiled
from eventvox.contrast import STEP, STEP_BITS, intensity_table, negative_step
from eventvox.settings import VoxelSettings

# Without the casts numba computes in 64 bits, which takes three times as long.
_BITS, _LOW, _SIGN, _BYTE = np.int32(STEP_BITS), np.int32(STEP - 1), np.int32(31), np.int32(8)


@compiled
def _cross_row(frame: Any, table: Any, reference: Any, negative: Any, carried: Any, crossed: Any) -> Any:
    """Write to `crossed` how many thresholds each pixel of a row crossed, and move the reference."""
    width = frame.shape[0]
    # a loop of its own: the look-up cannot be vectorised, all that follows can
    for x in range(width):
        crossed[x] = table[frame[x]]
    if negative == STEP and carried:
        for x in range(width):
            change = np.int32(crossed[x] - reference[x])
            # a shift rounds down; with 65535 added to negative values it rounds to zero
            whole = np.int32(np.int32(np.int32(np.int32(change >> _SIGN) & _LOW) + change) >> _BITS)
            reference[x] = np.int32(reference[x] + np.int32(whole << _BITS))
            crossed[x] = whole
    else:
        for x in range(width):
            level = crossed[x]
            change = np.int32(level - reference[x])
            if change >= 0:
                whole = np.int32(change >> _BITS)
                moved = np.int32(whole << _BITS)
            else:
                whole = np.int32(-np.int32(np.int32(-change) // negative))
                moved = np.int32(whole * negative)
            reference[x] = np.int32(reference[x] + moved) if carried else level
            crossed[x] = whole


@compiled
def _cross_frame(frame: Any, table: Any, reference: Any, negative: Any, carried: Any, out: Any) -> Any:
    for y in range(frame.shape[0]):
        _cross_row(frame[y], table, reference[y], negative, carried, out[y])


@compiled
def _cross_into_planes(frame: Any, table: Any, reference: Any, negative: Any, carried: Any, planes: Any, b: Any, row: Any) -> Any:
    height, width = frame.shape
    tile_height, tile_width = planes.shape[3], planes.shape[4]
    across = (width + tile_width - 1) // tile_width
    for y in range(height):
        _cross_row(frame[y], table, reference[y], negative, carried, row)
        first = y // tile_height * across
        inner = y % tile_height
        for column in range(across):
            left = column * tile_width
            part = row[left : min(width, left + tile_width)]
            low, high = planes[first + column, 0, b, inner], planes[first + column, 1, b, inner]
            for x in range(part.shape[0]):
                low[x] = np.uint8(part[x])
                high[x] = np.uint8(np.int32(part[x] >> _BYTE))


@compiled
def split_planes(events: Any, planes: Any) -> Any:
    """Lay a voxel out as its chunks hold it.   events : (5, H, W) int16.   planes : as ContrastKernel.fill_planes."""
    bins, height, width = events.shape
    tile_height, tile_width = planes.shape[3], planes.shape[4]
    across = (width + tile_width - 1) // tile_width
    for b in range(bins):
        for y in range(height):
            first = y // tile_height * across
            inner = y % tile_height
            for column in range(across):
                left = column * tile_width
                part = events[b, y, left : min(width, left + tile_width)]
                low, high = planes[first + column, 0, b, inner], planes[first + column, 1, b, inner]
                for x in range(part.shape[0]):
                    low[x] = np.uint8(part[x])
                    high[x] = np.uint8(np.int32(part[x] >> _BYTE))


class ContrastKernel:
    """The reference of every pixel, and what each next frame crosses.

    One instance per video; feed it the frames in order. Source: events spec D3.
    """

    __slots__ = ("_arguments", "_row")

    def __init__(self, first_frame: NDArray[np.uint8], settings: VoxelSettings) -> None:
        """Start at frame 0.   first_frame : (H, W) uint8, gray."""
        table = np.array(intensity_table(settings))
        self._row = np.empty(first_frame.shape[1], np.int32)
        self._arguments = table, table[first_frame], np.int32(negative_step(settings)), settings.reference == "carried"

    def slice_events(self, frame: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the signed number of thresholds that each pixel crossed since its reference; a fresh array.

        frame : (H, W) uint8, gray.   Returns (H, W) int32, + for brighter, truncated toward 0.
        With `carried` the reference moves by whole thresholds only, so the rest counts for the next frame; with `adjacent` it becomes this frame.
        """
        out = np.empty(frame.shape, np.int32)
        _cross_frame(frame, *self._arguments, out)
        return out

    def fill_planes(self, frame: NDArray[np.uint8], planes: NDArray[np.uint8], b: int) -> None:
        """Write the slice that ends with this frame to bin `b` of a voxel, shuffled: no count leaves int16 (settings.LOWEST_THRESHOLD sees to it).

        frame : (H, W) uint8, gray.   planes : (chunks, 2, 5, chunk height, chunk width) uint8, as `layout` says; what lies beyond the picture is left alone.
        """
        _cross_into_planes(frame, *self._arguments, planes, b, self._row)
