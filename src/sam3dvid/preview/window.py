"""Which part of the frames a sheet shows, and how large: objects often take a fortieth of a frame, and an error of some pixels must be seen."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from sam3dvid.preview.clip import Float, Mask, Rgb
from sam3dvid.validate.schema import Size

COLUMN_PX, LARGEST_PX = 256, 512
"""A frame is shown as it is within these widths; a narrower one is enlarged by a whole number, a wider one reduced."""
MARGIN_PX = 10
"""What is left free around all that must be in the window."""


@dataclass(frozen=True, slots=True)
class Box:
    """Columns left to right and rows top to bottom, the last ones not in it; px."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def empty(self) -> bool:
        """Return whether nothing is in it."""
        return self.right <= self.left or self.bottom <= self.top

    def joined(self, other: Box) -> Box:
        """Return the smallest box around both."""
        if self.empty or other.empty:
            return other if self.empty else self
        return Box(min(self.left, other.left), min(self.top, other.top), max(self.right, other.right), max(self.bottom, other.bottom))

    def grown(self, px: int, width: int, height: int) -> Box:
        """Return the box with a margin, within a picture."""
        return Box(max(0, self.left - px), max(0, self.top - px), min(width, self.right + px), min(height, self.bottom + px))

    def of(self, picture: Mask) -> Mask:
        """Return a picture's part in the box."""
        return picture[self.top : self.bottom, self.left : self.right]


NOTHING = Box(0, 0, 0, 0)


def box_of(mask: Mask) -> Box:
    """Return the smallest box around what is true.   mask : (H, W) bool."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1) if len(columns) else NOTHING


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the frames.   box : px of the frame.   zoom : how many times larger it is shown, whole; 0 where frames are so large that they are reduced."""

    box: Box
    zoom: int

    def shown(self, picture: Rgb) -> Rgb:
        """Return the part, as large as it is shown: (H, W, 3) to (H', W', 3) uint8."""
        box = self.box
        part = picture[box.top : box.bottom, box.left : box.right]
        return fit(part) if self.zoom == 0 else part.repeat(self.zoom, axis=0).repeat(self.zoom, axis=1)

    def place(self, uv: Float) -> Float:
        """Return where points of the frame lie in the part that is shown: (..., 2) to (..., 2) float64, px, pixel centres at integers."""
        scale = self.zoom or LARGEST_PX / (self.box.right - self.box.left)
        return (uv - (self.box.left, self.box.top) + 0.5) * scale - 0.5


def whole(size: Size) -> Window:
    """Return the window of whole frames."""
    return Window(Box(0, 0, size.width, size.height), 0 if size.width > LARGEST_PX else max(1, COLUMN_PX // size.width))


def window_of(size: Size, needed: Box) -> Window:
    """Return the window around what must be in it, enlarged by the greatest whole number by which it is no larger than whole frames are shown."""
    everything = whole(size)
    if needed.empty:
        return everything
    box = needed.grown(MARGIN_PX, size.width, size.height)
    width, height = LARGEST_PX, round(LARGEST_PX * size.height / size.width)
    if everything.zoom:
        width, height = size.width * everything.zoom, size.height * everything.zoom
    zoom = min(width // (box.right - box.left), height // (box.bottom - box.top))
    if zoom == 0:
        return everything
    wide, high = min(size.width, width // zoom), min(size.height, height // zoom)
    left = min(max(0, (box.left + box.right - wide) // 2), size.width - wide)
    top = min(max(0, (box.top + box.bottom - high) // 2), size.height - high)
    return Window(Box(left, top, left + wide, top + high), zoom)


def fit(picture: Rgb) -> Rgb:
    """Return a whole frame as it is shown: (H, W, 3) to (H', W', 3) uint8."""
    height, width = picture.shape[:2]
    if width > LARGEST_PX:
        size = (LARGEST_PX, max(1, round(height * LARGEST_PX / width)))
        return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    times = max(1, COLUMN_PX // width)
    return picture.repeat(times, axis=0).repeat(times, axis=1)
