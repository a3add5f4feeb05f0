"""What encoding costs before a model is loaded: exact operations and peak memory of one section, counted on tensors without values.

The only module of planning that loads torch and diffusers, and that when it is called.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from shardwork.jsonio import Json
from shardwork.step import Fields
from vidlatents.tiling import Tiling, spans

TERA, GIB = 10**12, 1 << 30
MOST_COUNTED = 20
"""Sizes of sections that are counted, the largest ones; the others are scaled from them."""
ALLOCATED, HEAP_BYTES = 1.05, 40 << 20
"""What a process takes for each byte of tensors that are alive, and beside them: the heap keeps room of freed ones below 8 MiB (`models.load_vae`). Measured on
processors in float32 (benchmarks/latents_memory.py)."""
UNFOLDED_BELOW = 20480
"""A float32 convolution on a processor whose channels x frames x rows are no more is computed by unfolding its input, one column for each value that it makes.
Others copy their input and their output into another order. Source: `use_mkldnn` in ATen/native/Convolution.cpp, torch 2.13."""


@dataclass(frozen=True, slots=True)
class SectionCost:
    """What the encoding of one section takes. flops : multiplications and additions.   peak_bytes : the most memory that is taken at once beside the weights.

    weight_bytes : of the whole autoencoder, which is what is loaded.
    """

    flops: int
    peak_bytes: int
    weight_bytes: int


def section_cost(config: Mapping[str, Json], frames: int, height: int, width: int, dtype: str = "float32") -> SectionCost:
    """Return what AutoencoderKLWan of a configuration takes to encode one untiled section of one video.

    config : of the VAE, as its config.json holds it.   frames, height, width : of the section.   dtype : float32, bfloat16 or float16.
    Convolutions and matrix products are counted, as FlopCounterMode does; peak memory is that of the tensors alive, of what a
    convolution works in, and of the allocator (ALLOCATED, HEAP_BYTES).
    """
    import torch
    from diffusers import AutoencoderKLWan
    from torch.utils.flop_counter import FlopCounterMode

    kind = getattr(torch, dtype)
    with torch.device("meta"):
        vae: Any = AutoencoderKLWan.from_config(dict(config))  # type: ignore[no-untyped-call]
        torch.nn.Module.to(vae, kind)  # its own `to` warns of modules to keep in float32, though there are none
        pixels = torch.empty((1, 3, frames, height, width), dtype=kind)
    vae.eval()
    weights = sum(one.numel() * one.element_size() for one in vae.parameters())
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
                self.peak = max(self.peak, self.now + _workspace_bytes(args[0], args[1], out))
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
    return int(ledger.peak * ALLOCATED) + HEAP_BYTES


def _workspace_bytes(given: Any, weight: Any, made: Any) -> int:
    """Return what a convolution on a processor takes beside its tensors.   given : (1, channels, ...).   weight : (out, channels, ...)."""
    if given.element_size() == 4 and math.prod(given.shape[:4]) <= UNFOLDED_BELOW:
        columns = weight[0].numel() * math.prod(made.shape[2:])
        return int(columns * given.element_size())
    return int(sum(one.numel() * one.element_size() for one in (given, made)))


def bucket_cost(config: Mapping[str, Json], frames: int, height: int, width: int, dtype: str = "float32", tiling: Tiling | None = None) -> SectionCost:
    """Return what one section of a bucket takes, cut into tiles where there is a tiling: operations of all tiles, memory of the largest."""
    if tiling is None:
        return section_cost(config, frames, height, width, dtype)
    sides = (spans(height, tiling.height, tiling.overlap), spans(width, tiling.width, tiling.overlap))
    tiles = Counter((bottom - top, right - left) for (top, bottom), (left, right) in product(*sides))
    costs = {size: section_cost(config, frames, *size, dtype) for size in tiles}
    one = max(costs.values(), key=lambda cost: cost.peak_bytes)
    return SectionCost(sum(costs[size].flops * count for size, count in tiles.items()), one.peak_bytes, one.weight_bytes)


def cost_of(
    rows: Iterable[Fields], config: Mapping[str, Json], dtype: str = "float32", tiling_of: Callable[[int, int], Tiling | None] = lambda height, width: None
) -> dict[str, Json]:
    """Return what the samples of a plan take to encode: {"tera_flops", "peak_gib", "buckets": {size: {"section_tera_flops",
    "peak_gib", "sections", "counted"}}}.

    rows : planned samples; each has an RGB and a control video, whose frames are held while it is encoded.   config, dtype : as of `section_cost`.
    tiling_of : (height, width) -> the tiles of that bucket, or None.   Beyond MOST_COUNTED sizes, a size has the figures of a counted one for each pixel
    ("counted": False): own videos may have hundreds, and one takes a second or two.
    """
    groups: Counter[tuple[int, int, int]] = Counter()
    held: dict[tuple[int, int, int], int] = {}
    for row in rows:
        frames, height, width = int(row["used"]) // int(row["sections"]), int(row["height"]), int(row["width"])
        groups[frames, height, width] += 2 * int(row["sections"])
        pair = 2 * 3 * int(row["num_frame"]) * height * width
        held[frames, height, width] = max(pair, held.get((frames, height, width), 0))
    buckets, total, peak = {}, 0, 0
    counted = sorted(groups, key=lambda key: (key[0] * key[1] * key[2], key))[-MOST_COUNTED:]
    costs = {key: bucket_cost(config, *key, dtype, tiling_of(*key[1:])) for key in counted}
    for (frames, height, width), sections in sorted(groups.items()):
        cost = costs.get((frames, height, width)) or _scaled(costs, (frames, height, width))
        taken = cost.peak_bytes + cost.weight_bytes + held[frames, height, width]
        total, peak = total + cost.flops * sections, max(peak, taken)
        buckets[f"{frames}x{height}x{width}"] = {
            "counted": (frames, height, width) in costs,
            "peak_gib": round(taken / GIB, 3),
            "section_tera_flops": round(cost.flops / TERA, 3),
            "sections": sections,
        }
    return {"buckets": buckets, "peak_gib": round(peak / GIB, 3), "tera_flops": round(total / TERA, 3)}


def _scaled(costs: Mapping[tuple[int, int, int], SectionCost], key: tuple[int, int, int]) -> SectionCost:
    """Return the cost of a size from the counted one nearest in frames, then in size: operations by pixels and frames, memory as it is."""
    frames, height, width = key
    near = min(costs, key=lambda one: (abs(one[0] - frames), abs(one[1] * one[2] - height * width), one))
    share = frames * height * width / (near[0] * near[1] * near[2])
    return SectionCost(round(costs[near].flops * share), costs[near].peak_bytes, costs[near].weight_bytes)
