"""Reading pairs: decoded frames alone count, a pair that does not match is refused, and nothing stands in for a frame."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from io import FileIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.vidlatents.pairs import frames_of, sample_of, write, write_mp4, write_pair
from vidlatents import decode
from vidlatents.codes import SampleRefused
from vidlatents.read import first_frame, place_start, probe, probe_pair, read_pair

DATAPACK = os.environ.get("REELMILL_DATAPACK", "")


def refused(look, sample):
    with pytest.raises(SampleRefused) as caught:
        look(sample)
    return caught.value


@pytest.fixture(params=[probe_pair, read_pair])
def look(request):
    return request.param


def test_a_pair_of_bucket_size_is_read_to_the_bit(tmp_path):
    rgb, control = write_pair(tmp_path)
    pair = read_pair(sample_of(tmp_path))
    assert np.array_equal(pair.rgb, rgb) and np.array_equal(pair.control, control)


def test_a_bucket_takes_the_first_frames_of_a_longer_pair(tmp_path):
    rgb, _ = write_pair(tmp_path, rgb=60, control=60)
    assert np.array_equal(read_pair(sample_of(tmp_path)).rgb, rgb[:49])


def test_a_cut_begins_at_its_first_frame_in_both_videos(tmp_path):
    rgb, control = write_pair(tmp_path, rgb=60, control=60)
    pair = read_pair(sample_of(tmp_path, cut=(7, 60)))
    assert np.array_equal(pair.rgb, rgb[7:56]) and np.array_equal(pair.control, control[7:56])


def test_a_crop_is_x0_x1_y0_y1(tmp_path):
    rgb, _ = write_pair(tmp_path, rgb=5, control=5)
    pair = read_pair(sample_of(tmp_path, frames=5, size=(16, 24), crop=(8, 32, 3, 19)))
    assert np.array_equal(pair.rgb, rgb[:, 3:19, 8:32])


def test_what_is_out_of_shape_is_cut_from_the_middle(tmp_path):
    rgb, _ = write_pair(tmp_path, rgb=5, control=5)
    assert np.array_equal(read_pair(sample_of(tmp_path, frames=5, size=(48, 48))).rgb, rgb[:, :, 8:56])


def test_frames_of_known_probes_are_the_same(tmp_path):
    write_pair(tmp_path, rgb=60, control=60)
    sample = sample_of(tmp_path, cut=(3, 58))
    assert np.array_equal(read_pair(sample, probe_pair(sample)).rgb, read_pair(sample).rgb)


@pytest.mark.parametrize(("cut", "start", "begun"), [(None, "first", (0, 49)), ((7, 90), "first", (7, 56)), ((7, 56), "drawn", (7, 56))])
def test_a_placed_sample_s_cut_holds_the_frames_of_its_bucket_alone(tmp_path, cut, start, begun):
    assert place_start(sample_of(tmp_path, cut=cut), 90, start, 0).cut == begun


def test_the_first_frame_alone_is_that_of_the_cut(tmp_path):
    rgb, _ = write_pair(tmp_path, rgb=5, control=5)
    assert np.array_equal(first_frame(sample_of(tmp_path, frames=1, cut=(4, 5))), rgb[4])


def test_a_first_frame_just_beyond_the_video_is_refused(tmp_path):
    write_pair(tmp_path, rgb=5, control=5)
    assert refused(first_frame, sample_of(tmp_path, frames=1, cut=(5, 6))).code == "E_FRAMES_SHORT"


def test_a_video_cut_short_after_it_was_probed_is_refused(tmp_path):
    write_pair(tmp_path)
    probes = probe_pair(sample_of(tmp_path))
    write(tmp_path / "control_videos" / "a.mp4", frames_of(48))
    assert refused(lambda sample: read_pair(sample, probes), sample_of(tmp_path)).code == "E_FRAMES_SHORT"


def test_a_pair_of_another_size_than_was_probed_is_refused(tmp_path):
    write_pair(tmp_path, rgb=5, control=5)
    probes = probe_pair(sample_of(tmp_path, frames=5))
    write_pair(tmp_path, rgb=5, control=5, size=(96, 128))
    assert "96x128" in refused(lambda sample: read_pair(sample, probes), sample_of(tmp_path, frames=5)).found


@pytest.mark.parametrize(("rgb", "control"), [(49, 48), (49, 50), (48, 49), (60, 49), (49, 1)])
def test_another_number_of_frames_is_refused(tmp_path, look, rgb, control):
    write_pair(tmp_path, rgb=rgb, control=control)
    error = refused(look, sample_of(tmp_path))
    assert (error.code, error.uttid) == ("E_FRAME_MISMATCH", "a")


def test_another_rate_is_refused(tmp_path, look):
    write_pair(tmp_path, rates=(24, 30))
    assert refused(look, sample_of(tmp_path)).code == "E_FRAME_MISMATCH"


def test_24_and_23_976_frames_a_second_are_told_apart(tmp_path):
    write_pair(tmp_path, rates=(24, Fraction(24000, 1001)))
    assert refused(probe_pair, sample_of(tmp_path)).code == "E_FRAME_MISMATCH"


def test_a_rate_that_a_container_rounds_is_the_same(tmp_path):
    write_pair(tmp_path, rates=(Fraction(30000, 1001), Fraction(2997, 100)))
    assert probe_pair(sample_of(tmp_path))[0].frames == 49


@pytest.mark.parametrize("sizes", [((48, 64), (64, 48)), ((48, 64), (96, 128))])
def test_another_size_is_refused(tmp_path, look, sizes):
    write_pair(tmp_path, sizes=sizes)
    assert refused(look, sample_of(tmp_path)).code == "E_SIZE_MISMATCH"


@pytest.mark.parametrize(("crop", "inside"), [((0, 64, 0, 48), True), ((0, 65, 0, 48), False), ((0, 64, 0, 49), False), ((70, 80, 0, 48), False)])
def test_a_crop_beyond_the_frame_is_refused(tmp_path, look, crop, inside):
    write_pair(tmp_path)
    sample = sample_of(tmp_path, crop=crop)
    assert (inside and look(sample)) or refused(look, sample).code == "E_SIZE_MISMATCH"


@pytest.mark.parametrize(("folder", "code"), [("videos", "E_VIDEO_MISSING"), ("control_videos", "E_CONTROL_MISSING")])
def test_a_missing_video_has_its_code(tmp_path, look, folder, code):
    write_pair(tmp_path)
    (tmp_path / folder / "a.mp4").unlink()
    assert refused(look, sample_of(tmp_path)).code == code


def test_another_samples_control_never_stands_in(tmp_path, look):
    write_pair(tmp_path, "a")
    write_pair(tmp_path, "b")
    (tmp_path / "control_videos" / "a.mp4").write_bytes(b"no video")
    error = refused(look, sample_of(tmp_path))
    assert (error.code, error.path) == ("E_DECODE", "a.mp4")


def test_40_frames_do_not_fill_a_bucket_of_49(tmp_path, look):
    write_pair(tmp_path, rgb=40, control=40)
    assert refused(look, sample_of(tmp_path)).code == "E_FRAMES_SHORT"


@pytest.mark.parametrize("cut", [(0, 61), (20, 69), (12, 61)])
def test_a_cut_beyond_the_last_frame_is_refused(tmp_path, look, cut):
    write_pair(tmp_path, rgb=60, control=60)
    assert refused(look, sample_of(tmp_path, cut=cut)).code == "E_FRAMES_SHORT"


def smooth(count):
    """Frames that move and that H.264 keeps small."""
    y, x = np.mgrid[:48, :64]
    return np.stack([np.stack([(2 * x + i) % 256, (3 * y + 2 * i) % 256, (x + y + i) % 256], -1).astype(np.uint8) for i in range(count)])


def test_an_mp4_cut_anywhere_is_refused(tmp_path):
    data = write_mp4(tmp_path / "whole.mp4", smooth(49)).read_bytes()
    lengths = [0, 1, 7, 8, 40, 100, 1023, 1024, *(len(data) * part // 10 for part in range(1, 10)), len(data) - 20, len(data) - 1]
    codes = []
    for length in lengths:
        (tmp_path / "cut.mp4").write_bytes(data[:length])
        codes.append(refused(probe, tmp_path / "cut.mp4").code)
    assert codes == ["E_DECODE"] * len(lengths)


def test_a_matroska_control_cut_between_frames_no_longer_matches(tmp_path, look):
    write_pair(tmp_path)
    path = tmp_path / "control_videos" / "a.mp4"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refused(look, sample_of(tmp_path)).code == "E_FRAME_MISMATCH"


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8])
def test_a_flipped_bit_of_an_ffv1_video_is_seen(tmp_path, look, place):
    write_pair(tmp_path)
    path = tmp_path / "control_videos" / "a.mp4"
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 16
    path.write_bytes(data)
    assert refused(look, sample_of(tmp_path)).code == "E_DECODE"


def test_frames_after_a_damaged_one_are_not_taken_for_it(tmp_path):
    data = bytearray(write_mp4(tmp_path / "v.mp4", smooth(49)).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    (tmp_path / "v.mp4").write_bytes(data)
    assert refused(probe, tmp_path / "v.mp4").code == "E_DECODE"


@pytest.mark.parametrize("data", [b"", b"<html>404</html>", b"\x89PNG\r\n\x1a\n" + bytes(100), b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n"])
def test_what_is_no_video_is_refused(tmp_path, data):
    (tmp_path / "v.mp4").write_bytes(data)
    assert refused(probe, tmp_path / "v.mp4").code == "E_DECODE"


def test_a_size_that_changes_within_a_video_is_refused(tmp_path):
    for name, size in (("a", (48, 64)), ("b", (64, 48))):
        write(tmp_path / name, frames_of(3, *size))
    write_ts = [_mpegts(tmp_path / f"{size[0]}.ts", size) for size in ((48, 64), (64, 48))]
    (tmp_path / "v.ts").write_bytes(b"".join(path.read_bytes() for path in write_ts))
    assert "throughout" in refused(probe, tmp_path / "v.ts").expected


def _mpegts(path, size):
    import av

    with av.open(str(path), "w", format="mpegts") as container:
        stream = container.add_stream("mpeg2video", rate=25)
        stream.height, stream.width, stream.pix_fmt = size[0], size[1], "yuv420p"
        for picture in frames_of(5, *size):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    return path


def test_a_read_that_fails_is_no_verdict(tmp_path, monkeypatch):
    path = write(tmp_path / "v.mkv", frames_of(20))

    def fail(self, size=-1):
        if self.tell() > 40_000:
            self.error = OSError(5, "Input/output error")
            raise self.error
        return FileIO.read(self, size)

    monkeypatch.setattr("shardwork.watched.WatchedFile.read", fail)
    with pytest.raises(OSError, match="Input/output"):
        probe(path)


def test_a_folder_of_pictures_is_a_video_in_the_order_of_its_names(tmp_path):
    frames = frames_of(12)
    for index in (11, *range(11)):
        Image.fromarray(frames[index]).save(tmp_path / f"{index:03d}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    write(tmp_path / "c.mkv", frames)
    sample = sample_of(tmp_path, frames=9)
    sample = type(sample)(**{**vars(sample), "video": tmp_path, "control": tmp_path / "c.mkv"})
    pair = read_pair(sample)
    assert np.array_equal(pair.rgb, frames[:9]) and np.array_equal(pair.control, frames[:9])


@pytest.mark.parametrize("length", [0, 20, 200, -30])
def test_a_cut_picture_is_refused(tmp_path, length):
    for index, frame in enumerate(frames_of(3)):
        Image.fromarray(frame).save(tmp_path / f"{index}.png")
    data = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(data[:length])
    with pytest.raises(SampleRefused, match=r"1\.png"):
        read_pair(type(sample_of(tmp_path))(**{**vars(sample_of(tmp_path, frames=3)), "video": tmp_path, "control": tmp_path}))


def test_an_empty_folder_is_no_video(tmp_path):
    assert refused(probe, tmp_path).found == "a folder without pictures"


@pytest.mark.parametrize(("matrix", "rgb"), [(1, (250.2, 90.8, 40.8)), (5, (236.0, 77.4, 44.4)), (2, (236.0, 77.4, 44.4))])
def test_colours_follow_the_matrix_that_the_file_states(tmp_path, matrix, rgb):
    # Y 120, Cb 90, Cr 200 in limited range, by hand from Kr, Kb of BT.709 (1), BT.601 (5, and 2: none stated)
    import av

    with av.open(str(tmp_path / "v.mkv"), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "0"})
        stream.width = stream.height = 32
        stream.pix_fmt, stream.codec_context.colorspace, stream.codec_context.color_range = "yuv444p", matrix, 1
        planes = np.repeat(np.array([120, 90, 200], np.uint8), 32 * 32).reshape(3, 32, 32)
        frame = av.VideoFrame.from_ndarray(planes, "yuv444p")
        frame.colorspace, frame.color_range = matrix, 1
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    sample = sample_of(tmp_path, frames=1, size=(32, 32))
    pair = read_pair(type(sample)(**{**vars(sample), "video": tmp_path / "v.mkv", "control": tmp_path / "v.mkv"}))
    assert np.abs(pair.rgb[0, 7, 7] - np.array(rgb)).max() < 1


def test_a_title_that_is_not_utf_8_is_no_fault_of_the_video(tmp_path):
    import av

    with av.open(str(tmp_path / "v.avi"), "w") as container:
        container.metadata["title"] = "a title of a video"
        stream = container.add_stream("mpeg4", rate=25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(frames_of(1)[0], "rgb24")))
        container.mux(stream.encode(None))
    data = (tmp_path / "v.avi").read_bytes()
    assert b"a title of" in data
    (tmp_path / "v.avi").write_bytes(data.replace(b"a title of", b"\xe9 title \xff\xff"))
    assert probe(tmp_path / "v.avi").frames == 1


def test_a_picture_that_cannot_be_read_for_a_fault_of_the_disk_is_no_verdict(tmp_path, monkeypatch):
    Image.fromarray(frames_of(1)[0]).save(tmp_path / "0.png")

    def fail(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("PIL.Image.open", fail)
    with pytest.raises(OSError, match="Input/output"):
        probe(tmp_path)


def test_a_frame_that_its_decoder_marks_as_damaged_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "v.mkv", frames_of(5))
    good = decode._decoded

    def marked(packets, video):
        for index, frame in enumerate(good(packets, video)):
            yield frame if index != 3 else SimpleNamespace(is_corrupt=True, rotation=0, width=64, height=48)

    monkeypatch.setattr(decode, "_decoded", marked)
    assert refused(probe, path).found == "frame 3 is damaged"


def counted(monkeypatch):
    """Return a list that grows by one with each packet that is decoded."""
    decoded, good = [], decode._decoded

    def count(packets, video):
        for packet in packets:
            decoded.extend([1] if packet.size else [])
            yield from good([packet], video)

    monkeypatch.setattr(decode, "_decoded", count)
    return decoded


def remuxed(path, left_out):
    """Take the packets of these numbers out of a video."""
    import av

    with av.open(str(path)) as source, av.open(str(path) + ".mkv", "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(source.demux(video=0)):
            if packet.size and number not in left_out:
                packet.stream = stream
                out.mux(packet)
    Path(str(path) + ".mkv").replace(path)


def test_frames_before_a_cut_of_lossless_videos_are_counted_not_decoded(tmp_path, monkeypatch):
    rgb, control = write_pair(tmp_path, rgb=20, control=20)
    sample = sample_of(tmp_path, frames=5, cut=(12, 17))
    probes, decoded = probe_pair(sample), counted(monkeypatch)
    pair = read_pair(sample, probes)
    assert np.array_equal(pair.rgb, rgb[12:17]) and np.array_equal(pair.control, control[12:17]) and len(decoded) == 10


def test_a_cut_of_a_lossless_video_that_lost_a_frame_before_it_is_refused(tmp_path):
    write_pair(tmp_path, rgb=20, control=20)
    sample = sample_of(tmp_path, frames=5, cut=(15, 20))
    probes = probe_pair(sample)
    remuxed(sample.control, {3})
    assert refused(lambda one: read_pair(one, probes), sample).code == "E_FRAMES_SHORT"
    assert refused(read_pair, sample).code == "E_FRAME_MISMATCH"


@pytest.mark.parametrize("start", [1, 11, 12, 13])
def test_a_cut_of_a_lossless_video_whose_frames_build_on_others_has_the_right_frames(tmp_path, start):
    import av

    frames = frames_of(20)
    for name in ("videos", "control_videos"):
        (tmp_path / name).mkdir()
        with av.open(str(tmp_path / name / "a.mp4"), "w", format="matroska") as container:
            stream = container.add_stream("ffv1", rate=24, options={"level": "3", "context": "1"})
            stream.height, stream.width, stream.pix_fmt, stream.codec_context.gop_size = 48, 64, "bgr0", 12
            for picture in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="bgr0")))
            container.mux(stream.encode(None))
    with av.open(str(tmp_path / "videos" / "a.mp4")) as container:
        assert [number for number, packet in enumerate(container.demux(video=0)) if packet.size and packet.is_keyframe] == [0, 12]
    sample = sample_of(tmp_path, frames=5, cut=(start, start + 5))
    assert np.array_equal(read_pair(sample, probe_pair(sample)).rgb, frames[start : start + 5])


def test_two_cuts_of_one_video_decode_it_once_and_a_changed_one_again(tmp_path, monkeypatch):
    path, opened, good = write(tmp_path / "v.mkv", frames_of(5)), [], decode._decoded

    def noted(packets, video):
        opened.append(1)
        return good(packets, video)

    monkeypatch.setattr(decode, "_decoded", noted)
    assert [probe(path).frames, probe(path).frames, len(opened)] == [5, 5, 1]
    write(path, frames_of(7))
    assert [probe(path).frames, len(opened)] == [7, 2]


def test_a_file_of_the_same_size_and_another_time_is_decoded_again(tmp_path):
    path = write(tmp_path / "v.mkv", frames_of(5))
    status, frames = path.stat(), probe(path).frames
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert frames == 5 and refused(probe, path).code == "E_DECODE"


def test_a_video_is_decoded_by_one_thread(tmp_path, monkeypatch):
    threads, good = [], decode._decoded

    def noted(packets, video):
        threads.append(video.codec_context.thread_count)
        return good(packets, video)

    monkeypatch.setattr(decode, "_decoded", noted)
    probe(write_mp4(tmp_path / "v.mp4", smooth(5)))
    assert threads == [1]


def triangle(size, out):
    """Weights (out, size) of a bilinear resize with antialiasing, from its definition: a triangle as wide as the scale, around each pixel's centre."""
    scale = size / out
    wide = max(scale, 1.0)
    centres = (np.arange(out) + 0.5) * scale
    weights = np.maximum(0, 1 - np.abs(np.arange(size)[None] + 0.5 - centres[:, None]) / wide)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", [(24, 32), (36, 48), (16, 24), (96, 128), (48, 40)])
