"""Gray frames of a video, one at a time, and an honest account of what came out.

PyAV decodes, because it sees size changes, AV1 and errors that OpenCV hides.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eventvox.codes import VideoRefused
from eventvox.gaps import FrameTally, Gap, Promise, verdict, whole_prefix
from eventvox.gray import GrayConverter, import_cv2
from eventvox.settings import VoxelSettings
from shardwork.container import QUARTER_TURNS, import_av, open_container, video_streams
from shardwork.watched import WatchedFile

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


@dataclass(frozen=True, slots=True)
class VideoHeader:
    """What is known before decoding.

    container, codec, decoder : FFmpeg's names.   frames_reported : int, or None if the header has no count.   duration_seconds : of the container, or None.
    fps : float, as OpenCV reports it.   fps_source : opencv, or container where OpenCV cannot open the stream.
    """

    container: str
    codec: str
    decoder: str
    frames_reported: int | None
    duration_seconds: float | None
    fps: float
    fps_source: str


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """What one decode showed, known after the last frame.

    frames : int, N, frames given out.   first_frame_mean : 0 to 1.   rotation_deg : display rotation, counterclockwise, whether applied or not.
    decode_errors : packets that failed.   variable_rate : fewer than 90 % of the steps are equal.   gaps : what the policy let pass.
    """

    frames: int
    first_frame_mean: float
    rotation_deg: int
    decode_errors: int
    variable_rate: bool
    gaps: tuple[Gap, ...]


def check_source(path: Path) -> None:
    """Raise VideoRefused for a path that can be no video. One that may not be read raises OSError: that is a fault of the machine."""
    try:
        status = path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            found = "a link that leads nowhere" if path.is_symlink() else "no such file"
            raise VideoRefused("missing_file", path.name, found, "a video") from error
        raise
    if not stat.S_ISREG(status.st_mode):
        raise VideoRefused("not_a_video", path.name, "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file", "a video file")
    if status.st_size == 0:
        raise VideoRefused("empty_file", path.name, "0 bytes", "a video")
    with open(path, "rb") as file:
        file.read(1)


def _choose_stream(container: InputContainer, path: Path) -> VideoStream:
    """Return the first video stream that is no cover picture: the one that OpenCV opens, whose rate we write. Raises VideoRefused."""
    streams = video_streams(container)
    if not streams:
        kinds = ", ".join(sorted(stream.type for stream in container.streams)) or "none"
        raise VideoRefused("no_video_stream", path.name, f"streams: {kinds}", "a video stream")
    if streams[0].codec_context is None:
        raise VideoRefused("codec_unsupported", path.name, "a codec without a decoder", "a codec that FFmpeg decodes", "", streams[0].frames or None)
    return streams[0]


def _opencv_fps(path: Path, stream: VideoStream) -> float | None:
    """Return the frame rate OpenCV reports, verbatim, or None if it cannot open the file or opened another stream."""
    cv2 = import_cv2()
    # 4.11 refuses CAP_PROP_ORIENTATION_AUTO among the opening parameters; neither default is relied on.
    capture = cv2.VideoCapture(os.path.abspath(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    if not capture.isOpened():  # OpenCV does not say why: a second try, so that one failed read does not change where the rate comes from
        capture = cv2.VideoCapture(os.path.abspath(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    try:
        if not capture.isOpened():
            return None
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
        size = (capture.get(cv2.CAP_PROP_FRAME_WIDTH), capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
        return float(capture.get(cv2.CAP_PROP_FPS)) if size == (stream.width, stream.height) else None
    finally:
        capture.release()


def _frame_rate(path: Path, stream: VideoStream) -> tuple[float, str]:
    """Return (fps, where it comes from). Raises VideoRefused (bad_fps)."""
    rate = stream.average_rate
    for fps, source in ((_opencv_fps(path, stream), "opencv"), (float(rate) if rate else None, "container")):
        if fps is not None and math.isfinite(fps) and fps > 0:
            return fps, source
    raise VideoRefused("bad_fps", path.name, "no frame rate", "a finite number above 0", "", stream.frames or None)


def _promise(container: InputContainer, stream: VideoStream) -> Promise:
    """Return what the container says of its length. Only Matroska states a duration that a cut does not change and no frame count."""
    start = stream.start_time or 0
    base = stream.time_base or Fraction(1, 1_000_000)
    end = None if not stream.duration else (start + stream.duration) * base
    stated = container.duration and "matroska" in container.format.name
    return Promise(stream.frames or None, end, Fraction(container.duration or 0, 1_000_000) if stated else None)


class GrayVideo:
    """One video: its header at once, its frames by one sequential decode, its report after the last of them."""

    def __init__(self, path: Path, settings: VoxelSettings) -> None:
        """Open the video.   Raises VideoRefused with one of the reason codes, OSError where the machine is at fault."""
        check_source(path)
        self.path, self.settings = path, settings
        self._file = WatchedFile(path)
        try:
            self._container = open_container(self._file, lambda found: VideoRefused("not_a_video", path.name, found, "a whole video file"))
        except BaseException:
            self._file.close()
            raise
        try:
            self._stream = _choose_stream(self._container, path)
            # One thread: with frame threads, how many frames a damaged stream gives depends on their number (measured: 145 or 147).
            self._stream.codec_context.thread_count = 1
            self._tally = FrameTally(self._stream.time_base or Fraction(1, 1_000_000))
            self._promise = _promise(self._container, self._stream)
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise
        self._report: DecodeReport | None = None
        self._rotation = 0
        self._mean = 0.0

    def close(self) -> None:
        """Close the file."""
        self._container.close()
        self._file.close()

    @property
    def report(self) -> DecodeReport:
        """Return what the decode showed; only after the last frame."""
        if self._report is None:
            raise RuntimeError("the report of a video is known after its last frame")
        return self._report

    def _read_header(self) -> VideoHeader:
        container, stream = self._container, self._stream
        fps, source = _frame_rate(self.path, stream)
        duration = None if not container.duration or container.duration < 0 else container.duration / 1_000_000
        codec = stream.codec_context
        return VideoHeader(container.format.name, codec.codec.canonical_name, codec.name, self._promise.frames, duration, fps, source)

    def _refuse(self, code: str, found: str, expected: str) -> VideoRefused:
        reported, decoded = self._promise.frames, self._tally.frames
        counts = f"decoded {decoded} of {'an unstated number of' if reported is None else reported} frames"
        return VideoRefused(code, self.path.name, f"{counts}; {found}" if found else counts, expected, "", reported, decoded)

    def frames(self) -> Iterator[NDArray[np.uint8]]:
        """Yield each frame, (H, W) uint8 gray, a fresh array; the verdict on gaps comes after the last one.

        Raises VideoRefused: no_frames, single_frame, codec_unsupported, size_change, decode_gap, truncated.   Source: events spec D1, D9, D10.
        """
        # Jumps and missing tails show only at the end, so a prefix is found by decoding twice: 0.4 of 2.5 CPU seconds more (measured, 720p).
        limit, gaps = self._find_prefix() if self.settings.gap_policy == "prefix" else (None, ())
        gray: GrayConverter | None = None
        for frame in self.decoded():
            if self._tally.frames - 1 == limit:
                break
            if gray is None:
                self._rotation = int(frame.rotation)
                gray = GrayConverter(self._stream, QUARTER_TURNS.get(self._rotation, 0) if self.settings.rotation == "display" else 0)
            values = self._convert(gray, frame)
            if self._tally.frames == 1:
                self._mean = int(values.sum(dtype=np.int64)) / (255 * values.size)
            yield values
        self._finish(limit, gaps)

    def _convert(self, gray: GrayConverter, frame: VideoFrame) -> NDArray[np.uint8]:
        try:
            return gray.convert(frame)
        except import_av().error.FFmpegError as error:
            self._file.raise_error(error)
            raise self._refuse("codec_unsupported", f"pixel format {frame.format.name} ({error.strerror})", "a pixel format that FFmpeg converts") from error

    def _find_prefix(self) -> tuple[int | None, tuple[Gap, ...]]:
        """Return how many frames stand before the first gap (None: there is none) and all gaps, by a decode of its own."""
        with open_video(self.path, self.settings) as scout:
            for _ in scout.decoded():
                pass
            gaps = scout._tally.gaps(scout._promise)
            limit = whole_prefix(gaps) if gaps else None
            if gaps and not limit:
                raise scout._refuse(verdict(gaps) or "decode_gap", gaps[0].detail, "whole frames before the gap")
        return limit, gaps

    def _finish(self, limit: int | None, gaps: tuple[Gap, ...]) -> None:
        """Judge what was decoded. Raises VideoRefused."""
        self._file.raise_error()
        tally = self._tally
        if limit is None:
            gaps = tally.gaps(self._promise)
        frames = tally.frames if limit is None else min(limit, tally.frames)
        if frames == 0:
            raise self._refuse("codec_unsupported" if tally.decoder_refuses else "no_frames", f"{tally.failures} packets failed", "at least 2")
        code = verdict(gaps)
        if code and self.settings.gap_policy == "strict":
            raise self._refuse(code, gaps[0].detail, "every frame that the container states, without gaps")
        if frames == 1 and not self.settings.allow_empty:
            raise self._refuse("single_frame", "", "at least 2 frames")
        self._report = DecodeReport(frames, self._mean, self._rotation, tally.failures, not tally.constant_rate, gaps)

    def decoded(self) -> Iterator[VideoFrame]:
        """Yield the decoded frames as PyAV gives them, all of one size, and note what fails. Raises VideoRefused (size_change)."""
        # A failed packet is passed over; the end of the file is told apart from a failure, so the tries need no limit.
        size: tuple[int, int] | None = None
        for packet in self._packets():
            for frame in self._decode(packet):
                size = size or (frame.width, frame.height)
                if (frame.width, frame.height) != size:
                    found = f"frame {self._tally.frames} is {frame.width}x{frame.height}"
                    raise self._refuse("size_change", found, f"{size[0]}x{size[1]} throughout")
                self._tally.add_frame(frame.pts, frame.is_corrupt)
                yield frame

    def _packets(self) -> Iterator[Packet[Any] | None]:
        """Yield the packets of the video stream, None last. Those of other streams only tell how far the file reaches."""
        av, tally = import_av(), self._tally
        try:
            for packet in self._container.demux():
                if packet.size and packet.pts is not None and packet.time_base:
                    tally.file_end = max(tally.file_end, (packet.pts + (packet.duration or 0)) * packet.time_base)
                if packet.size and packet.stream_index == self._stream.index:
                    tally.discarded += packet.is_discard
                    yield packet
        except av.error.FFmpegError as error:
            self._file.raise_error(error)
            tally.add_failure(error.strerror or type(error).__name__)
        yield None

    def _decode(self, packet: Packet[Any] | None) -> list[VideoFrame]:
        av, tally = import_av(), self._tally
        try:
            frames: list[VideoFrame] = self._stream.codec_context.decode(packet)
        except av.error.FFmpegError as error:
            self._file.raise_error(error)
            tally.decoder_refuses |= isinstance(error, av.error.DecoderNotFoundError | av.error.PatchWelcomeError | av.error.NotImplementedError)
            tally.add_failure(error.strerror or type(error).__name__)
            return []
        if packet is not None:
            tally.add_success()
        return frames


@contextmanager
def open_video(path: Path, settings: VoxelSettings) -> Iterator[GrayVideo]:
    """Yield the opened video; close it afterwards. Raises as GrayVideo does."""
    video = GrayVideo(path, settings)
    try:
        yield video
    finally:
        video.close()
