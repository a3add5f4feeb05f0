"""The inner loops, compiled: from gray frames to crossed thresholds, in 32-bit integers, laid out as the chunks of an event file hold them.

The NumPy form of the same arithmetic stands in tests/eventvox/reference.py and decides what is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventvox.compiled import compiled, inlined
from eventvox.contrast import STEP, STEP_BITS, intensity_table, negative_step
from eventvox.layout import corners, event_chunks
from eventvox.settings import VoxelSettings

# Without the casts numba computes in 64 bits, which takes three times as long.
_BITS, _LOW, _SIGN, _BYTE = np.int32(STEP_BITS), np.int32(STEP - 1), np.int32(31), np.int32(8)


@inlined
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


@inlined
def _split_row(values: Any, low: Any, high: Any) -> Any:
    """Write the low and the high bytes of a row."""
    # a loop each, over arrays of one dimension: so they are vectorised
    for x in range(values.shape[0]):
        low[x] = values[x]
    for x in range(values.shape[0]):
        high[x] = values[x] >> _BYTE


@compiled
def _fill_chunk(frames: Any, table: Any, reference: Any, negative: Any, carried: Any, top: Any, left: Any, planes: Any) -> Any:
    count = frames.shape[0]
    rows, columns = reference.shape
    crossed = np.empty(columns, np.int32)
    for y in range(rows):
        # all bins of a row at once: its reference stays near
        levels = reference[y]
        for b in range(count):
            part, low, high = frames[b, top + y, left : left + columns], planes[0, b, y], planes[1, b, y]
            _cross_row(part, table, levels, negative, carried, crossed)
            _split_row(crossed, low, high)
    planes[:, :, :, columns:] = 0
    planes[:, :, rows:] = 0
    planes[:, count:] = 0


@compiled
def _split_chunk(events: Any, top: Any, left: Any, planes: Any) -> Any:
    tall, wide = planes.shape[2:]
    rows, columns = min(tall, events.shape[1] - top), min(wide, events.shape[2] - left)
    for b in range(events.shape[0]):
        for y in range(rows):
            part, low, high = events[b, top + y, left : left + columns], planes[0, b, y], planes[1, b, y]
            _split_row(part, low, high)
    planes[:, :, :, columns:] = 0
    planes[:, :, rows:] = 0


def split_chunk(events: NDArray[np.int16], corner: tuple[int, int], planes: NDArray[np.uint8]) -> None:
    """Write the part of a voxel that one chunk holds.   events : (5, H, W) int16.   corner, planes : as in ChunkKernel.fill."""
    _split_chunk(events, *corner, planes)


def _start(settings: VoxelSettings) -> tuple[NDArray[np.int32], np.int32, bool]:
    """Return the table, the negative threshold, and whether what is left is carried."""
    return np.array(intensity_table(settings)), np.int32(negative_step(settings)), settings.reference == "carried"


class ContrastKernel:
    """The reference of every pixel, and what each next frame crosses.

    One instance per video; feed it the frames in order. Source: events spec D3.
    """

    __slots__ = ("_carried", "_negative", "_reference", "_table")

    def __init__(self, first_frame: NDArray[np.uint8], settings: VoxelSettings) -> None:
        """Start at frame 0.   first_frame : (H, W) uint8, gray."""
        self._table, self._negative, self._carried = _start(settings)
        self._reference = self._table[first_frame]

    def slice_events(self, frame: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the signed number of thresholds that each pixel crossed since its reference; a fresh array.

        frame : (H, W) uint8, gray.   Returns (H, W) int32, + for brighter, truncated toward 0.
        With `carried` the reference moves by whole thresholds only, so the rest counts for the next frame; with `adjacent` it becomes this frame.
        """
        if frame.shape != self._reference.shape:
            raise ValueError(f"a frame of {frame.shape} after frames of {self._reference.shape}")
        out = np.empty(frame.shape, np.int32)
        _cross_frame(frame, self._table, self._reference, self._negative, self._carried, out)
        return out


class ChunkKernel:
    """As ContrastKernel where each bin holds one slice, chunk by chunk: each stays in the processor's cache until it is compressed.

    One instance per video; feed it the voxels in order, and of each all chunks, in any order and from any thread.
    """

    __slots__ = ("_carried", "_negative", "_references", "_table")

    def __init__(self, first_frame: NDArray[np.uint8], settings: VoxelSettings) -> None:
        """Start at frame 0.   first_frame : (H, W) uint8, gray."""
        self._table, self._negative, self._carried = _start(settings)
        _, _, tall, wide = event_chunks(settings.num_bins, *first_frame.shape)
        self._references = {(y, x): self._table[first_frame[y : y + tall, x : x + wide]] for y, x in corners(*first_frame.shape)}

    def fill(self, frames: NDArray[np.uint8], corner: tuple[int, int], planes: NDArray[np.uint8]) -> None:
        """Write the part of a voxel that one chunk holds, and move the reference: no count leaves int16 (settings.LOWEST_THRESHOLD sees to it).

        frames : (count, H, W) uint8, gray, those that end its slices, at most 5.   corner : of the chunk, (y, x) in pixels.
        planes : (2, 5, chunk height, chunk width) uint8, as `layout` says; all of it is written.
        """
        _fill_chunk(frames, self._table, self._references[corner], self._negative, self._carried, *corner, planes)
