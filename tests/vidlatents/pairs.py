"""Pairs of videos and records made on the spot; FFV1 keeps every value."""

from __future__ import annotations

import json
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from shardwork import ffv1
from shardwork.journal import look
from vidlatents.records import RecordSettings, Sample


def frames_of(count, height=48, width=64, seed=0):
    """Return (T, H, W, 3) uint8: a shade with some noise, in which no frame is like another."""
    shade = np.arange(height)[:, None, None] + np.arange(width)[None, :, None] + np.array([0, 40, 90])
    noise = np.random.default_rng(seed).integers(0, 16, (count, height, width, 3), np.uint8)
    return ((shade + 5 * np.arange(count)[:, None, None, None] + noise + 60 * seed) % 256).astype(np.uint8)


def write(path, frames, rate=Fraction(24)):
    """Write a lossless video under any name; FFmpeg knows it by its bytes."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    ffv1.encode(Path(path), frames, frames[0].shape[0], frames[0].shape[1], Fraction(rate))
    return Path(path)


@cache
def encoded(count, size, seed, rate):
    """Return the bytes of a lossless video: encoding is what costs most in these tests."""
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "v.mkv", frames_of(count, size[0], size[1], seed), rate).read_bytes()


def write_mp4(path, frames, rate=24, options=None):
    """Write H.264 with the index in front, a key frame every 12 frames."""
    import av

    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options={"preset": "ultrafast", "g": "12", **(options or {})})
        stream.height, stream.width, stream.pix_fmt = frames[0].shape[0], frames[0].shape[1], "yuv420p"
        for picture in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    return Path(path)


def write_pair(root, uttid="a", rgb=49, control=49, size=(48, 64), rates=(24, 24), sizes=None):
    """Write videos/<uttid>.mp4 and control_videos/<uttid>.mp4 of so many frames, and return their frames."""
    first, second = sizes or (size, size)
    for folder, count, shape, seed, rate in zip(("videos", "control_videos"), (rgb, control), (first, second), (1, 2), rates, strict=True):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / f"{uttid}.mp4").write_bytes(encoded(count, shape, seed, rate))
    return frames_of(rgb, first[0], first[1], 1), frames_of(control, second[0], second[1], 2)


def sample_of(root, uttid="a", frames=49, size=(48, 64), **more):
    """Return the sample of a pair of `write_pair`."""
    values = {"cut": None, "crop": None, "source": {}, "prompt": "p", "bucket_key": "b", **more}
    return Sample(uttid, root / "videos" / f"{uttid}.mp4", root / "control_videos" / f"{uttid}.mp4", num_frame=frames, height=size[0], width=size[1], **values)


def settings_of(root=Path("data"), **more):
    """Return settings whose videos lie in videos/ and control_videos/ of a folder."""
    return RecordSettings(root / "videos", root / "control_videos", **more)


def minimal(uttid="sample_000001", frames=49, height=480, width=1920, **more):
    """Return the seed's minimal record."""
    bucket = {"bucket_num_frame": frames, "bucket_height": height, "bucket_width": width, "bucket_key": f"{height}x{width}x{frames}"}
    return {"uttid": uttid, **bucket, "prompt": "a red car", **more}


def full(**more):
    """Return a record of the public full form."""
    return {
        "path": "deep/clip_1.mp4",
        "control_path": "clip_1_sketch.mp4",
        "cut": [10, 140],
        "crop": [0, 1920, 0, 480],
        "fps": 30.0,
        "num_frames": 130,
        "resolution": {"height": 480, "width": 1920},
        "cap": ["first", "second"],
        **more,
    }


def write_records(path, records, newline="\n"):
    """Write records one a line, characters as they are."""
    path.write_bytes("".join(json.dumps(record, ensure_ascii=False) + newline for record in records).encode())
    return path


def count_digests(monkeypatch):
    """Return a list to which each file goes that the steps read for its digest."""
    read = []

    def counted(path, digest):
        read.append(path)
        return look(path, digest)

    monkeypatch.setattr("vidlatents.plan_step.look", counted)
    return read
