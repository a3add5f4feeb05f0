"""From gray frames to event slices: a table of intensities, a reference per pixel, and whole thresholds crossed, in exact integers."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eventvox.settings import VoxelSettings

STEP_BITS = 16
STEP = 1 << STEP_BITS
LINLOG_BORDER = 20


def _intensity(value: int, settings: VoxelSettings) -> Decimal:
    """Return the intensity L of one gray value, in the unit of the thresholds."""
    v = Decimal(value)
    if settings.intensity == "linear":
        return v / 255
    if settings.intensity == "linlog":
        return v * Decimal(LINLOG_BORDER).ln() / LINLOG_BORDER if value <= LINLOG_BORDER else v.ln()
    base = (v / 255) ** Decimal(repr(settings.gamma)) if value else Decimal(0)
    return (Decimal(repr(settings.eps)) + base).ln()


@lru_cache(maxsize=8)
def intensity_table(settings: VoxelSettings) -> NDArray[np.int32]:
    """Return the intensity of each gray value, in units of threshold_pos with 16 fractional bits.

    settings.intensity : power, L = ln(eps + (v/255)^gamma); linlog, L = v ln(20)/20 for v <= 20, else ln v; linear, L = v/255.
    Returns (256,) int32, read-only, round(65536 L / threshold_pos).
    Source: events spec D2; linlog is `lin_log` of v2e (emulator_utils), where v runs from 0 to 255.
    """
    # Decimal gives the same digits on every machine, where log and pow of the C libraries differ in the last bit.
    with localcontext() as context:
        context.prec = 40
        unit = Decimal(repr(settings.threshold_pos)) / STEP
        levels = [int((_intensity(value, settings) / unit).to_integral_value()) for value in range(256)]
    table = np.array(levels, np.int32)
    table.setflags(write=False)
    return table


def negative_step(settings: VoxelSettings) -> int:
    """Return threshold_neg in the table's units: round(65536 threshold_neg / threshold_pos)."""
    return int((Decimal(repr(settings.threshold_neg)) / Decimal(repr(settings.threshold_pos)) * STEP).to_integral_value())


class ContrastSlicer:
    """The reference of every pixel, and what each next frame crosses.

    One instance per video; feed it the frames in order. Source: events spec D3.
    """

    __slots__ = ("_carried", "_negative", "_reference", "_table")

    def __init__(self, first_frame: NDArray[np.uint8], settings: VoxelSettings) -> None:
        """Start at frame 0.   first_frame : (H, W) uint8, gray."""
        self._table = intensity_table(settings)
        self._negative = negative_step(settings)
        self._carried = settings.reference == "carried"
        self._reference = self._table[first_frame]

    def slice_events(self, frame: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the signed number of thresholds that each pixel crossed since its reference; a fresh array.

        frame : (H, W) uint8, gray.   Returns (H, W) int32, + for brighter, truncated toward 0.
        With `carried` the reference moves by whole thresholds only, so the rest counts for the next frame; with `adjacent` it becomes this frame.
        """
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
