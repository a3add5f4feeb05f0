"""EventVideo gives what plain h5py gives, whatever the size, the layout, the codec and the process; and names what it cannot read."""

from __future__ import annotations

import ast
import errno
import importlib.util
import math
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from eventvox import EventVideo, reader
from eventvox.chunktable import chunk_table
from eventvox.inflate import LIBRARIES, load_inflater
from eventvox.settings import VoxelSettings
from eventvox.voxelize import voxelize_video
from shardwork.errors import DataError
from tests.eventvox.conftest import moving_frames, write_video

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.fixture
def path(tmp_path):
    """A file of 7 voxels and 2 x 2 chunks, those at the edges partial."""
    return write_file(tmp_path / "v.h5", values((7, 5, 270, 300)), counts=[5] * 6 + [3])


# Values


@pytest.mark.parametrize("size", [(1, 1), (1, 257), (3, 4), (255, 256), (256, 256), (257, 255), (257, 513), (40, 1030)])
@pytest.mark.parametrize("ends", [(-9, 10), (-128, 128), (-129, 129), (-32768, 32768), (0, 1)])
def test_the_values_are_those_that_were_written(tmp_path, size, ends):
    events = values((3, 5, *size), 1, *ends)
    with EventVideo(write_file(tmp_path / "v.h5", events), 2) as video:
        assert is_read_without_hdf5(video.path)
        assert same(video[:], events) and all(same(video[t], events[t]) for t in range(3))


@given(st.integers(0, 4), st.integers(1, 300), st.integers(1, 300), st.integers(0, 99), st.sampled_from([1, 127, 128, 129, 255, 256, 32767]), st.integers(1, 3))
@hypothesis_settings(max_examples=25)
def test_any_file_reads_as_h5py_reads_it(tmp_path_factory, length, height, width, seed, high, threads):
    path = write_file(tmp_path_factory.mktemp("v") / "v.h5", values((length, 5, height, width), seed, -high, high))
    assert same(EventVideo(path, threads)[:], by_h5py(path))


@pytest.mark.parametrize("value", [-32768, -129, -128, -1, 0, 127, 128, 255, 256, 32767])
def test_one_value_among_zeros_keeps_its_place(tmp_path, value):
    events = np.zeros((1, 5, 20, 300), np.int16)
    events[0, 3, 19, 299] = value
    assert same(EventVideo(write_file(tmp_path / "v.h5", events))[0], events[0])


COMPRESSORS = {
    "zlib": lambda module: lambda data: module.compress(data, 2),
    "isal.isal_zlib": lambda module: lambda data: module.compress(data, 1),
    "zlib_ng.zlib_ng": lambda module: lambda data: module.compress(data, 4),
    "deflate": lambda module: lambda data: bytes(module.zlib_compress(data, 6)),
}


