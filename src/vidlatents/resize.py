"""The resize of a frame: bilinear with antialiasing, as the public producer's, on the processor, rounded to uint8 once at the end."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from vidlatents.buckets import Size


def resize(frame: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """Return a frame at another size.

    frame : (h, w, 3) uint8.   size : (H, W).   Returns (H, W, 3) uint8, within half a grey level of the exact values.
    It is computed in float32 and rounded halves to even: frames stay uint8 until the device, at a quarter of the memory. Source: latents spec, "Versions".
    """
    planes = torch.from_numpy(np.ascontiguousarray(frame)).permute(2, 0, 1)[None].to(torch.float32)
    scaled = torch.nn.functional.interpolate(planes, size=size, mode="bilinear", antialias=True, align_corners=False)
    rounded = scaled.round_().clamp_(0, 255).to(torch.uint8)
    return np.ascontiguousarray(rounded[0].permute(1, 2, 0).numpy())
