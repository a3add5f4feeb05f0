import json
import shutil
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import KINDS, folder, frames, of, vae
from vidlatents.encode import encode
from vidlatents.models import DEFAULTS, MODELS, kind_named, load_vae
from vidlatents.text import check_tied, load_text
from vidlatents.tiny import VAE_CONFIGS, write_text, write_vae


def refused(code, run):
    with pytest.raises(DataError) as caught:
        run()
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(("kind", "shape"), [("wan21", (16, 8, 4, 1)), ("wan22-5b", (48, 16, 4, 2))])
def test_the_table_holds_the_specified_figures(kind, shape):
    found = MODELS[kind]
    assert (found.z, found.spatial, found.temporal, found.patch) == shape


@pytest.mark.parametrize(
    ("kind", "layout", "frames", "shape"),
    [
        ("wan21", "sections", 121, (3, 16, 9, 60, 240)),
        ("wan22-5b", "sections", 49, (1, 48, 9, 30, 120)),
        ("wan21", "whole", 49, (16, 13, 60, 240)),
        ("wan22-5b", "whole", 1, (48, 1, 30, 120)),
    ],
)
def test_latents_of_480x1920_have_the_specified_shape(kind, layout, frames, shape):
    assert MODELS[kind].shape(layout, frames, 480, 1920) == shape


def test_the_tiny_wan21_has_the_specified_71_thousand_parameters():
    assert vae("wan21").model.num_parameters() == 70803


def test_a_tiny_model_has_the_same_weights_when_made_again(tmp_path):
    write_vae("wan21", tmp_path / "vae")
    assert_same = torch.testing.assert_close
    assert_same(dict(load_vae(tmp_path, "wan21", torch.float32, "cpu").model.state_dict()), dict(vae("wan21").model.state_dict()), rtol=0, atol=0)


def test_a_tiny_tokenizer_has_the_same_bytes_when_made_again(tmp_path):
    write_text(tmp_path)
    assert (tmp_path / "tokenizer/tokenizer.json").read_bytes() == (folder("wan21") / "tokenizer/tokenizer.json").read_bytes()


def test_another_seed_gives_other_weights(tmp_path):
    write_vae("wan21", tmp_path / "vae", seed=1)
    other = load_vae(tmp_path, "wan21", torch.float32, "cpu").model.state_dict()
    assert not torch.equal(other["quant_conv.weight"], vae("wan21").model.state_dict()["quant_conv.weight"])


def test_another_seed_gives_other_weights_of_the_text_encoder(tmp_path):
    write_text(tmp_path, seed=1)
    one, two = (load_file(path / "text_encoder/model.safetensors") for path in (tmp_path, folder("wan21")))
    assert not torch.equal(one["shared.weight"], two["shared.weight"])


def test_weights_of_a_tiny_model_have_the_variance_of_one_over_their_inputs():
    weight = vae("wan21").model.state_dict()["encoder.conv_in.weight"]
    assert float(weight.std()) == pytest.approx((3 * 3 * 3 * 3) ** -0.5, rel=0.1)


def test_every_channel_of_the_tiny_wan22_has_a_mean_and_a_deviation_of_its_own():
    config = VAE_CONFIGS["wan22-5b"]
    assert len(set(config["latents_mean"])) == len(set(config["latents_std"])) == 48


def test_the_tiny_configuration_of_wan21_is_the_specified_one():
    expected = {"base_dim": 8, "z_dim": 16, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1, "temperal_downsample": [False, True, True]}
    assert VAE_CONFIGS["wan21"] == expected