@pytest.mark.parametrize("writer", COMPRESSORS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_inflater_reads_every_compressor(tmp_path, monkeypatch, writer, library):
    compress = COMPRESSORS[writer](pytest.importorskip(writer))
    pytest.importorskip(LIBRARIES[library][0])
    monkeypatch.setattr(reader, "best_inflater", lambda: load_inflater(library))
    events = values((2, 5, 260, 300), 2, -200, 200)
    path = write_raw(tmp_path / "v.h5", events.shape, streams_of(events, compress))
    assert is_read_without_hdf5(path)
    assert same(EventVideo(path)[:], events) and same(by_h5py(path), events)


def test_without_any_other_package_zlib_inflates(path):
    hide = "".join(f"sys.modules[{LIBRARIES[name][0]!r}] = None; " for name in LIBRARIES if name != "zlib")
    code = f"import sys; {hide}from eventvox import EventVideo, inflate; print(EventVideo({str(path)!r})[:].sum(), inflate.best_inflater().name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.stdout.split() == [str(by_h5py(path).sum()), "zlib"], done.stderr


def test_a_missing_chunk_is_zero(tmp_path):
    events = values((3, 5, 260, 300))
    streams = streams_of(events, zlib.compress)
    del streams[1, 0, 256], streams[2, 256, 0]
    events[1, :, :256, 256:] = events[2, :, 256:, :256] = 0
    path = write_raw(tmp_path / "v.h5", events.shape, streams)
    assert is_read_without_hdf5(path) and same(EventVideo(path)[:], events)


def test_a_file_that_this_project_writes_reads_as_h5py_reads_it(tmp_path):
    video = write_video(tmp_path / "v.mkv", moving_frames(24, 50, 300))
    voxelize_video(video, tmp_path / "v.h5", "v", VoxelSettings())
    read = EventVideo(tmp_path / "v.h5")
    assert is_read_without_hdf5(read.path) and same(read[:], by_h5py(read.path))
    assert (read.starts.tolist(), read.counts.tolist(), read.fps) == ([0, 5, 10, 15, 20], [5, 5, 5, 5, 3], 25.0)
    assert not read[4][3:].any() and read[4][:3].any()


@pytest.mark.parametrize("name", ["bikes.mp4", "bigbuckbunny.mp4"])
def test_real_videos_read_as_h5py_reads_them(tmp_path, sample_videos, name):
    voxelize_video(sample_videos / name, tmp_path / "v.h5", "v", VoxelSettings())
    video = EventVideo(tmp_path / "v.h5")
    with h5py.File(video.path, "r") as file:
        assert all(same(voxel, file["events"][t]) for t, voxel in enumerate(video))


# Indexing and metadata


@pytest.mark.parametrize("part", ["0:7", "2:5", "5:2", "::2", "1:6:3", "::-1", "5:1:-2", "-3:", ":-5", "3:3", "90:99", "-99:2"])
def test_slices_are_those_of_numpy(path, part):
    chosen = slice(*(int(word) if word else None for word in part.split(":")))
    assert same(EventVideo(path)[chosen], by_h5py(path)[chosen])


@pytest.mark.parametrize("t", [0, 6, -1, -7, np.int64(3), np.uint8(2)])
def test_one_voxel_is_that_of_numpy(path, t):
    assert same(EventVideo(path)[t], by_h5py(path)[t])


@pytest.mark.parametrize("t", [7, -8, 10**20])
def test_a_voxel_beyond_the_end_is_an_index_error(path, t):
    with pytest.raises(IndexError, match="of 7"):
        EventVideo(path)[t]


@pytest.mark.parametrize("index", ["0", 1.0, None, (0, 1), [0]])
def test_other_indices_are_a_type_error(path, index):
    with pytest.raises(TypeError):
        EventVideo(path)[index]


def test_what_is_read_belongs_to_the_caller(path):
    video = EventVideo(path)
    first = video[0]
    first += 1
    assert first.flags.c_contiguous and same(video[0], by_h5py(path)[0])


def test_the_metadata_are_those_of_the_file(tmp_path):
    video = EventVideo(os.fsencode(write_file(tmp_path / "v.h5", values((3, 5, 4, 6)), fps=30000 / 1001, counts=[5, 5, 2])))
    assert (len(video), video.shape, video.dtype, video.path) == (3, (3, 5, 4, 6), np.dtype(np.int16), tmp_path / "v.h5")
    assert (video.fps, video.height, video.width, video.num_bins, video.interpolate_bins) == (30000 / 1001, 4, 6, 5, False)
    assert same(video.starts, np.array([0, 5, 10], np.int64)) and same(video.counts, np.array([5, 5, 2], np.int32))


def test_a_file_without_voxels_is_read(tmp_path):
    video = EventVideo(write_file(tmp_path / "v.h5", values((0, 5, 4, 6))))
    assert len(video) == 0 and same(video[:], np.empty((0, 5, 4, 6), np.int16)) and video.interval(0, 9).shape == (0, 5, 4, 6)
    with pytest.raises(IndexError):
        video[0]


# Intervals


def test_an_interval_is_that_of_the_format(path):
    # 25 frames a second: 0.3 s to 0.9 s are frames 7 to 23, so voxels 1 to 4.
    assert same(EventVideo(path).interval(0.3, 0.9), by_h5py(path)[1:5])


def test_an_interval_of_the_ntsc_rate_ends_on_the_frame_that_was_meant(tmp_path):
    video = EventVideo(write_file(tmp_path / "v.h5", values((9, 5, 2, 2)), fps=30000 / 1001))
    # 1.001 s are exactly 30 frames, 6 voxels; the double 29.97... would make it 31 frames, 7 voxels.
    assert same(video.interval(Fraction(1001, 2000), Fraction(1001, 1000)), by_h5py(video.path)[3:6])


@given(st.integers(1, 6), st.integers(2, 12), st.fractions(0, 9, max_denominator=1000), st.fractions(0, 3, max_denominator=1000))
@hypothesis_settings(max_examples=40)
def test_an_interval_counts_the_frames_of_each_bin(tmp_path_factory, f, length, start, duration):
    events = np.arange(length, dtype=np.int16).reshape(-1, 1, 1, 1) * np.ones((1, 5, 1, 1), np.int16)
    video = EventVideo(write_file(tmp_path_factory.mktemp("v") / "v.h5", events, step=5 * f))
    first, end = math.floor(math.floor(start * 25) / Fraction(5 * f)), math.ceil(math.ceil((start + duration) * 25) / Fraction(5 * f))
    assert video.interval(start, start + duration)[:, 0, 0, 0].tolist() == [t for t in range(length) if first <= t < end]


@pytest.mark.parametrize(("count", "end_seconds", "read"), [(3, 0.1, 1), (8, 0.3, 1), (8, 0.0, 0)])
def test_an_interval_of_a_single_voxel(tmp_path, count, end_seconds, read):
    assert len(EventVideo(write_file(tmp_path / "v.h5", values((1, 5, 2, 2)), counts=[count])).interval(0, end_seconds)) == read


@pytest.mark.parametrize("step", [0, 1, 7, -5])
def test_starts_that_no_setting_makes_refuse_intervals(tmp_path, step):
    with pytest.raises(DataError, match="voxel_event_start") as caught:
        EventVideo(write_file(tmp_path / "v.h5", values((3, 5, 2, 2)), step=step)).interval(0, 1)
    assert caught.value.code == "invalid_hdf5"


# Other layouts


LAYOUTS: dict[str, dict[str, Any]] = {
    "no shuffle": {"shuffle": False},
    "no compression": {"compression": None},
    "lzf": {"compression": "lzf"},
    "checksum": {"fletcher32": True},
    "contiguous": {"compression": None, "shuffle": False, "chunks": None, "maxshape": None},
    "two voxels a chunk": {"chunks": (2, 5, 256, 256)},
    "one bin a chunk": {"chunks": (1, 1, 256, 256)},
    "small chunks": {"chunks": (1, 5, 64, 64)},
    "big endian": {"dtype": ">i2"},
    "8 bits": {"dtype": "i1"},
    "32 bits": {"dtype": "<i4"},
    "unsigned": {"dtype": "<u2"},
    "floats": {"dtype": "<f4"},
    "another fill value": {"fillvalue": 7},
    "user block": {"userblock": 512},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_layout_is_left_to_h5py(tmp_path, layout):
    path = write_file(tmp_path / "v.h5", values((5, 5, 260, 300)), **LAYOUTS[layout])
    expected = by_h5py(path)
    if np.can_cast(expected.dtype, np.int16):
        expected = expected.astype(np.int16)
    video = EventVideo(path)
    assert not is_read_without_hdf5(path)
    assert same(video[:], expected) and same(video[3], expected[3]) and same(video[4:0:-3], expected[4:0:-3]) and same(video[2:2], expected[2:2])


@pytest.mark.parametrize("mask", [1, 2, 3])
def test_a_chunk_with_filters_left_out_is_left_to_h5py(tmp_path, mask):
    events = values((2, 5, 30, 30))
    plain, shuffled = events[1].astype("<i2").tobytes(), planes(events, 1, 0, 0)
    stored = {1: zlib.compress(plain), 2: shuffled, 3: plain}[mask]
    path = write_raw(tmp_path / "v.h5", events.shape, {**streams_of(events, zlib.compress), (1, 0, 0): (stored, mask)})
    assert not is_read_without_hdf5(path) and same(by_h5py(path), events) and same(EventVideo(path)[:], events)


@pytest.mark.parametrize("link", ["soft", "external", "virtual"])
def test_events_that_lie_elsewhere_are_left_to_h5py(tmp_path, link):
    events = values((4, 5, 20, 30))
    other = write_file(tmp_path / "other.h5", events)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        if link == "soft":
            file.create_dataset("elsewhere", data=events, chunks=chunks_of(events.shape), compression="gzip", shuffle=True)
            file["events"] = h5py.SoftLink("/elsewhere")
        elif link == "external":
            file["events"] = h5py.ExternalLink("other.h5", "events")
        else:
            layout = h5py.VirtualLayout(events.shape, "<i2")
            layout[...] = h5py.VirtualSource(other, "events", shape=events.shape)
            file.create_virtual_dataset("events", layout)
        write_sides(file, events.shape)
    assert not is_read_without_hdf5(tmp_path / "v.h5")
    assert same(EventVideo(tmp_path / "v.h5")[:], events)


def test_a_damaged_chunk_of_another_layout_is_named(tmp_path):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=False)
    damage(path, 1)
    with pytest.raises(DataError, match=r"v\.h5: cannot be read as an event file \(voxel 1: "):
        EventVideo(path)[1]


# What cannot be read


def damage(path, t, y=0, x=0):
    """Change one byte in the middle of a stored chunk."""
    with h5py.File(path, "r") as file:
        info = file["events"].id.get_chunk_info_by_coord((t, 0, y, x))
    with open(path, "r+b") as file:
        file.seek(info.byte_offset + info.size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_first_damaged_chunk_is_named(path, monkeypatch, threads, library):
    pytest.importorskip(LIBRARIES[library][0])
    monkeypatch.setattr(reader, "best_inflater", lambda: load_inflater(library))
    for place in ((5, 0, 0), (3, 256, 256), (3, 0, 256), (6, 0, 0)):
        damage(path, *place)
    video = EventVideo(path, threads)
    with pytest.raises(DataError) as caught:
        video[:]
    assert (caught.value.code, caught.value.where) == ("invalid_hdf5", f"{path}: voxel 3, chunk (3, 0, 0, 256)")
    assert video[:3].shape[0] == 3 and video[4].any()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", ["cut", "empty", "too short", "too long", "no checksum"])
def test_a_stream_that_is_not_one_whole_chunk_is_named(tmp_path, monkeypatch, library, how):
    pytest.importorskip(LIBRARIES[library][0])
    monkeypatch.setattr(reader, "best_inflater", lambda: load_inflater(library))
    events = values((2, 5, 20, 30))
    whole = planes(events, 1, 0, 0)
    made = {
        "cut": zlib.compress(whole)[:-20],
        "empty": b"\0",
        "too short": zlib.compress(whole[:-1]),
        "too long": zlib.compress(whole + b"\0"),
        "no checksum": zlib.compress(whole)[:-4],
    }
    path = write_raw(tmp_path / "v.h5", events.shape, {**streams_of(events, zlib.compress), (1, 0, 0): (made[how], 0)})
    video = EventVideo(path)
    assert same(video[0], events[0])
    with pytest.raises(DataError, match=r"v\.h5: voxel 1, chunk \(1, 0, 0, 0\)"):
        video[1]


def test_a_failing_disk_is_an_os_error_that_names_the_chunk(path, monkeypatch):
    def fail(file, size, offset):
        raise OSError(errno.EIO, "Input/output error")

    video = EventVideo(path, 2)
    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(OSError, match=r"voxel 2, chunk \(2, 0, 0, 0\)") as caught:
        video[2:4]
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: failing reads are not tried")
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("which", [1, 2, 4, 8, 12, 16])
def test_a_read_that_fails_anywhere_is_an_os_error_or_changes_nothing(tmp_path, shuffle, which):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    code = f"""
from eventvox import EventVideo
try:
    print(EventVideo({str(path)!r})[:].sum())
except OSError as error:
    print("OSError", error.errno)
"""
    line = ["strace", "-f", "-qq", "-o", os.devnull, "-P", str(path), "-e", "trace=read,pread64", "-e", f"inject=read,pread64:error=EIO:when={which}+"]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([*line, sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.stdout in (f"OSError {errno.EIO}\n", f"{by_h5py(path).sum()}\n"), done.stderr
    assert which > 12 or done.stdout.startswith("OSError"), "the fault was not hit"


def test_a_missing_file_is_missed_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        EventVideo(tmp_path / "nope.h5")


def test_a_file_that_is_no_event_file_is_refused_at_once(tmp_path):
    (tmp_path / "text.h5").write_text("no HDF5")
    (tmp_path / "empty.h5").touch()
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "cut.h5").write_bytes(write_file(tmp_path / "v.h5", values((2, 5, 20, 30))).read_bytes()[:-2000])
    h5py.File(tmp_path / "other.h5", "w").close()
    for name, change in {
        "3d.h5": lambda file: replace(file, "events", np.zeros((2, 5, 4), np.int16)),
        "text_events.h5": lambda file: replace(file, "events", "words"),
        "short.h5": lambda file: replace(file, "voxel_event_count", np.zeros(1, np.int32)),
        "no_starts.h5": lambda file: file.pop("voxel_event_start"),
        "no_fps.h5": lambda file: file.attrs.pop("fps"),
        "fps_of_text.h5": lambda file: file.attrs.create("fps", "fast"),
        "group.h5": lambda file: (file.pop("events"), file.create_group("events")),
    }.items():
        with h5py.File(write_file(tmp_path / name, values((2, 5, 20, 30))), "r+") as file:
            change(file)
    (tmp_path / "v.h5").unlink()
    for foreign in sorted(tmp_path.iterdir()):
        with pytest.raises(DataError, match=foreign.name) as caught:
            EventVideo(foreign)
        assert caught.value.code == "invalid_hdf5", foreign


def replace(file, name, value):
    del file[name]
    file[name] = value


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_that_make_no_sense_are_refused(path, threads):
    with pytest.raises(DataError, match="threads"):
        EventVideo(path, threads)


@pytest.mark.parametrize("locking", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_file_that_h5py_holds_open_is_read(tmp_path, shuffle, locking):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    with h5py.File(path, "r", locking=locking) as file:
        video = EventVideo(path)
        assert same(video[:], file["events"][()])


@pytest.mark.parametrize("read_before", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_file_that_was_replaced_is_noticed(tmp_path, read_before, shuffle):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    video = EventVideo(path)
    if read_before:
        video[0]
    write_file(tmp_path / "new.h5", values((3, 5, 20, 30), 5), shuffle=shuffle).replace(path)
    with pytest.raises(DataError) as caught:
        video[1]
    assert caught.value.code == "source_changed"
    assert same(EventVideo(path)[1], by_h5py(path)[1])


# Files, threads and processes


def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))


@pytest.mark.parametrize("shuffle", [True, False])
def test_no_file_stays_open_between_reads(tmp_path, shuffle):
    path = write_file(tmp_path / "v.h5", values((3, 5, 20, 30)), shuffle=shuffle)
    video = EventVideo(path, 2)
    video[0], video[:]
    assert str(path) not in open_files()


def test_a_closed_video_is_not_read(path):
    with EventVideo(path) as video:
        video[0]
    with pytest.raises(ValueError, match="closed"):
        video[0]
    assert video.shape == (7, 5, 270, 300)


def test_a_pickle_holds_path_and_threads_alone(path):
    video = EventVideo(path, 3)
    video[0]
    assert video.__reduce__() == (EventVideo, (str(path), 3)) and EventVideo(path).__reduce__() == (EventVideo, (str(path), None))
    again = pickle.loads(pickle.dumps(video))
    assert same(again[:], by_h5py(path)) and again.threads == 3


def test_a_relative_path_outlives_a_change_of_folder(path, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(path.parent)
    video = EventVideo("v.h5")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert same(video[0], by_h5py(path)[0])


def total(video):
    """Return a sum that depends on every value and its place."""
    return [int((voxel.astype(np.int64).ravel() * np.arange(voxel.size)).sum()) for voxel in video]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read_what_the_parent_reads(path, monkeypatch, method):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    video = EventVideo(path, 2)
    expected = total(by_h5py(path))
    assert total(video) == expected
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map_async(total, [video] * 4).get(timeout=100) == [expected] * 4


def child_total(video, sender):
    sender.send((total(video), sum(thread.name.startswith("eventvox") for thread in threading.enumerate())))


def test_a_fork_in_the_midst_of_reading_reads_by_itself(path):
    video, expected, stop = EventVideo(path, 3), total(by_h5py(path)), threading.Event()

    def read_on():
        while not stop.is_set():
            video[:]

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    for thread in readers:
        thread.start()
    try:
        for _ in range(5):
            receiver, sender = multiprocessing.Pipe(duplex=False)
            # Inherited as it is, not pickled: the child has the parent's object.
            child = multiprocessing.get_context("fork").Process(target=child_total, args=(video, sender))
            child.start()
            assert receiver.poll(100), "the child hangs"
            found, own_threads = receiver.recv()
            child.join()
            assert found == expected and own_threads > 0
    finally:
        stop.set()
        for thread in readers:
            thread.join()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_may_share_a_video(path, threads):
    video, expected = EventVideo(path, threads), by_h5py(path)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda k: same(video[k % 7], expected[k % 7]) and same(video[k % 7 :], expected[k % 7 :]), range(40)))


def test_videos_of_one_process_share_their_threads(path):
    before = threading.active_count()
    videos = [EventVideo(path, 4) for _ in range(30)]
    for video in videos:
        video[:]
    assert threading.active_count() - before <= 4


# Documentation


def code_blocks():
    return [part.partition("```")[0] for part in (ROOT / "docs/events_format.md").read_text().split("```python\n")[1:]]


def run_block(word, folder):
    (code,) = [block for block in code_blocks() if word in block]
    (folder / "block.py").write_text(code)
    done = subprocess.run([sys.executable, "block.py"], cwd=folder, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lines_on_reading_do_what_they_say(tmp_path):
    folder = tmp_path / "results/demo/events/train"
    folder.mkdir(parents=True)
    write_file(folder / "bikes.h5", np.zeros((50, 5, 272, 640), np.int16), compression_opts=1)
    shown = run_block("video.interval", tmp_path)
    assert shown == "(50, 5, 272, 640) 25.0 [ 0  5 10] [5 5 5]\n"


def test_the_data_loader_in_the_docs_yields_every_clip(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: the example of a DataLoader is not tried")
    folder = tmp_path / "results/demo/events/train"
    folder.mkdir(parents=True)
    expected, clips = 0, 0
    for number, shape in enumerate([(9, 5, 128, 200), (4, 5, 270, 300), (3, 5, 200, 200), (12, 5, 100, 300)]):
        events = values(shape, number)
        write_file(folder / f"v{number}.h5", events)
        if min(shape[2:]) >= 128:
            y, x, whole = (shape[2] - 128) // 2, (shape[3] - 128) // 2, shape[0] // 4
            clips += whole
            expected += int(np.abs(events[: 4 * whole, :, y : y + 128, x : x + 128].astype(np.int64)).sum())
    lines = [line.split(" torch.float32 ") for line in run_block("DataLoader", tmp_path).splitlines()]
    assert (sum(ast.literal_eval(shape)[0] for shape, _ in lines), {ast.literal_eval(shape)[1:] for shape, _ in lines}) == (clips, {(4, 5, 128, 128)})
    assert sum(int(amount) for _, amount in lines) == expected
