"""One .pt a sample: the seven keys, written so that equal contents are equal bytes, and read without running code."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from shardwork.errors import DataError
from shardwork.files import atomic_path
from shardwork.watched import WatchedFile
from vidlatents.codes import HINT_REMAKE

CONTROL_TYPE = "external_control_video"
KEYS = ("vae_latent", "control_latent", "prompt_embed", "prompt_attention_mask", "first_frames_image", "prompt_raw", "control_type")
TENSORS = KEYS[:4]


class Stored(TypedDict):
    """What a file holds, in this order. Source: seed 003, section 2.2."""

    vae_latent: torch.Tensor
    control_latent: torch.Tensor
    prompt_embed: torch.Tensor
    prompt_attention_mask: torch.Tensor
    first_frames_image: Image.Image
    prompt_raw: str
    control_type: str


@dataclass(frozen=True, slots=True)
class Content:
    """What a sample's file is made of.

    vae_latent, control_latent : float32, (S, z, 9, h, w) or (z, t, h, w).   prompt_embed : (512, d).   prompt_attention_mask : (512,) int64.
    first_frames_image : RGB picture of bucket size.   prompt_raw : the prompt as the record has it.
    """

    vae_latent: torch.Tensor
    control_latent: torch.Tensor
    prompt_embed: torch.Tensor
    prompt_attention_mask: torch.Tensor
    first_frames_image: Image.Image
    prompt_raw: str


def picture(frame: NDArray[np.uint8]) -> Image.Image:
    """Return a frame, (H, W, 3) uint8, as a plain RGB picture: it loads with Pillow's base class alone."""
    return Image.fromarray(np.ascontiguousarray(frame))


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with a storage of its own: a slice would be written with the whole batch."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def save_sample(path: Path, content: Content, note: Callable[[Path], None] = lambda path: None) -> None:
    """Write a sample's file atomically; its bytes depend on the content alone. Raises DataError (E_NONFINITE), and Fault or OSError as files do.

    The temporary name does not end in .pt, and the file is read back whole before it gets its own name.   note : called with the whole file before that.
    """
    for name in TENSORS[:3]:
        if not bool(torch.isfinite(getattr(content, name)).all()):
            raise DataError("E_NONFINITE", path.name, f"NaN or infinity in {name}", "finite values", "nothing was written; look at the video and the model")
    image = content.first_frames_image
    values: dict[str, Any] = {name: _own(getattr(content, name)) for name in TENSORS}
    values["first_frames_image"] = picture(np.asarray(image.convert("RGB")))
    values["prompt_raw"], values["control_type"] = content.prompt_raw, CONTROL_TYPE
    data = io.BytesIO()  # given a path, torch writes its name into the bytes; given a file on a full disk, it hides the system's error behind one of its own
    torch.save(values, data)

    def check(temp: Path) -> None:
        _check_whole(temp)
        note(temp)

    with atomic_path(path, check) as temp, open(temp, "wb") as file:
        file.write(data.getbuffer())


def _check_whole(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        if (bad := archive.testzip()) is not None:
            raise OSError(f"{path}: {bad} is not what was written")


def load_sample(path: Path) -> Stored:
    """Return what a sample's file holds; nothing but tensors, text and pictures is built, so a foreign file cannot run code.

    Raises DataError (E_FILE_LOAD, E_FILE_CONTENT), OSError where the machine is at fault.
    """
    import pickle

    hint = HINT_REMAKE
    with WatchedFile(path) as file:
        try:
            with torch.serialization.safe_globals([Image.Image]):
                values = torch.load(file, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, TypeError, IndexError, zipfile.BadZipFile) as error:
            file.raise_error(error)
            found = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
            raise DataError("E_FILE_LOAD", path, found, "a file of tensors, text and one picture", hint) from error
    if not isinstance(values, dict) or set(values) != set(KEYS):
        keys = sorted(map(str, values)) if isinstance(values, dict) else type(values).__name__
        raise DataError("E_FILE_CONTENT", path, f"{keys}", f"the keys {', '.join(KEYS)}", hint)
    for name in TENSORS:
        value = values[name]
        if isinstance(value, torch.Tensor) and (value.layout is not torch.strided or value.is_meta or value.is_nested or value.is_quantized):
            raise DataError("E_FILE_CONTENT", path, f"{name} is a sparse, nested, quantised or empty tensor", "a tensor of plain values", hint)
    stored: Stored = values  # type: ignore[assignment]
    return stored
