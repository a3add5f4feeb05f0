"""The event file: a streaming writer, and a digest of its values for readers and for the look after writing.

The digest is xxh3 (128 bits) over the three little-endian int64 numbers 5, H, W and then every voxel in order as little-endian int16 bytes in
C order. T needs no place of its own: it follows from the number of bytes. It does not depend on the codec, so it stays when deflate's bytes change.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from eventvox.settings import VoxelSettings, parse_codec
from eventvox.voxels import Voxel
from shardwork.digests import new_xxh3

EVENTS, STARTS, COUNTS = "events", "voxel_event_start", "voxel_event_count"
DATASETS = (EVENTS, STARTS, COUNTS)
ATTRIBUTES = ("fps", "height", "width", "num_bins", "interpolate_bins")
SIDE_CHUNK = 1024
TILE_PX = 256
HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)
"""What h5py raises for a file that is not what it says; it has no narrower type."""


def event_chunks(num_bins: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the chunk shape of `events`. Source: EventActivityNet format, "HDF5 Schema"."""
    return 1, num_bins, min(height, TILE_PX), min(width, TILE_PX)


class ValuesDigest:
    """The digest of a file's voxels, fed one voxel at a time."""

    def __init__(self, num_bins: int, height: int, width: int) -> None:
        self._hasher = new_xxh3()
        self._hasher.update(np.array([num_bins, height, width], "<i8").tobytes())

    def add(self, events: NDArray[np.int16]) -> None:
        """Add one voxel.   events : (5, H, W) int16."""
        self._hasher.update(np.ascontiguousarray(events, "<i2").reshape(-1).view(np.uint8))

    def hexdigest(self) -> str:
        """Return the digest so far, as hex."""
        return str(self._hasher.hexdigest())


class EventWriter:
    """An event file that grows by one voxel at a time. Two writes of the same values give the same bytes.

    clipped : int, saturated values so far.   slices : int, slices so far.   voxels : int, T so far.
    """

    def __init__(self, file: Any, keeper: _FaultKeeper, height: int, width: int, fps: float, settings: VoxelSettings) -> None:
        """Lay out the datasets and attributes in an open, empty file."""
        self._file, self._keeper = file, keeper
        self.voxels = self.slices = self.clipped = 0
        self._digest = ValuesDigest(settings.num_bins, height, width)
        shape = (settings.num_bins, height, width)
        # A fixed shape would refuse a chunk longer than the video, e.g. (1024,) for 7 voxels.
        self._events = file.create_dataset(
            EVENTS,
            shape=(0, *shape),
            maxshape=(None, *shape),
            dtype="<i2",
            chunks=event_chunks(*shape),
            compression="gzip",
            compression_opts=parse_codec(settings.codec).level,
            shuffle=True,
            track_times=False,
        )
        self._starts, self._counts = (
            file.create_dataset(name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(SIDE_CHUNK,), compression="lzf", shuffle=True, track_times=False)
            for name, dtype in ((STARTS, "<i8"), (COUNTS, "<i4"))
        )
        self._waiting: list[tuple[int, int]] = []
        for name, value in (
            ("fps", np.float64(fps)),
            ("height", np.int64(height)),
            ("width", np.int64(width)),
            ("num_bins", np.int64(settings.num_bins)),
            ("interpolate_bins", np.bool_(settings.interpolate_bins)),
        ):
            file.attrs.create(name, value)

    def append(self, voxel: Voxel) -> None:
        """Write the next voxel. Raises OSError where the disk is at fault."""
        self._events.resize(self.voxels + 1, axis=0)
        self._events[self.voxels] = voxel.events
        self._digest.add(voxel.events)
        self._waiting.append((voxel.start, voxel.count))
        if len(self._waiting) == SIDE_CHUNK:
            self.flush()
        self.voxels += 1
        self.slices += voxel.count
        self.clipped += voxel.clipped
        if self._keeper.error is not None:
            raise self._keeper.error

    def flush(self) -> None:
        """Write the starts and counts that wait for a whole chunk."""
        if not self._waiting:
            return
        first, end = self._starts.shape[0], self._starts.shape[0] + len(self._waiting)
        for dataset, column in ((self._starts, 0), (self._counts, 1)):
            dataset.resize(end, axis=0)
            dataset[first:end] = [row[column] for row in self._waiting]
        self._waiting.clear()

    @property
    def file_bytes(self) -> int:
        """Return how large the file is so far."""
        return int(self._file.id.get_filesize())

    def values_digest(self) -> str:
        """Return the digest of the voxels so far, as hex."""
        return self._digest.hexdigest()


class _FaultKeeper(io.FileIO):
    """A file for HDF5 to write to that keeps a failing disk to itself: HDF5 crashes the process after a failed write (measured with h5py 3.16).

    error : the first OSError, or None. After it nothing more is written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of `data`, or note why not."""
        view = memoryview(data).cast("B")
        sent = 0
        try:
            while self.error is None and sent < len(view):
                sent += super().write(view[sent:]) or 0
        except OSError as error:
            self.error = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the file's size, or note why not."""
        try:
            if self.error is None:
                return super().truncate(size)
        except OSError as error:
            self.error = error
        return size or 0


@contextmanager
def create_events(path: Path, height: int, width: int, fps: float, settings: VoxelSettings) -> Iterator[EventWriter]:
    """Yield the writer of a new event file at `path`; close the file afterwards.

    height, width : pixels.   fps : source frame rate.   Raises OSError where the disk is at fault.
    """
    keeper = _FaultKeeper(path)
    try:
        # Without a chunk cache each voxel is written at once: a full disk shows where it happens, and the size so far is true.
        with h5py.File(keeper, "w", libver="earliest", track_order=False, rdcc_nbytes=0) as file:
            writer = EventWriter(file, keeper, height, width, fps, settings)
            yield writer
            writer.flush()
    finally:
        keeper.close()
    if keeper.error is not None:
        raise keeper.error


def iter_voxels(events: Any) -> Iterator[NDArray[np.int16]]:
    """Yield each voxel of an `events` dataset, (5, H, W) int16; the array is used again for the next one."""
    buffer = np.empty(events.shape[1:], "<i2")
    for t in range(events.shape[0]):
        if buffer.size:
            events.read_direct(buffer, np.s_[t])
        yield buffer


def read_values_digest(path: Path) -> str:
    """Return the digest of the voxels in a file, as hex; reads every chunk of `events`. Raises OSError for a chunk that cannot be read."""
    with h5py.File(path, "r") as file:
        events = file[EVENTS]
        digest = ValuesDigest(*events.shape[1:])
        for voxel in iter_voxels(events):
            digest.add(voxel)
        return digest.hexdigest()
