"""Depth and masks as pictures that a model can be shown: the same values give the same colours in every frame of a clip."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sam3dvid.colours import PALETTE

Rgb = NDArray[np.uint8]
Depth = NDArray[np.float32]

MASK_COLOURS = np.array([(0, 0, 0), *PALETTE], np.uint8)
"""(5, 3) uint8: of the background, and of objects 1 to 4."""
STEPS = 254
"""Gray values above 1 that objects have: 0 is the background alone."""


def depth_range(depths: Iterable[Depth]) -> tuple[float, float]:
    """Return near and far of a clip: the least and greatest depth of all its frames, scene units.

    depths : (H, W) float32 each, NaN where nothing is.   Raises ValueError if no frame shows anything.
    """
    ends = [(float(seen.min()), float(seen.max())) for depth in depths if (seen := depth[np.isfinite(depth)]).size]
    if not ends:
        raise ValueError("no frame has a depth")
    return min(low for low, _ in ends), max(high for _, high in ends)


def depth_picture(depth: Depth, near: float, far: float) -> Rgb:
    """Return inverse depth as gray: 255 at near, 1 at far, 0 where nothing is.

    depth : (H, W) float32, NaN where nothing is.   near, far : of the clip, in the same units.   Returns (H, W, 3) uint8, three equal channels.
    gray = 1 + round(254 (1/z - 1/far) / (1/near - 1/far)), halves up; so 1/z = 1/far + (gray - 1) / 254 (1/near - 1/far). A clip of one depth is 255.
    """
    gray = np.zeros(depth.shape, np.uint8)
    there = np.isfinite(depth)
    inverse, least, span = 1 / depth[there].astype(np.float64), 1 / far, 1 / near - 1 / far
    parts = (inverse - least) / span if span > 0 else np.ones(inverse.shape)
    gray[there] = 1 + np.floor(STEPS * np.clip(parts, 0, 1) + 0.5)
    return np.repeat(gray[..., None], 3, axis=2)


def mask_picture(mask: NDArray[np.uint8]) -> Rgb:
    """Return a mask in MASK_COLOURS.   mask : (H, W) uint8, 0 to 4.   Returns (H, W, 3) uint8.   Raises IndexError for any other number."""
    return MASK_COLOURS[mask]
