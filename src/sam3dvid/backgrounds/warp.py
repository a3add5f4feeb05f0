"""A background photo -> its part of one frame: a plane at infinity that only the camera's rotation moves. Source: synthetic spec, section 1."""

from __future__ import annotations

import math
from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray

from sam3dvid.backgrounds.images import Rgb
from sam3dvid.conventions import HEIGHT, WIDTH

Float = NDArray[np.float64]

MOST_SAMPLES = 8
"""Samples a frame pixel's side that are taken at most."""


def homography(R_cw: Float, R_cw_ref: Float, K: Float, K_bg: Float) -> Float:
    """Return what maps photo pixels to frame pixels: K R_cw R_cw_ref^T inv(K_bg).

    R_cw, R_cw_ref : (3, 3), world to camera, of the frame and of the camera that the photo is aligned to.   K, K_bg : (3, 3) intrinsics of frame and photo.
    Returns (3, 3) float64 for homogeneous (u, v, 1), pixel centres at integers.
    """
    return cast(Float, K @ R_cw @ R_cw_ref.T @ np.linalg.inv(K_bg))


def covers(H: Float, photo_width: int, photo_height: int, width: int = WIDTH, height: int = HEIGHT) -> bool:
    """Return whether a photo covers every pixel of a frame. Exact: the frame is convex, and so is the photo, so its four corner pixels decide.

    H : (3, 3), photo pixel to frame pixel.   A corner must come from before the photo's camera (z > 0) and from within [0, W - 1] x [0, H - 1].
    """
    x, y, z = np.linalg.inv(H) @ _corners(width, height)
    if not (z > 0).all():
        return False
    x, y = x / z, y / z
    return bool((x >= 0).all() and (x <= photo_width - 1).all() and (y >= 0).all() and (y <= photo_height - 1).all())


def _corners(width: int, height: int) -> Float:
    return np.array([[0, width - 1, 0, width - 1], [0, 0, height - 1, height - 1], [1, 1, 1, 1]], np.float64)


def reduction(H: Float, width: int = WIDTH, height: int = HEIGHT) -> float:
    """Return how many photo pixels, at most, lie along one frame pixel in any direction: the largest stretch of the inverse map over the frame's corners.

    The stretch of a homography grows towards the line at infinity, so no pixel inside has more than the corners.
    """
    back = np.linalg.inv(H)
    largest = 0.0
    for corner in _corners(width, height).T:
        x, y, z = back @ corner
        jacobian = (back[:2, :2] * z - np.outer((x, y), back[2, :2])) / z**2
        largest = max(largest, float(np.linalg.norm(jacobian, 2)))
    return largest


def warp(photo: Rgb, H: Float, width: int = WIDTH, height: int = HEIGHT) -> Rgb:
    """Return a frame's background: (height, width, 3) uint8.

    photo : (PH, PW, 3) uint8.   H : (3, 3), photo pixel to frame pixel, as `homography` returns it. It goes to cv2.warpPerspective without the inverse flag.
    Raises ValueError unless the photo covers the frame.

    Sampled bilinearly, with n x n samples averaged for each pixel where the photo is reduced by up to n. A photo of 130 degrees is reduced most at
    its edges: a view of 2048 px by up to 3.5 where a corner looks 60 degrees aside, and one sample a pixel would shimmer there.
    """
    if not covers(H, photo.shape[1], photo.shape[0], width, height):
        raise ValueError("the photo does not cover the frame")
    n = min(MOST_SAMPLES, max(1, math.ceil(reduction(H, width, height) - 0.25)))
    # the n x n samples of pixel u lie at u + (i + 0.5) / n - 0.5
    fine = np.array([[n, 0, (n - 1) / 2], [0, n, (n - 1) / 2], [0, 0, 1]], np.float64) @ H
    many = cv2.warpPerspective(photo, fine, (n * width, n * height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return cast(Rgb, many if n == 1 else cv2.resize(many, (width, height), interpolation=cv2.INTER_AREA))
