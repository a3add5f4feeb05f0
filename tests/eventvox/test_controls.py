"""Control videos: every pixel as it was for each reader, one frame for each of the source, and nothing published that reads back otherwise."""

from __future__ import annotations

from fractions import Fraction

import cv2
import h5py
import numpy as np
import pytest

from eventvox.controls import write_control
from eventvox.hdf5 import create_events
from eventvox.pictures import colour, open_slices
from eventvox.settings import VoxelSettings
from eventvox.stage import controls_place, events_place
from eventvox.steps import control_items
from eventvox.voxelize import voxelize_video
from eventvox.voxels import Voxel
from shardwork import ffv1
from shardwork.digests import xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.ffv1 import FramesDigest, read_video
from tests.eventvox.conftest import moving_frames, noisy_frames, write_video

NTSC = Fraction(30000, 1001)


def event_file(folder, frames, settings=None):
    thin = {"options": {"slices": "1"}} if min(frames.shape[1:]) == 1 else {}
    source = write_video(folder / "source.mkv", frames, **thin)
    voxelize_video(source, folder / "v.h5", "v", settings or VoxelSettings(threshold_pos=0.3, threshold_neg=0.3))
    return folder / "v.h5"


def expected_of(path):
    """Return what a control shows, from the voxels alone."""
    with h5py.File(path) as file:
        slices = file["events"][()].reshape(-1, *file["events"].shape[2:])[: file["voxel_event_count"][()].sum()].astype(int)
    shown = np.zeros((len(slices) + 1, *slices.shape[1:], 3), np.uint8)
    for n in (1, 2, 3):
        here = slices == n if n < 3 else slices >= n
        shown[1:, ..., 0][here] = 85 * n
        here = slices == -n if n < 3 else slices <= -n
        shown[1:, ..., 2][here] = 85 * n
    return shown


def by_opencv(path):
    capture = cv2.VideoCapture(str(path))
    frames: list[np.ndarray] = []
    while True:
        more, frame = capture.read()
        if not more:
            return np.stack(frames)[..., ::-1], capture.get(cv2.CAP_PROP_FPS)
        frames.append(frame)


@pytest.mark.parametrize("size", [(24, 32), (23, 31), (2, 3), (1, 7), (7, 1), (1, 1), (288, 1), (289, 2), (2, 353), (1, 353), (271, 481)])
def test_pyav_and_opencv_read_back_every_pixel(tmp_path, size):
    path, out = event_file(tmp_path, noisy_frames(8, *size)), tmp_path / "c.mkv"
    record = write_control(path, out, NTSC)
    expected = expected_of(path)
    assert (record.frames, record.height, record.width) == (8, *size)
    assert np.array_equal(np.stack(list(read_video(out))), expected)
    shown, fps = by_opencv(out)
    assert np.array_equal(shown, expected) and fps == 30000 / 1001


def test_every_frame_is_a_key_frame_at_its_time_and_the_rate_is_exact(tmp_path):
    import av

    write_control(event_file(tmp_path, moving_frames(31)), tmp_path / "c.mkv", NTSC)
    with av.open(str(tmp_path / "c.mkv")) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.codec_context.name, stream.codec_context.pix_fmt) == (NTSC, "ffv1", "bgr0")
        packets = [packet for packet in container.demux(stream) if packet.size]
    assert all(packet.is_keyframe for packet in packets)
    assert [packet.pts for packet in packets] == [int(1000 * index / NTSC + Fraction(1, 2)) for index in range(31)]


def test_opencv_seeks_to_the_frame_it_is_asked_for(tmp_path):
    path = event_file(tmp_path, noisy_frames(31, 24, 32))
    write_control(path, tmp_path / "c.mkv", NTSC)
    capture = cv2.VideoCapture(str(tmp_path / "c.mkv"))
    for index in (30, 3, 17, 0):
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        assert np.array_equal(capture.read()[1][..., ::-1], expected_of(path)[index])


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2997, 200), Fraction(240), Fraction(90000)])
def test_any_rate_keeps_every_frame(tmp_path, rate):
    path = event_file(tmp_path, moving_frames(12))
    assert write_control(path, tmp_path / "c.mkv", rate).frames == 12
    assert len(by_opencv(tmp_path / "c.mkv")[0]) == 12


@pytest.mark.parametrize("rate", [Fraction(2298443723, 95737421), Fraction(95737421, 2298443723), Fraction(2**31 - 1), Fraction(1, 2**31 - 1)])
def test_a_rate_beyond_32_bits_keeps_every_frame(tmp_path, rate):
    assert write_control(event_file(tmp_path, moving_frames(12)), tmp_path / "c.mkv", rate).frames == 12
    assert len(list(read_video(tmp_path / "c.mkv"))) == 12


