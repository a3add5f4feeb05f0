"""Runs plan_latents, encode_text or verify_latents by name; encode_text with a stand-in for the encoder, which takes seconds to import and load.

What the contract disturbs are the steps, in processes of their own. Quiet runs are made in the process of the tests.
"""

import contextlib
import importlib
import io
import sys
from functools import cache
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from shardwork import command
from shardwork.errors import DataError
from vidlatents import text_step

WIDTH = 1024
REFUSED = "a refused prompt"


class Lengths:
    """As many rows as the text has words, each of its length."""

    def encode_cleaned(self, text):
        import torch

        from vidlatents.text import Embedding

        if text == REFUSED:
            raise DataError("E_NONFINITE", text, "NaN or infinity in the embedding", "a finite embedding", "look at the weights and dtype")
        tokens = len(text.split())
        embed, mask = torch.zeros((512, WIDTH), dtype=torch.bfloat16), torch.zeros(512, dtype=torch.int64)
        embed[:tokens], mask[:tokens] = len(text), 1
        return Embedding(embed, mask, tokens, tokens)


@cache
def lengths(model, threads):
    return Lengths()


def run(name, flags):
    """Return the exit code of a step."""
    script = importlib.import_module(name)
    # a disk that fills up is to be met while a file is written
    with mock.patch.object(script, "check_room", lambda needs: None) if name == "encode_text" else contextlib.nullcontext():
        return command.run(script.main, script.arguments, flags)


def run_here(name, flags):
    """Return the exit code of a step that runs in this process, and what it said."""
    with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(text_step, "_encoder", lengths):
        code = run(name, flags)
    return code, said.getvalue()


if __name__ in ("__main__", "__mp_main__"):
    setattr(text_step, "_encoder", lengths)  # noqa: B010 - in the step's process, and in its workers
if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
