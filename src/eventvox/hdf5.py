"""The event file: a streaming writer, and a digest of its values for readers and for the look after writing.

The chunks are compressed here, by several threads if asked, and written as they are: HDF5's own filters would work on one of them at a time.
The digest is xxh3 (128 bits) over the three little-endian int64 numbers 5, H, W and then, for all chunks in order, the 16 bytes of the chunk's own xxh3 as
`layout` says: before compression, filled up with 0. T needs no place of its own: it follows from the number of bytes. It does not depend on the codec, so
it stays when deflate's bytes change.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from eventvox.chunktable import MISSING, chunk_table
from eventvox.codecs import compressor
from eventvox.inflate import DamagedChunk, best_inflater
from eventvox.kernel import split_chunk
from eventvox.layout import COUNTS, EVENTS, GZIP_LEVEL, SIDE_CHUNK, STARTS, corners, event_chunks, planes_shape
from eventvox.settings import VoxelSettings, parse_codec
from eventvox.voxels import Voxel
from shardwork.digests import new_xxh3


def digest_chunk(chunk: NDArray[np.uint8] | bytes | bytearray) -> bytes:
    """Return the digest of one uncompressed chunk, 16 bytes."""
    hasher = new_xxh3()
    hasher.update(chunk)
    return bytes(hasher.digest())


class ValuesDigest:
    """The digest of a file's voxels, fed in order."""

    def __init__(self, num_bins: int, height: int, width: int) -> None:
        self._hasher = new_xxh3()
        self._hasher.update(np.array([num_bins, height, width], "<i8").tobytes())

    def add(self, chunk_digest: bytes) -> None:
        """Add the digest of the next chunk, as `digest_chunk` returns it."""
        self._hasher.update(chunk_digest)

    def hexdigest(self) -> str:
        """Return the digest so far, as hex."""
        return str(self._hasher.hexdigest())


Fill = Callable[[tuple[int, int], NDArray[np.uint8]], None]
"""Writes the part of a voxel that one chunk holds: from its corner (y, x) to its planes (2, 5, chunk height, chunk width) uint8, all of them."""


