"""RGB and control video -> the frames of one sample, aligned and of bucket size.

A pair has the same number of decoded frames, the same size and the same rate, or it is refused: nothing is cut, repeated, retimed or replaced to fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from shardwork.errors import DataError
from shardwork.streams import stream
from vidlatents.buckets import covered_part
from vidlatents.codes import SampleRefused
from vidlatents.decode import Rgb, open_video
from vidlatents.records import STARTS, Sample

RATE_TOLERANCE = Fraction(1, 2000)
"""How far two rates may lie apart, as a part of the first: containers round them, and 24 and 23.976 differ by twice as much."""
RESIZE_RULE = "cover-center bilinear-antialias uint8 1"
"""What crop and resize are, for a fingerprint; the number is raised when a change of code changes pixels."""
MISSING = {"video": "E_VIDEO_MISSING", "control": "E_CONTROL_MISSING"}


@dataclass(frozen=True, slots=True)
class Probe:
    """What a whole decode of a video showed.

    frames : int, decoded.   height, width : pixels as displayed.   fps : as stated, None for pictures.   claimed : frames that the container states, or None.
    """

    frames: int
    height: int
    width: int
    fps: Fraction | None
    claimed: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    """The frames of one sample. rgb, control : (T, H, W, 3) uint8 at bucket size, frame-aligned."""

    rgb: Rgb
    control: Rgb


def probe(path: Path, missing: str = "E_VIDEO_MISSING") -> Probe:
    """Return what a video is, by decoding it whole without converting a frame.

    missing : the code where there is none.   Raises SampleRefused (that, or E_DECODE), OSError where the machine is at fault.
    Many samples are cuts of one video: a file is not decoded again by one process while its size and time stay the same.
    """
    return _probe(path, missing) if (state := file_state(path)) is None else _probed(path, missing, state)


def file_state(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from one that took its place: device, inode, bytes and mtime_ns. None for what is none, as a folder of pictures."""
    if not path.is_file():
        return None
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@lru_cache(4096)
def _probed(path: Path, missing: str, _state: tuple[int, ...]) -> Probe:
    return _probe(path, missing)


def _probe(path: Path, missing: str) -> Probe:
    with open_video(path, missing) as opened:
        for _ in opened.pictures:
            pass
        if not opened.frames:
            raise SampleRefused("E_DECODE", path.name, "no frame decodes", "a video", path=path.name)
        return Probe(opened.frames, opened.height, opened.width, opened.fps, opened.claimed)


def probe_pair(sample: Sample) -> tuple[Probe, Probe]:
    """Return what both videos of a sample are. Raises SampleRefused as `probe` and `check_pair` do."""
    probes = probe(sample.video, MISSING["video"]), probe(sample.control, MISSING["control"])
    check_pair(sample, *probes)
    return probes


def check_pair(sample: Sample, video: Probe, control: Probe) -> None:
    """Raise SampleRefused unless both videos are frame-aligned and hold what the sample asks for.

    E_SIZE_MISMATCH, E_FRAME_MISMATCH (frames or rate), E_FRAMES_SHORT (bucket or cut).   Source: bugs F01, F12; latents spec.
    """

    def refuse(code: str, found: str, expected: str) -> SampleRefused:
        return SampleRefused(code, sample.uttid, found, expected, uttid=sample.uttid, path=sample.video.name)

    sizes = [f"{one.height}x{one.width}" for one in (video, control)]
    if sizes[0] != sizes[1]:
        raise refuse("E_SIZE_MISMATCH", f"control of {sizes[1]} (height x width)", f"{sizes[0]}, as the RGB video")
    if video.frames != control.frames:
        raise refuse("E_FRAME_MISMATCH", f"control of {control.frames} decoded frames", f"{video.frames}, as the RGB video")
    if video.fps and control.fps and abs(video.fps - control.fps) > RATE_TOLERANCE * video.fps:
        raise refuse("E_FRAME_MISMATCH", f"control of {float(control.fps):g} frames a second", f"{float(video.fps):g}, as the RGB video")
    first, end = sample.cut or (0, sample.num_frame)
    if video.frames < max(end, first + sample.num_frame):
        found = f"{video.frames} decoded frames"
        raise refuse("E_FRAMES_SHORT", found, f"frames {first} to {end} of the cut" if sample.cut else f"{sample.num_frame} of the bucket")
    if sample.crop and (sample.crop[1] > video.width or sample.crop[3] > video.height):
        raise refuse("E_SIZE_MISMATCH", f"a crop to column {sample.crop[1]} and row {sample.crop[3]}", f"a crop inside {sizes[0]} (height x width)")


