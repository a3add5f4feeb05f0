"""What a finished sample must be for the next run to leave it alone: of its size, its time, and with the directory of a whole zip."""

import os

import pytest

from shardwork.run import Options, run_shard
from shardwork.step import Item, Step
from tests.vidlatents.tiny_models import content
from vidlatents.card import Card
from vidlatents.encode_step import Encoder, VaeModel
from vidlatents.settings import EncodeFlags
from vidlatents.stage import latents_place
from vidlatents.store import save_sample


@pytest.fixture
def place(tmp_path):
    return latents_place(tmp_path / "books", tmp_path / "latents")


def run(place, made):
    """Run a step that makes one sample as encode_latents does, without a model."""
    card = Card("wan21", "", "", 1, True)
    real = Encoder(VaeModel("", "wan21", "float32", "cpu", card), card, EncodeFlags(), {}, place, place).step()

    def make(item):
        made.append(item.id)
        save_sample(item.outputs[0], content())
        return {}

    (row,) = run_shard(
        Step(real.name, 1, {}, make, whole=real.whole), "0000-of-0001", [Item("a_33_32_48", {}, (place.home / "a_33_32_48.pt",))], place, Options(0)
    )
    return row


def spoil(path, how):
    """Change bytes in place; the file keeps its size and time."""
    stat = path.stat()
    with open(path, "r+b") as file:
        file.seek(how)
        file.write(bytes(stat.st_size - how))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_whole_sample_is_left_alone(place):
    made: list[str] = []
    assert run(place, made) == run(place, made) and made == ["a_33_32_48"]


@pytest.mark.parametrize("start", [0, 4096, -4096, -100])
def test_a_zeroed_tail_that_keeps_size_and_time_is_found_and_made_again(place, start):
    made: list[str] = []
    path = place.home / "a_33_32_48.pt"
    first, whole = run(place, made), path.read_bytes() if path.exists() else b""
    spoil(path, start % len(whole))
    assert path.read_bytes() != whole and run(place, made) == first
    assert made == ["a_33_32_48"] * 2 and path.read_bytes() == whole and (place.quarantine / path.name).exists()
