"""EventVideo gives what plain h5py gives, whatever the size, the codec and the way of asking."""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import subprocess
import sys
import zlib
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from eventvox import EventVideo, reader
from eventvox.inflate import LIBRARIES, load_inflater
from eventvox.settings import VoxelSettings
from eventvox.voxelize import voxelize_video
from shardwork.errors import DataError
from tests.eventvox.conftest import moving_frames, write_video
from tests.eventvox.readable import by_h5py, is_read_without_hdf5, same, seven_voxels, streams_of, values, write_file, write_raw

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return seven_voxels(tmp_path)


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