@pytest.mark.parametrize(("kind", "other"), [KINDS, KINDS[::-1]])
def test_one_kind_loaded_as_the_other_is_refused(kind, other):
    assert refused("E_MODEL_KIND", lambda: load_vae(folder(kind), other, torch.float32, "cpu")).found.startswith(kind)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Return a folder with an autoencoder outside the table: 12 channels, 4 pixels and 2 frames to a value."""
    import diffusers

    path = tmp_path_factory.mktemp("made-up")
    figures = {"z_dim": 12, "scale_factor_spatial": 4, "scale_factor_temporal": 2, "latents_mean": [0.5] * 12, "latents_std": [2.0] * 12}
    config = {**VAE_CONFIGS["wan21"], "dim_mult": [1, 1, 1], "temperal_downsample": [False, True], **figures}
    make: Any = diffusers.AutoencoderKLWan
    make(**config).save_pretrained(path / "vae")
    return path


def test_an_autoencoder_outside_the_table_encodes_to_the_shape_of_its_figures(made_up):
    loaded = load_vae(made_up, "wan-z12-s4-t2-p1", torch.float32, "cpu")
    latent = encode(loaded, frames(33, 16, 24), "sections", "mode", of())
    assert tuple(latent.shape) == (1, 12, 17, 4, 6) == loaded.kind.shape("sections", 33, 16, 24)


def test_an_autoencoder_outside_the_table_is_refused_as_another_and_named_by_its_figures(made_up):
    error = refused("E_MODEL_KIND", lambda: load_vae(made_up, "wan21", torch.float32, "cpu"))
    assert error.found.startswith("wan-z12-s4-t2-p1") and "set the model to wan-z12-s4-t2-p1" in error.hint


def test_a_kind_may_be_named_by_figures_that_the_table_has():
    assert kind_named("wan-z16-s8-t4-p1") == MODELS["wan21"] != kind_named("wan-z16-s8-t4-p2")


@pytest.mark.parametrize("name", ["", "wan", "wan-z0-s8-t4-p1", "wan-z16-s8-t8-p1", "wan-z16-s8-t4-p1/..", "wan-z16-s8-t4-p1\n"])
def test_a_name_of_no_kind_is_refused(name):
    refused("bad_argument", lambda: kind_named(name))


def test_what_a_configuration_leaves_out_is_what_the_library_takes():
    import inspect

    import diffusers

    taken = inspect.signature(diffusers.AutoencoderKLWan.__init__).parameters
    assert {name: tuple(value) if isinstance(value, list) else value for name in DEFAULTS for value in [taken[name].default]} == DEFAULTS
    assert len(taken["latents_mean"].default) == len(taken["latents_std"].default) == DEFAULTS["z_dim"]


@pytest.mark.parametrize("wrong", [{"scale_factor_spatial": 16}, {"scale_factor_temporal": 2}, {"temperal_downsample": [True] * 3, "scale_factor_temporal": 8}])
def test_figures_that_the_layers_do_not_make_are_refused(tmp_path, wrong):
    shutil.copytree(folder("wan21") / "vae", tmp_path / "vae")
    config = json.loads((tmp_path / "vae/config.json").read_text())
    (tmp_path / "vae/config.json").write_text(json.dumps({**config, **wrong}))
    refused("E_MODEL_KIND", lambda: load_vae(tmp_path, "wan21", torch.float32, "cpu"))


def test_a_wrong_kind_is_refused_before_the_weights_are_read(tmp_path):
    shutil.copytree(folder("wan21") / "vae", tmp_path / "vae")
    next((tmp_path / "vae").glob("*.safetensors")).write_bytes(b"")
    refused("E_MODEL_KIND", lambda: load_vae(tmp_path, "wan22-5b", torch.float32, "cpu"))


def test_another_class_of_model_is_refused(tmp_path):
    shutil.copytree(folder("wan21") / "vae", tmp_path / "vae")
    (tmp_path / "vae/config.json").write_text(json.dumps({"_class_name": "AutoencoderKL"}))
    refused("E_MODEL_KIND", lambda: load_vae(tmp_path, "wan21", torch.float32, "cpu"))


def test_means_of_another_number_than_channels_are_refused(tmp_path):
    shutil.copytree(folder("wan21") / "vae", tmp_path / "vae")
    config = json.loads((tmp_path / "vae/config.json").read_text())
    (tmp_path / "vae/config.json").write_text(json.dumps({**config, "latents_mean": [0.0] * 15}))
    refused("E_MODEL_KIND", lambda: load_vae(tmp_path, "wan21", torch.float32, "cpu"))


@pytest.mark.parametrize("where", ["no/such/folder", "nobody/no-such-model"])
def test_missing_weights_say_how_to_get_them(where):
    error = refused("E_MODEL_MISSING", lambda: load_vae(where, "wan22-5b", torch.float32, "cpu", local_only=True))
    assert "hf download Wan-AI/Wan2.2-TI2V-5B-Diffusers" in error.hint


@pytest.mark.parametrize("size", [0, 100, 50_000])
def test_cut_weights_are_refused(tmp_path, size):
    shutil.copytree(folder("wan21") / "vae", tmp_path / "vae")
    weights = next((tmp_path / "vae").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:size])
    refused("E_MODEL_MISSING", lambda: load_vae(tmp_path, "wan21", torch.float32, "cpu"))


def test_a_folder_without_its_weights_is_refused(tmp_path):
    shutil.copytree(folder("wan21") / "vae", tmp_path / "vae")
    next((tmp_path / "vae").glob("*.safetensors")).unlink()
    refused("E_MODEL_MISSING", lambda: load_vae(tmp_path, "wan21", torch.float32, "cpu"))


@pytest.mark.parametrize(("part", "load"), [("vae", lambda path: load_vae(path, "wan21", torch.float32, "cpu")), ("text_encoder", None)])
def test_weights_that_lack_a_tensor_are_refused_not_made_up(tmp_path, part, load):
    shutil.copytree(folder("wan21"), tmp_path / "model")
    weights = next((tmp_path / "model" / part).glob("*.safetensors"))
    tensors = load_file(weights)
    tensors.pop(sorted(name for name in tensors if "shared" not in name)[0])
    save_file(tensors, weights, metadata={"format": "pt"})
    refused("E_MODEL_MISSING", lambda: (load or (lambda path: load_text(path, torch.float32, "cpu")))(tmp_path / "model"))


def test_an_encoder_with_another_table_than_its_weights_is_refused():
    class Part:
        def __init__(self, **parts):
            self.__dict__.update(parts)

    table = Part(weight=torch.ones(3, 2))
    untied = Part(shared=table, encoder=Part(embed_tokens=Part(weight=torch.zeros(3, 2))))
    assert "table of tokens" in refused("E_MODEL_KIND", lambda: check_tied(untied, "text")).found
