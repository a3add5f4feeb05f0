"""Pictures of event files: colours by hand, slices in their order, and a sheet that shows what it names."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from eventvox import pictures
from eventvox.hdf5 import create_events
from eventvox.pictures import EventSlices, colour, open_slices, write_sheet
from eventvox.settings import VoxelSettings
from eventvox.voxelize import voxelize_video
from eventvox.voxels import Voxel
from shardwork.errors import DataError
from tests.eventvox.conftest import moving_frames, write_video


def event_file(folder, frames, settings=None, **video):
    source = write_video(folder / "source.mkv", frames, **video)
    voxelize_video(source, folder / "v.h5", "v", settings or VoxelSettings(threshold_pos=0.05, threshold_neg=0.05))
    return folder / "v.h5"


@pytest.mark.parametrize(
    ("n", "rgb"),
    [(0, (0, 0, 0)), (1, (85, 0, 0)), (2, (170, 0, 0)), (3, (255, 0, 0)), (4, (255, 0, 0)), (32767, (255, 0, 0))]
    + [(-1, (0, 0, 85)), (-2, (0, 0, 170)), (-3, (0, 0, 255)), (-4, (0, 0, 255)), (-32768, (0, 0, 255))],
)
def test_colour_is_red_or_blue_by_thirds(n, rgb):
    picture = colour(np.full((1, 2), n, np.int16))
    assert picture.dtype == np.uint8 and picture.tolist() == [[list(rgb), list(rgb)]]


@pytest.mark.parametrize("count", [2, 6, 7, 14])
def test_frame_0_is_black_and_frame_i_shows_slice_i_minus_1(tmp_path, count):
    path = event_file(tmp_path, moving_frames(count))
    with h5py.File(path) as file:
        slices = file["events"][()].reshape(-1, 24, 32)[: count - 1]
    with open_slices(path) as source:
        frames = np.stack(list(source.frames()))
    assert len(frames) == count and not frames[0].any() and np.abs(slices).max() >= 3
    expected = np.rint(255 * np.minimum(np.abs(slices.astype(float)) / 3, 1))
    assert np.array_equal(frames[1:, ..., 0], np.where(slices > 0, expected, 0))
    assert np.array_equal(frames[1:, ..., 2], np.where(slices < 0, expected, 0))
    assert not frames[..., 1].any()


def test_frames_hold_one_voxel_at_a_time():
    class Recorder:
        shape, read = (3, 5, 2, 2), []

        def __getitem__(self, t):
            self.read.append(t)
            return np.zeros((5, 2, 2), np.int16)

    starts = np.arange(0, 15, 5)
    frames = EventSlices(Path("v.h5"), Fraction(25), 2, 2, starts, np.full(3, 5), Recorder()).frames()
    seen = [(next(frames), list(Recorder.read))[1] for _ in range(7)]
    assert seen == [[], [0], [0], [0], [0], [0], [0, 1]]


@pytest.mark.parametrize(("frames", "f", "aligned"), [(13, 1, True), (2, 1, True), (13, 2, False), (9, 2, False), (40, 3, False)])
def test_only_one_slice_a_bin_is_aligned_with_the_frames(tmp_path, frames, f, aligned):
    with open_slices(event_file(tmp_path, moving_frames(frames), VoxelSettings(frames_per_bin=f))) as source:
        if aligned:
            source.check_aligned()
        else:
            with pytest.raises(DataError, match=r"slices in a voxel of 5 bins.*frames_per_bin 1.*\[bad_argument\]"):
                source.check_aligned()


@pytest.mark.parametrize("kind", ["text", "cut", "other"])
def test_file_that_is_no_event_file_is_refused(tmp_path, kind):
    path = event_file(tmp_path, moving_frames(9))
    if kind == "other":
        with h5py.File(path, "a") as file:
            del file["voxel_event_count"]
    else:
        path.write_bytes(b"<html>" if kind == "text" else path.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"v.h5: .*\[invalid_hdf5\]"), open_slices(path) as source:
        list(source.frames())


def test_sheet_shows_the_named_voxels_bin_by_bin(tmp_path):
    path = event_file(tmp_path, moving_frames(13, 120, 400))
    with open_slices(path) as source:
        assert write_sheet(source, tmp_path / "s.png", [1, -1]) == [1, 2]
        voxel, last = source.voxel(1), source.voxel(2)
    sheet = np.asarray(Image.open(tmp_path / "s.png"))
    line, gap = pictures.TEXT_PX + pictures.GAP_PX, pictures.GAP_PX
    for row, events in enumerate((voxel, last)):
        top = 4 * line + row * (120 + 2 * line)
        for b in range(5 if row == 0 else 2):
            left = gap + b * (400 + gap)
            assert np.array_equal(sheet[top : top + 120, left : left + 400], colour(events[b]))
    assert (sheet[-gap - 60, -gap - 200] == pictures.EMPTY).all(), "bins beyond the last frame are no black picture"


def test_sheet_takes_voxels_from_the_middle_of_equal_parts(tmp_path, monkeypatch):
    with open_slices(event_file(tmp_path, moving_frames(51))) as source:
        monkeypatch.setattr(pictures, "SHEET_ROWS", 2)
        assert write_sheet(source, tmp_path / "s.png") == [2, 7]
        monkeypatch.setattr(pictures, "SHEET_ROWS", 100)
        assert write_sheet(source, tmp_path / "s.png") == list(range(10))


@pytest.mark.parametrize("t", [3, -4])
def test_voxel_that_is_not_there_is_refused_and_nothing_is_written(tmp_path, t):
    with open_slices(event_file(tmp_path, moving_frames(13))) as source, pytest.raises(DataError, match=rf"voxel {t} of 3, expected 0 to 2"):
        write_sheet(source, tmp_path / "s.png", [t])
    assert not list(tmp_path.glob("*s.png*"))


@pytest.mark.parametrize(("height", "width", "shown"), [(600, 2, (600, 2)), (150, 2, (300, 4)), (2, 150, (4, 300)), (24, 32, (288, 384))])
def test_small_frames_are_enlarged_until_their_longer_side_comes_near_to_400(tmp_path, height, width, shown):
    with create_events(tmp_path / "v.h5", height, width, 25.0, VoxelSettings()) as writer:
        writer.append(Voxel(0, 5, np.zeros((5, height, width), np.int16), 0))
    with open_slices(tmp_path / "v.h5") as source:
        write_sheet(source, tmp_path / "s.png")
    line, gap = pictures.TEXT_PX + pictures.GAP_PX, pictures.GAP_PX
    assert Image.open(tmp_path / "s.png").size == (5 * (shown[1] + gap) + gap, 4 * line + shown[0] + gap)


def test_sheet_is_never_written_over_the_events(tmp_path):
    with open_slices(event_file(tmp_path, moving_frames(13))) as source, pytest.raises(DataError, match="the same file as"):
        write_sheet(source, tmp_path / "v.h5")


def test_sheet_of_a_file_without_voxels_has_only_its_heading(tmp_path):
    with open_slices(event_file(tmp_path, moving_frames(1), VoxelSettings(allow_empty=True))) as source:
        assert write_sheet(source, tmp_path / "s.png") == []
    assert Image.open(tmp_path / "s.png").size[1] < 60


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_strongest_is_the_value_furthest_from_zero_in_each_block(height, width, size, seed):
    events = np.random.default_rng(seed).integers(-3, 4, (height, width)).astype(np.int16)
    found = pictures._strongest(events, size)
    for y, x in np.ndindex(found.shape):
        block = events[y * size : (y + 1) * size, x * size : (x + 1) * size]
        assert found[y, x] == max(block.ravel().tolist(), key=lambda n: (abs(n), n))
