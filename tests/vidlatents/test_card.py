"""What a model is, from its files alone."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import folder, text_encoder, vae
from vidlatents.card import TEXT_PARTS, VAE_PARTS, stamp_of, text_card, vae_card
from vidlatents.models import HUB, load_vae
from vidlatents.text import load_text


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


def test_another_mean_in_the_configuration_is_another_card(copied):
    path = copied / "vae" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "latents_mean": [config["latents_mean"][0] + 1, *config["latents_mean"][1:]]}))
    assert vae_card(copied, "wan21").short != vae_card(folder("wan21"), "wan21").short


@pytest.mark.parametrize("numbers", [126_892_531, 704_000_000])
def test_weights_of_a_released_autoencoder_s_size_are_not_tiny(copied, numbers):
    (file,) = (copied / "vae").glob("*.safetensors")
    header = json.dumps({"x": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    assert not vae_card(copied, "wan21").tiny


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


@pytest.mark.parametrize("part", [0, 1], ids=["vae", "text_encoder"])
def test_two_models_whose_files_have_equal_names_sizes_and_times_have_cards_of_their_own(copied, tmp_path, part):
    """As a tar archive or an image with all times at 0 leaves them."""
    other = shutil.copytree(copied, tmp_path / "other")
    name, card_of = (("vae", lambda where: vae_card(where, "wan21", tmp_path / "books")), ("text_encoder", lambda where: text_card(where, tmp_path / "books")))[
        part
    ]
    (file,) = (other / name).glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    for path in [*copied.rglob("*"), *other.rglob("*")]:
        os.utime(path, ns=(0, 0))
    first = card_of(copied)
    assert card_of(other).weights != first.weights and card_of(copied) == first


def test_no_note_of_a_card_names_a_path_of_this_machine(copied, tmp_path):
    vae_card(copied, "wan21", tmp_path / "books")
    (note,) = (tmp_path / "books").iterdir()
    assert str(tmp_path) not in note.read_text()


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


@pytest.mark.parametrize("how", [text_card, lambda where, hub: load_text(where, torch.float32, "cpu", hub=hub)], ids=["card", "load"])
def test_a_missing_text_encoder_is_to_be_had_with_the_model_of_the_run(tmp_path, how):
    with pytest.raises(DataError, match="E_MODEL_MISSING") as caught:
        how(tmp_path, hub=HUB["wan22-5b"])
    assert "hf download Wan-AI/Wan2.2-TI2V-5B-Diffusers" in caught.value.hint


def test_no_download_is_named_for_an_autoencoder_of_a_kind_that_was_not_released(tmp_path):
    with pytest.raises(DataError, match="E_MODEL_MISSING") as caught:
        vae_card(tmp_path / "none", "wan-z12-s8-t4-p1")
    assert "hf download" not in caught.value.hint and "none were released" in caught.value.hint


def as_bin(path):
    """Write a file of safetensors again as the older format does, and take it away."""
    torch.save(load_file(path), path.with_name({"vae": "diffusion_pytorch_model.bin", "text_encoder": "pytorch_model.bin"}[path.parent.name]))
    path.unlink()


@pytest.mark.parametrize(("part", "card_of"), [("vae", lambda where: vae_card(where, "wan21")), ("text_encoder", text_card)])
def test_weights_that_are_not_safetensors_get_no_card(copied, part, card_of):
    (file,) = (copied / part).glob("*.safetensors")
    as_bin(file)
    with pytest.raises(DataError, match="E_MODEL_MISSING") as caught:
        card_of(copied)
    assert "saved as safetensors" in caught.value.expected and caught.value.found.endswith(".bin")


@pytest.mark.parametrize(
    ("part", "load"), [("vae", lambda at: load_vae(at, "wan21", torch.float32, "cpu")), ("text_encoder", lambda at: load_text(at, torch.float32, "cpu"))]
)
def test_weights_that_are_not_safetensors_are_not_loaded(copied, part, load):
    (file,) = (copied / part).glob("*.safetensors")
    as_bin(file)
    with pytest.raises(DataError, match="E_MODEL_MISSING") as caught:
        load(copied)
    assert "saved as safetensors" in caught.value.expected


def test_weights_without_any_number_are_tiny(copied):
    (file,) = (copied / "vae").glob("*.safetensors")
    save_file({}, file)
    assert vae_card(copied, "wan21").tiny


def test_weights_beside_the_tokenizer_do_not_make_a_tiny_text_encoder_a_real_one(copied):
    """The header alone says 200 million numbers: no such file is written."""
    before = text_card(copied).parameters
    header = json.dumps({"x": {"dtype": "F32", "shape": [200_000_000], "data_offsets": [0, 800_000_000]}}).encode()
    (copied / "tokenizer" / "other.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert (text_card(copied).parameters, text_card(copied).tiny) == (before, True)


def test_a_stamp_is_the_same_in_a_copy_that_keeps_times_and_another_where_a_file_was_replaced(copied):
    before = stamp_of(folder("wan21"), VAE_PARTS)
    assert stamp_of(copied, VAE_PARTS) == before and {name for name, _, _ in before} == {f"0/{path.name}" for path in (copied / "vae").iterdir()}
    (file,) = (copied / "vae").glob("*.safetensors")
    os.utime(file, ns=(0, 0))
    assert stamp_of(copied, VAE_PARTS) != before and stamp_of(copied, TEXT_PARTS) == stamp_of(folder("wan21"), TEXT_PARTS)


@pytest.mark.parametrize("where", ["Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "no/such/folder"])
def test_what_is_not_there_has_an_empty_stamp(where):
    assert stamp_of(where, TEXT_PARTS) == []
