"""Opening a video by PyAV: quietly, and only what is a video. PyAV is loaded by the calls, not by the import of this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardwork.errors import DataError
from shardwork.watched import WatchedFile

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

READ_BYTES = 1 << 18
NOT_VIDEO_FORMATS = {"image2", "tty", "bin", "xbin", "adf", "idf", "txt", "concat", "hls", "ffmetadata"}
"""Demuxers that show a picture or a text as if it were a video, or a list of other files."""
QUARTER_TURNS = {90: 1, 180: 2, -180: 2, -90: 3, 270: 3, -270: 1}
"""Display rotation in degrees, counterclockwise -> quarter turns counterclockwise. Other angles are left alone, as OpenCV does."""


def import_av() -> Any:
    """Return PyAV, quiet: a damaged video would print a line per packet, and its verdict says it better."""
    import av

    av.logging.set_level(None)
    return av


def open_container(file: WatchedFile, refuse: Callable[[str], DataError]) -> InputContainer:
    """Return an opened container.

    refuse : what was found -> the error.   Raises that for a file that is no video, OSError where the machine is at fault.
    """
    av = import_av()
    try:
        # the whitelist keeps a playlist inside from opening anything else
        container: InputContainer = av.open(file, options={"protocol_whitelist": "file"}, metadata_errors="ignore", buffer_size=READ_BYTES)
    except av.error.FFmpegError as error:
        file.raise_error(error)
        raise refuse(f"no container that FFmpeg knows ({error.strerror})") from error
    if NOT_VIDEO_FORMATS & set(container.format.name.split(",")) or container.format.name.endswith("_pipe"):
        found = f"a file of the kind {container.format.name}"
        container.close()
        raise refuse(found)
    return container


def video_streams(container: InputContainer) -> list[VideoStream]:
    """Return the video streams that are no cover pictures. The first is the one that OpenCV opens; without a decoder its codec_context is None."""
    av = import_av()
    return [stream for stream in container.streams.video if not stream.disposition & av.stream.Disposition.attached_pic]
