"""What a model is, from its files alone."""

import json
import os
import shutil

import pytest

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import folder, text_encoder, vae
from vidlatents.card import text_card, vae_card


@pytest.fixture
def copied(tmp_path):
    return shutil.copytree(folder("wan21"), tmp_path / "model")


def test_a_card_counts_the_parameters_of_the_loaded_model():
    assert vae_card(folder("wan21"), "wan21").parameters == vae("wan21").model.num_parameters()
    assert text_card(folder("wan21")).parameters == text_encoder()._model.num_parameters()


def test_tiny_models_are_known_as_such():
    assert vae_card(folder("wan22-5b"), "wan22-5b").tiny and text_card(folder("wan21")).tiny


def test_a_copy_elsewhere_has_the_same_card(copied):
    assert vae_card(copied, "wan21") == vae_card(folder("wan21"), "wan21")


def test_one_changed_weight_is_another_card(copied):
    (file,) = (copied / "vae").glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    card = vae_card(copied, "wan21")
    assert card.weights != vae_card(folder("wan21"), "wan21").weights and card.config == vae_card(folder("wan21"), "wan21").config


def test_a_changed_tokenizer_is_another_text_encoder(copied):
    path = copied / "tokenizer" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 100}))
    assert text_card(copied).short != text_card(folder("wan21")).short


def test_a_noted_card_is_taken_while_the_files_keep_size_and_time(copied, tmp_path):
    first = vae_card(copied, "wan21", tmp_path / "books")
    (file,) = (copied / "vae").glob("*.safetensors")
    stat, data = file.stat(), bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert vae_card(copied, "wan21", tmp_path / "books") == first
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert vae_card(copied, "wan21", tmp_path / "books") != first


def test_another_kind_is_named_before_a_model_is_loaded():
    with pytest.raises(DataError, match="E_MODEL_KIND") as caught:
        vae_card(folder("wan22-5b"), "wan21")
    assert caught.value.found.startswith("wan22-5b")


def test_a_kind_outside_the_table_has_a_card_of_its_name(copied):
    path = copied / "vae" / "config.json"
    config = {**json.loads(path.read_text()), "z_dim": 12, "latents_mean": [0.0] * 12, "latents_std": [1.0] * 12}
    path.write_text(json.dumps(config))
    assert vae_card(copied, "wan-z12-s8-t4-p1").name == "wan-z12-s8-t4-p1"
    with pytest.raises(DataError, match="E_MODEL_KIND"):
        vae_card(copied, "wan21")


@pytest.mark.parametrize("damage", ["no weights", "cut", "config"])
def test_a_damaged_model_is_named(copied, damage):
    (file,) = (copied / "vae").glob("*.safetensors")
    if damage == "no weights":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:100])
    else:
        (copied / "vae" / "config.json").write_text("{")
    with pytest.raises(DataError, match="E_MODEL_MISSING"):
        vae_card(copied, "wan21")
