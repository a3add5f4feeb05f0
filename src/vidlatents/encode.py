"""Frames to latents: sections or the whole, sampled or the mode, tiled where memory asks for it.

The model sees one window of one video at a time: a batch of two changes values by 8e-7, and then a file's bytes would depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from shardwork.errors import DataError
from shardwork.streams import stream as random_stream
from vidlatents.buckets import WINDOW_FRAMES, check_frames, check_multiple
from vidlatents.models import Vae
from vidlatents.tiling import Tiling, spans

Layout = Literal["sections", "whole"]
How = Literal["sample", "mode"]
SeedOf = Callable[[str, int], int]
"""(stream, section) -> seed of the noise that a section is sampled with."""

RGB, CONTROL = "rgb", "control"


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    """How a pair is encoded; all of it changes bytes.

    tiling : None encodes whole pictures.   fallback : tried where the memory does not suffice; None refuses the sample (E_OOM).
    """

    layout: Layout = "sections"
    how: How = "sample"
    tiling: Tiling | None = None
    fallback: Tiling | None = None


@dataclass(frozen=True, slots=True)
class PairLatents:
    """Latents of a pair.   video, control : float32, on the CPU, of one shape.   tiling : what was used in the end."""

    video: torch.Tensor
    control: torch.Tensor
    tiling: Tiling | None


def seeds(seed: int, uttid: str) -> SeedOf:
    """Return the seeds of a sample's noise: a function of (seed, uttid, stream, section) alone."""
    return lambda name, section: int(random_stream(seed, "latents", uttid, name, section).integers(2**63))


def windows(layout: Layout, frames: int) -> list[tuple[int, int]]:
    """Return the windows [start, end) of a video that are encoded each by itself; what is left at the end is dropped."""
    if layout == "whole":
        return [(0, frames)]
    return [(start, start + WINDOW_FRAMES) for start in range(0, frames - WINDOW_FRAMES + 1, WINDOW_FRAMES)]


