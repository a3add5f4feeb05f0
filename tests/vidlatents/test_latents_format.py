"""The code blocks of docs/latents_format.md run on a folder of samples."""

import re
from pathlib import Path

import pytest
import torch

from tests.vidlatents.tiny_models import content
from vidlatents.store import save_sample

PAGE = Path(__file__).resolve().parents[2] / "docs" / "latents_format.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.fixture
def names(tmp_path):
    for uttid in "ab":
        save_sample(tmp_path / f"{uttid}_49_32_48.pt", content())
    return {"folder": tmp_path, "path": tmp_path / "a_49_32_48.pt"}


def run(block, names):
    exec(compile(block, str(PAGE), "exec"), names)  # the page is ours
    return names


def test_the_page_has_three_blocks():
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS[:2])
def test_both_ways_of_reading_give_the_latent(names, block):
    assert torch.equal(run(block, names)["sample"]["vae_latent"], content().vae_latent)


def test_the_loader_gives_batches_of_one_bucket(names, capsys):
    run(BLOCKS[2], names)
    assert capsys.readouterr().out == "torch.Size([2, 16, 9, 4, 6]) torch.Size([2, 512, 32])\n"
