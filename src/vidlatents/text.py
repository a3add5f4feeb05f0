"""Cleaned prompts to text embeddings: cut at 512 tokens, each encoded by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shardwork.errors import DataError
from vidlatents.models import HUB, find_part, loaded, missing, weight_files
from vidlatents.prompts import MAX_TOKENS

TIED = "encoder.embed_tokens.weight"


@dataclass(frozen=True, slots=True)
class Embedding:
    """One prompt's embedding.

    embed : (512, d), zero from `tokens` on, on the CPU.   mask : (512,) int64, 1 for each token.   tokens : int, at least 1 (the end mark).
    full_tokens : int, before the cut.
    """

    embed: torch.Tensor
    mask: torch.Tensor
    tokens: int
    full_tokens: int

    @property
    def truncated(self) -> bool:
        """Whether the prompt's end is not encoded."""
        return self.full_tokens > self.tokens


class TextEncoder:
    """A UMT5 encoder and its tokenizer. It is large: its process ends before one that holds a VAE begins."""

    def __init__(self, model: Any, tokenizer: Any, device: torch.device) -> None:
        self._model, self._tokenizer, self.device = model, tokenizer, device

    def encode_cleaned(self, text: str) -> Embedding:
        """Return the embedding of a text that was cleaned before. Raises DataError (E_NONFINITE).   Source: latents spec, "Text"."""
        full = len(self._tokenizer(text, verbose=False).input_ids)
        rows = self._tokenizer(text, padding="max_length", max_length=MAX_TOKENS, truncation=True, return_attention_mask=True, return_tensors="pt")
        mask = rows.attention_mask[0].to(torch.int64)
        tokens = int(mask.sum())
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            hidden = self._model(rows.input_ids.to(self.device), rows.attention_mask.to(self.device)).last_hidden_state[0]
        embed = torch.zeros_like(hidden, device="cpu")
        embed[:tokens] = hidden[:tokens].cpu()
        if not bool(torch.isfinite(embed).all()):
            raise DataError("E_NONFINITE", text[:60], "NaN or infinity in the embedding", "a finite embedding", "look at the weights and dtype")
        return Embedding(embed, mask.cpu(), tokens, full)


def load_text(where: str | Path, dtype: torch.dtype, device: torch.device | str, *, hub: str = HUB["wan21"], local_only: bool = False) -> TextEncoder:
    """Return the text encoder of a pipeline's folder or a hub id.

    dtype : bfloat16 as Wan's, float32 for tests.   hub : whose download is named where it is missing.   Raises DataError: E_MODEL_KIND, E_MODEL_MISSING.
    """
    from transformers import AutoConfig, AutoTokenizer, UMT5EncoderModel

    path, subfolder = find_part(where, "text_encoder", "config.json", hub)
    words, words_subfolder = find_part(where, "tokenizer", "tokenizer_config.json", hub)
    if subfolder is None:
        weight_files(Path(path), where, hub)
    config = loaded(lambda: AutoConfig.from_pretrained(path, **_at(subfolder), local_files_only=local_only), where, hub)
    if config.model_type != "umt5":
        raise DataError("E_MODEL_KIND", where, f"a text encoder of the kind {config.model_type}", "umt5", "give the folder of a Wan pipeline")
    tokenizer = loaded(lambda: AutoTokenizer.from_pretrained(words, **_at(words_subfolder), local_files_only=local_only), where, hub)
    model, report = loaded(
        lambda: UMT5EncoderModel.from_pretrained(
            path, **_at(subfolder), dtype=dtype, local_files_only=local_only, output_loading_info=True, use_safetensors=True
        ),
        where,
        hub,
    )
    absent = sorted(set(report["missing_keys"]) - {TIED})
    if absent:
        raise missing(where, f"text encoder weights without {absent[0]} and {len(absent) - 1} more", hub)
    check_tied(model, where)
    model = model.eval().requires_grad_(False).to(device)
    return TextEncoder(model, tokenizer, torch.device(device))


def _at(subfolder: str | None) -> dict[str, Any]:
    return {} if subfolder is None else {"subfolder": subfolder}


def check_tied(model: Any, where: object) -> None:
    """Raise DataError (E_MODEL_KIND) unless the encoder looks tokens up in the table that the weights hold.

    Early releases of transformers 5 left the encoder's own table at zero or random, and every embedding was wrong without an error.
    """
    if not torch.equal(model.shared.weight, model.encoder.embed_tokens.weight):
        found, expected = "an encoder whose table of tokens is not the one in its weights", "one shared table"
        raise DataError("E_MODEL_KIND", where, found, expected, "install the pinned transformers; early releases of 5 load UMT5 wrongly")
