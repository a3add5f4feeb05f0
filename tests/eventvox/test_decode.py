"""Decoding: every frame, in order, as OpenCV grays it; and a verdict for every way a file can be wrong."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import eventvox
from eventvox.codes import VideoRefused
from eventvox.decode import open_video
from eventvox.settings import VoxelSettings
from tests.eventvox.conftest import moving_frames, noisy_frames, turn_video, write_video, write_x264

SRC = str(Path(eventvox.__file__).parent.parent)


def decode(path, **settings):
    """Return (frames, report, header)."""
    with open_video(path, VoxelSettings(**settings)) as video:
        frames = list(video.frames())
        return frames, video.report, video.header


def refusal(path, **settings):
    with pytest.raises(VideoRefused) as error:
        decode(path, **settings)
    return error.value


def damage(path, size=400, seed=1):
    """Overwrite bytes in the middle of a file."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + size] = np.random.default_rng(seed).bytes(size)
    path.write_bytes(data)
    return path


def test_every_gray_value_of_a_lossless_video_comes_out_in_order(tmp_path):
    made = moving_frames(23)
    frames, report, header = decode(write_video(tmp_path / "v.mkv", made))
    assert np.array_equal(np.stack(frames), made)
    assert (report.frames, header.frames_reported, header.fps, header.fps_source) == (23, None, 25.0, "opencv")
    assert report.first_frame_mean == pytest.approx(made[0].mean() / 255, abs=1e-12)
    assert (report.gaps, report.decode_errors, report.variable_rate, report.rotation_deg) == ((), 0, False, 0)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuvj420p", "yuv444p", "yuv420p10le", "yuv422p"])
@pytest.mark.parametrize("shape", [(48, 64), (47, 63)])
def test_gray_is_what_opencvs_reader_gives(tmp_path, pix_fmt, shape):
    import cv2

    made = np.random.default_rng(5).integers(0, 256, (4, *shape, 3), np.uint8)
    path = write_video(tmp_path / "v.mkv", made, codec="mjpeg" if pix_fmt == "yuvj420p" else "ffv1", pix_fmt=pix_fmt)
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    for frame in decode(path)[0]:
        read, bgr = capture.read()
        assert read and np.array_equal(frame, cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY))


def test_what_is_no_file_is_missing(tmp_path):
    (tmp_path / "link.mp4").symlink_to(tmp_path / "nowhere.mp4")
    (tmp_path / "loop.mp4").symlink_to(tmp_path / "loop.mp4")
    for name in ("none.mp4", "link.mp4", "loop.mp4", "none/v.mp4"):
        assert refusal(tmp_path / name).code == "missing_file"


def test_what_is_no_video_is_named(tmp_path):
    import cv2

    (tmp_path / "folder.mp4").mkdir()
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "page.mp4").write_text("<html>404</html>")
    (tmp_path / "list.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")
    cv2.imwrite(str(tmp_path / "picture.jpg"), np.zeros((32, 32, 3), np.uint8))
    (tmp_path / "picture.jpg").rename(tmp_path / "picture.mp4")
    for name in ("folder", "pipe", "page", "list", "picture"):
        assert refusal(tmp_path / f"{name}.mp4").code == "not_a_video", name
    (tmp_path / "empty.mp4").touch()
    assert refusal(tmp_path / "empty.mp4").code == "empty_file"


def test_a_file_with_sound_alone_has_no_video_stream(tmp_path):
    import av

    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame(format="fltp", layout="stereo", samples=1024)
        frame.sample_rate = 44100
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert refusal(tmp_path / "a.mp4").code == "no_video_stream"


def test_a_codec_without_a_decoder_is_named(tmp_path):
    path = write_x264(tmp_path / "v.mp4", noisy_frames(5))
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz").replace(b"avcC", b"zzzC"))
    assert refusal(path).code == "codec_unsupported"


def test_an_unreadable_file_is_a_fault_and_no_verdict(tmp_path, monkeypatch):
    path = write_video(tmp_path / "v.mkv", moving_frames(3))

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError):
        decode(path)


