"""A split as one tar: what it holds, that it is the same each time, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

from sam3dvid.export.__main__ import main
from sam3dvid.validate import Choice, validate_dataset
from tests.sam3dvid.datasets import write_dataset
from tests.sam3dvid.exported_datasets import change_json

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A dataset of both splits, which no test changes."""
    return write_dataset(tmp_path_factory.mktemp("ship") / "dataset")


@pytest.fixture
def dataset(kept, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(kept, tmp_path / "dataset"))


def ship(dataset: Path, out: Path, *more: str, code: int = 0) -> Path:
    assert main(["ship", f"--dataset={dataset}", f"--out={out}", "--any-size", *more]) == code
    return out


def test_tar_unpacks_to_a_valid_dataset_of_the_split_alone(kept, tmp_path):
    with tarfile.open(ship(kept, tmp_path / "eval.tar")) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    root = tmp_path / "unpacked" / "dataset"
    assert validate_dataset(root, Choice(suites=("T1",), any_size=True)).lines() == []
    assert [path.name for path in (root / "clips").iterdir()] == ["eval"] and [path.name for path in (root / "assets").iterdir()] == ["eval"]
    assert [json.loads(line)["path"] for line in (root / "manifest.jsonl").read_text().splitlines()] == ["clips/eval/00000000", "clips/eval/00000007"]
    assert (root / "config.yaml").read_bytes() == (kept / "config.yaml").read_bytes()


def test_two_tars_are_equal_whatever_the_times_rights_and_order_of_the_files(kept, dataset, tmp_path):
    for path in dataset.rglob("*"):
        os.utime(path, (1, 10**9))
        path.chmod(0o700)
    one, two = ship(kept, tmp_path / "one.tar"), ship(dataset, tmp_path / "two.tar")
    assert one.read_bytes() == two.read_bytes()


def test_members_are_sorted_and_bear_no_time_or_owner(kept, tmp_path):
    with tarfile.open(ship(kept, tmp_path / "eval.tar")) as tar:
        names = tar.getnames()
        assert names == sorted(names) and {(m.mtime, m.uid, m.uname, m.mode) for m in tar.getmembers()} == {(0, 0, "", 0o644)}


def test_sha256sum_checks_the_file_beside_it(kept, tmp_path):
    ship(kept, tmp_path / "eval.tar")
    subprocess.run(["sha256sum", "--check", "--strict", "eval.tar.sha256"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize(("name", "data"), [("rgb/.000.png.tmp", b""), ("notes.txt", b"mine"), ("rgb/004.png", b"")])
def test_file_that_is_no_clip_s_is_refused_by_name(dataset, tmp_path, capsys, name, data):
    (dataset / "clips" / "eval" / "00000007" / name).write_bytes(data)
    ship(dataset, tmp_path / "eval.tar", code=2)
    assert f"{name} is no file of a clip" in capsys.readouterr().err and not (tmp_path / "eval.tar").exists()


def test_missing_file_is_refused_and_an_old_tar_stays_with_its_digest(dataset, tmp_path, capsys):
    out = ship(dataset, tmp_path / "eval.tar")
    (dataset / "clips" / "eval" / "00000007" / "depth" / "001.npz").unlink()
    ship(dataset, out, code=2)
    assert "depth/001.npz is missing" in capsys.readouterr().err
    subprocess.run(["sha256sum", "--check", "eval.tar.sha256"], cwd=tmp_path, check=True, capture_output=True)


def test_clips_that_may_not_be_released_are_told_or_left_out(dataset, tmp_path, capsys):
    # of both clips that show it, one shows it alone
    change_json(dataset / "assets" / "eval" / "corner_eval-0" / "meta.json", license="CC-BY-NC-4.0")
    ship(dataset, tmp_path / "all.tar")
    assert "1 clips may not be released: 00000000: asset corner_eval-0: CC-BY-NC-4.0" in capsys.readouterr().err
    with tarfile.open(ship(dataset, tmp_path / "some.tar", "--releasable-only")) as tar:
        names = tar.getnames()
    assert not any("00000000" in name or "corner_eval-0" in name for name in names) and any("00000007" in name for name in names)


def test_line_that_the_manifest_repeats_is_refused(dataset, tmp_path, capsys):
    path = dataset / "manifest.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines(keepends=True)[0])
    ship(dataset, tmp_path / "eval.tar", code=2)
    assert "clip 00000000 of eval again" in capsys.readouterr().err and not (tmp_path / "eval.tar").exists()


def test_the_script_of_the_rule_writes_the_bytes_of_the_command(kept, tmp_path):
    line = [sys.executable, str(ROOT / "scripts" / "ship_eval.py"), f"--dataset={kept}", f"--out={tmp_path / 'eval.tar'}", "--any-size"]
    subprocess.run(line, check=True, capture_output=True)
    (tmp_path / "other").mkdir()
    by_command = ship(kept, tmp_path / "other" / "eval.tar")
    for name in ("eval.tar", "eval.tar.sha256"):
        assert (tmp_path / name).read_bytes() == by_command.with_name(name).read_bytes()


def test_tar_within_the_dataset_is_refused(kept, capsys):
    ship(kept, kept / "eval.tar", code=2)
    assert "within the dataset" in capsys.readouterr().err and not (kept / "eval.tar").exists()