def test_a_resize_is_bilinear_with_antialiasing_rounded_once(tmp_path, size):
    rgb, _ = write_pair(tmp_path, rgb=3, control=3)
    made = read_pair(sample_of(tmp_path, frames=3, size=size)).rgb
    high, wide = size
    kept_w = 64 if 48 * wide >= high * 64 else 48 * wide // high
    kept_h = 64 * high // wide if kept_w == 64 else 48
    top, left = (48 - kept_h) // 2, (64 - kept_w) // 2
    part = rgb[:, top : top + kept_h, left : left + kept_w].astype(np.float64)
    exact = np.einsum("ih,thwc,jw->tijc", triangle(kept_h, high), part, triangle(kept_w, wide))
    assert np.abs(made - exact).max() <= 0.5 + 1e-3


def test_a_pair_of_bucket_size_is_read_without_torch(tmp_path):
    write_pair(tmp_path, rgb=5, control=5)
    program = (
        "import sys; from pathlib import Path; from vidlatents.records import Sample; from vidlatents.read import read_pair; r = Path(sys.argv[1]);"
        "s = Sample('a', r/'videos/a.mp4', r/'control_videos/a.mp4', '', 'k', 5, 48, 64, None, None, {});"
        "assert read_pair(s).rgb.shape == (5, 48, 64, 3); print('torch' in sys.modules)"
    )
    source = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, env={"PYTHONPATH": source})
    assert done.stdout.strip() == "False"


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
def test_a_public_pair_is_read_at_its_bucket():
    root = Path(DATAPACK) / "latents" / "giga_ctrl_small"
    pair = read_pair(sample_of(root, "sample_000001", size=(120, 160), cut=(0, 49), crop=(0, 160, 0, 120)))
    assert pair.rgb.shape == pair.control.shape == (49, 120, 160, 3) and pair.control.mean() < 10 < pair.rgb.mean()


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
@pytest.mark.parametrize(("name", "height", "width"), [("video_90.mov", 568, 320), ("video_180.mov", 320, 568)], ids=["quarter turn", "half turn"])
def test_a_turned_video_is_upright(name, height, width):
    seen = probe(Path(DATAPACK) / "videos" / name)
    assert (seen.frames, seen.height, seen.width) == (3, height, width)


@pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")
def test_decoded_frames_count_where_the_container_claims_more():
    seen = probe(Path(DATAPACK) / "videos" / "tree.avi")
    assert (seen.frames, seen.claimed) == (68, 444)