def test_half_an_mp4_with_its_index_in_front_is_truncated(tmp_path):
    path = write_x264(tmp_path / "v.mp4", noisy_frames(60))
    whole = [frame.tobytes() for frame in decode(path)[0]]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    error = refusal(path)
    assert (error.code, error.frames_reported) == ("truncated", 60)
    assert 15 < error.frames_decoded < 45 and f"decoded {error.frames_decoded} of 60 frames" in error.found
    for policy in ("prefix", "skip"):
        frames, report, _ = decode(path, gap_policy=policy)
        assert len(frames) == report.frames == error.frames_decoded
        assert [gap.kind for gap in report.gaps] == ["tail"]
        assert [frame.tobytes() for frame in frames] == whole[: len(frames)]


def test_half_a_matroska_file_is_truncated_although_it_has_no_count(tmp_path):
    path = write_video(tmp_path / "v.mkv", noisy_frames(60))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    error = refusal(path)
    assert (error.code, error.frames_reported) == ("truncated", None) and "of an unstated number" in error.found


def test_half_an_mp4_with_its_index_at_the_end_is_no_video(tmp_path):
    path = write_video(tmp_path / "v.mp4", noisy_frames(20), codec="mpeg4", pix_fmt="yuv420p")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(path).code == "not_a_video"


def test_a_damaged_stretch_is_a_gap_and_never_bridged_in_silence(tmp_path):
    path = write_x264(tmp_path / "v.mp4", noisy_frames(100), options={"crf": "30"})
    whole = [frame.tobytes() for frame in decode(path)[0]]
    damage(path, 4000)
    error = refusal(path)
    assert (error.code, error.frames_reported) == ("decode_gap", 100)
    kept, report, _ = decode(path, gap_policy="prefix")
    assert 0 < len(kept) == report.gaps[0].frame < 100
    assert [frame.tobytes() for frame in kept] == whole[: len(kept)]
    bridged, report, _ = decode(path, gap_policy="skip")
    assert len(kept) < len(bridged) == error.frames_decoded and report.gaps and report.decode_errors


def test_a_jump_in_time_is_a_gap(tmp_path):
    made = moving_frames(20)
    path = write_video(tmp_path / "v.mkv", made, pts=[*range(12), *range(40, 48)])
    error = refusal(path)
    assert (error.code, error.frames_decoded) == ("decode_gap", 20) and "before frame 12" in error.found
    frames, report, _ = decode(path, gap_policy="prefix")
    assert np.array_equal(np.stack(frames), made[:12]) and report.gaps[0].frame == 12
    assert len(decode(path, gap_policy="skip")[0]) == 20


def test_a_prefix_of_a_whole_video_is_the_whole_video(tmp_path):
    path = write_video(tmp_path / "v.mkv", moving_frames(9))
    frames, report, _ = decode(path, gap_policy="prefix")
    assert len(frames) == report.frames == 9 and report.gaps == ()


def test_a_variable_rate_is_flagged_and_its_average_kept(tmp_path):
    pts = [0, 33, 66, 400, 433, 466, 900, 933, 966, 1500]
    path = write_x264(tmp_path / "v.mp4", moving_frames(10, 48, 64), pts=pts, time_base=Fraction(1, 1000), options={"bf": "0"})
    _, report, header = decode(path)
    assert report.variable_rate and report.frames == 10
    assert 6 < header.fps < 11


def test_a_size_change_is_refused_at_its_frame(tmp_path):
    parts = [write_x264(tmp_path / f"{n}.ts", moving_frames(8, h, w), options={"bf": "0"}) for n, h, w in ((1, 48, 64), (2, 96, 128))]
    path = tmp_path / "both.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    error = refusal(path, gap_policy="skip")
    assert (error.code, error.frames_decoded) == ("size_change", 8) and "128x96" in error.found and "64x48" in error.expected


def test_one_frame_is_refused_unless_allowed(tmp_path):
    path = write_video(tmp_path / "v.mkv", moving_frames(1))
    assert refusal(path).code == "single_frame"
    frames, report, _ = decode(path, allow_empty=True)
    assert len(frames) == report.frames == 1


