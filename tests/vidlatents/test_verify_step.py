"""The step verify_latents: what is not as written is made again, what is as written and no sample is set aside."""

import pytest
import torch

from shardwork.digests import both_digests
from shardwork.errors import Fault
from shardwork.run import Options, run_guard, write_manifest
from tests.vidlatents.tiny_models import content
from vidlatents.stage import ENCODE_STEP, latents_place
from vidlatents.store import load_sample, save_sample
from vidlatents.verify import LEVELS
from vidlatents.verify_step import verify_items, verify_step

SHARD = "0000-of-0001"


@pytest.fixture
def place(tmp_path):
    return latents_place(tmp_path / "books", tmp_path / "latents")


def encoded(place, path):
    """Write the manifest that encode_latents leaves of a file as it is."""
    xxh3, sha256 = both_digests(path)
    files = {f"../latents/{path.name}": {"bytes": path.stat().st_size, "digest": xxh3}}
    row = {"id": path.stem, "status": "ok", "code": "ok", "uttid": "a", "sha256": sha256, "files": files}
    write_manifest(place.manifest(ENCODE_STEP, SHARD, "k"), [row], [path.stem])


def verify(place, layout="sections", level="sha256"):
    (row,) = run_guard(verify_step(level, "wan21", layout), SHARD, lambda rows: verify_items(rows, place), ENCODE_STEP, place, Options(0))
    return row


@pytest.fixture
def path(place):
    path = place.home / "a_33_32_48.pt"
    save_sample(path, content())
    encoded(place, path)
    return path


def test_a_file_as_it_was_written_passes(place, path):
    assert verify(place)["status"] == "ok" and path.exists()


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_file_that_is_not_as_written_takes_the_manifest_of_its_shard_away(place, path, how):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink() if how == "missing" else path.write_bytes(data)
    with pytest.raises(Fault, match="fault_stale"):
        verify(place)
    assert not path.exists() and not place.manifests(ENCODE_STEP, SHARD)


@pytest.mark.parametrize("level", LEVELS[1:])
def test_one_flipped_bit_takes_the_manifest_away_at_every_level_but_the_first(place, path, level):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Fault, match="fault_stale"):
        verify(place, level=level)


def test_level_model_and_layout_are_what_a_file_was_verified_for():
    assert verify_step("crc", "wan22-5b", "whole").settings == {"level": "crc", "model": "wan22-5b", "layout": "whole"}


def test_a_sample_of_the_other_layouts_folder_passes_without_a_file(place):
    row = {"id": "b", "status": "ok", "code": "ok", "files": {}, "elsewhere": 1}
    (item,) = verify_items([row], place)
    assert (item.verdict, item.watched) == (row, ())


def test_a_file_of_the_other_model_is_named(place):
    path = place.home / "a_33_32_48.pt"
    save_sample(path, content("wan22-5b"))
    encoded(place, path)
    assert verify(place)["code"] == "E_FILE_CONTENT"


def test_a_file_as_written_that_is_no_sample_is_set_aside_with_its_code(place, path):
    torch.save({**load_sample(path), "prompt_raw": 1}, path)
    encoded(place, path)
    row = verify(place)
    assert (row["status"], row["code"], row["uttid"]) == ("quarantined", "E_FILE_CONTENT", "a")
    assert not path.exists() and (place.quarantine / path.name).exists()


def test_a_file_of_the_other_layout_is_named(place, path):
    assert verify(place, "whole")["code"] == "E_FILE_CONTENT"


@pytest.mark.parametrize("level", LEVELS)
def test_a_file_cut_below_1024_bytes_after_it_was_written_is_made_again_at_every_level(place, path, level):
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(Fault, match="fault_stale"):
        verify(place, level=level)
    assert not place.manifests(ENCODE_STEP, SHARD)


def test_a_file_that_was_written_so_is_not_said_to_come_right_by_taking_it_away(place, path):
    torch.save({**load_sample(path), "prompt_raw": 1}, path)
    encoded(place, path)
    assert "redo.latents" in verify(place)["hint"]
