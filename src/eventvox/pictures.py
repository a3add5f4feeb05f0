"""Pictures of an event file: its slices in order, their colours, and a contact sheet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from eventvox.codes import HINTS
from eventvox.reader import EventVideo
from eventvox.timing import rational_fps
from shardwork.errors import DataError
from shardwork.files import atomic_path, check_apart

FULL_COLOUR = 3
"""Brightness steps that give the full colour. Source: defaults, "Controls"."""
Rgb = NDArray[np.uint8]

SHEET_ROWS = 6
"""Voxels on a contact sheet if none are named."""
CELL_PX = 400
"""Width that a cell of the sheet comes near to; small frames are enlarged until the longer side does."""
TEXT_PX, GAP_PX = 16, 6
DIM, BRIGHT, EMPTY = (150, 150, 150), (235, 235, 235), (38, 38, 38)


def colour(events: NDArray[np.int16]) -> Rgb:
    """Return signed events as a picture on black: + red, - blue, intensity min(|n| / 3, 1), so one of 0, 85, 170, 255.

    events : (H, W) int16.   Returns (H, W, 3) uint8, RGB.   Source: defaults, "Controls".
    """
    picture = np.zeros((*events.shape, 3), np.uint8)
    level = np.clip(events, -FULL_COLOUR, FULL_COLOUR) * np.int16(255 // FULL_COLOUR)
    picture[..., 0] = np.maximum(level, 0)
    picture[..., 2] = -np.minimum(level, 0)
    return picture


@dataclass(frozen=True, slots=True)
class EventSlices:
    """An open event file, read one voxel at a time.

    path : the file.   rate : source frames a second, exact.   height, width : pixels.   starts, counts : (T,) first slice and number of slices of each voxel.
    """

    path: Path
    rate: Fraction
    height: int
    width: int
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    _events: Any

    @property
    def voxels(self) -> int:
        """Return T."""
        return len(self.counts)

    @property
    def slices(self) -> int:
        """Return N - 1, the steps between source frames."""
        return int(self.counts.sum())

    def voxel(self, t: int) -> NDArray[np.int16]:
        """Return voxel t, (5, H, W) int16. Raises DataError (invalid_hdf5) for one that cannot be read."""
        voxel: NDArray[np.int16] = self._events[t]
        return voxel

    def check_aligned(self) -> None:
        """Raise DataError (bad_argument) unless each bin holds one slice: only then does a picture belong to a frame of the video."""
        bins = self._events.shape[1]
        wanted = np.full(self.voxels, bins, np.int64)
        wanted[-1:] = np.clip(self.counts[-1:], 1, bins)
        if not (np.array_equal(self.counts, wanted) and np.array_equal(self.starts, bins * np.arange(self.voxels))):
            found = f"{self.counts.max()} slices in a voxel of {bins} bins"
            raise DataError("bad_argument", self.path, found, "one slice in each bin (frames_per_bin 1)", "voxelize the video again with --frames-per-bin=1")

    def frames(self) -> Iterator[Rgb]:
        """Yield a picture for each frame of the source video, (H, W, 3) uint8 RGB: frame 0 is black, frame i shows slice i - 1. Holds one voxel at a time."""
        yield np.zeros((self.height, self.width, 3), np.uint8)
        for t, count in enumerate(self.counts):
            for events in self.voxel(t)[:count]:
                yield colour(events)


@contextmanager
def open_slices(path: Path) -> Iterator[EventSlices]:
    """Yield an opened event file. Raises DataError (invalid_hdf5) for a file that is none, OSError where the machine is at fault."""
    with EventVideo(path, threads=1) as video:
        _, bins, height, width = video.shape
        if not (video.dtype == np.int16 and bins and height and width):
            raise DataError("invalid_hdf5", path, f"events {video.dtype} of shape {video.shape}", "an event file", HINTS["invalid_hdf5"])
        rate = Fraction(*rational_fps(video.fps))
        yield EventSlices(path, rate, height, width, video.starts, video.counts.astype(np.int64), video)


def write_sheet(source: EventSlices, out: Path, voxels: Sequence[int] = ()) -> list[int]:
    """Write a contact sheet, atomically: a row for each voxel, a column for each bin; return the voxels on it.

    out : the PNG.   voxels : which, by default evenly spaced ones; -1 is the last.
    Wide frames are reduced by a whole number, each pixel then being the strongest of its block; small ones are enlarged.
    Raises DataError (bad_argument) for a voxel that the file does not have, and for an `out` that is the event file.
    """
    check_apart(out, [source.path])
    chosen = [_voxel_index(t, source) for t in voxels] or _spread(source.voxels)
    with atomic_path(out) as temp:
        _draw_sheet(source, chosen).save(temp, "PNG")
    return chosen


def _voxel_index(t: int, source: EventSlices) -> int:
    if not -source.voxels <= t < source.voxels:
        found = f"voxel {t} of {source.voxels}"
        raise DataError("bad_argument", source.path, found, f"0 to {source.voxels - 1}" if source.voxels else "a file with voxels", "name voxels that it has")
    return t % source.voxels


def _spread(voxels: int) -> list[int]:
    """Return evenly spaced voxels, from the middle of equal parts."""
    rows = min(SHEET_ROWS, voxels)
    return [(2 * row + 1) * voxels // (2 * rows) for row in range(rows)]


def _draw_sheet(source: EventSlices, chosen: Sequence[int]) -> Image.Image:
    shrink, enlarge = -(-source.width // CELL_PX), max(1, CELL_PX // max(source.width, source.height))
    width, height = -(-source.width // shrink) * enlarge, -(-source.height // shrink) * enlarge
    bins, line = source.voxel(chosen[0]).shape[0] if chosen else 1, TEXT_PX + GAP_PX
    sheet = Image.new("RGB", (bins * (width + GAP_PX) + GAP_PX, 2 * line + len(chosen) * (height + 2 * line) + GAP_PX))
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(TEXT_PX - 3)
    about = f"{source.path.name}: {source.width}x{source.height}, {float(source.rate):g} fps, {source.slices} slices in {source.voxels} voxels"
    block = f"; each pixel is the strongest of {shrink}x{shrink}" if shrink > 1 else ""
    draw.text((GAP_PX, GAP_PX), about, BRIGHT, font)
    draw.text((GAP_PX, line), f"red: brighter, blue: darker, full colour at {FULL_COLOUR} steps or more{block}", DIM, font)
    for row, t in enumerate(chosen):
        top = 2 * line + row * (height + 2 * line)
        voxel, start, count = source.voxel(t), int(source.starts[t]), int(source.counts[t])
        used = -(-count // max(1, -(-int(source.counts.max()) // bins)))
        seconds = f"{float(start / source.rate):.2f} to {float((start + count) / source.rate):.2f} s"
        draw.text((GAP_PX, top + GAP_PX), f"voxel {t}: slices {start} to {start + count - 1}, {seconds}", BRIGHT, font)
        for b, events in enumerate(voxel):
            left = GAP_PX + b * (width + GAP_PX)
            if b < used:
                draw.text((left, top + line), f"bin {b}: +{_sum(events > 0, events):,} -{_sum(events < 0, events):,}", DIM, font)
                cell = colour(_strongest(events, shrink)).repeat(enlarge, 0).repeat(enlarge, 1)
                draw.rectangle((left - 1, top + 2 * line - 1, left + width, top + 2 * line + height), outline=EMPTY)
                sheet.paste(Image.fromarray(cell), (left, top + 2 * line))
            else:
                draw.text((left, top + line), f"bin {b}: beyond the last frame", DIM, font)
                draw.rectangle((left, top + 2 * line, left + width - 1, top + 2 * line + height - 1), fill=EMPTY)
    return sheet


def _sum(where: NDArray[np.bool_], events: NDArray[np.int16]) -> int:
    return abs(int(events[where].sum(dtype=np.int64)))


def _strongest(events: NDArray[np.int16], size: int) -> NDArray[np.int16]:
    """Return of each block of size x size pixels the value furthest from 0, the positive one of two; blocks at the edge may be smaller."""
    height, width = (-(-length // size) for length in events.shape)
    padded = np.zeros((height * size, width * size), np.int16)
    padded[: events.shape[0], : events.shape[1]] = events
    blocks = padded.reshape(height, size, width, size)
    most, least = blocks.max(axis=(1, 3)), blocks.min(axis=(1, 3))
    return np.where(most.astype(np.int32) >= -least.astype(np.int32), most, least)
