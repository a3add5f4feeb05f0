"""Our latents and embeddings against the producer's arithmetic, written down again without any of our code."""

import html
import re

import ftfy
import numpy as np
import pytest
import torch
from diffusers import AutoencoderKLWan
from transformers import AutoTokenizer, UMT5EncoderModel

from tests.vidlatents.tiny_models import KINDS, folder, frames, of, text_encoder, vae
from vidlatents.encode import encode
from vidlatents.prompts import clean

PROMPTS = ["A red  ball\nrolls.", "Two &amp;amp; robot arms", "", "word " * 5000, "\U0001f600 مرحبا"]


def producer_latents(kind, videos, how):
    """Seed 003, section 1.3, then windows of 33: (B, T, C, H, W) in [-1, 1] -> (B, C, T, H, W) -> encode -> normalise -> (B, S, z, 9, h, w)."""
    model = AutoencoderKLWan.from_pretrained(folder(kind), subfolder="vae", torch_dtype=torch.float32).eval()
    batch = torch.stack([torch.from_numpy(np.moveaxis(video, 3, 1).copy()).float() / 127.5 - 1.0 for video in videos]).permute(0, 2, 1, 3, 4)
    shift, scale = (torch.tensor(model.config[name]).view(1, -1, 1, 1, 1) for name in ("latents_mean", "latents_std"))
    found = []
    with torch.no_grad():
        for start in range(0, batch.shape[2] - 32, 33):
            found.append((how(model.encode(batch[:, :, start : start + 33].contiguous()).latent_dist) - shift) * (1.0 / scale))
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mode_of_two_sections_is_the_producers_to_1e_5(kind):
    video = frames(70)
    expected = producer_latents(kind, [video], lambda posterior: posterior.mode())[0]
    assert expected.shape[0] == 2
    torch.testing.assert_close(encode(vae(kind), video, "sections", "mode", of()), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_is_the_producers_with_the_same_noise_to_1e_5(kind):
    seed_of = of(3, "b")
    expected = producer_latents(kind, [frames()], lambda posterior: posterior.sample(torch.Generator().manual_seed(seed_of("control", 0))))[0]
    torch.testing.assert_close(encode(vae(kind), frames(), "sections", "sample", seed_of, stream="control"), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_is_the_producers_encoding_of_all_frames_at_once(kind):
    video = frames(29)
    model = AutoencoderKLWan.from_pretrained(folder(kind) / "vae").eval()
    pixels = torch.from_numpy(video).double().permute(3, 0, 1, 2)[None].div(255).mul(2).sub(1).float()
    with torch.no_grad():
        mode = model.encode(pixels).latent_dist.mode()[0]
    shift, scale = (torch.tensor(model.config[name])[:, None, None, None] for name in ("latents_mean", "latents_std"))
    torch.testing.assert_close(encode(vae(kind), video, "whole", "mode", of()), (mode - shift) / scale, rtol=0, atol=1e-5)


def test_embeddings_are_the_producers_to_1e_5_on_any_prompt():
    tokenizer = AutoTokenizer.from_pretrained(folder("wan21"), subfolder="tokenizer")
    model = UMT5EncoderModel.from_pretrained(folder("wan21"), subfolder="text_encoder").eval()
    cleaned = [re.sub(r"\s+", " ", html.unescape(html.unescape(ftfy.fix_text(text))).strip()).strip() for text in PROMPTS]
    rows = tokenizer(cleaned, padding="max_length", max_length=512, truncation=True, return_attention_mask=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(rows.input_ids, rows.attention_mask).last_hidden_state
    lengths = rows.attention_mask.gt(0).sum(dim=1).tolist()
    expected = torch.stack([torch.cat([row[:length], row.new_zeros(512 - length, row.shape[1])]) for row, length in zip(hidden, lengths, strict=True)])
    found = [text_encoder().encode_cleaned(clean(prompt)) for prompt in PROMPTS]
    torch.testing.assert_close(torch.stack([one.embed for one in found]), expected, rtol=0, atol=1e-5)
    assert torch.equal(torch.stack([one.mask for one in found]), rows.attention_mask.long())