def test_a_stream_of_rubbish_has_no_frames(tmp_path):
    path = write_video(tmp_path / "v.avi", noisy_frames(3), codec="ffv1")
    data = path.read_bytes()
    start = data.index(b"movi")
    path.write_bytes(data[:start].replace(b"FFV1", b"H264") + data[start:].replace(b"FFV1", b"H264"))
    error = refusal(path)
    assert error.code == "no_frames" and error.frames_decoded == 0


@pytest.mark.parametrize(("degrees", "turn"), [(90, -1), (180, 2), (270, 1)])
def test_frames_are_turned_as_a_player_shows_them(tmp_path, degrees, turn):
    import cv2

    made = np.full((3, 48, 64), 60, np.uint8)
    made[:, :16, :16] = 230
    path = write_x264(tmp_path / "v.mp4", made)
    turn_video(path, degrees)
    stored, report, _ = decode(path, rotation="stored")
    shown, shown_report, _ = decode(path)
    assert abs(report.rotation_deg) == abs(shown_report.rotation_deg) != 0
    assert stored[0].shape == (48, 64) and stored[0][8, 8] > 200
    assert np.array_equal(shown[0], np.rot90(stored[0], turn))
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)
    assert np.array_equal(shown[0], cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2GRAY))


def test_av1_is_decoded_although_opencv_cannot(tmp_path):
    import av

    if "libsvtav1" not in av.codecs_available:
        pytest.skip("this PyAV cannot write AV1")
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    path = write_video(tmp_path / "v.mp4", moving_frames(8, 64, 64), codec="libsvtav1", pix_fmt="yuv420p", options={"preset": "12"})
    # As root, SVT-AV1 makes the calling thread a real-time one of the highest priority: all later tests and their children would stall the machine.
    os.sched_setscheduler(0, policy, parameters)
    frames, _, header = decode(path)
    assert len(frames) == 8 and header.codec == "av1"


def test_a_name_with_a_colon_is_a_file(tmp_path, monkeypatch):
    write_video(tmp_path / "v.mkv", moving_frames(3))
    monkeypatch.chdir(tmp_path)
    Path("v.mkv").rename("http:x é %03d.mkv")
    assert len(decode(Path("http:x é %03d.mkv"))[0]) == 3


def test_no_file_stays_open_after_a_verdict(tmp_path):
    path = damage(write_x264(tmp_path / "v.mp4", noisy_frames(40)), 4000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        refusal(path)
        decode(path, gap_policy="prefix")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_damaged_video_prints_nothing(tmp_path):
    path = damage(write_x264(tmp_path / "v.mp4", noisy_frames(40)), 4000)
    program = (
        "import sys; from pathlib import Path; from eventvox.decode import open_video; from eventvox.settings import VoxelSettings\n"
        "with open_video(Path(sys.argv[1]), VoxelSettings(gap_policy='skip')) as video: print(len(list(video.frames())))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], env={"PYTHONPATH": SRC}, capture_output=True, text=True, check=True)
    assert done.stderr == "" and int(done.stdout) > 20


def test_a_verdict_survives_the_way_between_processes(tmp_path):
    error = pickle.loads(pickle.dumps(refusal(write_video(tmp_path / "v.mkv", moving_frames(1)))))
    assert (error.code, error.frames_decoded, error.where) == ("single_frame", 1, "v.mkv")


def test_memory_does_not_grow_with_the_length_of_the_video(tmp_path):
    program = (
        "import sys; from pathlib import Path; from eventvox.voxelize import voxelize_video; from eventvox.settings import VoxelSettings\n"
        "voxelize_video(Path(sys.argv[1]), Path(sys.argv[2]), 'v', VoxelSettings(codec='zlib:0'))\n"
        # not getrusage: what the process was before exec, a copy of this one, counts there
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    peaks = []
    for count in (60, 1200):
        path = write_x264(tmp_path / f"{count}.mp4", np.tile(moving_frames(20, 120, 160), (count // 20, 1, 1)))
        command = [sys.executable, "-c", program, str(path), str(tmp_path / f"{count}.h5")]
        peaks.append(int(subprocess.run(command, env={"PYTHONPATH": SRC}, capture_output=True, text=True, check=True).stdout))
    # 1,140 more gray frames would take 22 MB, their slices 88 MB
    assert peaks[1] - peaks[0] < 10_000
