"""The compiled kernel equals the plain arithmetic: for every setting, size and content."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventvox import compiled
from eventvox.hdf5 import create_events
from eventvox.kernel import ContrastKernel, split_chunk
from eventvox.layout import planes_shape
from eventvox.settings import VoxelSettings
from eventvox.voxelize import append_voxels
from shardwork.compiled import cache_folder
from tests.eventvox.conftest import noisy_frames
from tests.eventvox.reference import ContrastSlicer, reference_events

SETTINGS = [
    {},
    {"reference": "adjacent"},
    {"threshold_neg": 0.3},
    {"threshold_pos": 0.5, "threshold_neg": 0.07, "reference": "adjacent"},
    {"intensity": "linlog"},
    {"intensity": "linear", "threshold_pos": 0.01, "threshold_neg": 0.01},
    {"gamma": 1, "eps": 1e-9, "threshold_pos": 0.001, "threshold_neg": 0.001},
    {"threshold_pos": 10.0, "threshold_neg": 0.001, "eps": 1e-9},
    {"frames_per_bin": 2},
    {"frames_per_bin": 3, "interpolate_bins": True},
    {"interpolate_bins": True},
    {"frames_per_bin": 7, "eps": 1e-9, "threshold_pos": 0.001},
]


def write(path, frames, settings, threads=1):
    height, width = frames[0].shape
    with create_events(path, height, width, 25.0, settings, threads) as writer:
        for _ in append_voxels(writer, frames[0], iter(frames[1:]), settings):
            pass
    with h5py.File(path) as file:
        return file["events"][()], file["voxel_event_start"][()].tolist(), file["voxel_event_count"][()].tolist()


@pytest.mark.parametrize("chosen", SETTINGS, ids=str)
@pytest.mark.parametrize("frames", [2, 6, 18])
def test_files_hold_the_values_of_the_plain_arithmetic(tmp_path, chosen, frames):
    settings, video = VoxelSettings(**chosen), noisy_frames(frames, 13, 37)
    events, starts, counts = write(tmp_path / "v.h5", video, settings)
    assert np.array_equal(events, reference_events(video, settings))
    full = settings.slices_per_voxel
    assert starts == list(range(0, frames - 1, full)) and counts == [min(full, frames - 1 - start) for start in starts]


@pytest.mark.parametrize("size", [(1, 1), (1, 700), (700, 1), (255, 256), (256, 257), (257, 255), (300, 600), (7, 9)])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_size_is_laid_out_right(tmp_path, size, threads):
    video = noisy_frames(13, *size)
    events, _, _ = write(tmp_path / "v.h5", video, VoxelSettings(), threads)
    assert np.array_equal(events, reference_events(video, VoxelSettings()))


@pytest.mark.parametrize("chosen", SETTINGS, ids=str)
def test_every_pair_of_gray_values_crosses_what_the_plain_arithmetic_says(chosen):
    settings = VoxelSettings(**chosen)
    before, after = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    kernel, plain = ContrastKernel(before, settings), ContrastSlicer(before, settings)
    for frame in (after, before, after[::-1].copy(), before):
        assert np.array_equal(kernel.slice_events(frame), plain.slice_events(frame))


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_planes_are_the_bytes_of_the_values(height, width, seed):
    events = np.random.default_rng(seed).integers(-(2**15), 2**15, (5, height, width)).astype("<i2")
    planes = np.full(planes_shape(5, height, width), 77, np.uint8)
    split_chunk(events, (0, 0), planes)
    assert planes.tobytes() == events.reshape(-1, 1).view(np.uint8).T.tobytes()


def test_no_setting_crosses_more_thresholds_than_a_value_can_hold():
    extremes = np.array([[0, 255]], np.uint8)
    for chosen in ({"eps": 1e-9}, {"intensity": "linlog"}, {"intensity": "linear"}):
        for pos, neg in ((0.001, 0.001), (10.0, 0.001), (0.001, 10.0), (10.0, 0.00113)):
            settings = VoxelSettings(threshold_pos=pos, threshold_neg=neg, **chosen)
            assert abs(ContrastSlicer(extremes, settings).slice_events(extremes[:, ::-1])).max() < 2**15


def test_a_frame_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"\(4, 64\) after frames of \(4, 4\)"):
        ContrastKernel(np.zeros((4, 4), np.uint8), VoxelSettings()).slice_events(np.zeros((4, 64), np.uint8))


def test_compiled_code_is_kept_apart_for_another_table_of_contrasts(monkeypatch):
    before = cache_folder(compiled.SOURCES)
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, *rest: read(self, *rest) + ("# changed" if self.name == "contrast.py" else ""))
    assert cache_folder(compiled.SOURCES) != before
