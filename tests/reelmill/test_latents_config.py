"""Section latents: which autoencoders it takes, and what an estimate says of one that it has no figures for."""

from __future__ import annotations

from pathlib import Path

import pytest

from reelmill.config import Config, load
from reelmill.doctor import HUB, check_latents
from reelmill.estimate_latents import latents_of
from shardwork.errors import DataError


def config(tmp_path: Path, keys: str) -> Config:
    (tmp_path / "r.jsonl").write_text('{"uttid": "a", "bucket_num_frame": 33, "bucket_height": 16, "bucket_width": 24}\n')
    path = tmp_path / "c.yaml"
    path.write_text(f"run: r\nlatents:\n  records: {tmp_path}/r.jsonl\n  {keys}\n")
    return load([path])


@pytest.mark.parametrize("name", ["wan21", "wan22-5b", "wan-z12-s8-t4-p1", "wan-z12-s8-t8-p1", "wan-z0-s8-t4-p1", "wan3", "wan21/.."])
def test_a_model_is_taken_if_the_library_takes_it(tmp_path: Path, name: str) -> None:
    def takes(make: object) -> bool:
        try:
            make()  # type: ignore[operator]
        except DataError:
            return False
        return True

    kind_named = pytest.importorskip("vidlatents.models").kind_named
    assert takes(lambda: config(tmp_path, f"model: {name}\n  weights: folder")) == takes(lambda: kind_named(name))


@pytest.mark.parametrize("keys", ["", "\n  weights: tiny", "\n  weights: folder\n  text_encoder: tiny"])
def test_a_model_of_other_figures_needs_weights_of_its_own(tmp_path: Path, keys: str) -> None:
    with pytest.raises(DataError, match=r"weights of its own.*E_CONFIG_VALUE"):
        config(tmp_path, f"model: wan-z12-s8-t4-p1{keys}")


def test_bytes_of_a_model_of_other_figures_follow_from_its_name(tmp_path: Path) -> None:
    found = latents_of(config(tmp_path, "model: wan-z12-s4-t4-p1\n  weights: folder"))
    assert found is not None and found.bytes == 8 * 12 * 9 * 4 * 6 + 3 * 16 * 24 + 512 * 4096 * 2


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("weights: none", ["Wan-AI/Wan2.1-T2V-1.3B-Diffusers"] * 2),
        ("model: wan22-5b\n  weights: none", ["Wan-AI/Wan2.2-TI2V-5B-Diffusers"] * 2),
        ("model: wan-z12-s8-t4-p1\n  weights: none", ["no weights of wan-z12-s8-t4-p1 were released", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"]),
    ],
    ids=["wan21", "wan22-5b", "another"],
)
def test_the_doctor_names_the_download_of_the_configurations_own_model(tmp_path, keys, wanted):
    found = {check.name: check for check in check_latents(config(tmp_path, keys))}
    for name, text in zip(("weights", "text_encoder"), wanted, strict=True):
        assert found[name].status == "failure" and text in found[name].mend


def test_the_doctor_knows_the_downloads_that_the_library_does():
    assert pytest.importorskip("vidlatents.models").HUB == HUB