def test_a_rate_that_no_video_can_state_is_refused_and_nothing_is_left(tmp_path):
    path = event_file(tmp_path, moving_frames(12))
    with pytest.raises(DataError, match=r"\[bad_fps\]"):
        write_control(path, tmp_path / "c.mkv", Fraction(2**31))
    assert not list(tmp_path.glob("*c.mkv*"))


def test_equal_values_give_equal_bytes_however_the_event_file_is_compressed(tmp_path):
    made = set()
    for codec in ("zlib:4", "isal:1", "zlib:4"):
        write_control(event_file(tmp_path, moving_frames(13), VoxelSettings(codec=codec)), tmp_path / "c.mkv", NTSC)
        made.add((tmp_path / "c.mkv").read_bytes())
    assert len(made) == 1


def test_record_says_what_the_file_is(tmp_path):
    path, out = event_file(tmp_path, moving_frames(13)), tmp_path / "c.mkv"
    record = write_control(path, out, NTSC)
    digest = FramesDigest(24, 32)
    for frame in expected_of(path):
        digest.add(frame)
    assert record.frames_xxh3 == digest.seen()[1]
    assert (record.bytes, record.file_xxh3) == (out.stat().st_size, xxh3_file(out))


def test_file_without_voxels_gives_one_black_frame(tmp_path):
    write_control(event_file(tmp_path, moving_frames(1), VoxelSettings(allow_empty=True)), tmp_path / "c.mkv", NTSC)
    (frame,) = read_video(tmp_path / "c.mkv")
    assert frame.shape == (24, 32, 3) and not frame.any()


def test_more_than_one_slice_a_bin_is_refused(tmp_path):
    path = event_file(tmp_path, moving_frames(23), VoxelSettings(frames_per_bin=2))
    with pytest.raises(DataError, match="frames_per_bin 1"):
        write_control(path, tmp_path / "c.mkv", NTSC)
    assert not list(tmp_path.glob("*c.mkv*"))


def test_control_is_never_written_over_the_events(tmp_path):
    path = event_file(tmp_path, moving_frames(13))
    with pytest.raises(DataError, match="the same file as"):
        write_control(path, path, NTSC)


@pytest.mark.parametrize(("size", "slices"), [((24, 32), "4"), ((1, 7), "1"), ((288, 1), "1"), ((4320, 7680), "9"), ((8640, 15360), "36")])
def test_frames_of_every_size_are_cut_into_slices_that_work(size, slices):
    assert ffv1.slices_of(*size) == slices


def test_frames_that_cannot_be_cut_are_refused_and_nothing_is_left(tmp_path):
    with create_events(tmp_path / "v.h5", 289, 1, 25.0, VoxelSettings()) as writer:
        writer.append(Voxel(0, 5, np.zeros((5, 289, 1), np.int16), 0))
    with pytest.raises(DataError, match=r"frames of 1x289 pixels.*\[bad_argument\]"):
        write_control(tmp_path / "v.h5", tmp_path / "c.mkv", NTSC)
    assert not list(tmp_path.glob("*c.mkv*"))


def spoil_pixel(frames):
    frames[2][1, 1, 0] ^= 85
    return frames


@pytest.mark.parametrize("kind", ["pixel", "dropped", "swapped", "cut", "flipped", "text"])
def test_control_that_reads_back_otherwise_is_not_published(tmp_path, monkeypatch, kind):
    changes = {"pixel": spoil_pixel, "dropped": lambda frames: frames[:-1], "swapped": lambda frames: [*frames[:2], frames[3], frames[2], *frames[4:]]}
    encode = ffv1.encode

    def spoilt(path, frames, *more):
        shown = list(frames)
        encode(path, changes.get(kind, list)([frame.copy() for frame in shown]), *more)
        data = path.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"cut": data[:middle], "flipped": flipped, "text": b"<html>"}.get(kind, data))

    monkeypatch.setattr(ffv1, "encode", spoilt)
    with pytest.raises(Fault, match=r"read back.*\[not_published\]"):
        write_control(event_file(tmp_path, moving_frames(13)), tmp_path / "c.mkv", NTSC)
    assert not list(tmp_path.glob("*c.mkv*"))


def test_real_video_gives_the_frames_of_its_events(datapack, tmp_path):
    voxelize_video(datapack / "carphone_pristine.mp4", tmp_path / "v.h5", "v", VoxelSettings())
    write_control(tmp_path / "v.h5", tmp_path / "c.mkv", NTSC)
    with open_slices(tmp_path / "v.h5") as source:
        for t, shown in zip(range(3), np.array_split(by_opencv(tmp_path / "c.mkv")[0][1:16], 3), strict=True):
            assert np.array_equal(shown, np.stack([colour(events) for events in source.voxel(t)]))


def test_manifests_of_different_videos_are_a_fault(tmp_path):
    events = events_place(tmp_path / "events")
    place, row = controls_place(tmp_path / "controls", events), {"id": "a", "status": "ok", "code": "ok"}
    with pytest.raises(Fault, match="manifest_mismatch"):
        control_items([row], [{**row, "id": "b"}], place, events)
