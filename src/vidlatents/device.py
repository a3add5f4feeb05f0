"""Which device a model is put on, and how quietly it is loaded."""

from __future__ import annotations

import importlib

from shardwork.errors import DataError


def pick(device: str) -> str:
    """Return torch's name of a device.   device : auto (a GPU where there is one), cpu or gpu. Raises DataError (bad_argument) for a GPU that is not there.

    On a GPU float32 is computed as such from here on, in convolutions too: left alone, cuDNN takes TF32 for them, which has 10 bits of mantissa, not 23.
    """
    import torch

    there = torch.cuda.is_available()
    if device == "gpu" and not there:
        raise DataError("bad_argument", "--device", "gpu, where torch finds none", "a GPU, or cpu or auto", "install torch's build for the GPU, or set device")
    if not there or device == "cpu":
        return "cpu"
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    return "cuda"


def quiet(library: str) -> None:
    """Keep a library's own progress bars out of a log.   library : diffusers or transformers."""
    importlib.import_module(f"{library}.utils.logging").disable_progress_bar()
