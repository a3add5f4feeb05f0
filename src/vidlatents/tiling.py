"""Tiles that a picture is cut into where memory asks for it. Loads without torch: which tiles are taken is part of a fingerprint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from shardwork.errors import DataError
from shardwork.jsonio import Json
from vidlatents.models import ModelKind

TILE_BYTES_PER_PIXEL = 22 * 1024
"""Memory that encoding takes for each pixel of a tile in float32, whatever the frames: they go through in fours (measured: 22 KiB)."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles that a picture is cut into. They change values near their edges, so they are part of a fingerprint.

    height, width : pixels of a tile.   overlap : pixels that neighbours share; their values are blended across it.
    """

    height: int
    width: int
    overlap: int

    def check(self, kind: ModelKind) -> None:
        """Raise DataError (E_MULTIPLE) unless tiles begin at whole latent values and each adds something."""
        if any(value % kind.spatial for value in (self.height, self.width, self.overlap)) or not 0 <= self.overlap < min(self.height, self.width):
            found = f"{self.height}x{self.width} overlapping by {self.overlap}"
            raise DataError("E_MULTIPLE", "tiling", found, f"multiples of {kind.spatial} for {kind.name}, overlap below both sides", "change the tiling")

    def as_json(self) -> dict[str, Json]:
        """Return the fields for a fingerprint or manifest."""
        return {"height": self.height, "overlap": self.overlap, "width": self.width}


OVERLAP = 64
"""Pixels that neighbouring tiles share: as in the public producer, and a multiple of every kind's factor."""
LEAST_BUDGET_BYTES = 4 * OVERLAP**2 * TILE_BYTES_PER_PIXEL
"""With so much every picture has tiles that fit: those of twice the overlap."""


def tiling_for(
    kind: ModelKind, height: int, width: int, budget_bytes: int, overlap: int = OVERLAP, bytes_per_pixel: int = TILE_BYTES_PER_PIXEL
) -> Tiling | None:
    """Return the tiles that fit a budget and encode the fewest pixels twice, or None where the whole picture has room.

    Raises DataError (E_OOM) where not even tiles of twice the overlap fit.
    """
    room = budget_bytes // bytes_per_pixel
    if height * width <= room:
        return None
    overlap = _up(overlap, kind.spatial)
    grids = product(range(1, 1 + height // max(overlap, kind.spatial)), range(1, 1 + width // max(overlap, kind.spatial)))
    tiles = [Tiling(_even(height, rows, overlap, kind.spatial), _even(width, columns, overlap, kind.spatial), overlap) for rows, columns in grids]
    fitting = [tile for tile in tiles if tile.height * tile.width <= room and min(tile.height, tile.width) > overlap]
    if not fitting:
        found, expected = f"a budget of {budget_bytes / 2**30:.2f} GiB", f"{4 * overlap**2 * bytes_per_pixel / 2**30:.2f} GiB or more"
        raise DataError("E_OOM", f"{height}x{width}", found, expected, "raise the memory budget")
    return min(fitting, key=lambda tile: (tiled_pixels(height, width, tile), -tile.height, -tile.width))


def tiled_pixels(height: int, width: int, tiling: Tiling | None) -> int:
    """Return how many pixels of a frame the model sees: those in an overlap count once for each tile."""
    if tiling is None:
        return height * width
    sides = [sum(end - start for start, end in spans(*side)) for side in ((height, tiling.height, tiling.overlap), (width, tiling.width, tiling.overlap))]
    return sides[0] * sides[1]


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _even(length: int, count: int, overlap: int, step: int) -> int:
    """Return the length of one of `count` overlapping tiles that cover `length`, a multiple of `step`."""
    return min(length, _up(math.ceil((length + (count - 1) * overlap) / count), step))


def spans(length: int, tile: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield the tiles [start, end) along one side, overlapping by at least `overlap`; the last ends where the picture does."""
    start = 0
    while start + tile < length:
        yield start, start + tile
        start += tile - overlap
    yield start, length
