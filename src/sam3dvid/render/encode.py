"""A frame's arrays as bytes of its files: the same arrays give the same bytes, and nothing but pixels is in them. Source: seed 002, sections 3 and 4."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

DEPTH_MEMBER = "depth.npy"
MADE = (1980, 1, 1, 0, 0, 0)
"""The date of a zip's member: the earliest that there is."""


def _linear(srgb: float) -> float:
    """Return the linear form of an sRGB value from 0 to 1. Source: IEC 61966-2-1."""
    return srgb / 12.92 if srgb <= 0.04045 else ((srgb + 0.055) / 1.055) ** 2.4


STEPS = np.array([_linear((code - 0.5) / 255) for code in range(1, 256)])
"""(255,) float64: the linear value from which on a channel has the code 1, 2, ... 255."""


def srgb8(linear: NDArray[Any]) -> NDArray[np.uint8]:
    """Return linear values as sRGB codes, any shape, uint8: 255 times the sRGB value, rounded half up; values beyond 0 and 1 are cut.

    Looked up among the 255 values at which the code changes, so that no processor's power function shows in a file.
    """
    return np.searchsorted(STEPS, linear.astype(np.float64), side="right").astype(np.uint8)


def straight_rgba8(premultiplied: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a rendered picture as straight-alpha sRGB.

    premultiplied : (H, W, 4) float32, linear light, colour times alpha.
    Returns (H, W, 4) uint8: alpha is 255 times alpha, rounded half up; colour is divided by the unrounded alpha, then encoded; 0 where alpha is 0.
    """
    alpha = np.floor(np.clip(premultiplied[..., 3].astype(np.float64), 0.0, 1.0) * 255 + 0.5).astype(np.uint8)
    picture = np.zeros(premultiplied.shape, np.uint8)
    shown = alpha > 0
    pixels = premultiplied[shown].astype(np.float64)
    picture[shown, :3] = srgb8(pixels[:, :3] / np.minimum(pixels[:, 3:], 1.0))
    picture[shown, 3] = alpha[shown]
    return picture


def png_bytes(pixels: NDArray[np.uint8], level: int) -> bytes:
    """Return a PNG file of 8 bits a channel that holds pixels alone.   pixels : (H, W) gray or (H, W, 4) RGBA uint8.   level : 0 to 9."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=level)
    return buffer.getvalue()


def depth_bytes(depth: NDArray[np.float32], level: int) -> bytes:
    """Return a depth file: a zip with the one member depth.npy, as `np.load` reads it, without a date.   depth : (H, W) float32.   level : 0 to 9."""
    inner, outer = io.BytesIO(), io.BytesIO()
    layout: Any = np.lib.format
    layout.write_array(inner, np.ascontiguousarray(depth, "<f4"), version=(1, 0), allow_pickle=False)
    with zipfile.ZipFile(outer, "w") as archive:
        member = zipfile.ZipInfo(DEPTH_MEMBER, MADE)
        member.create_system = 3
        member.external_attr = 0o644 << 16
        archive.writestr(member, inner.getvalue(), zipfile.ZIP_DEFLATED, level)
    return outer.getvalue()