class EventWriter:
    """An event file that grows by one voxel at a time. Two writes of the same values give the same bytes, whatever the number of threads.

    clipped : int, saturated values so far.   slices : int, slices so far.   voxels : int, T so far.
    """

    def __init__(self, file: Any, keeper: _FaultKeeper, height: int, width: int, fps: float, settings: VoxelSettings, pool: ThreadPoolExecutor | None) -> None:
        """Lay out the datasets and attributes in an open, empty file."""
        self._file, self._keeper, self._pool = file, keeper, pool
        self.voxels = self.slices = self.clipped = self._stored = 0
        self._digest = ValuesDigest(settings.num_bins, height, width)
        self._compress = compressor(parse_codec(settings.codec))
        shape = (settings.num_bins, height, width)
        chunks = event_chunks(*shape)
        # A fixed shape would refuse a chunk longer than the video, e.g. (1024,) for 7 voxels.
        self._events = file.create_dataset(
            EVENTS,
            shape=(0, *shape),
            maxshape=(None, *shape),
            dtype="<i2",
            chunks=chunks,
            compression="gzip",
            compression_opts=GZIP_LEVEL,
            shuffle=True,
            track_times=False,
        )
        self._corners = corners(height, width)
        self._shape = planes_shape(*shape)
        self._rooms = threading.local()
        self._waiting: list[Future[tuple[bytes, bytes]]] = []
        self._starts, self._counts = (
            file.create_dataset(name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(SIDE_CHUNK,), compression="lzf", shuffle=True, track_times=False)
            for name, dtype in ((STARTS, "<i8"), (COUNTS, "<i4"))
        )
        self._rows: list[tuple[int, int]] = []
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
        self.write(partial(split_chunk, voxel.events), voxel.start, voxel.count, voxel.clipped)

    def write(self, fill: Fill, start: int, count: int, clipped: int = 0) -> None:
        """Write the next voxel, chunk by chunk. Raises OSError where the disk is at fault.

        fill : called for every chunk, perhaps after this returns, but not after the next write returns.
        start : number of its first slice.   count : slices in it.   clipped : values that were saturated.
        """
        if self._pool is None:
            self._store(self._make(fill, corner) for corner in self._corners)
        else:
            # While the threads work on this voxel the caller decodes the next one; `fill` may rely on the one before it being done.
            self._store_waiting()
            self._waiting = [self._pool.submit(self._make, fill, corner) for corner in self._corners]
        self._rows.append((start, count))
        if len(self._rows) == SIDE_CHUNK:
            self._write_rows()
        self.voxels += 1
        self.slices += count
        self.clipped += clipped
        if self._keeper.error is not None:
            raise self._keeper.error

    def _make(self, fill: Fill, corner: tuple[int, int]) -> tuple[bytes, bytes]:
        """Return the digest and the compressed bytes of one chunk."""
        if not hasattr(self._rooms, "planes"):
            self._rooms.planes = np.empty(self._shape, np.uint8)
        planes: NDArray[np.uint8] = self._rooms.planes
        fill(corner, planes)
        chunk = planes.reshape(-1)
        return digest_chunk(chunk), self._compress(chunk)

    def _store(self, chunks: Iterable[tuple[bytes, bytes]]) -> None:
        """Put the chunks of the next voxel into the file, in their order."""
        self._events.resize(self._stored + 1, axis=0)
        for corner, (digest, stream) in zip(self._corners, chunks, strict=True):
            self._digest.add(digest)
            self._events.id.write_direct_chunk((self._stored, 0, *corner), stream)
        self._stored += 1

    def _store_waiting(self) -> None:
        if self._waiting:
            self._store(future.result() for future in self._waiting)
            self._waiting = []

    def _write_rows(self) -> None:
        """Write the starts and counts that wait for a whole chunk."""
        first, end = self._starts.shape[0], self._starts.shape[0] + len(self._rows)
        for dataset, column in ((self._starts, 0), (self._counts, 1)):
            dataset.resize(end, axis=0)
            dataset[first:end] = [row[column] for row in self._rows]
        self._rows.clear()

    def flush(self) -> None:
        """Write all that still waits."""
        self._store_waiting()
        if self._rows:
            self._write_rows()

    @property
    def file_bytes(self) -> int:
        """Return how large the file is so far."""
        return int(self._file.id.get_filesize())

    def values_digest(self) -> str:
        """Return the digest of the voxels so far, as hex; after `flush`."""
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
def create_events(path: Path, height: int, width: int, fps: float, settings: VoxelSettings, threads: int = 1) -> Iterator[EventWriter]:
    """Yield the writer of a new event file at `path`; close the file afterwards.

    height, width : pixels.   fps : source frame rate.   threads : how many compress; 1: the one that calls.   Raises OSError where the disk is at fault.
    """
    keeper = _FaultKeeper(path)
    pool = ThreadPoolExecutor(threads, "compress") if threads > 1 else None
    try:
        # Without a chunk cache each voxel is written at once: a full disk shows where it happens, and the size so far is true.
        with h5py.File(keeper, "w", libver="earliest", track_order=False, rdcc_nbytes=0) as file:
            writer = EventWriter(file, keeper, height, width, fps, settings, pool)
            yield writer
            writer.flush()
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        keeper.close()
    if keeper.error is not None:
        raise keeper.error


def read_values_digest(path: Path) -> str:
    """Return the digest of the voxels in a file of ours, as hex, from the stored bytes of every chunk. Raises OSError for a chunk that cannot be read."""
    inflater = best_inflater()
    with h5py.File(path, "r") as file, open(path, "rb", buffering=0) as raw:
        digest = ValuesDigest(*file[EVENTS].shape[1:])
        if not file[EVENTS].size:
            return digest.hexdigest()
        table = chunk_table(file, ours=True)
        if table is None or (table.offsets == MISSING).any():
            raise OSError(f"{path.name}: the chunks are not those that were written")
        for place in np.ndindex(table.offsets.shape):
            data = os.pread(raw.fileno(), table.sizes[place], table.offsets[place])
            try:
                digest.add(digest_chunk(inflater.inflate(data, table.chunk_bytes)))
            except DamagedChunk as error:
                raise OSError(f"{path.name}: chunk {place}: {error}") from error
    return digest.hexdigest()
