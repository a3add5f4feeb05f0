"""The named front doors, as their users start them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vidlatents.pairs import minimal, write_pair, write_records
from tests.vidlatents.tiny_models import folder

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PUBLIC = (
    "pretrained_model_name_or_path data_root metadata_file output_root dataloader_num_workers debug_dir max_debug_batches append_mode no_append_mode order_mode"
)


def start(kind, root, *flags):
    name = {"wan21": "get_short-latents-giga-ctrl.py", "wan22-5b": "get_short-latents-giga-ctrl-wan22-5b.py"}[kind]
    line = [sys.executable, str(SCRIPTS / name), f"--data_root={root}", f"--pretrained_model_name_or_path={folder(kind)}", *flags]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, cwd=root)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("pairs")
    write_pair(root, "a", 33, 33, (32, 48))
    write_pair(root, "short", 33, 20, (32, 48))
    write_records(root / "helios_giga_ctrl.jsonl", [minimal("a", 33, 32, 48), minimal("short", 33, 32, 48)])
    return root


@pytest.fixture(scope="module")
def made(root):
    return start("wan22-5b", root, "--output_root=out", "--device=cpu", "--dataloader_num_workers=0", "--threads=1")


def test_a_sample_that_fails_is_named_and_the_others_are_there(root, made):
    assert made.returncode == 3, made.stderr
    assert [path.name for path in (root / "out").iterdir()] == ["a_33_32_48.pt"]
    (row,) = map(json.loads, (root / "out.books" / "helios_giga_ctrl" / "failures.jsonl").read_text().splitlines())
    assert (row["uttid"], row["code"]) == ("short", "E_FRAME_MISMATCH")


def test_a_second_run_makes_nothing(root, made):
    again = start("wan22-5b", root, "--output_root=out", "--device=cpu", "--dataloader_num_workers=0", "--threads=1")
    assert again.returncode == 3 and "encode_latents 0000-of-0001: 2 items, 1 up to date, 0 to do" in again.stderr


@pytest.mark.parametrize(
    ("flags", "found"), [(("--metadata_file=none.jsonl",), "missing_file"), (("--pretrained_model_name_or_path=nowhere",), "E_MODEL_MISSING")]
)
def test_bad_input_ends_before_anything_is_written(root, flags, found):
    done = start("wan21", root, "--output_root=never", *flags)
    assert done.returncode == 2 and f"[{found}]" in done.stderr and not (root / "never").exists()


def test_the_model_of_the_other_front_door_is_refused(root):
    done = start("wan21", root, "--output_root=never", f"--pretrained_model_name_or_path={folder('wan22-5b')}")
    assert done.returncode == 2 and "[E_MODEL_KIND]" in done.stderr


def test_both_have_the_flags_of_the_public_producer_and_folders_of_their_own(root):
    said = {kind: start(kind, root, "--help").stdout for kind in ("wan21", "wan22-5b")}
    assert all(f"--{flag}" in text for flag in PUBLIC.split() for text in said.values())
    folders = {next(word for word in text.split() if word.startswith("output/")) for text in said.values()}
    assert len(folders) == 2
