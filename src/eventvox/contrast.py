"""What the thresholds are measured with: a table of intensities in exact integers. The loops over pixels are in `kernel`."""

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
