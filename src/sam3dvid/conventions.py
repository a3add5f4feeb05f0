"""The conventions of a clip, as numbers: camera, picture and background. Source: seed 002, section 3; synthetic spec, section 1."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

WIDTH, HEIGHT = 512, 512
"""Pixels of a frame."""
HFOV_DEG = 50.0
"""Horizontal field of view of a frame."""
FOCAL_PX = (WIDTH / 2) / math.tan(math.radians(HFOV_DEG / 2))
"""Focal length of a frame, 548.993771650447 px: the field of view ends at the outer edges of the outer pixels."""
BACKGROUND_HFOV_DEG = 130.0
"""Horizontal field of view that a background picture is given, whatever it was taken with."""


def focal_px(width: int, hfov_deg: float) -> float:
    """Return the focal length, in pixels, of a picture `width` pixels wide that spans `hfov_deg`."""
    return (width / 2) / math.tan(math.radians(hfov_deg / 2))


def pinhole(width: int, height: int, focal: float) -> Float:
    """Return the intrinsics of a picture with square pixels and the principal point in its middle.

    focal : px.   Returns (3, 3) float64, OpenCV axes, pixel centres at integers, so that the middle is ((width - 1) / 2, (height - 1) / 2).
    """
    return np.array([[focal, 0.0, (width - 1) / 2], [0.0, focal, (height - 1) / 2], [0.0, 0.0, 1.0]])


def K() -> Float:
    """Return the intrinsics of every frame of every clip: (3, 3) float64."""
    return pinhole(WIDTH, HEIGHT, FOCAL_PX)


def K_bg(width: int, height: int) -> Float:
    """Return the intrinsics that a background picture of this size is given: (3, 3) float64. Source: synthetic spec, section 1."""
    return pinhole(width, height, focal_px(width, BACKGROUND_HFOV_DEG))
