"""The code on the page about latents runs straight from the page, on a folder of samples and a pair that stand where the demo's do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vidlatents.pairs import minimal, write_pair, write_records
from tests.vidlatents.tiny_models import content
from vidlatents.store import save_sample

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/latents_format.md").read_text(), re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("page")
    for uttid in ("a", "b_b"):
        save_sample(root / f"results/demo/latents/wan21-sections/{uttid}_49_32_48.pt", content())
    return root


def said(word, folder):
    """Return what the one block with this word prints."""
    (block,) = [one for one in BLOCKS if word in one]
    (folder / "block.py").write_text(block)
    paths = {"PYTHONPATH": ":".join([str(ROOT / "src"), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-W", "ignore", "block.py"], cwd=folder, capture_output=True, text=True, check=False, env=paths)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_torch_and_pillow_alone_read_every_file(folder):
    assert said("weights_only", folder) == [f"{uttid} (1, 16, 9, 4, 6) torch.float32 (48, 32)" for uttid in ("a", "b_b")]


def test_the_reader_of_the_project_reads_a_file(folder):
    tokens = int(content().prompt_attention_mask.sum())
    assert said("load_sample", folder) == [f"{content().prompt_raw!r} {tokens} tokens"]


def test_the_loader_yields_every_sample_once_an_epoch(folder):
    lines = said("LatentDataset", folder)
    assert [line[0] for line in lines] == ["0", "1"]
    for line in lines:
        assert sorted(re.findall(r"'(\w+)'", line)) == ["a", "b_b"] and line.endswith("(2, 16, 9, 4, 6) (2, 16, 19, 4, 6) (2, 512, 32)")


def test_the_loader_of_pairs_yields_the_fields_of_the_producer(tmp_path):
    pairs = tmp_path / "data/demo/pairs"
    write_pair(pairs, "a_1", 33, 33)
    write_records(pairs / "records.jsonl", [minimal("a_1", 33, 48, 64)])
    (line,) = said("PairDataset", tmp_path)
    assert line == "['a_1'] (1, 33, 3, 48, 64) (1, 33, 3, 48, 64) {'num_frames': [33], 'height': [48], 'width': [64]}"