def pixels(frames: NDArray[np.uint8], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return frames as the model takes them: (T, H, W, 3) uint8 to (1, 3, T, H, W) of `dtype` in [-1, 1], black -1, white +1. Moved as uint8."""
    moved = torch.from_numpy(np.ascontiguousarray(frames)).to(device)
    return moved.permute(3, 0, 1, 2).unsqueeze(0).contiguous().to(torch.float32).div_(127.5).sub_(1.0).to(dtype)


def encode(
    vae: Vae,
    frames: NDArray[np.uint8],
    layout: Layout,
    how: How,
    seed_of: SeedOf,
    tiling: Tiling | None = None,
    *,
    stream: str = RGB,
    where: object = "frames",
) -> torch.Tensor:
    """Return the normalised latent of a video, float32 on the CPU.

    frames : (T, H, W, 3) uint8 RGB.   seed_of : called with (stream, section) for `sample` only.   where : what an error names.
    Returns (S, z, 9, H/s, W/s) for `sections`, (z, 1 + (T - 1) / 4, H/s, W/s) for `whole`.
    Raises DataError: E_WINDOW, E_FRAMES_4N1, E_MULTIPLE, E_NONFINITE, E_OOM.   Source: latents spec, "Latents".
    """
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
        raise ValueError(f"frames of {frames.dtype} {frames.shape}, not uint8 (T, H, W, 3)")
    count, height, width, _ = frames.shape
    check_frames(count, layout, vae.kind.temporal, where)
    check_multiple(height, width, vae.kind.spatial, where)
    if tiling is not None:
        tiling.check(vae.kind)
    latents = []
    for section, (start, end) in enumerate(windows(layout, count)):
        with torch.no_grad(), torch.autocast(vae.device.type, enabled=False):
            moments = _guarded(lambda a=start, b=end: _moments(vae, frames[a:b], tiling), vae, where)  # type: ignore[misc]
            latent = _normalised(vae, moments, None if how == "mode" else seed_of(stream, section))
        if not bool(torch.isfinite(moments).all() and torch.isfinite(latent).all()):
            found = f"NaN or infinity in section {section} of {stream} ({str(vae.dtype).removeprefix('torch.')})"
            raise DataError("E_NONFINITE", where, found, "finite latents", "encode in float32; if it is, look at the video and the weights")
        latents.append(latent.cpu())
    return torch.stack(latents) if layout == "sections" else latents[0]


def encode_pair(vae: Vae, rgb: NDArray[np.uint8], control: NDArray[np.uint8], settings: EncodeSettings, seed_of: SeedOf, where: object = "pair") -> PairLatents:
    """Return the latents of a pair, both with the same tiling: the configured one or, where memory does not suffice, the fallback.

    rgb, control : (T, H, W, 3) uint8, of one shape.   Raises as `encode` does.
    """
    if rgb.shape != control.shape:
        raise ValueError(f"RGB {rgb.shape} and control {control.shape}")

    def both(tiling: Tiling | None) -> PairLatents:
        one, two = (
            encode(vae, frames, settings.layout, settings.how, seed_of, tiling, stream=name, where=where) for name, frames in ((RGB, rgb), (CONTROL, control))
        )
        return PairLatents(one, two, tiling)

    try:
        return both(settings.tiling)
    except DataError as error:
        if error.code != "E_OOM" or settings.fallback in (None, settings.tiling):
            raise
    return both(settings.fallback)  # outside the handler: the traceback would keep the failed try's tensors alive


def _guarded(run: Callable[[], torch.Tensor], vae: Vae, where: object) -> torch.Tensor:
    """Return what `run` does. Raises DataError (E_OOM) where torch could not get the memory, once all of it is given back."""
    try:
        return run()
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "not enough memory" not in str(error):
            raise
        found = str(error).strip().splitlines()[0][:200]
    vae.model.clear_cache()
    if vae.device.type == "cuda":
        torch.cuda.empty_cache()
    raise DataError("E_OOM", where, found, "memory for one window of frames", "set a memory budget, so that pictures are cut into tiles, or a smaller bucket")


def _moments(vae: Vae, frames: NDArray[np.uint8], tiling: Tiling | None) -> torch.Tensor:
    """Return (2 z, t, h, w) float32: mean and log variance of each latent value."""
    height, width = frames.shape[1:3]
    if tiling is None or (tiling.height >= height and tiling.width >= width):
        return _forward(vae, frames)
    scale = vae.kind.spatial
    total = weights = None
    for (top, bottom), (left, right) in product(spans(height, tiling.height, tiling.overlap), spans(width, tiling.width, tiling.overlap)):
        tile = _forward(vae, frames[:, top:bottom, left:right])
        if total is None or weights is None:
            shape = (*tile.shape[:2], height // scale, width // scale)
            total, weights = tile.new_zeros(shape), tile.new_zeros(shape[2:])
        ramp = torch.outer(
            _ramp(top // scale, bottom // scale, height // scale, tiling.overlap // scale, tile.device),
            _ramp(left // scale, right // scale, width // scale, tiling.overlap // scale, tile.device),
        )
        where = (slice(top // scale, bottom // scale), slice(left // scale, right // scale))
        total[:, :, where[0], where[1]] += tile * ramp
        weights[where] += ramp
    assert total is not None and weights is not None
    return total / weights


def _forward(vae: Vae, frames: NDArray[np.uint8]) -> torch.Tensor:
    parameters: torch.Tensor = vae.model.encode(pixels(frames, vae.device, vae.dtype)).latent_dist.parameters
    return parameters[0].float()


def _ramp(start: int, end: int, length: int, overlap: int, device: torch.device) -> torch.Tensor:
    """Return the weights of a tile's latent values along one side: 1 inside, falling linearly across an edge that it shares with a neighbour."""
    size = end - start
    at = torch.arange(size, dtype=torch.float32, device=device)
    rise = (at + 1) / (overlap + 1) if start > 0 else torch.ones_like(at)
    fall = (size - at) / (overlap + 1) if end < length else torch.ones_like(at)
    return torch.minimum(torch.minimum(rise, fall), torch.ones_like(at))


def _normalised(vae: Vae, moments: torch.Tensor, seed: int | None) -> torch.Tensor:
    """Return (z, t, h, w) float32: (value - mean) / std of the mode, or of a value drawn with `seed`. The noise is drawn on the CPU for every device."""
    value, log_variance = moments.chunk(2)
    if seed is not None:
        noise = torch.randn(value.shape, generator=torch.Generator("cpu").manual_seed(seed), dtype=torch.float32)
        value = value + torch.exp(0.5 * log_variance.clamp(-30.0, 20.0)) * noise.to(value.device)
    return (value - vae.mean) / vae.std
