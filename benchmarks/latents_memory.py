"""Measure what memory the encoding of one pair takes, beside the estimate of vidlatents.cost. Each case is a process of its own.

    .venv/bin/python benchmarks/latents_memory.py [--bound 0.2]

The most resident memory while an autoencoder is loaded and encodes a pair, beyond what the process holds after its imports and an encoding of 32x32 pixels,
which brings the libraries' code into memory (Linux). How many frames there are changes little: they go through in fours.
benchmarks/latents.py calls it too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

MIDDLE = {"base_dim": 32, "z_dim": 16, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 1, "temperal_downsample": [False, True, True]}
"""The autoencoder of the other measurements."""
CASES = [(name, size, tile) for name in ("tiny", "middle") for size in ((240, 320), (480, 640)) for tile in (None, (240, 192, 64))]
FRAMES = 17


def config_of(name: str) -> dict:
    """Return the configuration of an autoencoder: tiny as in the tests, or the one above."""
    from vidlatents.tiny import VAE_CONFIGS

    return VAE_CONFIGS["wan21"] if name == "tiny" else MIDDLE


def write_vae(name: str, folder: Path) -> Path:
    """Write an autoencoder with random weights, and return its folder."""
    import torch
    from diffusers import AutoencoderKLWan

    torch.manual_seed(0)
    vae: Any = AutoencoderKLWan(**config_of(name))
    vae.save_pretrained(folder / "vae")
    return folder


def held_mib(key: str) -> float:
    """Return a line of this process's memory, MiB.   key : VmRSS (now) or VmHWM (the most since it was reset)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def measure(name: str, folder: Path, size: tuple[int, int], tile: tuple[int, int, int] | None) -> float:
    """Return the most memory beyond the imports while a pair is encoded, MiB."""
    import numpy as np
    import torch

    from vidlatents.encode import EncodeSettings, encode_pair, seeds
    from vidlatents.models import load_vae
    from vidlatents.tiling import Tiling

    def encode(vae, height: int, width: int, tiling: Tiling | None) -> None:
        rgb, control = np.random.default_rng(0).integers(0, 256, (2, FRAMES, height, width, 3), np.uint8)
        encode_pair(vae, rgb, control, EncodeSettings("whole", tiling=tiling), seeds(0, "a"))

    encode(load_vae(folder / "tiny", "wan21", torch.float32, "cpu"), 32, 32, None)
    Path("/proc/self/clear_refs").write_text("5")
    before = held_mib("VmRSS")
    vae = load_vae(folder / name, "wan21", torch.float32, "cpu")
    encode(vae, *size, Tiling(*tile) if tile else None)
    return held_mib("VmHWM") - before


def estimate(name: str, size: tuple[int, int], tile: tuple[int, int, int] | None) -> float:
    """Return what vidlatents.cost says of the same, MiB."""
    from vidlatents.cost import cost_of
    from vidlatents.tiling import Tiling

    row = {"num_frame": FRAMES, "used": FRAMES, "sections": 1, "height": size[0], "width": size[1]}
    return cost_of([row], config_of(name), tiling_of=lambda height, width: Tiling(*tile) if tile else None)["peak_gib"] * 1024


def main() -> None:
    """Print a line for each case."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bound", type=float, default=0.2, help="how far measured and estimated may lie apart, as a part of the estimate")
    arguments.add_argument("--one", metavar="JSON", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.one:
        name, folder, size, tile = json.loads(args.one)
        print(measure(name, Path(folder), tuple(size), tile))
        return
    with tempfile.TemporaryDirectory() as room:
        for name in ("tiny", "middle"):
            write_vae(name, Path(room, name))
        for name, size, tile in CASES:
            command = [sys.executable, __file__, "--one", json.dumps([name, room, size, tile])]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            if done.returncode:
                sys.exit(done.stderr)
            measured, expected = float(done.stdout), estimate(name, size, tile)
            off = measured / expected - 1
            tiles = f"tiles of {tile[0]}x{tile[1]}" if tile else "whole"
            word = "" if abs(off) <= args.bound else "  BEYOND THE BOUND"
            print(f"{name:6} {size[0]}x{size[1]} {tiles:16} {measured:7.0f} MiB, estimated {expected:7.0f}: {off:+.0%}{word}", flush=True)


if __name__ == "__main__":
    main()
