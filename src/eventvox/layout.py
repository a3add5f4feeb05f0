"""The layout of an event file: names, chunks, and how its bytes lie before they are compressed. Standard library alone.

A chunk holds one voxel's part of 5 bins times at most 256 x 256 pixels, filled up with 0 beyond the picture. HDF5's shuffle filter puts the low bytes
of all its values before the high ones, so an uncompressed chunk is an array (2, 5, chunk height, chunk width) of bytes: two planes a bin.
"""

from __future__ import annotations

EVENTS, STARTS, COUNTS = "events", "voxel_event_start", "voxel_event_count"
DATASETS = (EVENTS, STARTS, COUNTS)
ATTRIBUTES = ("fps", "height", "width", "num_bins", "interpolate_bins")
SIDE_CHUNK = 1024
TILE_PX = 256
GZIP_LEVEL = 4
"""What the file says of its compression, whatever codec made it. Source: events spec, "HDF5"."""
HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)
"""What h5py raises for a file that is not what it says; it has no narrower type."""


def event_chunks(num_bins: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the chunk shape of `events`. Source: EventActivityNet format, "HDF5 Schema"."""
    return 1, num_bins, min(height, TILE_PX), min(width, TILE_PX)


def planes_shape(num_bins: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the shape of an uncompressed chunk's bytes: (low and high bytes, bins, chunk height, chunk width)."""
    return 2, *event_chunks(num_bins, height, width)[1:]


def corners(height: int, width: int) -> list[tuple[int, int]]:
    """Return the upper left corner of each chunk of a voxel, (y, x) in pixels, row by row, as they follow in a file."""
    _, _, tall, wide = event_chunks(0, height, width)
    return [(y, x) for y in range(0, height, tall) for x in range(0, width, wide)]
