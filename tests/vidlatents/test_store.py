import io
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, PngImagePlugin

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import KINDS, content, frames, of, text_encoder, vae
from vidlatents import store
from vidlatents.encode import EncodeSettings, encode_pair
from vidlatents.store import Content, load_sample, picture, save_sample

SEVEN = ["vae_latent", "control_latent", "prompt_embed", "prompt_attention_mask", "first_frames_image", "prompt_raw", "control_type"]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "a_33_32_48.pt"
    save_sample(path, content())
    return path


def foreign_load(path):
    """Load as a consumer does that knows nothing of ours."""
    return torch.load(path, map_location="cpu", weights_only=False)


def test_a_file_holds_the_seven_keys_of_the_seed(saved):
    assert list(foreign_load(saved)) == SEVEN


def test_the_control_type_is_the_constant_of_the_seed(saved):
    assert foreign_load(saved)["control_type"] == "external_control_video"


def test_tensors_come_back_as_they_were(saved):
    loaded, given = dict(load_sample(saved)), content()
    for name in SEVEN[:4]:
        torch.testing.assert_close(loaded[name], getattr(given, name), rtol=0, atol=0)


@pytest.mark.parametrize("prompt", ["", "a\u2028b", "\U0001f600\x00\n", "\ud800"])
def test_the_raw_prompt_comes_back_untouched(tmp_path, prompt):
    save_sample(tmp_path / "a_33_32_48.pt", content(prompt=prompt))
    assert load_sample(tmp_path / "a_33_32_48.pt")["prompt_raw"] == prompt


def test_the_picture_comes_back_with_every_pixel(saved):
    image = load_sample(saved)["first_frames_image"]
    assert (image.mode, image.size) == ("RGB", (48, 32))
    assert np.array_equal(np.asarray(image), frames(1)[0])


def test_torch_s_own_default_load_needs_the_one_class_that_ours_allows(saved):
    with pytest.raises(pickle.UnpicklingError, match=r"PIL\.Image\.Image"):
        torch.load(saved)
    load_sample(saved)


def test_a_picture_read_from_a_png_is_stored_as_a_plain_one(tmp_path):
    buffer = io.BytesIO()
    content().first_frames_image.save(buffer, "PNG")
    given = content()
    opened = Image.open(buffer)
    assert isinstance(opened, PngImagePlugin.PngImageFile)
    fields = {name: getattr(given, name) for name in SEVEN[:4]}
    save_sample(tmp_path / "a_33_32_48.pt", Content(**fields, first_frames_image=opened, prompt_raw="A red ball."))
    save_sample(tmp_path / "b_33_32_48.pt", given)
    assert (tmp_path / "a_33_32_48.pt").read_bytes() == (tmp_path / "b_33_32_48.pt").read_bytes()


def test_a_grey_picture_is_stored_in_rgb(tmp_path):
    given = content()
    save_sample(tmp_path / "a_33_32_48.pt", replace(given, first_frames_image=given.first_frames_image.convert("L")))
    assert load_sample(tmp_path / "a_33_32_48.pt")["first_frames_image"].mode == "RGB"


def test_a_file_that_would_run_code_is_refused_unrun(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"vae_latent": Evil()}, tmp_path / "a_33_32_48.pt")
    with pytest.raises(DataError) as caught:
        load_sample(tmp_path / "a_33_32_48.pt")
    assert caught.value.code == "E_FILE_LOAD" and not (tmp_path / "ran").exists()


def test_a_slice_of_a_batch_is_stored_without_the_batch(tmp_path, saved):
    given = content()
    batch = {name: torch.stack([getattr(given, name)] * 8) for name in SEVEN[:4]}
    fields = {name: values[3] for name, values in batch.items()}
    path = tmp_path / "b_33_32_48.pt"
    save_sample(path, Content(**fields, first_frames_image=given.first_frames_image, prompt_raw=given.prompt_raw))
    assert path.read_bytes() == saved.read_bytes()


def test_a_stored_tensor_has_a_storage_of_its_own_and_no_gradient(tmp_path):
    given = content()
    view = given.vae_latent.transpose(-1, -2).contiguous().transpose(-1, -2).requires_grad_()
    fields = {name: getattr(given, name) for name in SEVEN[1:6]}
    save_sample(tmp_path / "a_33_32_48.pt", Content(vae_latent=view, **fields))
    latent = foreign_load(tmp_path / "a_33_32_48.pt")["vae_latent"]
    assert latent.is_contiguous() and not latent.requires_grad and latent.untyped_storage().nbytes() == 4 * latent.numel()


def test_bytes_do_not_depend_on_name_or_folder(tmp_path, saved):
    (tmp_path / "other").mkdir()
    save_sample(tmp_path / "other" / "zz_49_32_48.pt", content())
    assert (tmp_path / "other" / "zz_49_32_48.pt").read_bytes() == saved.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_a_whole_sample_do_not_depend_on_order_or_neighbours(tmp_path, kind):
    def make(folder, order):
        for uttid in order:
            number = ord(uttid)
            pair = encode_pair(vae(kind), frames(seed=number), frames(seed=number + 1), EncodeSettings(), of(0, uttid))
            text = text_encoder().encode_cleaned(uttid * 3)
            save_sample(folder / f"{uttid}_33_32_48.pt", Content(pair.video, pair.control, text.embed, text.mask, picture(frames(1)[0]), uttid * 3))

    make(tmp_path / "one", "abc")
    make(tmp_path / "two", "ca")
    make(tmp_path / "alone", "c")
    for uttid, other in (("a", "two"), ("c", "two"), ("c", "alone")):
        assert (tmp_path / "one" / f"{uttid}_33_32_48.pt").read_bytes() == (tmp_path / other / f"{uttid}_33_32_48.pt").read_bytes()


@pytest.mark.parametrize("name", ["vae_latent", "control_latent", "prompt_embed"])
def test_a_sample_that_is_no_number_leaves_no_file(tmp_path, name):
    given = content()
    getattr(given, name).view(-1)[0] = float("nan")
    with pytest.raises(DataError) as caught:
        save_sample(tmp_path / "a_33_32_48.pt", given)
    assert caught.value.code == "E_NONFINITE" and list(tmp_path.iterdir()) == []


def test_no_name_ends_in_pt_until_the_file_is_whole(tmp_path, monkeypatch):
    seen, check = [], store._check_whole

    def watched(path):
        seen.extend(tmp_path.glob("*"))
        check(path)

    monkeypatch.setattr(store, "_check_whole", watched)
    save_sample(tmp_path / "a_33_32_48.pt", content())
    assert len(seen) == 1 and not seen[0].name.endswith(".pt")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(saved, monkeypatch):
    before = saved.read_bytes()

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_check_whole", full)
    with pytest.raises(OSError, match="No space"):
        save_sample(saved, content(seed=1))
    assert saved.read_bytes() == before and list(saved.parent.iterdir()) == [saved]


def test_a_file_is_a_zip_that_any_reader_opens(saved):
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None and archive.namelist()[0] == "archive/data.pkl"
