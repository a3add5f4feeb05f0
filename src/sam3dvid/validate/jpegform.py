"""T5, the form of an export's JPEGs: quality 95, 4:4:4, baseline, told from the header alone. Source: format v0.1, 9.1; ITU-T T.81, annex K."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from sam3dvid.export_reader import NO_PICTURE

QUALITY = 95
LUMINANCE = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)
"""Steps of quality 50 for brightness, row by row. Source: T.81, table K.1."""
CHROMINANCE = (
    *(17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99),
    *(24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99),
    *(99,) * 32,
)
"""Those for colour. Source: T.81, table K.2."""
FULL_CHROMA = (1, 1)
"""Samples that each component has to a pixel, across and down, where none is shared."""


def steps_of(table: tuple[int, ...], quality: int) -> list[int]:
    """Return a table's steps at a quality of 50 to 100, as libjpeg scales them: 200 - 2 quality per cent, rounded, 1 to 255."""
    scaled: NDArray[np.int64] = (np.array(table) * (200 - 2 * quality) + 50) // 100
    return [int(step) for step in np.clip(scaled, 1, 255)]


WANTED = [steps_of(LUMINANCE, QUALITY), *[steps_of(CHROMINANCE, QUALITY)] * 2]
"""Of brightness and both colours."""


def form_fault(data: bytes) -> tuple[str, str]:
    """Return what a JPEG's header says that it must not, and what is expected; two empty texts where all is in order.

    Of what is no JPEG nothing is said: that, the reader names.
    """
    try:
        image = Image.open(io.BytesIO(data), formats=["JPEG"])
    except NO_PICTURE:
        return "", ""
    if not isinstance(image, JpegImagePlugin.JpegImageFile) or image.mode != "RGB":
        return "", ""
    if any((across, down) != FULL_CHROMA for _, across, down, _ in image.layer):
        shared = ", ".join(f"{across}x{down}" for _, across, down, _ in image.layer)
        return f"colour samples shared between pixels ({shared})", "4:4:4, which is 1x1, 1x1, 1x1"
    used = [list(image.quantization.get(table, ())) for *_, table in image.layer]
    if used != WANTED:
        return f"steps {used[0][:4]} and on", f"{WANTED[0][:4]} and on, those of quality {QUALITY}"
    if image.info.get("progressive"):
        return "a progressive JPEG", "a baseline one"
    return "", ""
