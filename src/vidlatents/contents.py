"""Whether what a file holds is a sample of its name: types, shapes, finite values, zero padding, picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from shardwork.errors import DataError
from vidlatents.buckets import check_frames, check_multiple
from vidlatents.models import MODELS, ModelKind
from vidlatents.prompts import MAX_TOKENS
from vidlatents.records import parse_name
from vidlatents.store import CONTROL_TYPE, TENSORS, Stored, load_sample

LARGEST_VALUE = 1e4
"""No value of a latent lies beyond: they are in standard deviations of their channel, where those of videos stay within tens."""

Wrong = tuple[str, str]
"""(found, expected)"""


class Form(NamedTuple):
    """What a sample was made by.   kind : its name.   layout : sections or whole."""

    kind: str
    layout: str

    def __str__(self) -> str:
        return f"{self.kind} {self.layout}"


def look_inside(path: Path, kind: ModelKind | None, layout: str | None) -> tuple[Form | None, list[Wrong]]:
    """Return the model and layout that a file's latents are of (None where they are of none), and what is wrong with its content.

    kind, layout : what it must be of, None for any.   Raises DataError (E_FILE_LOAD, E_FILE_CONTENT) for a file that holds no sample at all.
    """
    stored = load_sample(path)
    size = parse_name(path.name)
    if size is None:
        return None, [(f"the name {path.name}", "uttid_frames_height_width.pt")]
    wrong = [*_shared(stored), *_latents_wrong(stored), *_text_wrong(stored), *_rest_wrong(stored, *size[2:])]
    form, shape_wrong = _form(stored["vae_latent"], size[1:], kind, layout)
    return form, [*shape_wrong, *wrong]


def _form(latent: Any, size: tuple[int, int, int], kind: ModelKind | None, layout: str | None) -> tuple[Form | None, list[Wrong]]:
    if not isinstance(latent, torch.Tensor) or latent.ndim not in (4, 5):
        return None, [(f"vae_latent of {_named(latent)}", "4 or 5 dimensions")]
    has = "sections" if latent.ndim == 5 else "whole"
    z = latent.shape[-4]
    found = kind or next((one for one in MODELS.values() if one.z == z), None)
    if found is None:
        known = " or ".join(f"{one.name} ({one.z})" for one in MODELS.values())
        return None, [(f"vae_latent with {z} channels", f"those of {known}, or a model that is named")]
    if layout not in (None, has):
        return Form(found.name, has), [(f"the layout {has}", str(layout))]
    try:
        check_frames(size[0], has, found.temporal, "name")
        check_multiple(size[1], size[2], found.spatial, "name")
    except DataError as error:
        return Form(found.name, has), [(f"a name that says {error.found}", error.expected)]
    expected = found.shape(has, *size)
    if tuple(latent.shape) != expected:
        return Form(found.name, has), [(f"vae_latent {tuple(latent.shape)}", f"{expected}, as its name says for {found.name} {has}")]
    return Form(found.name, has), []


def _named(value: object) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def _tensor_wrong(name: str, value: Any, dtypes: tuple[torch.dtype, ...]) -> Iterator[Wrong]:
    if not isinstance(value, torch.Tensor) or value.dtype not in dtypes:
        yield f"{name} of {_named(value)}", " or ".join(str(one).removeprefix("torch.") for one in dtypes)
        return
    if not value.is_contiguous() or value.untyped_storage().nbytes() != value.numel() * value.element_size():
        yield f"{name} is a part of {value.untyped_storage().nbytes()} bytes", "a tensor with a storage of its own"
    if value.requires_grad:
        yield f"{name} asks for a gradient", "plain values"
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        yield f"{name} holds NaN or infinity", "finite values"


def _shared(stored: Stored) -> Iterator[Wrong]:
    """Yield the tensors that have one storage with an earlier one: a change of one in place would change the other."""
    owners: dict[int, str] = {}
    for name in TENSORS:
        value: Any = stored[name]  # type: ignore[literal-required]
        if isinstance(value, torch.Tensor) and value.numel():
            owner = owners.setdefault(value.untyped_storage().data_ptr(), name)
            if owner != name:
                yield f"{name} and {owner} in one storage", "each with a storage of its own"


def _latents_wrong(stored: Stored) -> Iterator[Wrong]:
    video, control = stored["vae_latent"], stored["control_latent"]
    for name, value in (("vae_latent", video), ("control_latent", control)):
        wrong = [*_tensor_wrong(name, value, (torch.float32,))]
        yield from wrong
        if wrong or not value.numel():
            continue
        largest = float(value.abs().max())
        if largest == 0:
            yield f"{name} holds zeros alone", "the latent of a video, which is never zero throughout"
        elif largest > LARGEST_VALUE:
            yield f"{name} with values to {largest:g}", f"normalised values, of which none is beyond {LARGEST_VALUE:g}"
    if isinstance(video, torch.Tensor) and isinstance(control, torch.Tensor) and video.shape != control.shape:
        yield f"control_latent {tuple(control.shape)}", f"{tuple(video.shape)}, as vae_latent"


def _text_wrong(stored: Stored) -> Iterator[Wrong]:
    embed, mask = stored["prompt_embed"], stored["prompt_attention_mask"]
    wrong = [
        *_tensor_wrong("prompt_embed", embed, (torch.float32, torch.bfloat16)),
        *_tensor_wrong("prompt_attention_mask", mask, (torch.int64,)),
    ]
    yield from wrong
    if wrong:
        return
    if embed.ndim != 2 or embed.shape[0] != MAX_TOKENS:
        yield f"prompt_embed {tuple(embed.shape)}", f"({MAX_TOKENS}, d)"
        return
    tokens = int(mask.sum()) if tuple(mask.shape) == (MAX_TOKENS,) else 0
    if tokens < 1 or tokens > MAX_TOKENS or not bool((mask == (torch.arange(MAX_TOKENS) < tokens)).all()):
        yield f"prompt_attention_mask {tuple(mask.shape)} with sum {int(mask.sum())}", f"({MAX_TOKENS},): ones for the tokens, then zeros"
        return
    if bool((embed[tokens:] != 0).any()):
        yield "prompt_embed is not zero beyond its tokens", f"zeros from row {tokens} on"
    if empty := int((embed[:tokens] == 0).all(dim=1).sum()):
        yield f"prompt_embed is zero throughout for {empty} of its {tokens} tokens", "an embedding for each token"


def _rest_wrong(stored: Stored, height: int, width: int) -> Iterator[Wrong]:
    image: Any = stored["first_frames_image"]
    if not isinstance(image, Image.Image) or image.mode != "RGB" or image.size != (width, height):
        found = f"{image.mode} {image.size[0]}x{image.size[1]}" if isinstance(image, Image.Image) else type(image).__name__
        yield f"first_frames_image {found}", f"RGB {width}x{height} (width x height)"
    prompt: Any = stored["prompt_raw"]
    if not isinstance(prompt, str):
        yield f"prompt_raw of {type(prompt).__name__}", "text"
    if stored["control_type"] != CONTROL_TYPE:
        yield f"control_type {stored['control_type']!r}"[:80], CONTROL_TYPE
