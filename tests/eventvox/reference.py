"""The arithmetic of the compiled kernel in NumPy, one array at a time: slow, plain, and what the kernel must equal."""

from __future__ import annotations

import numpy as np

from eventvox.contrast import STEP, STEP_BITS, intensity_table, negative_step
from eventvox.voxels import group_slices


class ContrastSlicer:
    """As `kernel.ContrastKernel`. Source: events spec D3."""

    __slots__ = ("_carried", "_negative", "_reference", "_table")

    def __init__(self, first_frame, settings):
        self._table = intensity_table(settings)
        self._negative = negative_step(settings)
        self._carried = settings.reference == "carried"
        self._reference = self._table[first_frame]

    def slice_events(self, frame):
        level = self._table[frame]
        change = level - self._reference
        if self._negative == STEP:
            # An arithmetic shift rounds down; adding 65535 to negative values first makes it truncate.
            crossed = ((change >> 31) & (STEP - 1)) + change
            crossed >>= STEP_BITS
            moved = crossed << STEP_BITS
        else:
            rises = np.maximum(change, 0) >> STEP_BITS
            falls = np.minimum(change, 0)
            falls = -falls // self._negative
            crossed = rises - falls
            moved = (rises << STEP_BITS) - falls * self._negative
        if self._carried:
            self._reference += moved
        else:
            self._reference = level
        return crossed


def reference_events(frames, settings):
    """Return the voxels of gray frames, (T, 5, H, W) int16."""
    slicer = ContrastSlicer(frames[0], settings)
    voxels = [voxel.events for voxel in group_slices((slicer.slice_events(frame) for frame in frames[1:]), settings)]
    return np.array(voxels, np.int16).reshape(-1, 5, *frames[0].shape)
