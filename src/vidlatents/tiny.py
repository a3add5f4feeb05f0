"""Tiny models of both kinds with random weights, made at run time and loaded by the same code as real ones.

What they make is good for tests and demos only: `Card.tiny` says so of every dataset made with them.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from shardwork.files import atomic_folder
from shardwork.streams import stream
from vidlatents.device import quiet

SPACE = "\u2581"  # stands for a space in a piece, as SentencePiece has it
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
SENTENCES = (
    "Two robot arms close the lid of a cardboard box on a grey table.",
    "A red ball rolls over the floor while the camera moves slowly to the left.",
    "People walk along a quiet street in the evening, and a dog runs after them.",
    "An object falls from the shelf, bounces twice and comes to rest near the wall.",
    "The same scene again: 0 1 2 3 4 5 6 7 8 9, seen from above, in bright light!",
)

_SHARED: dict[str, Any] = {"base_dim": 8, "num_res_blocks": 1, "temperal_downsample": [False, True, True]}
VAE_CONFIGS: dict[str, dict[str, Any]] = {
    "wan21": {**_SHARED, "z_dim": 16, "dim_mult": [1, 1, 1, 1]},
    "wan22-5b": {
        **_SHARED,
        "decoder_base_dim": 8,
        "z_dim": 48,
        "dim_mult": [1, 2, 4, 4],
        "is_residual": True,
        "in_channels": 12,
        "out_channels": 12,
        "patch_size": 2,
        "scale_factor_spatial": 16,
        "scale_factor_temporal": 4,
        "latents_mean": [round(0.02 * (i - 24), 2) for i in range(48)],
        "latents_std": [round(0.5 + 0.02 * i, 2) for i in range(48)],
    },
}
"""Kind -> configuration of its tiny autoencoder. Source: latents spec, "Versions and traps"."""

TEXT_CONFIG: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
"""Configuration of the tiny text encoder. Source: as above."""


def make_tiny(kind: str, folder: Path, seed: int = 0) -> None:
    """Write a folder with vae, text_encoder and tokenizer, as a pipeline's. The same seed gives the same weights on every machine.

    kind : a name of MODELS.   folder : replaced whole if it is there.
    """
    with atomic_folder(folder) as temp:
        write_vae(kind, temp / "vae", seed)
        write_text(temp, seed)


def write_vae(kind: str, folder: Path, seed: int = 0) -> None:
    """Write a tiny autoencoder by save_pretrained."""
    import diffusers

    make: Any = diffusers.AutoencoderKLWan  # its own annotations are incomplete
    model = make(**VAE_CONFIGS[kind])
    _fill(model, stream(seed, "tiny", "vae", kind))
    model.save_pretrained(folder)


def write_text(folder: Path, seed: int = 0) -> None:
    """Write text_encoder and tokenizer by save_pretrained."""
    from transformers import UMT5Config, UMT5EncoderModel

    quiet("transformers")
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder / "tokenizer")
    config = UMT5Config(
        **TEXT_CONFIG, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, decoder_start_token_id=0
    )
    model = UMT5EncoderModel(config)
    _fill(model, stream(seed, "tiny", "text"))
    model.save_pretrained(folder / "text_encoder")


def _tokenizer() -> Any:
    """Return a Unigram tokenizer of the characters and words of a few sentences, with the special tokens of UMT5's.

    Scores are the logarithms of counts: those of the library's own trainer differ from run to run (measured).
    """
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    special = [PAD, END, UNKNOWN]
    words = Counter(SPACE + word for sentence in SENTENCES for word in sentence.split())
    pieces = words + Counter(character for word in words.elements() for character in word)
    scores = [(piece, round(math.log(count / pieces.total()), 6)) for piece, count in sorted(pieces.items())]
    tokenizer = Tokenizer(models.Unigram([*((name, 0.0) for name in special), *scores], unk_id=special.index(UNKNOWN)))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE)
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, special.index(END))])
    wrap: Any = transformers.PreTrainedTokenizerFast
    return wrap(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, unk_token=UNKNOWN, model_max_length=512)


def _fill(model: Any, rng: np.random.Generator) -> None:
    """Draw all weights of a model: scales of norms are 1, biases small, the rest normal with variance 1 / inputs."""
    import torch

    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            shape = tuple(parameter.shape)
            if name.endswith("gamma") or "norm" in name.split(".")[-2]:
                parameter.fill_(1.0)
                continue
            inputs = int(np.prod(shape[1:])) if len(shape) > 1 else 100
            values = rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(inputs))
            parameter.copy_(torch.from_numpy(values))
