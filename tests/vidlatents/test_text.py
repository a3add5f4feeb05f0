import json
import shutil
from typing import Any

import pytest
import torch
from transformers import UMT5EncoderModel

from shardwork.errors import DataError
from tests.vidlatents.tiny_models import folder, text_encoder
from vidlatents.prompts import clean, prompt_digest
from vidlatents.stage import text_place
from vidlatents.text import load_text
from vidlatents.text_step import text_items, truncation

AWKWARD = ["", "   ", "word " * 5000, "\U0001f600", "a\u2028b", "مرحبا بالعالم", "null", "x", "一只红色的球", "a\x00b", "line\nline", "\u202eabc"]


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("  a \n\t b ", "a b"),
        ("Tom &amp;amp; Jerry", "Tom & Jerry"),
        ("a < b &amp;amp; c", "a < b & c"),
        ("\u00c3\u00a9t\u00c3\u00a9", "\u00e9t\u00e9"),
        ("a\u2028b", "a b"),
        ("", ""),
    ],
)
def test_a_prompt_is_cleaned(raw, cleaned):
    assert clean(raw) == cleaned


@pytest.mark.parametrize("prompt", AWKWARD)
def test_an_awkward_prompt_has_a_finite_embedding_and_a_mask_that_fits_it(prompt):
    found = text_encoder().encode_cleaned(clean(prompt))
    assert found.embed.shape == (512, 32) and found.mask.shape == (512,) and found.mask.dtype == torch.int64
    assert torch.isfinite(found.embed).all() and 1 <= found.tokens == int(found.mask.sum())
    assert (found.embed[found.tokens :] == 0).all() and (found.embed[: found.tokens] != 0).any(1).all()


def test_an_empty_prompt_is_the_end_mark_alone():
    assert text_encoder().encode_cleaned("").tokens == 1


def test_a_prompt_beyond_512_tokens_is_cut_with_a_warning():
    found = text_encoder().encode_cleaned("word " * 5000)
    warning = truncation({"tokens": found.tokens, "full_tokens": found.full_tokens, "truncated": int(found.truncated)}, "u1")
    assert warning is not None and (found.tokens, warning.code, warning.where) == (512, "E_PROMPT_TRUNCATED", "u1")
    assert truncation({"tokens": 5, "full_tokens": 5, "truncated": 0}, "u1") is None


def test_a_prompt_of_exactly_512_tokens_is_not_cut():
    encoder = text_encoder()
    unit = encoder.encode_cleaned("0 0").tokens - encoder.encode_cleaned("0").tokens
    least = encoder.encode_cleaned("0").tokens
    words = (512 - least) // unit + 1
    found = encoder.encode_cleaned(" ".join(["0"] * words))
    assert found.tokens == least + (words - 1) * unit <= 512 and not found.truncated
    assert encoder.encode_cleaned(" ".join(["0"] * (words + unit))).truncated


def test_an_embedding_does_not_depend_on_what_was_encoded_before():
    first = text_encoder().encode_cleaned("A red ball.")
    text_encoder().encode_cleaned("word " * 600)
    assert torch.equal(first.embed, text_encoder().encode_cleaned("A red ball.").embed)


def test_an_embedding_is_that_of_the_prompts_tokens_without_any_padding():
    encoder = text_encoder()
    found = encoder.encode_cleaned("A red ball.")
    tokens = encoder._tokenizer("A red ball.", return_tensors="pt").input_ids
    with torch.no_grad():
        alone = encoder._model(tokens).last_hidden_state[0]
    torch.testing.assert_close(found.embed[: found.tokens], alone, rtol=0, atol=1e-5)


def test_a_caller_s_autocast_plays_no_part():
    with torch.autocast("cpu", torch.bfloat16):
        under = text_encoder().encode_cleaned("A red ball.").embed
    assert torch.equal(under, text_encoder().encode_cleaned("A red ball.").embed)


def test_prompts_that_are_one_after_cleaning_are_one_item_whose_text_is_clean(tmp_path):
    prompts = ["a  b", "c", " a b"]
    rows = [{"status": "ok", "prompt": prompt, "prompt_digest": prompt_digest(prompt)} for prompt in prompts]
    items = text_items(rows, text_place(tmp_path), "x")
    assert sorted(item.inputs["text"] for item in items) == ["a b", "c"] and len({item.id for item in items}) == 2


def test_other_prompts_have_other_digests():
    assert len({prompt_digest(prompt) for prompt in ("a", "A", "b", "a b", "ab", "\ud800")}) == 6


def test_bfloat16_weights_give_a_bfloat16_embedding():
    assert load_text(folder("wan21"), torch.bfloat16, "cpu").encode_cleaned("a").embed.dtype == torch.bfloat16


def test_an_embedding_that_is_no_number_is_refused():
    encoder = load_text(folder("wan21"), torch.float32, "cpu")
    encoder._model.encoder.final_layer_norm.weight.fill_(float("nan"))
    with pytest.raises(DataError) as caught:
        encoder.encode_cleaned("a")
    assert caught.value.code == "E_NONFINITE"


def test_a_text_encoder_of_another_kind_is_refused(tmp_path):
    where = shutil.copytree(folder("wan21"), tmp_path / "model")
    path = where / "text_encoder" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "t5"}))
    with pytest.raises(DataError, match="E_MODEL_KIND") as caught:
        load_text(where, torch.float32, "cpu")
    assert caught.value.expected == "umt5"


def test_an_encoder_that_the_library_left_without_its_table_of_tokens_is_not_taken(monkeypatch):
    good: Any = UMT5EncoderModel.from_pretrained

    def broken(*where, **options):
        model, report = good(*where, **options)
        model.encoder.embed_tokens = torch.nn.Embedding.from_pretrained(torch.zeros_like(model.shared.weight))
        return model, report

    monkeypatch.setattr(UMT5EncoderModel, "from_pretrained", broken)
    with pytest.raises(DataError, match="E_MODEL_KIND") as caught:
        load_text(folder("wan21"), torch.float32, "cpu")
    assert caught.value.expected == "one shared table"


def test_missing_text_weights_say_how_to_get_them(tmp_path):
    with pytest.raises(DataError) as caught:
        load_text(tmp_path, torch.float32, "cpu")
    assert caught.value.code == "E_MODEL_MISSING" and "hf download" in caught.value.hint
