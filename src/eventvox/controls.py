"""Control videos: the pictures of an event file as a lossless video, frame by frame beside the source."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from eventvox.pictures import open_slices
from eventvox.stage import CONTROLS_VERSION
from eventvox.timing import encoder_rate
from shardwork.ffv1 import versions, write_video
from shardwork.files import check_apart


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """What is known of one control video. It holds no time, host or absolute path.

    frames : N, as many as the source video has.   height, width : pixels.   bytes, file_xxh3 : size and digest of the file as it was checked.
    frames_xxh3 : digest of the pictures, see `shardwork.ffv1.FramesDigest`.   versions : of what decides the bytes.
    """

    frames: int
    height: int
    width: int
    bytes: int
    file_xxh3: str
    frames_xxh3: str
    versions: dict[str, str]


def write_control(events: Path, out: Path, rate: Fraction) -> ControlRecord:
    """Write the control video of an event file, atomically, decode it again, and return its record. Equal values give equal bytes.

    events : the event file.   out : the video (.mkv), replaced if it is there.   rate : frames a second of the source, encoded as `encoder_rate` of it.
    Raises DataError (bad_argument) for a file with more than one slice in a bin, frames that FFV1 cannot hold or an `out` that is the event file, (bad_fps)
    for a rate that FFmpeg cannot hold, (invalid_hdf5) for a file that is no event file; Fault (not_published) if another picture is read back than was
    written; OSError where the machine is at fault. `out` is then as it was.
    """
    check_apart(out, [events])
    with open_slices(events) as source:
        source.check_aligned()
        height, width = source.height, source.width
        seen = write_video(out, source.frames(), height, width, encoder_rate(rate))
    said = {**versions(), "eventvox": str(CONTROLS_VERSION)}
    return ControlRecord(seen.frames, height, width, seen.bytes, seen.file_xxh3, seen.frames_xxh3, said)
