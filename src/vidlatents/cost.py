"""What encoding costs before a model is loaded: exact operations and peak memory of one section, counted on tensors without values.

The only module of planning that loads torch and diffusers, and that when it is called.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shardwork.jsonio import Json
from shardwork.step import Fields
from vidlatents.buckets import WINDOW_FRAMES

TERA, GIB = 10**12, 1 << 30
ALLOCATED = 1.3
"""Memory that a process takes for each byte of tensors that are alive: the allocator's share, and copies of a library's own. Measured on processors in float32:
1.28 with Wan2.1's VAE (22 KiB for each pixel of a frame), 1.37 to 1.45 with one of base_dim 32 (7.2 KiB)."""


@dataclass(frozen=True, slots=True)
class SectionCost:
    """What the encoding of one section takes. flops : multiplications and additions.   peak_bytes : the most memory that is taken at once beside the weights.

    weight_bytes : of the encoder.
    """

    flops: int
    peak_bytes: int
    weight_bytes: int


def section_cost(config: Mapping[str, Json], frames: int, height: int, width: int, dtype: str = "float32") -> SectionCost:
    """Return what AutoencoderKLWan of a configuration takes to encode one untiled section of one video.

    config : of the VAE, as its config.json holds it.   frames, height, width : of the section.   dtype : float32, bfloat16 or float16.
    Convolutions and matrix products are counted, as FlopCounterMode does; peak memory is that of the tensors alive, of the
    copies that a convolution makes, and of the allocator (ALLOCATED).
    """
    import torch
    from diffusers import AutoencoderKLWan
    from torch.utils.flop_counter import FlopCounterMode

    kind = getattr(torch, dtype)
    with torch.device("meta"):
        vae: Any = AutoencoderKLWan.from_config(dict(config)).to(kind)  # type: ignore[no-untyped-call]
        pixels = torch.empty((1, 3, frames, height, width), dtype=kind)
    vae.eval()
    weights = sum(one.numel() * one.element_size() for part in (vae.encoder, vae.quant_conv) for one in part.parameters())
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            vae.encode(pixels)
        # Counted apart: the counter would hold tensors that the model lets go.
        peak = _peak_bytes(vae, pixels)
    return SectionCost(int(counter.get_total_flops()), peak, weights)


def _peak_bytes(vae: Any, pixels: Any) -> int:
    """Return the most bytes that one encoding takes at once, the frames included and the weights not."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Ledger(TorchDispatchMode):
        """Adds up the storages that are alive."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.now: int = pixels.untyped_storage().nbytes()
            self.peak = self.now
            # keyed by the storage's own object: two views of one count once
            self.alive: set[int] = {pixels.untyped_storage()._cdata}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(out):
                if hasattr(leaf, "untyped_storage"):
                    self.note(leaf.untyped_storage())
            if func is torch.ops.aten.convolution.default:
                self.peak = max(self.peak, self.now + sum(one.numel() * one.element_size() for one in (args[0], out)))
            return out

        def note(self, storage: Any) -> None:
            key, size = storage._cdata, storage.nbytes()
            if key in self.alive or not size:
                return
            self.alive.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, key, size)

        def forget(self, key: int, size: int) -> None:
            self.alive.discard(key)
            self.now -= size

    owned = {one.untyped_storage()._cdata for one in vae.parameters()}
    with Ledger() as ledger:
        ledger.alive |= owned
        vae.encode(pixels)
    return int(ledger.peak * ALLOCATED)


def cost_of(rows: Iterable[Fields], config: Mapping[str, Json], dtype: str = "float32") -> dict[str, Json]:
    """Return what the samples of a plan take to encode: {"tera_flops", "peak_gib", "buckets": {size: {"section_tera_flops", "peak_gib", "videos"}}}.

    rows : planned samples; each has an RGB and a control video.   config, dtype : as of `section_cost`.
    """
    groups: dict[tuple[int, int, int], int] = {}
    for row in rows:
        frames = int(row["used"]) if int(row["sections"]) == 1 and int(row["used"]) != WINDOW_FRAMES else WINDOW_FRAMES
        key = (frames, int(row["height"]), int(row["width"]))
        groups[key] = groups.get(key, 0) + 2 * int(row["sections"])
    buckets, total, peak = {}, 0, 0
    for (frames, height, width), videos in sorted(groups.items()):
        cost = section_cost(config, frames, height, width, dtype)
        total, peak = total + cost.flops * videos, max(peak, cost.peak_bytes + cost.weight_bytes)
        buckets[f"{frames}x{height}x{width}"] = {
            "peak_gib": round((cost.peak_bytes + cost.weight_bytes) / GIB, 3),
            "section_tera_flops": round(cost.flops / TERA, 3),
            "sections": videos,
        }
    return {"buckets": buckets, "peak_gib": round(peak / GIB, 3), "tera_flops": round(total / TERA, 3)}
