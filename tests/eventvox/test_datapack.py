"""Real videos: the verdict on each, and gray values equal to those of OpenCV's own reader."""

from __future__ import annotations

import numpy as np
import pytest

from eventvox.codes import VideoRefused
from eventvox.decode import open_video
from eventvox.settings import VoxelSettings
from eventvox.validate import validate_file
from eventvox.voxelize import voxelize_video

REFUSED = {
    "damaged/Mpeg4_262bytes.mp4": ("no_video_stream", None, 0),
    "damaged/audio_only.mp4": ("no_video_stream", None, 0),
    "damaged/corrupted.mp4": ("decode_gap", 50, 49),
    "damaged/html_error_page.mp4": ("not_a_video", None, 0),
    "damaged/jpeg_named.mp4": ("not_a_video", None, 0),
    "damaged/resolution_change.ts": ("size_change", None, 30),
    "damaged/truncated_30pct_carphone.mp4": ("not_a_video", None, 0),
    "damaged/truncated_50pct_dog.mp4": ("truncated", 289, 147),
    "damaged/truncated_60pct.mp4": ("not_a_video", None, 0),
    "damaged/zero_bytes.mp4": ("empty_file", None, 0),
    "derived/frames_1.mp4": ("single_frame", 1, 1),
    "tree.avi": ("decode_gap", 444, 68),
}

# frames, (height, width), fps_num/fps_den, variable rate, rotation
GOOD = {
    "-video-with-dash-.mp4": (5, (1, 1), (1, 1), False, 0),
    "av1_video.mkv": (125, (360, 640), (25, 1), False, 0),
    "asl_book.mkv": (109, (480, 640), (30, 1), False, 0),
    "box.mp4": (455, (480, 640), (456000, 15217), True, 0),
    "carphone_pristine.mp4": (120, (144, 176), (30000, 1001), False, 0),
    "fire2_rot180_vfr.mp4": (25, (720, 1280), (750000, 71393), True, -180),
    "h265_10bits.mp4": (30, (200, 200), (30, 1), False, 0),
    "nasa_13013.mp4": (325, (180, 320), (25, 1), False, 0),
    "video_90.mov": (3, (568, 320), (30, 1), False, -90),
    "damaged/no_duration.webm": (74, (720, 1280), (15000, 1001), True, 0),
    "damaged/unordered.mov": (4, (50, 50), (32, 1), False, 0),
    "damaged/video_with_failing_audio.mp4": (280, (360, 640), (25, 1), False, 0),
    "derived/gray_ffv1_23976fps.mkv": (60, (120, 214), (24000, 1001), False, 0),
    "derived/odd_321x241_60fps.avi": (101, (241, 321), (60, 1), False, 0),
    "derived/vfr_90frames.mp4": (90, (360, 640), (480000, 19319), True, 0),
    "derived/视频 with space é.mp4": (21, (360, 640), (25, 1), False, 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_video_has_its_verdict_and_counts(datapack, name):
    with pytest.raises(VideoRefused) as error, open_video(datapack / name, VoxelSettings()) as video:
        for _ in video.frames():
            pass
    assert (error.value.code, error.value.frames_reported, error.value.frames_decoded) == REFUSED[name]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_video_has_its_frames_size_and_rate(datapack, name):
    from eventvox.timing import rational_fps

    with open_video(datapack / name, VoxelSettings()) as video:
        shapes = {frame.shape for frame in video.frames()}
        report, fps = video.report, rational_fps(video.header.fps)
        assert video.header.fps_source == "opencv"
    assert (report.frames, shapes, fps, report.variable_rate, report.rotation_deg) == (GOOD[name][0], {GOOD[name][1]}, *GOOD[name][2:])


# One of each kind that an ordinary conversion grays otherwise: BT.709, full range, odd size, 10 bits, turned, yuv444p, gray, palette.
LIKE_OPENCV = [
    "01_dog.mp4",
    "bt709_full_range.mp4",
    "derived/odd_321x241_60fps.avi",
    "h265_10bits.mp4",
    "video_90.mov",
    "video_180.mov",
    "cockatoo_yuv444.mp4",
    "derived/gray_ffv1_23976fps.mkv",
    "damaged/no_duration.webm",
    "nasa_13013.mp4",
    "bikes.mp4",
]


@pytest.mark.parametrize("name", LIKE_OPENCV)
def test_gray_values_are_those_of_opencvs_reader(datapack, name):
    import cv2

    capture = cv2.VideoCapture(str(datapack / name), cv2.CAP_FFMPEG)
    assert capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)
    with open_video(datapack / name, VoxelSettings()) as video:
        for frame, _ in zip(video.frames(), range(20), strict=False):
            read, bgr = capture.read()
            assert read and np.array_equal(frame, cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY))


@pytest.mark.parametrize("name", ["carphone_pristine.mp4", "video_90.mov", "derived/tiny_16x16_120fps.mp4", "derived/flicker_128x96.mp4"])
def test_a_real_video_gives_a_valid_file(datapack, tmp_path, name):
    record = voxelize_video(datapack / name, tmp_path / "v.h5", "v", VoxelSettings())
    assert validate_file(tmp_path / "v.h5") == []
    assert record.voxels == -(-(record.frames - 1) // 5)
