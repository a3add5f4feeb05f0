"""Which device a model is put on, and how quietly it is loaded."""

from __future__ import annotations

from shardwork.errors import DataError


def pick(device: str) -> str:
    """Return torch's name of a device.   device : auto (a GPU where there is one), cpu or gpu. Raises DataError (bad_argument) for a GPU that is not there."""
    import torch

    there = torch.cuda.is_available()
    if device == "gpu" and not there:
        raise DataError("bad_argument", "--device", "gpu, where torch finds none", "a GPU, or cpu or auto", "install torch's build for the GPU, or set device")
    return "cuda" if there and device != "cpu" else "cpu"


def quiet() -> None:
    """Keep the libraries' own progress bars out of a log."""
    import diffusers
    import transformers

    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
