"""A released autoencoder on a real video: pixels that went through our conversion come back recognisable.

TAEF2 (madebyollin, MIT) is the small picture autoencoder of FLUX.2. Its layers are read off the names and shapes of its weights.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tests.vidlatents.pairs import sample_of
from vidlatents.encode import pixels
from vidlatents.read import read_pair

DATAPACK = os.environ.get("REELMILL_DATAPACK", "")
pytestmark = pytest.mark.skipif(not DATAPACK, reason="REELMILL_DATAPACK names no folder")


def layers_of(name):
    """Return layer number -> {rest of the name: weight}, float32."""
    layers: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in load_file(Path(DATAPACK, "latents", "weights", f"taef2_{name}.safetensors")).items():
        number, rest = key.split(".", 1)
        layers.setdefault(int(number), {})[rest] = value.float()
    return layers


def block(x, weights):
    """Three convolutions beside a shortcut; some blocks first add what a normalised 1x1 branch sees of the whole picture."""
    if "pool.0.weight" in weights:
        wide = F.group_norm(F.conv2d(x, weights["pool.0.weight"]), 4, weights["pool.1.weight"], weights["pool.1.bias"])
        x = x + F.conv2d(F.relu(wide), weights["pool.3.weight"])
    y = x
    for number in (0, 2, 4):
        y = F.conv2d(y, weights[f"conv.{number}.weight"], weights[f"conv.{number}.bias"], padding=1)
        y = F.relu(y) if number < 4 else y
    return F.relu(x + y)


def run(x, layers, stride):
    """Apply layers in order. Convolutions without a bias are the ones that change the size; they halve it going in, and follow a doubling going out."""
    for number in sorted(layers):
        weights = layers[number]
        if "weight" not in weights:
            x = block(x, weights)
        elif "bias" in weights:
            x = F.conv2d(x, weights["weight"], weights["bias"], padding=1)
            x = F.relu(x) if stride == 1 and number == 1 else x
        else:
            x = F.conv2d(x if stride == 2 else F.interpolate(x, scale_factor=2), weights["weight"], stride=stride, padding=1)
    return x


def real_frames(name, count):
    """Return every eighth frame of a real pair as encode_latents reads it, (count, 120, 160, 3) uint8.   name : rgb or control."""
    root = Path(DATAPACK, "latents", "giga_ctrl_small")
    return getattr(read_pair(sample_of(root, "sample_000001", 8 * count, (120, 160))), name)[::8]


def round_trip(frames):
    """Return what comes back, (T, H, W, 3) in 0 to 255, and the latent (T, 32, H/8, W/8)."""
    values = pixels(frames, torch.device("cpu"), torch.float32)[0].permute(1, 0, 2, 3)
    with torch.no_grad():
        latent = run((values + 1) / 2, layers_of("encoder"), stride=2)
        back = run(3 * torch.tanh(latent / 3), layers_of("decoder"), stride=1).clamp(0, 1)
    return (back * 255).permute(0, 2, 3, 1).numpy(), latent


def psnr(one, two):
    return 10 * np.log10(255**2 / np.mean((one.astype(np.float64) - two) ** 2))


def test_a_real_video_comes_back_recognisable(record_property):
    frames = real_frames("rgb", 4)
    back, latent = round_trip(frames)
    assert latent.shape == (4, 32, 15, 20)
    record_property("psnr_db", float(psnr(frames, back)))
    assert psnr(frames, back) > 30


def test_a_real_video_comes_back_worse_with_red_and_blue_swapped():
    frames = real_frames("rgb", 1)
    back, _ = round_trip(frames)
    assert psnr(frames, back) > psnr(frames[..., ::-1], back) + 3


def test_a_control_video_comes_back_recognisable():
    frames = real_frames("control", 2)
    assert psnr(frames, round_trip(frames)[0]) > 30
