"""One video to one file: the identities of the format, the record, and that nothing half-done is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import namedtuple
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest

import eventvox
from eventvox.codes import VideoRefused
from eventvox.hdf5 import read_values_digest
from eventvox.settings import VoxelSettings
from eventvox.validate import validate_file
from eventvox.voxelize import duration_mismatch, estimated_bytes, voxelize_video
from shardwork.errors import DataError, Fault
from tests.eventvox.conftest import moving_frames, write_video, write_x264


def voxelize(tmp_path, frames, settings=None, **video):
    source = write_video(tmp_path / "source.mkv", frames, **video)
    return voxelize_video(source, tmp_path / "out" / "v.h5", "v_1", settings or VoxelSettings())


def read(tmp_path):
    with h5py.File(tmp_path / "out" / "v.h5") as file:
        return file["events"][()], file["voxel_event_start"][()], file["voxel_event_count"][()]


@pytest.mark.parametrize("count", [2, 5, 6, 7, 11, 31])
def test_the_identities_hold_for_every_number_of_frames(tmp_path, count):
    record = voxelize(tmp_path, moving_frames(count))
    events, starts, counts = read(tmp_path)
    assert record.frames == count and record.voxels == len(events) == -(-(count - 1) // 5)
    assert counts.sum() == count - 1
    assert starts.tolist() == [5 * t for t in range(len(events))]
    assert not events.reshape(-1, 24, 32)[count - 1 :].any()
    assert validate_file(tmp_path / "out" / "v.h5") == []


@pytest.mark.parametrize("f", [1, 2, 3])
def test_a_step_after_frame_6_stands_in_slice_6(tmp_path, f):
    frames = np.full((20, 4, 4), 80, np.uint8)
    frames[7:] = 200
    voxelize(tmp_path, frames, VoxelSettings(frames_per_bin=f))
    events, starts, _ = read(tmp_path)
    t, b = divmod(6 // f, 5)
    assert set(map(tuple, np.argwhere(events)[:, :2].tolist())) == {(t, b)}
    assert starts.tolist() == [5 * f * index for index in range(len(starts))]


def test_frames_there_and_back_sum_to_exactly_zero(tmp_path):
    a, b = moving_frames(2)
    voxelize(tmp_path, np.stack([a, b, a]))
    events, _, _ = read(tmp_path)
    assert np.count_nonzero(events) > 0 and not events.sum(axis=(0, 1), dtype=int).any()


def test_interpolation_changes_no_value_for_one_frame_per_bin(tmp_path):
    digests = {voxelize(tmp_path, moving_frames(23), VoxelSettings(interpolate_bins=flag)).values_xxh3 for flag in (False, True)}
    assert len(digests) == 1
    with h5py.File(tmp_path / "out" / "v.h5") as file:
        assert file.attrs["interpolate_bins"]


def test_two_runs_give_the_same_bytes_and_record(tmp_path):
    made = [(voxelize(tmp_path, moving_frames(13)), (tmp_path / "out" / "v.h5").read_bytes()) for _ in range(2)]
    assert made[0] == made[1]


def test_the_record_says_what_the_file_does_not(tmp_path):
    record = voxelize(tmp_path, moving_frames(13), rate=Fraction(30000, 1001))
    path = tmp_path / "out" / "v.h5"
    assert (record.fps, record.fps_num, record.fps_den) == (30000 / 1001, 30000, 1001)
    assert (record.height, record.width, record.clipped, record.rotation_deg) == (24, 32, 0, 0)
    assert record.bytes == path.stat().st_size and record.values_xxh3 == read_values_digest(path)
    assert (record.video_codec, record.decoder, record.fps_source) == ("ffv1", "ffv1", "opencv")
    assert record.dark_first_frame and record.first_frame_mean < 0.4
    assert not record.duration_mismatch and record.duration_seconds == pytest.approx(13 * 1001 / 30000, abs=1e-3)
    assert {"av", "opencv", "numpy", "h5py", "ffmpeg"} <= set(record.versions)
    text = json.dumps(asdict(record), allow_nan=False)
    assert str(tmp_path) not in text


@pytest.mark.parametrize(("value", "dark"), [(101, True), (102, False), (103, False)])
def test_dark_is_strictly_below_two_fifths(tmp_path, value, dark):
    record = voxelize(tmp_path, np.full((3, 8, 8), value, np.uint8))  # 102 / 255 is 0.4
    assert record.first_frame_mean == value / 255 and record.dark_first_frame is dark


@pytest.mark.parametrize(
    ("duration", "frames", "fps", "mismatch"),
    [(None, 10, 25.0, False), (4.0, 100, 25.0, False), (4.04, 100, 25.0, False), (4.1, 100, 25.0, True), (100.9, 2500, 25.0, False), (102.0, 2500, 25.0, True)],
)
def test_durations_may_differ_by_a_frame_or_a_percent(duration, frames, fps, mismatch):
    assert duration_mismatch(duration, frames, fps) is mismatch


def test_one_frame_gives_an_empty_file_when_allowed(tmp_path):
    record = voxelize(tmp_path, moving_frames(1), VoxelSettings(allow_empty=True))
    assert (record.frames, record.voxels) == (1, 0)
    assert read(tmp_path)[0].shape == (0, 5, 24, 32)
    assert validate_file(tmp_path / "out" / "v.h5") == []


def test_a_refused_video_leaves_nothing_new_and_keeps_the_old_file(tmp_path):
    voxelize(tmp_path, moving_frames(9))
    before = (tmp_path / "out" / "v.h5").read_bytes()
    with pytest.raises(VideoRefused, match="decode_gap"):
        voxelize(tmp_path, moving_frames(20), pts=[*range(12), *range(40, 48)])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["v.h5"]
    assert (tmp_path / "out" / "v.h5").read_bytes() == before


def test_a_bad_id_is_refused_before_the_video_is_opened(tmp_path):
    with pytest.raises(DataError, match="bad_id"):
        voxelize_video(tmp_path / "none.mp4", tmp_path / "v.h5", "a b", VoxelSettings())


def test_a_video_is_never_written_over_by_its_events(tmp_path):
    source = write_video(tmp_path / "source.mkv", moving_frames(9))
    before = source.read_bytes()
    with pytest.raises(DataError, match="the same file as"):
        voxelize_video(source, source, "v", VoxelSettings())
    assert source.read_bytes() == before


def test_a_file_that_outgrows_the_limit_is_too_large(tmp_path):
    with pytest.raises(VideoRefused, match="too_large") as error:
        voxelize(tmp_path, moving_frames(200, 64, 64), VoxelSettings(codec="zlib:0", max_file_gib=0.0005))
    assert 10 < error.value.frames_decoded < 200, "it stops while writing"
    assert "KiB after" in error.value.found and error.value.expected == "at most 524.29 KiB (max_file_gib 0.0005)" and "raise max_file_gib" in error.value.hint
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_without_room_for_the_estimate_is_too_large(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 1000))
    source = write_x264(tmp_path / "source.mp4", moving_frames(60, 64, 64))
    with pytest.raises(VideoRefused, match=r"about 23\.60 KiB to write, expected at most the free 1000 bytes: .*\[too_large\]") as error:
        voxelize_video(source, tmp_path / "out" / "v.h5", "v", VoxelSettings())
    assert "max_file_gib" not in str(error.value), "no limit of ours is in the way"
    assert list((tmp_path / "out").iterdir()) == []


def test_the_estimate_grows_with_transitions_and_pixels():
    assert estimated_bytes(1, 720, 1280) == estimated_bytes(0, 720, 1280) == 0
    assert estimated_bytes(101, 100, 100) == 100 * 100 * 100 * 2 // 20


@pytest.mark.parametrize("room", [0, 3000, 200_000, 495_000])
def test_a_disk_that_fills_up_is_a_fault_and_leaves_nothing(tmp_path, room):
    source = write_x264(tmp_path / "v.mp4", moving_frames(60, 64, 64))
    program = (
        "import resource, sys; from pathlib import Path; from eventvox.settings import VoxelSettings\n"
        "from eventvox.voxelize import voxelize_video\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
        "try: voxelize_video(Path(sys.argv[1]), Path(sys.argv[2]), 'v', VoxelSettings(codec='zlib:0'))\n"
        "except OSError as error: print('OSError', error.errno)"
    )
    src = str(Path(eventvox.__file__).parent.parent)
    command = [sys.executable, "-c", program, str(source), str(tmp_path / "out" / "v.h5"), str(room)]
    # HDF5 must neither hide the error nor crash when the process ends
    done = subprocess.run(command, env={"PYTHONPATH": src}, capture_output=True, text=True, check=True)
    assert done.stdout == "OSError 27\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_reads_back_otherwise_is_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr("eventvox.voxelize.read_values_digest", lambda path: "0" * 32)
    with pytest.raises(Fault, match="not_published"):
        voxelize(tmp_path, moving_frames(9))
    assert list((tmp_path / "out").iterdir()) == []
