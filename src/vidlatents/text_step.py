"""The step encode_text, as `shardwork` runs it: each unique cleaned prompt of a run gets one embedding; the encoder is loaded once and ends with its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from shardwork.errors import DataError, Fault
from shardwork.files import write_bytes
from shardwork.jsonio import dumps, loads
from shardwork.place import Place
from shardwork.step import Fields, Item, Step
from vidlatents.card import Card
from vidlatents.models import HUB
from vidlatents.plan_step import planned
from vidlatents.prompts import MAX_TOKENS, clean
from vidlatents.stage import TEXT_STEP, TEXT_VERSION, embedding_of

if TYPE_CHECKING:
    import torch

    from vidlatents.text import Embedding, TextEncoder

R = TypeVar("R")
NOTE = "reelmill"


@dataclass(frozen=True, slots=True)
class TextModel:
    """A text encoder to load.   where : folder or hub id.   dtype : as torch names it.   device : auto, cpu or gpu.   card : what its files are.

    hub : whose download is named where it is missing.
    """

    where: str
    dtype: str
    device: str
    card: Card
    hub: str = HUB["wan21"]


def text_step(model: TextModel, threads: int = 1) -> Step:
    """Return the step that encodes a prompt."""
    settings = {"encoder": model.card.as_json(), "dtype": model.dtype}
    return Step(TEXT_STEP, TEXT_VERSION, settings, partial(_encode, model=model, threads=threads), partial(_adopt, model=model))


def text_items(rows: Iterable[Fields], place: Place, encoder: str) -> list[Item]:
    """Return an item for each unique cleaned prompt of planned samples.   rows : of plan_latents.   encoder : short digest of the text encoder."""
    texts = {str(row["prompt_digest"]): row["prompt"] for row in planned(list(rows))}
    return [Item(digest, {"text": clean(text)}, (embedding_of(place, digest, encoder),)) for digest, text in sorted(texts.items())]


@cache
def _encoder(model: TextModel, threads: int) -> TextEncoder:
    """Return the encoder, loaded once a worker."""
    import torch

    from vidlatents.device import pick, quiet
    from vidlatents.text import load_text

    torch.set_num_threads(threads)
    quiet("transformers")
    return load_text(model.where, getattr(torch, model.dtype), pick(model.device), hub=model.hub)


def loaded_or_fault(load: Callable[[], R]) -> R:
    """Return what is loaded. Raises Fault where a model cannot be: that is no verdict on the item at hand."""
    try:
        return load()
    except DataError as error:
        raise Fault(error.code, error.where, error.found, error.expected, error.hint) from error


def _encode(item: Item, model: TextModel, threads: int) -> Fields:
    from safetensors.torch import save

    (out,) = item.outputs
    found = loaded_or_fault(lambda: _encoder(model, threads)).encode_cleaned(item.inputs["text"])
    fields = _fields(found, model.card)
    write_bytes(out, save({"embed": found.embed[: found.tokens].contiguous()}, _notes(fields, item)))
    return fields


def _fields(found: Embedding, card: Card) -> Fields:
    return {"encoder": card.short, "tokens": found.tokens, "full_tokens": found.full_tokens, "truncated": int(found.truncated)}


def _notes(fields: Fields, item: Item) -> dict[str, str]:
    """Return what a file says of itself, under one key: the format writes several in another order each time."""
    return {NOTE: dumps({"fields": fields, "fingerprint": item.fingerprint})}


def _adopt(item: Item, model: TextModel) -> Fields | None:
    """Return the fields of an embedding whose file says that it is of this very item, and holds as many finite rows as it says."""
    import torch
    from safetensors import SafetensorError, safe_open

    (out,) = item.outputs
    try:
        with safe_open(out, "pt") as file:
            notes, embed = file.metadata() or {}, file.get_tensor("embed")
        fields: Fields = loads(notes[NOTE])["fields"]
    except (SafetensorError, KeyError, TypeError, DataError):
        return None
    whole = notes == _notes(fields, item) and embed.shape[0] == fields.get("tokens") and embed.dtype == getattr(torch, model.dtype)
    return fields if whole and bool(torch.isfinite(embed).all()) else None


def read_embedding(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (embedding, mask) of a prompt: (512, d), zero beyond its tokens, and (512,) int64. Raises Fault (fault_stale) for a file that is none."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        rows = load_file(path)["embed"]
    except (FileNotFoundError, SafetensorError, KeyError) as error:
        raise stale_text(path.name, "no whole embedding") from error
    embed, mask = torch.zeros((MAX_TOKENS, rows.shape[1]), dtype=rows.dtype), torch.zeros(MAX_TOKENS, dtype=torch.int64)
    embed[: len(rows)], mask[: len(rows)] = rows, 1
    return embed, mask


def stale_text(where: object, found: str) -> Fault:
    """Return the fault of an embedding that is not what encode_text wrote."""
    return Fault("fault_stale", where, found, "what encode_text wrote", "run the workflow again: it is made anew")


def truncations(rows: Iterable[Fields], samples: Iterable[Fields]) -> list[DataError]:
    """Return what to say of prompts that were cut (E_PROMPT_TRUNCATED), each by the uttid of a sample.   rows : of encode_text.   samples : of plan_latents."""
    named = {str(row["prompt_digest"]): row["uttid"] for row in planned(list(samples))}
    return [found for row in rows if (found := truncation(row, named.get(row["id"], row["id"]))) is not None]


def truncation(row: Fields, where: object) -> DataError | None:
    """Return what to say of a prompt that was cut (E_PROMPT_TRUNCATED), or None.   row : of encode_text.   where : what has the prompt."""
    if not row.get("truncated"):
        return None
    hint = f"only a warning: the first {row['tokens']} are encoded, prompt_raw is whole; shorten it if its end matters"
    return DataError("E_PROMPT_TRUNCATED", where, f"{row['full_tokens']} tokens", f"at most {MAX_TOKENS}", hint)
