"""The flags of the steps: what they offer can succeed."""

import pytest
import torch

from reelmill.config import LatentsConfig
from shardwork.errors import DataError
from tests.vidlatents.tiny_models import content
from vidlatents.settings import TEXT_DTYPES, EncodeFlags, TextFlags
from vidlatents.store import Content, save_sample
from vidlatents.verify import Look, verify_file


@pytest.mark.parametrize("dtype", TEXT_DTYPES)
def test_an_embedding_of_every_text_dtype_that_is_offered_is_a_samples(tmp_path, dtype):
    values = content()
    own = {name: getattr(values, name) for name in Content.__dataclass_fields__}
    save_sample(tmp_path / "a_33_32_48.pt", Content(**{**own, "prompt_embed": values.prompt_embed.to(getattr(torch, dtype))}))
    assert verify_file(tmp_path / "a_33_32_48.pt", Look()) == []


@pytest.mark.parametrize("make", [EncodeFlags, TextFlags, LatentsConfig])
def test_a_text_dtype_that_no_sample_may_have_is_refused(make):
    with pytest.raises((DataError, ValueError), match="text_dtype"):
        make(text_dtype="float16")
