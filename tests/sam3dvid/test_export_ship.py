"""A split as one tar: what it holds, that it is the same each time, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

import sam3dvid.export.ship as ship_module
from sam3dvid.export.__main__ import main
from sam3dvid.validate import Choice, validate_dataset
from shardwork.errors import DataError
from shardwork.locks import held_lock
from shardwork.tarball import Member, write_tar
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


def corrupt_number(path: Path) -> None:
    path.write_text(path.read_text().replace("{", '{"a": 1e999,', 1))


CLIP, ASSET = "clips/eval/00000007", "assets/eval/corner_eval-1"
TAKEN_FOR_WHOLE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "empty picture": (f"{CLIP}/rgb/001.png", lambda path: path.write_bytes(b""), "an empty file"),
    "empty depth": (f"{CLIP}/depth/001.npz", lambda path: path.write_bytes(b""), "an empty file"),
    "empty mesh": (f"{ASSET}/mesh.glb", lambda path: path.write_bytes(b""), "an empty file"),
    "missing mesh": (f"{ASSET}/mesh.glb", Path.unlink, "no such file"),
    "link out of the dataset": (f"{CLIP}/rgb/001.png", lambda path: relink(path, path.parents[5] / "outside"), "a link that leads out of the dataset"),
    "folder that is a link out": (f"{CLIP}/rgb", lambda path: relink(path, path.parents[4] / "outside"), "a link that leads out of the dataset"),
    "asset that is a link out": (ASSET, lambda path: relink(path, path.parents[3] / "outside"), "a link that leads out of the dataset"),
    "link to nothing": (f"{CLIP}/rgb/001.png", lambda path: dangle(path), "no such file"),
    "number beyond any float": (f"{CLIP}/meta.json", corrupt_number, "1e999 is beyond"),
    "the same of an asset": (f"{ASSET}/meta.json", corrupt_number, "1e999 is beyond"),
}


def dangle(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing.png")


def relink(path: Path, target: Path) -> None:
    """Move a file or folder and leave a link to it."""
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.parametrize("kind", TAKEN_FOR_WHOLE)
def test_file_that_the_dataset_must_not_have_is_refused_by_name(dataset, tmp_path, capsys, kind):
    name, spoil, told = TAKEN_FOR_WHOLE[kind]
    spoil(dataset / name)
    ship(dataset, tmp_path / "eval.tar", code=2)
    assert told in (said := capsys.readouterr().err) and name in said and not (tmp_path / "eval.tar").exists()


def test_links_within_the_dataset_are_followed(kept, dataset, tmp_path):
    relink(dataset / CLIP / "rgb", dataset / "elsewhere")
    relink(dataset / ASSET / "mesh.glb", dataset / "mesh.glb")
    assert ship(dataset, tmp_path / "linked.tar").read_bytes() == ship(kept, tmp_path / "plain.tar").read_bytes()


def meanwhile(monkeypatch, change: Callable[[], object]) -> None:
    """Let a change come after the dataset was looked at, before it is copied."""

    def write(final, members):
        change()
        return write_tar(final, members)

    monkeypatch.setattr(ship_module, "write_tar", write)


MEANWHILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "rights of a clip": (f"{CLIP}/meta.json", lambda path: change_json(path, background={"provenance": {"source": "sa1b"}})),
    "rights of an asset": (f"{ASSET}/meta.json", lambda path: change_json(path, license="CC-BY-NC-4.0")),
    "one byte of a record, time and size the same": (f"{CLIP}/cameras.json", lambda path: same_time(path, lambda data: data.replace(b"4", b"5", 1))),
    "another picture of the same size": (f"{CLIP}/rgb/001.png", lambda path: path.write_bytes(path.read_bytes())),
    "longer depth, time the same": (f"{CLIP}/depth/000.npz", lambda path: same_time(path, lambda data: data + b"x")),
    "file put in its place, time and size the same": (f"{ASSET}/voxels.npy", lambda path: put_in_place(path)),
}


def same_time(path: Path, change: Callable[[bytes], bytes]) -> None:
    seen = path.stat()
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def put_in_place(path: Path) -> None:
    shutil.copy2(path, path.with_name("other"))
    path.with_name("other").rename(path)


@pytest.mark.parametrize("kind", MEANWHILE)
def test_file_that_changes_after_it_was_looked_at_is_not_packed(dataset, tmp_path, capsys, monkeypatch, kind):
    name, change = MEANWHILE[kind]
    os.utime(dataset / name, (1, 10**9))
    meanwhile(monkeypatch, lambda: change(dataset / name))
    ship(dataset, tmp_path / "eval.tar", code=2)
    assert "[member_changed]" in (said := capsys.readouterr().err) and name.split("/")[2] in said
    assert not list(tmp_path.glob("*eval.tar*[!k]"))


def test_file_that_changes_while_it_is_copied_is_named(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a")
    with pytest.raises(DataError, match=r"another time of change.*member_changed"):
        write_tar(tmp_path / "t.tar", [Member("a", path, 1, None, path.stat().st_mtime_ns - 1)])


def test_manifest_of_the_look_is_packed_whatever_it_becomes(kept, dataset, tmp_path, monkeypatch):
    meanwhile(monkeypatch, lambda: (dataset / "manifest.jsonl").write_text(""))
    assert ship(dataset, tmp_path / "one.tar").read_bytes() == ship(kept, tmp_path / "two.tar").read_bytes()


def test_what_a_killed_run_left_is_swept_and_nothing_else(kept, tmp_path):
    left = [tmp_path / f".{name}.0123456789ab.tmp" for name in ("eval.tar", "eval.tar.sha256")]
    other = tmp_path / ".train.tar.0123456789ab.tmp"
    for path in (*left, other):
        path.write_bytes(b"")
    ship(kept, tmp_path / "eval.tar")
    assert not any(path.exists() for path in left) and other.exists()


def test_second_process_that_writes_the_same_tar_is_refused(kept, tmp_path, capsys):
    with held_lock(tmp_path / ".eval.tar.lock", "eval.tar", "tar"):
        ship(kept, tmp_path / "eval.tar", code=1)
    assert "[fault_busy]" in capsys.readouterr().err and not (tmp_path / "eval.tar").exists()


@pytest.mark.parametrize("foreign", ["eval.tar", "eval.tar.sha256"])
@pytest.mark.parametrize("text", [b"mine\n", b"", b"\0" * 10240])
def test_file_that_ship_did_not_write_is_never_replaced(kept, tmp_path, capsys, foreign, text):
    (tmp_path / foreign).write_bytes(text)
    ship(kept, tmp_path / "eval.tar", code=2)
    said = capsys.readouterr().err
    assert f"{foreign}: there, and not written by ship" in said and "[foreign_export]" in said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith(".lock")} == {foreign: text}


def test_shard_of_an_export_is_never_replaced_and_an_earlier_tar_of_ship_is(kept, tmp_path):
    assert main([f"--dataset={kept}", "--split=eval", f"--out={tmp_path / 'export'}", "--any-size"]) == 0
    shard = tmp_path / "export" / "eval-000000.tar"
    before = shard.read_bytes()
    ship(kept, shard, code=2)
    assert shard.read_bytes() == before
    first = ship(kept, tmp_path / "eval.tar").read_bytes()
    assert ship(kept, tmp_path / "eval.tar").read_bytes() == first


def test_name_of_two_lines_is_refused(kept, tmp_path, capsys):
    ship(kept, tmp_path / "a\nb.tar", code=2)
    assert "a path without line breaks" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


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
