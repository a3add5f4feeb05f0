"""A contact sheet: one row of pictures for each asset, with its id."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from shardwork.files import write_bytes

LABEL_PX = 14
BLANK_PX = 192
"""Width of a sheet without assets."""
COLUMNS = 2


def write_sheet(path: Path, rows: Sequence[tuple[str, NDArray[Any]]]) -> None:
    """Write a sheet as a PNG, atomically.   rows : (id, (H, W, 3) uint8), all of one size; two assets stand side by side. With none it says so."""
    rows = rows or [("no asset passed", np.zeros((1, BLANK_PX, 3), np.uint8))]
    height, width = rows[0][1].shape[:2]
    lines = -(-len(rows) // COLUMNS)
    sheet = Image.new("RGB", (width * min(COLUMNS, len(rows)), lines * (height + LABEL_PX)), (255, 255, 255))
    draw = ImageDraw.Draw(sheet)
    for index, (name, picture) in enumerate(rows):
        x, y = index % COLUMNS * width, index // COLUMNS * (height + LABEL_PX)
        draw.text((x + 2, y + 1), name, fill=(0, 0, 0))
        sheet.paste(Image.fromarray(picture), (x, y + LABEL_PX))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    write_bytes(path, buffer.getvalue())
