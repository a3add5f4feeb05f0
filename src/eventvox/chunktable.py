"""Where the chunks of a file's events lie, so that they can be read without the HDF5 library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from eventvox.layout import EVENTS, HDF5_ERRORS, corners, event_chunks

FILTERS = [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE]
MISSING = -1


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """The stored chunks of `events`.

    chunk : (5, h, w), the size of each.   offsets : (T, rows, columns) int64, first byte in the file, MISSING where nothing is stored (values 0).
    sizes : (T, rows, columns) int64, stored bytes.
    """

    chunk: tuple[int, int, int]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def chunk_bytes(self) -> int:
        """Return how many bytes a chunk inflates to."""
        return 2 * self.chunk[0] * self.chunk[1] * self.chunk[2]


def chunk_table(file: Any, *, ours: bool = False) -> ChunkTable | None:
    """Return where the chunks of an open file's events are, or None if they are not laid out as the format says and only HDF5 may read them.

    ours : whether it was written by `hdf5`, so that every chunk is a zlib stream.
    """
    events = file[EVENTS]
    if not _is_plain(file, events):
        return None
    chunk = events.chunks[1:]
    grid = (events.shape[0], *(-(-size // step) for size, step in zip(events.shape[2:], chunk[1:], strict=True)))
    offsets, sizes = np.full(grid, MISSING, np.int64), np.zeros(grid, np.int64)
    filtered, listed = True, 0

    def note(stored: Any) -> None:
        nonlocal filtered, listed
        t, _, y, x = stored.chunk_offset
        place = (t, y // chunk[1], x // chunk[2])
        listed += 1
        offsets[place], sizes[place] = stored.byte_offset, stored.size
        # A mask says that a filter was left out for this chunk.
        filtered = filtered and stored.filter_mask == 0 and stored.byte_offset is not None

    events.id.chunk_iter(note)
    # In a damaged index a chunk is listed, and yet HDF5 does not find it by its place and reads zeros there.
    places = np.argwhere(offsets != MISSING)
    filtered = filtered and len(places) == listed and all(finds(events, (t, 0, y * chunk[1], x * chunk[2]), int(sizes[t, y, x])) for t, y, x in places.tolist())
    table = ChunkTable(chunk, offsets, sizes)
    # HDF5 can be told to leave partial chunks unfiltered, and only their size shows it.
    # A zlib stream of a tiny chunk may have that size too: HDF5 then reads it.
    return table if filtered and (ours or not (sizes == table.chunk_bytes).any()) else None


def _fills_with_zeros(plist: Any, events: Any) -> bool:
    # asked first whether there is a fill value at all: HDF5 dies of reading a damaged one that is not
    defined = plist.fill_value_defined()
    return bool(defined == h5py.h5d.FILL_VALUE_DEFAULT or (defined == h5py.h5d.FILL_VALUE_USER_DEFINED and events.fillvalue == 0))


def finds(events: Any, corner: tuple[int, ...], size: int) -> bool:
    """Return whether HDF5, asked for the chunk at a corner, finds one of so many stored bytes. Nothing is read of it.

    h5py looks a chunk up before it compares its size with the room that it is given: the message names the size. 7 microseconds a chunk with h5py 3.16.
    """
    try:
        events.id.read_direct_chunk(corner, out=bytearray())
    except ValueError as error:
        return f" {size} bytes" in str(error)
    except HDF5_ERRORS:
        return False
    return False


def unsound_chunks(events: Any) -> Iterator[tuple[int, str]]:
    """Yield the voxel of each chunk that plain HDF5 would read as something else than the format's values, and why.

    events : the dataset, laid out and filtered as the format says, of which as many chunks are stored as its shape has.
    """
    stored: dict[tuple[int, ...], tuple[int, int, int]] = {}

    def note(found: Any) -> None:
        stored[tuple(found.chunk_offset)] = (found.byte_offset, found.size, found.filter_mask)

    events.id.chunk_iter(note)
    taken: dict[int, tuple[int, ...]] = {}
    for t in range(events.shape[0]):
        for y, x in corners(*events.shape[2:]):
            corner = (t, 0, y, x)
            offset, size, mask = stored.get(corner, (None, 0, 0))
            if offset is None or not finds(events, corner, size):
                yield t, f"chunk {corner} is stored, but HDF5 does not find it"
            elif mask:
                yield t, f"chunk {corner} leaves out filters (mask {mask})"
            elif taken.setdefault(offset, corner) != corner:
                yield t, f"chunk {corner} has the bytes of chunk {taken[offset]}"


def _is_plain(file: Any, events: Any) -> bool:
    """Return whether the layout is the format's own: dtype, chunks, filters, fill value, all in this one file."""
    if not isinstance(file.get(EVENTS, getlink=True), h5py.HardLink) or not hasattr(events.id, "chunk_iter") or file.userblock_size:
        return False
    plist = events.id.get_create_plist()
    if plist.get_layout() != h5py.h5d.CHUNKED or events.chunks != event_chunks(*events.shape[1:]) or not events.size:
        return False
    filters = [plist.get_filter(index)[0] for index in range(plist.get_nfilters())]
    return bool(filters == FILTERS and events.id.get_type().equal(h5py.h5t.STD_I16LE) and _fills_with_zeros(plist, events))
