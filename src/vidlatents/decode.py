"""The frames of a video, or of a folder of pictures, one at a time and upright: as many as really decode, whatever the container claims.

PyAV converts to RGB by the colour matrix and range that the file states, BT.601 where it states none, as FFmpeg's own program does.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shardwork.container import QUARTER_TURNS, import_av, open_container, video_streams
from shardwork.watched import WatchedFile
from vidlatents.codes import SampleRefused

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from PIL.Image import Image

Rgb = NDArray[np.uint8]
Picture = Callable[[], Rgb]
"""A decoded frame: the call converts it, (H, W, 3) uint8, a fresh array. Only until the next frame is taken."""

PICTURES = frozenset((".jpeg", ".jpg", ".png", ".webp"))


@dataclass(slots=True)
class Stream:
    """An opened video.

    fps : as the container states it, None for pictures.   claimed : frames that it states, None where it does not.   pictures : the frames in order,
    all of one size; raises SampleRefused (E_DECODE) at the first that is damaged.   height, width : pixels as displayed, 0 before the first frame.
    frames : decoded, or passed over, so far.
    """

    fps: Fraction | None
    claimed: int | None
    pictures: Iterator[Picture]
    height: int = 0
    width: int = 0
    frames: int = 0


@contextmanager
def open_video(path: Path, missing: str, skip: int = 0) -> Iterator[Stream]:
    """Yield an opened video; close it afterwards.

    path : a file, or a folder of pictures.   missing : the code where there is none, E_VIDEO_MISSING or E_CONTROL_MISSING.
    skip : frames at the start that nobody looks at: those that need no decoding to be counted are passed over, and `pictures` begins after them.
    Raises SampleRefused (that, or E_DECODE), OSError where the machine is at fault.
    """
    if _check_source(path, missing):
        stream = Stream(None, None, iter(()))
        stream.pictures = _folder_pictures(path, stream)
        yield stream
        return
    with WatchedFile(path) as file, open_container(file, partial(_refuse, path)) as container:
        video = _choose_stream(container, path)
        # one thread: with frame threads, how many frames a damaged video gives depends on their number
        video.codec_context.thread_count = 1
        stream = Stream(video.average_rate or None, video.frames or None, iter(()))
        ffv1 = video.codec_context.name == "ffv1"
        with _said(ffv1) as said:
            stream.pictures = _video_pictures(path, file, _decoded(_packets(container, video, stream, skip if ffv1 else 0), video), stream, said)
            yield stream


@contextmanager
def _said(ffv1: bool) -> Iterator[list[tuple[int, str, str]]]:
    """Yield what FFmpeg's FFV1 decoder says as it goes: of a slice whose checksum is wrong it says so alone, and shows the last frame's in its place."""
    av = import_av()
    if not ffv1:
        yield []
        return
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture() as said:
            yield said
    finally:
        av.logging.set_level(None)


def _refuse(path: Path, found: str, expected: str = "a video that decodes whole") -> SampleRefused:
    return SampleRefused("E_DECODE", path.name, found, expected, path=path.name)


def _check_source(path: Path, missing: str) -> bool:
    """Return whether the path is a folder. Raises SampleRefused for one that is not there or can hold no frame."""
    try:
        status = path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            found = "a link that leads nowhere" if path.is_symlink() else "no such file"
            raise SampleRefused(missing, path.name, found, "a video", path=path.name) from error
        raise
    if stat.S_ISDIR(status.st_mode):
        return True
    if not stat.S_ISREG(status.st_mode):
        raise _refuse(path, "not a regular file")
    if status.st_size == 0:
        raise _refuse(path, "0 bytes")
    return False


def _choose_stream(container: InputContainer, path: Path) -> VideoStream:
    """Return the first video stream that is no cover picture."""
    streams = video_streams(container)
    if not streams:
        raise _refuse(path, "no video stream")
    if streams[0].codec_context is None:
        raise _refuse(path, "a codec without a decoder")
    return streams[0]


def _video_pictures(path: Path, file: WatchedFile, frames: Iterator[VideoFrame], stream: Stream, said: list[tuple[int, str, str]]) -> Iterator[Picture]:
    import av

    reformatter = av.video.reformatter.VideoReformatter()
    while True:
        try:
            frame = next(frames, None)
        except av.error.FFmpegError as error:
            file.raise_error(error)
            raise _refuse(path, f"decoding fails after frame {stream.frames} ({error.strerror})") from error
        if frame is None:
            file.raise_error()
            return
        if frame.is_corrupt or any("CRC mismatch" in text for _, _, text in said):
            raise _refuse(path, f"frame {stream.frames} is damaged")
        turns = QUARTER_TURNS.get(int(frame.rotation), 0)
        size = (frame.width, frame.height) if turns % 2 else (frame.height, frame.width)
        yield _counted(path, stream, size, partial(_rgb, path, reformatter, frame, turns))


def _packets(container: InputContainer, video: VideoStream, stream: Stream, skip: int) -> Iterator[Packet[VideoStream]]:
    """Yield the packets to decode: all but up to `skip` first ones that are counted instead. In FFV1 each is one frame, and a key frame needs no other."""
    last: Packet[VideoStream] | None = None
    for packet in container.demux(video):
        if stream.frames < skip and packet.is_keyframe and packet.size and not (packet.is_corrupt or packet.is_discard):
            last, stream.frames = packet, stream.frames + 1
            continue
        if last is not None and packet.size and not packet.is_keyframe:
            last.decode()  # what this one builds on; its frame is counted already
        last, skip = None, 0
        yield packet


def _decoded(packets: Iterable[Packet[VideoStream]], video: VideoStream) -> Iterator[VideoFrame]:
    for packet in packets:
        yield from packet.decode()


def _rgb(path: Path, reformatter: Any, frame: VideoFrame, turns: int) -> Rgb:
    import av

    try:
        rgb: Rgb = reformatter.reformat(frame, format="rgb24", interpolation="BICUBIC", threads=1).to_ndarray()
    except av.error.FFmpegError as error:
        raise _refuse(path, f"pixel format {frame.format.name} ({error.strerror})", "a pixel format that FFmpeg converts") from error
    return np.ascontiguousarray(np.rot90(rgb, turns)) if turns else rgb


def _picture(image: Image) -> Rgb:
    return np.array(image.convert("RGB"))


def _folder_pictures(path: Path, stream: Stream) -> Iterator[Picture]:
    """Yield the pictures of a folder in the order of their names."""
    import PIL.Image

    names = sorted(one.name for one in path.iterdir() if one.suffix.lower() in PICTURES and not one.name.startswith("."))
    if not names:
        raise _refuse(path, "a folder without pictures", "a video, or a folder of .jpg, .png or .webp pictures")
    for name in names:
        try:
            with PIL.Image.open(path / name) as image:
                image.load()  # a look at the header would not see a cut picture
                yield _counted(path, stream, (image.height, image.width), partial(_picture, image))
        except (PIL.UnidentifiedImageError, SyntaxError, ValueError) as error:
            raise _refuse(path, f"picture {name}: {error}", "pictures that decode") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise _refuse(path, f"picture {name}: {error}", "pictures that decode") from error  # Pillow's word for a cut picture


def _counted(path: Path, stream: Stream, size: tuple[int, int], picture: Picture) -> Picture:
    """Return a frame after it is counted. Raises SampleRefused for one of another size than those before."""
    if stream.height and size != (stream.height, stream.width):
        found = f"frame {stream.frames} is {size[0]}x{size[1]} (height x width)"
        raise _refuse(path, found, f"{stream.height}x{stream.width} throughout")
    stream.height, stream.width = size
    stream.frames += 1
    return picture