def place_start(sample: Sample, frames: int, start: str, seed: int) -> Sample:
    """Return a sample whose cut holds exactly its bucket's frames.

    frames : decoded frames of its videos.   start : "first" for the first frame of its cut; "drawn" for one drawn evenly among those that leave room, by
    (seed, uttid) alone. The public producer draws too, but otherwise in each run.   Raises DataError (bad_argument) for another word.
    """
    if start not in STARTS:
        raise DataError("bad_argument", "start", repr(start), " or ".join(STARTS), "correct the setting")
    first, end = sample.cut or (0, frames)
    if start == "drawn":
        first += int(stream(seed, "start", sample.uttid).integers(0, max(1, end - first - sample.num_frame + 1)))
    return replace(sample, cut=(first, first + sample.num_frame))


def read_pair(sample: Sample, probes: tuple[Probe, Probe] | None = None) -> Pair:
    """Return the frames of a sample: those of its cut, from its first on, cropped, and resized where the size differs.

    probes : what an earlier look at these very files showed; decoding then ends with the sample's last frame, and
    of FFV1 begins with its first: what comes before is counted alone. Without it both videos are decoded to their
    end, so that a pair that does not match is refused however long the sample is. Only the sample's frames are held.
    Raises SampleRefused as `probe_pair` does, OSError and MemoryError where the machine is at fault.
    """
    if probes:
        check_pair(sample, *probes)
    rgb, video = _read(sample, sample.video, MISSING["video"], probes is None)
    pictures, control = _read(sample, sample.control, MISSING["control"], probes is None, video)
    if probes is None:
        check_pair(sample, video, control)
    for name, seen, known in zip(("video", "control"), (video, control), probes or (), strict=False):
        if (seen.height, seen.width) != (known.height, known.width) or seen.frames < (sample.cut or (0, 0))[0] + sample.num_frame:
            found = f"{name}: {seen.frames} frames of {seen.height}x{seen.width}"
            raise SampleRefused("E_FRAMES_SHORT", sample.uttid, found, "the video that was probed", "plan again: the file changed", uttid=sample.uttid)
    return Pair(rgb, pictures)


def first_frame(sample: Sample) -> Rgb:
    """Return the first RGB frame of a sample, (H, W, 3) uint8 at bucket size; decoding ends with it. Raises SampleRefused, OSError as `read_pair` does."""
    start = sample.cut[0] if sample.cut else 0
    frames, seen = _read(replace(sample, num_frame=1, cut=(start, start + 1)), sample.video, MISSING["video"], whole=False)
    if seen.frames <= start:
        raise SampleRefused("E_FRAMES_SHORT", sample.uttid, f"{seen.frames} decoded frames", f"more than {start}", uttid=sample.uttid)
    first: Rgb = frames[0]
    return first


def _read(sample: Sample, path: Path, missing: str, whole: bool, like: Probe | None = None) -> tuple[Rgb, Probe]:
    """Return the sample's frames of one video, and what it showed. Frames that it lacks are left black for `check_pair` to refuse.

    like : the other video of the pair; reading ends at once where the size is not its.
    """
    out = np.zeros((sample.num_frame, sample.height, sample.width, 3), np.uint8)
    start = sample.cut[0] if sample.cut else 0
    with open_video(path, missing, 0 if whole else start) as opened:
        for picture in opened.pictures:
            index = opened.frames - 1
            if like and (opened.height, opened.width) != (like.height, like.width):
                break
            # a crop that reaches beyond the frame is refused when all is known
            if start <= index < start + sample.num_frame:
                out[index - start] = _fit(picture(), sample)
            if not whole and index + 1 >= start + sample.num_frame:
                break
        if not opened.frames:
            raise SampleRefused("E_DECODE", path.name, "no frame decodes", "a video", uttid=sample.uttid, path=path.name)
        return out, Probe(opened.frames, opened.height, opened.width, opened.fps, opened.claimed)


def _fit(frame: Rgb, sample: Sample) -> Rgb:
    """Return a frame cropped and at bucket size."""
    if sample.crop:
        x0, x1, y0, y1 = sample.crop
        frame = frame[y0:y1, x0:x1]
    size = (sample.height, sample.width)
    if frame.shape[:2] == size:
        return frame
    if not frame.size:
        return np.zeros((*size, 3), np.uint8)
    top, bottom, left, right = covered_part(frame.shape[0], frame.shape[1], size)
    frame = frame[top:bottom, left:right]
    if frame.shape[:2] == size:
        return frame
    from vidlatents.resize import resize  # loads torch, which pairs of bucket size do not need

    return resize(frame, size)
