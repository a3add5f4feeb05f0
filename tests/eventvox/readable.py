"""Event files written by plain h5py, for the tests of the reader."""

from __future__ import annotations

import h5py
import numpy as np

from eventvox.chunktable import chunk_table


def values(shape, seed=0, low=-9, high=10):
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int16)


def chunks_of(shape):
    return (1, shape[1], min(shape[2], 256), min(shape[3], 256))


def write_file(path, events, *, fps=25.0, step=5, counts=None, **options):
    """Write an event file by plain h5py; options change how `events` is stored."""
    with h5py.File(path, "w", **({"userblock_size": options.pop("userblock")} if "userblock" in options else {})) as file:
        layout = {"chunks": chunks_of(events.shape), "maxshape": (None, *events.shape[1:]), "compression": "gzip", "shuffle": True}
        file.create_dataset("events", data=events, **{**layout, **options})
        write_sides(file, events.shape, fps, step, counts)
    return path


def write_sides(file, shape, fps=25.0, step=5, counts=None):
    length = shape[0]
    for name, dtype, side in (("start", "<i8", np.arange(length) * step), ("count", "<i4", np.full(length, step) if counts is None else counts)):
        file.create_dataset(f"voxel_event_{name}", data=np.array(side, dtype), chunks=(1024,), maxshape=(None,), compression="lzf", shuffle=True)
    for name, value in (("fps", fps), ("height", shape[2]), ("width", shape[3]), ("num_bins", 5), ("interpolate_bins", np.bool_(False))):
        file.attrs[name] = value


def write_raw(path, shape, streams):
    """Write a file whose chunks are given as stored: {(t, y, x): (bytes, filter mask)}; what is not given is missing."""
    with h5py.File(path, "w") as file:
        events = file.create_dataset("events", shape=shape, dtype="<i2", chunks=chunks_of(shape), maxshape=(None, *shape[1:]), compression="gzip", shuffle=True)
        for (t, y, x), (stream, mask) in streams.items():
            events.id.write_direct_chunk((t, 0, y, x), stream, mask)
        write_sides(file, shape)
    return path


def planes(events, t, y, x):
    """Return the shuffled bytes of one chunk, the part beyond the picture padded with 77."""
    _, bins, height, width = chunks_of(events.shape)
    chunk = np.full((bins, height, width), 77, "<i2")
    part = events[t, :, y : y + height, x : x + width]
    chunk[:, : part.shape[1], : part.shape[2]] = part
    return chunk.reshape(-1).view(np.uint8).reshape(-1, 2).T.tobytes()


def streams_of(events, compress):
    _, _, height, width = chunks_of(events.shape)
    places = [(t, y, x) for t in range(events.shape[0]) for y in range(0, events.shape[2], height) for x in range(0, events.shape[3], width)]
    return {place: (compress(planes(events, *place)), 0) for place in places}


def by_h5py(path):
    with h5py.File(path, "r") as file:
        return file["events"][()]


def is_read_without_hdf5(path):
    with h5py.File(path, "r") as file:
        return chunk_table(file) is not None


def same(found, expected):
    return found.dtype == expected.dtype and found.shape == expected.shape and np.array_equal(found, expected)


def seven_voxels(folder):
    """Write a file of 7 voxels and 2 x 2 chunks, those at the edges partial."""
    return write_file(folder / "v.h5", values((7, 5, 270, 300)), counts=[5] * 6 + [3])
