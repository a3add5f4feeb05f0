"""Which device a model is put on, and how quietly it is loaded."""

from __future__ import annotations

import importlib

from shardwork.errors import DataError


def pick(device: str) -> str:
    """Return torch's name of a device.   device : auto (a GPU where there is one), cpu or gpu. Raises DataError (bad_argument) for a GPU that is not there."""
    import torch

    there = torch.cuda.is_available()
    if device == "gpu" and not there:
        raise DataError("bad_argument", "--device", "gpu, where torch finds none", "a GPU, or cpu or auto", "install torch's build for the GPU, or set device")
    return "cuda" if there and device != "cpu" else "cpu"


def quiet(library: str) -> None:
    """Keep a library's own progress bars out of a log.   library : diffusers or transformers."""
    importlib.import_module(f"{library}.utils.logging").disable_progress_bar()
