"""One video to one event file: decode, slice, group, write, look again, publish; and the record that goes beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from eventvox.codecs import codec_version
from eventvox.codes import VideoRefused
from eventvox.decode import GrayVideo, open_video
from eventvox.gaps import Gap
from eventvox.gray import library_versions
from eventvox.hdf5 import EventWriter, create_events, read_values_digest
from eventvox.kernel import ChunkKernel, ContrastKernel
from eventvox.layout import COUNTS
from eventvox.settings import VoxelSettings
from eventvox.stage import VOXELIZE_VERSION
from eventvox.timing import rational_fps
from eventvox.voxels import group_slices
from shardwork.digests import xxh3_file
from shardwork.errors import Fault
from shardwork.files import atomic_path, check_apart
from shardwork.ids import check_id

DARK_MEAN = 0.4
GIB = 1 << 30
TYPICAL_RATIO = 0.05
# Measured on 34 videos of at least 160x120 with gzip-4 (auto writes 7 % less): a file has 0.2 % to 17 % of its raw size, half of them under 2.5 %.


@dataclass(frozen=True, slots=True)
class VideoRecord:
    """What is known of one event file beyond its five attributes and the settings. It holds no time, host or absolute path.

    frames : N.   frames_reported : the header's count or None.   voxels : T.   clipped : values saturated to int16.
    duration_seconds : of the container, or None.   duration_mismatch : it differs from frames / fps by more than one frame and 1 %.
    first_frame_mean : 0 to 1.   rotation_deg : display rotation, counterclockwise, applied if settings.rotation is display.
    values_xxh3 : digest of the voxels, see `hdf5`.   bytes, file_xxh3 : size and digest of the file as it was checked, before it was published.
      Source: events spec D8 and "Manifests".
    """

    video_id: str
    fps: float
    fps_num: int
    fps_den: int
    fps_source: str
    frames: int
    frames_reported: int | None
    voxels: int
    height: int
    width: int
    clipped: int
    duration_seconds: float | None
    duration_mismatch: bool
    first_frame_mean: float
    dark_first_frame: bool
    rotation_deg: int
    variable_rate: bool
    decode_errors: int
    gaps: tuple[Gap, ...]
    container: str
    video_codec: str
    decoder: str
    bytes: int
    file_xxh3: str
    values_xxh3: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Written:
    """What the writer knows once its file is closed."""

    height: int
    width: int
    voxels: int
    slices: int
    clipped: int
    digest: str


def voxelize_video(source: Path, out: Path, video_id: str, settings: VoxelSettings, threads: int = 1) -> VideoRecord:
    """Write the event file of a video, atomically, and return its record.

    source : the video.   out : the HDF5 file, replaced if it is there.   video_id : by the rule of ids.   threads : how many compress, beside one that decodes.
    Raises VideoRefused (one of the reason codes), DataError (bad_id; bad_argument where `out` is the video), OSError or Fault where the machine is at fault;
    `out` is then as it was.
    """
    check_id(video_id)
    check_apart(out, [source])
    with open_video(source, settings) as video:
        written: list[_Written] = []
        looks: list[tuple[int, str]] = []

        def check(temp: Path) -> None:
            _check_written(temp, written[0])
            looks.append((temp.stat().st_size, xxh3_file(temp)))

        with atomic_path(out, check) as temp:
            written.append(_write(temp, video, settings, threads))
        return _record(video, written[0], video_id, *looks[0])


def _write(path: Path, video: GrayVideo, settings: VoxelSettings, threads: int) -> _Written:
    """Write all voxels of a video; the file is closed on return."""
    frames = video.frames()
    first = next(frames)
    height, width = first.shape
    _check_room(path.parent, video, height, width)
    with create_events(path, height, width, video.header.fps, settings, threads) as writer:
        for _ in append_voxels(writer, first, frames, settings):
            _check_size(writer, video)
        writer.flush()
        _check_size(writer, video)
    return _Written(height, width, writer.voxels, writer.slices, writer.clipped, writer.values_digest())


def append_voxels(writer: EventWriter, first: NDArray[np.uint8], rest: Iterator[NDArray[np.uint8]], settings: VoxelSettings) -> Iterator[int]:
    """Write the voxels of a video; yields how many there are after each.   first, rest : its frames, (H, W) uint8, gray."""
    if settings.frames_per_bin > 1:
        slicer = ContrastKernel(first, settings)
        for voxel in group_slices((slicer.slice_events(frame) for frame in rest), settings):
            writer.append(voxel)
            yield writer.voxels
        return
    # One slice a bin, as in format v1.0, where interpolation changes nothing: the kernel writes the chunks themselves.
    kernel = ChunkKernel(first, settings)
    # two, since the writer may still be at work on the voxel before
    rooms = [np.empty((settings.num_bins, *first.shape), np.uint8) for _ in range(2)]
    start = count = 0
    for frame in rest:
        frames = rooms[writer.voxels % 2]
        frames[count] = frame
        count += 1
        if count == settings.num_bins:
            writer.write(partial(kernel.fill, frames), start, count)
            start, count = start + count, 0
            yield writer.voxels
    if count:
        writer.write(partial(kernel.fill, rooms[writer.voxels % 2][:count]), start, count)
        yield writer.voxels


def estimated_bytes(frames: int, height: int, width: int) -> int:
    """Return how large the event file of a video is likely to be. A full voxel has one int16 per pixel and transition before compression."""
    return int(max(0, frames - 1) * height * width * 2 * TYPICAL_RATIO)


def _size(size: int) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def _check_room(folder: Path, video: GrayVideo, height: int, width: int) -> None:
    """Raise VideoRefused (too_large) if the disk has no room for the likely size. A disk that fills up later is a fault, not a verdict."""
    header = video.header
    frames = header.frames_reported or int((header.duration_seconds or 0) * header.fps)
    need, free = estimated_bytes(frames, height, width), shutil.disk_usage(folder).free
    if need > free:
        room, hint = f"at most the free {_size(free)}", "free disk, or cut the video"
        raise VideoRefused("too_large", video.path.name, f"about {_size(need)} to write", room, hint, header.frames_reported)


def _check_size(writer: EventWriter, video: GrayVideo) -> None:
    """Raise VideoRefused (too_large) once the growing file passes the limit."""
    limit = video.settings.max_file_gib
    if limit and writer.file_bytes > limit * GIB:
        found, hint = f"{_size(writer.file_bytes)} after {writer.slices} slices", "raise max_file_gib, or cut the video"
        room = f"at most {limit:g} GiB (max_file_gib)" if limit >= 1 else f"at most {_size(int(limit * GIB))} (max_file_gib {limit:g})"
        raise VideoRefused("too_large", video.path.name, found, room, hint, video.header.frames_reported, writer.slices + 1)


def _check_written(path: Path, written: _Written) -> None:
    """Raise Fault (not_published) unless the file on the disk holds what was computed."""
    with h5py.File(path, "r") as file:
        slices = int(file[COUNTS][()].sum())
    digest = read_values_digest(path)
    if (digest, slices) != (written.digest, written.slices):
        raise Fault(
            "not_published",
            path.name,
            f"values {digest} of {slices} slices read back",
            f"{written.digest} of {written.slices}",
            "the disk or the memory is failing: check it, then run the same command",
        )


def _record(video: GrayVideo, written: _Written, video_id: str, size: int, file_xxh3: str) -> VideoRecord:
    header, report = video.header, video.report
    num, den = rational_fps(header.fps)
    return VideoRecord(
        video_id=video_id,
        fps=header.fps,
        fps_num=num,
        fps_den=den,
        fps_source=header.fps_source,
        frames=report.frames,
        frames_reported=header.frames_reported,
        voxels=written.voxels,
        height=written.height,
        width=written.width,
        clipped=written.clipped,
        duration_seconds=header.duration_seconds,
        duration_mismatch=duration_mismatch(header.duration_seconds, report.frames, header.fps),
        first_frame_mean=report.first_frame_mean,
        dark_first_frame=report.first_frame_mean < DARK_MEAN,
        rotation_deg=report.rotation_deg,
        variable_rate=report.variable_rate,
        decode_errors=report.decode_errors,
        gaps=report.gaps,
        container=header.container,
        video_codec=header.codec,
        decoder=header.decoder,
        bytes=size,
        file_xxh3=file_xxh3,
        values_xxh3=written.digest,
        versions={
            **library_versions(),
            **codec_version(video.settings.codec),
            "eventvox": str(VOXELIZE_VERSION),
            "h5py": h5py.__version__,
            "hdf5": h5py.version.hdf5_version,
        },
    )


def duration_mismatch(duration_seconds: float | None, frames: int, fps: float) -> bool:
    """Return whether the container's duration and frames / fps differ by more than one frame and 1 %."""
    return duration_seconds is not None and abs(duration_seconds - frames / fps) > max(1 / fps, duration_seconds / 100)
