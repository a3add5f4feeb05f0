"""Tiny models and small videos, made once for all tests of a process."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import torch

from vidlatents.encode import seeds
from vidlatents.models import load_vae
from vidlatents.store import Content, picture
from vidlatents.text import load_text
from vidlatents.tiny import make_tiny

KINDS = ("wan21", "wan22-5b")
HEIGHT, WIDTH = 32, 48


@functools.cache
def _room():
    return tempfile.TemporaryDirectory(prefix="tiny-models-")


@functools.cache
def folder(kind):
    """Return a folder with vae, text_encoder and tokenizer of a kind."""
    path = Path(_room().name, kind)
    make_tiny(kind, path)
    return path


@functools.cache
def vae(kind):
    return load_vae(folder(kind), kind, torch.float32, "cpu")


@functools.cache
def text_encoder():
    return load_text(folder("wan21"), torch.float32, "cpu")


def frames(count=33, height=HEIGHT, width=WIDTH, seed=0):
    """Return (count, height, width, 3) uint8 noise with a bright square that moves."""
    video = np.random.default_rng(seed).integers(0, 200, (count, height, width, 3), np.uint8)
    for index, frame in enumerate(video):
        frame[4:12, index % (width - 8) : index % (width - 8) + 8] = (250, 30, 10)
    return video


def of(seed=0, uttid="a"):
    return seeds(seed, uttid)


def content(kind="wan21", *, latent_shape=None, seed=0, prompt="A red ball.", height=HEIGHT, width=WIDTH):
    """Return a sample's content with latents of noise."""
    z, scale = {"wan21": (16, 8), "wan22-5b": (48, 16)}[kind]
    shape = latent_shape or (1, z, 9, height // scale, width // scale)
    draw = np.random.default_rng(seed)
    video, control = (torch.from_numpy(draw.standard_normal(shape, dtype=np.float32)) for _ in range(2))
    embed, mask = torch.zeros(512, 32), torch.zeros(512, dtype=torch.int64)
    embed[:5] = torch.from_numpy(draw.standard_normal((5, 32), dtype=np.float32))
    mask[:5] = 1
    return Content(video, control, embed, mask, picture(frames(1, height, width, seed)[0]), prompt)
