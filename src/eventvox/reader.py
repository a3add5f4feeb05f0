"""A fast, lazy reader of event files, for training loops. It needs numpy and h5py; deflate, zlib-ng or isal, where installed, make it fast."""

from __future__ import annotations

import operator
import os
import stat
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from eventvox.chunktable import MISSING, ChunkTable, chunk_table
from eventvox.inflate import DamagedChunk, best_inflater, short, unshuffle
from eventvox.layout import COUNTS, EVENTS, HDF5_ERRORS, STARTS
from eventvox.timing import BINS_PER_VOXEL, interval_to_voxels, rational_fps
from shardwork.errors import DataError
from shardwork.watched import WatchedFile

MOST_THREADS = 4
HINT = "copy the file again, or make it again from its video; python -m eventvox validate FILE names every fault"


class EventVideo:
    """The voxels of one event file, read when they are asked for: `len(video)`, `video[t]`, `video[a:b:step]`, `video.interval(2.0, 4.5)`.

    path : Path, absolute.   shape : (T, 5, H, W).   dtype : int16 (a foreign file's own, where int16 cannot hold it).
    fps : float.   height, width, num_bins : int.   interpolate_bins : bool.   starts : (T,) int64.   counts : (T,) int32.
    threads : how many threads inflate at once, the caller's among them; None means the cores that this process may use, at most 4.

    No file stays open between two reads, so that any number of videos can be held, used from many threads, forked and pickled (as path and threads).
    Arrays are new for each read and may be written to. Values are those that plain h5py reads; a file laid out otherwise than the format says is left
    to h5py. Raises OSError where the file is missing or the machine does not let us read, DataError (invalid_hdf5) for a file that is no event file,
    DataError (source_changed) once it is another than it was at first, ValueError after close().   Source: EventActivityNet format.
    """

    def __init__(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes], threads: int | None = None) -> None:
        """Read everything but the events themselves."""
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise DataError("bad_argument", "threads", repr(threads), "a whole number from 1, or None", "threads=1 reads in the calling thread alone")
        self.path = Path(os.fsdecode(path)).absolute()
        self._asked_threads = threads
        self.threads: int = threads or min(MOST_THREADS, cores())
        self._closed = False
        self._table: tuple[ChunkTable | None] | None = None
        with self._opened() as (file, identity):
            self._identity = identity
            events = _dataset(file, EVENTS, self.path, 4)
            self.shape: tuple[int, int, int, int] = events.shape
            self.dtype: np.dtype[Any] = np.dtype(np.int16) if np.can_cast(events.dtype, np.int16) else events.dtype
            self.starts: NDArray[np.int64] = _side(file, STARTS, self.path, events.shape[0]).astype(np.int64)
            self.counts: NDArray[np.int32] = _side(file, COUNTS, self.path, events.shape[0]).astype(np.int32)
            self.fps = float(file.attrs["fps"])
            self.height, self.width, self.num_bins = (int(file.attrs[name]) for name in ("height", "width", "num_bins"))
            self.interpolate_bins = bool(file.attrs["interpolate_bins"])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int | slice) -> NDArray[np.int16]:
        """Return one voxel, (5, H, W) int16, or those of a slice, (n, 5, H, W) int16. Negative indices and steps count as in a list."""
        if isinstance(index, slice):
            return self._read(range(*index.indices(len(self))))
        t = operator.index(index)
        if not -len(self) <= t < len(self):
            raise IndexError(f"{self.path}: voxel {t} of {len(self)}")
        voxel: NDArray[np.int16] = self._read(range(t % len(self), t % len(self) + 1))[0]
        return voxel

    def __iter__(self) -> Iterator[NDArray[np.int16]]:
        return (self[t] for t in range(len(self)))

    def interval(self, start_seconds: float | Fraction, end_seconds: float | Fraction) -> NDArray[np.int16]:
        """Return the voxels that a caption or action from `start_seconds` to `end_seconds` covers, (n, 5, H, W) int16; n is 0 past the end.

        Raises DataError (bad_argument, bad_fps; invalid_hdf5 where `starts` do not lie evenly).   Source: EventActivityNet format, "Timing Metadata".
        """
        fps_num, fps_den = rational_fps(self.fps)
        # With f frames in each bin, a voxel covers 5 * f of them: as if the video had 1 / f of its rate.
        # Rounding to whole frames first changes nothing, since floor(floor(x) / f) = floor(x / f), and so for ceil.
        first, end = interval_to_voxels(start_seconds, end_seconds, fps_num, fps_den * self._frames_per_bin(), len(self))
        return self[first:end]

    def close(self) -> None:
        """Forget where the chunks lie; reading then raises ValueError. Metadata stay."""
        self._closed, self._table = True, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (os.fspath(self.path), self._asked_threads)

    def __repr__(self) -> str:
        return f"EventVideo({os.fspath(self.path)!r}, shape={self.shape}, fps={self.fps:g})"

    def _frames_per_bin(self) -> int:
        if len(self) > 1:
            step = int(self.starts[1])
        else:
            # One voxel does not tell f. The least that its count allows is 1 in every file of the format, and a larger f would give
            # the same voxel to every interval that begins before the video ends.
            step = BINS_PER_VOXEL * max(1, -(-int(self.counts.max(initial=0)) // BINS_PER_VOXEL))
        if step < BINS_PER_VOXEL or step % BINS_PER_VOXEL or not np.array_equal(self.starts, np.arange(len(self), dtype=np.int64) * step):
            raise DataError("invalid_hdf5", self.path, f"{STARTS} {self.starts[:3].tolist()}", "0, 5f, 10f and so on", HINT)
        return step // BINS_PER_VOXEL

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Yield the file, open for h5py, and what tells it from others. What HDF5 says of a bad file becomes a DataError, of a bad disk an OSError."""
        kind = self.path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise DataError("invalid_hdf5", self.path, "a folder" if stat.S_ISDIR(kind) else "not a regular file", "an HDF5 file", HINT)
        with WatchedFile(self.path) as watched:
            try:
                with h5py.File(watched, "r") as file:
                    if not _is_elsewhere(file):
                        yield file, _identity(watched.fileno())
                        return
                # What other files hold is found from the path alone, by HDF5's own ways of opening.
                with h5py.File(self.path, "r") as file:
                    yield file, _identity(watched.fileno())
            except (*HDF5_ERRORS, IndexError) as error:
                watched.raise_error(error)
                raise DataError("invalid_hdf5", self.path, f"cannot be read as an event file ({short(error)})", "an event file", HINT) from error

    def _check_same(self, identity: tuple[int, ...]) -> None:
        if identity != self._identity:
            found = "another size, time or file than when it was opened"
            raise DataError("source_changed", self.path, found, "a file that stays as it is", "open it again: EventVideo(path)")

    def _read(self, voxels: range) -> NDArray[np.int16]:
        """Return voxels, (n, 5, H, W), in the order asked for."""
        if self._closed:
            raise ValueError(f"{self.path}: this EventVideo is closed")
        if not voxels:
            return np.empty((0, *self.shape[1:]), self.dtype)
        known = self._table
        if known is None:
            with self._opened() as (file, identity):
                self._check_same(identity)
                known = self._table = (chunk_table(file),)
        return self._read_plain(voxels) if known[0] is None else self._read_chunks(voxels, known[0])

    def _read_plain(self, voxels: range) -> NDArray[np.int16]:
        """Read through the HDF5 library, which also follows links and virtual datasets to other files."""
        rising = voxels if voxels.step > 0 else voxels[::-1]
        with self._opened() as (file, identity):
            self._check_same(identity)
            try:
                values = file[EVENTS][rising.start : rising.stop : rising.step]
            except HDF5_ERRORS as error:
                names = f"voxel {voxels[0]}" if len(voxels) == 1 else f"voxels {rising[0]} to {rising[-1]}"
                raise OSError(f"{names}: {short(error)}") from error
        events: NDArray[np.int16] = values.astype(self.dtype, copy=False)
        return events if rising is voxels else np.ascontiguousarray(events[::-1])

    def _read_chunks(self, voxels: range, table: ChunkTable) -> NDArray[np.int16]:
        """Read the stored chunks, several at once. Of several bad ones the first is named."""
        out = np.empty((len(voxels), *self.shape[1:]), np.int16)
        rows, columns = table.offsets.shape[1:]
        jobs = deque((i, row, column) for i in range(len(voxels)) for row in range(rows) for column in range(columns))
        failed: list[tuple[tuple[int, int, int], Exception]] = []
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)

        def work() -> None:
            scratch = np.empty(table.chunk_bytes // 2, np.int8)
            while jobs:
                try:
                    job = jobs.popleft()
                except IndexError:  # another thread took the last
                    return
                try:
                    self._read_chunk(file, table, (voxels[job[0]], *job[1:]), out[job[0]], scratch)
                except (OSError, DataError) as error:
                    failed.append((job, error))
                    jobs.clear()

        try:
            self._check_same(_identity(file))
            helpers = [_pool(os.getpid(), self.threads).submit(work) for _ in range(min(self.threads, len(jobs)) - 1)]
            try:
                work()
            finally:
                jobs.clear()
                # One that has not begun, because other reads hold the threads, has nothing left to do.
                # All are waited for before the file is closed, whatever the first of them says.
                begun = [helper for helper in helpers if not helper.cancel()]
                wait(begun)
                for helper in begun:
                    helper.result()
        finally:
            os.close(file)
        if failed:
            raise min(failed, key=operator.itemgetter(0))[1]
        return out

    def _read_chunk(self, file: int, table: ChunkTable, place: tuple[int, int, int], voxel: NDArray[np.int16], scratch: NDArray[np.int8]) -> None:
        """Write the values of one chunk into its place in a voxel."""
        offset, size = int(table.offsets[place]), int(table.sizes[place])
        y, x = place[1] * table.chunk[1], place[2] * table.chunk[2]
        tile = voxel[:, y : y + table.chunk[1], x : x + table.chunk[2]]
        if offset == MISSING:
            tile[...] = 0
            return
        where = f"{self.path}: voxel {place[0]}, chunk {(place[0], 0, y, x)}"
        if offset + size > self._identity[2]:
            raise DataError("invalid_hdf5", where, f"bytes {offset} to {offset + size} of a file of {self._identity[2]}", "a whole file", HINT)
        try:
            stored = os.pread(file, size, offset)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} (voxel {place[0]}, chunk {(place[0], 0, y, x)})", str(self.path)) from error
        try:
            planes = best_inflater().inflate(stored, table.chunk_bytes)
        except DamagedChunk as error:
            raise DataError("invalid_hdf5", where, error.found, error.expected, HINT) from error
        unshuffle(planes, table.chunk, tile, scratch)


@cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads that all videos of this process share: a forked process has none of its parent's."""
    return ThreadPoolExecutor(threads, "eventvox-read")


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _identity(file: int | Path) -> tuple[int, ...]:
    """Return what tells a file from another, or from itself after a change: device, inode, bytes, time."""
    found = os.fstat(file) if isinstance(file, int) else file.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_elsewhere(file: Any) -> bool:
    """Return whether the events lie in other files."""
    return isinstance(file.get(EVENTS, getlink=True), h5py.ExternalLink) or bool(getattr(file[EVENTS], "is_virtual", False))


def _dataset(file: Any, name: str, path: Path, dimensions: int) -> Any:
    """Return a dataset of numbers with so many dimensions. Raises DataError (invalid_hdf5)."""
    if name not in file:
        raise DataError("invalid_hdf5", path, f"no {name}", "an event file", HINT)
    found = file[name]
    if not isinstance(found, h5py.Dataset) or found.shape is None or len(found.shape) != dimensions or found.dtype.kind not in "biuf":
        raise DataError("invalid_hdf5", path, f"{name} is {found!r}", f"a dataset of numbers with {dimensions} dimensions", HINT)
    return found


def _side(file: Any, name: str, path: Path, length: int) -> NDArray[Any]:
    found = _dataset(file, name, path, 1)
    # before anything is read: a damaged length would have its room first
    if found.shape[0] != length:
        raise DataError("invalid_hdf5", path, f"{found.shape[0]} entries in {name}", f"{length}, the length of {EVENTS}", HINT)
    values: NDArray[Any] = found[()]
    return values
