"""An event file as a film to look at: every slice in order, with the source video beside it if wished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from eventvox.decode import open_video
from eventvox.pictures import EventSlices, Rgb
from eventvox.settings import ROTATIONS, VoxelSettings
from eventvox.timing import encoder_rate
from shardwork.container import QUARTER_TURNS, import_av
from shardwork.errors import DataError
from shardwork.files import atomic_path, check_apart
from shardwork.jsonio import read_json

X264 = {"crf": "12", "preset": "veryfast"}
LARGEST_DEN = 2**28
"""Of the rate: MP4 counts how far a frame is moved, up to some frames, in 31 bits of its time base."""
BT709 = 1
"""The number of BT.709 in H.264's tables of primaries, curves and matrices."""


def write_film(source: EventSlices, out: Path, video: Path | None = None, rotation: str | None = None) -> int:
    """Write an MP4 (H.264), atomically, and return how many frames it has: N, as many as the source video.

    out : the MP4.   video : the source video, shown left of its events; frame i stands beside slice i - 1.
    rotation : display or stored, as the setting that the events were made with; None: as a player shows the video, or as stored where only that fits.
    Odd sizes are padded by a black row or column, since H.264 wants even ones; nothing is resized.
    Raises DataError: bad_argument for a file with more than one slice in a bin, a video of another size or number of frames, or an `out` that is one of the
    files read; VideoRefused for a video that cannot be read.
    """
    check_apart(out, [source.path] if video is None else [source.path, video])
    source.check_aligned()
    frames = source.frames() if video is None else beside(video, source, rotation)
    width = source.width if video is None else 2 * source.width
    with atomic_path(out) as temp:
        return _encode(temp, frames, source.height + source.height % 2, width + width % 2, source.rate)


def noted_rotation(events: Path) -> str | None:
    """Return the rotation that an event file was made with, from the record beside it or in the workflow's sidecars; None where there is none."""
    for path in (Path(f"{events}.json"), events.absolute().parent.parent / "sidecars" / f"{events.stem}.json"):
        if path.is_file():
            try:
                noted: Any = read_json(path)
                rotation = noted["settings"]["rotation"]
            except (DataError, KeyError, TypeError):  # another file of that name
                continue
            if rotation in ROTATIONS:
                return str(rotation)
    return None


def beside(video: Path, source: EventSlices, rotation: str | None = None) -> Iterator[Rgb]:
    """Yield each frame of a video with its events at its right, (H, 2W, 3) uint8 RGB. Raises as write_film does."""
    count, events = 0, source.frames()
    for frame in _video_frames(video, source, rotation):
        picture = next(events, None)
        if picture is None:
            raise _other_video(video, f"more than {source.slices + 1} frames", f"{source.slices + 1} frames", source)
        count += 1
        yield np.concatenate([frame, picture], axis=1)
    if count != source.slices + 1:
        raise _other_video(video, f"{count} frames", f"{source.slices + 1} frames", source)


def _other_video(video: Path, found: str, expected: str, source: EventSlices) -> DataError:
    return DataError("bad_argument", video, found, f"{expected} as {source.path.name} was made from", "name the video that the event file was made from")


def _video_frames(video: Path, source: EventSlices, rotation: str | None) -> Iterator[Rgb]:
    """Yield the frames of a video in colour, turned as `write_film` says."""
    wanted = (source.height, source.width, 3)
    with open_video(video, VoxelSettings(gap_policy="skip")) as opened:
        for frame in opened.decoded():
            stored = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
            shown = np.rot90(stored, QUARTER_TURNS.get(int(frame.rotation), 0))
            turned = {"display": (shown,), "stored": (stored,)}.get(rotation or "", (shown, stored))
            fits = next((picture for picture in turned if picture.shape == wanted), None)
            if fits is None:
                raise _other_video(video, f"frames of {turned[0].shape[1]}x{turned[0].shape[0]}", f"{source.width}x{source.height}", source)
            yield fits


def _encode(path: Path, frames: Iterable[Rgb], height: int, width: int, rate: Fraction) -> int:
    av, count, rate = import_av(), 0, encoder_rate(rate, LARGEST_DEN)
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options=X264)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        context = stream.codec_context
        context.color_primaries = context.color_trc = context.colorspace = context.color_range = BT709
        canvas = np.zeros((height, width, 3), np.uint8)
        for picture in frames:
            canvas[: picture.shape[0], : picture.shape[1]] = picture
            frame = av.VideoFrame.from_ndarray(canvas, "rgb24").reformat(format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
            frame.pts, frame.time_base = count, 1 / rate
            container.mux(stream.encode(frame))
            count += 1
        container.mux(stream.encode(None))
    return count
