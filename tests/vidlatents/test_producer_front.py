"""The named front doors, as their users start them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shardwork.errors import DataError
from shardwork.jsonio import read_json, write_json
from shardwork.run import Options
from tests.vidlatents.pairs import minimal, write_pair, write_records
from tests.vidlatents.tiny_models import content, folder
from vidlatents import producer
from vidlatents.producer import arguments, check_owner, produce
from vidlatents.store import save_sample

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


def flags_of(root, *more, kind="wan21"):
    line = [f"--data_root={root}", f"--pretrained_model_name_or_path={folder(kind)}", "--device=cpu", "--dataloader_num_workers=0", "--threads=1", *more]
    return arguments(None, kind, "out").parse_args(line)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of one small pair, worked on in this process."""
    write_pair(tmp_path, "a", 33, 33, (16, 24))
    write_records(tmp_path / "helios_giga_ctrl.jsonl", [minimal("a", 33, 16, 24)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(producer, "Options", lambda workers, **more: Options(0, **more))
    return tmp_path


def written(here, output="out"):
    return {path.name: path.stat().st_mtime_ns for path in (here / output).iterdir()}


def test_a_dry_run_encodes_nothing(here):
    assert produce(flags_of(here, "--dry_run"), "wan21") == 0 and not (here / "out").exists()


@pytest.mark.parametrize("where", ["Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "a folder"])
def test_a_dry_run_downloads_and_reads_no_model(here, monkeypatch, capsys, where):
    def refuse(*args, **more):
        raise AssertionError("a model was asked for")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    monkeypatch.setattr("vidlatents.card.xxh3_file", refuse)
    monkeypatch.setattr("vidlatents.plan_report.cost_of", lambda *args: {"peak_gib": 1.0, "tera_flops": 1.0})
    given = str(folder("wan21")) if where == "a folder" else where
    assert produce(flags_of(here, "--dry_run", f"--pretrained_model_name_or_path={given}"), "wan21") == 0
    said = "the released wan21" if where != "a folder" else given
    assert f"counted for the configuration of {said}" in capsys.readouterr().err and not (here / "out.books" / "models").exists()


def test_a_dry_run_of_what_cannot_all_be_encoded_ends_with_2(here):
    write_records(here / "helios_giga_ctrl.jsonl", [minimal("a", 33, 16, 24), minimal("gone", 33, 16, 24)])
    assert produce(flags_of(here, "--dry_run"), "wan21") == 2


def test_a_sample_whose_record_is_spoilt_is_set_aside_and_comes_back_unchanged_when_it_is_mended(here, capsys):
    produce(flags_of(here), "wan21")
    first, good = written(here), (here / "helios_giga_ctrl.jsonl").read_bytes()
    write_pair(here, "b", 33, 33, (16, 24))
    write_records(here / "helios_giga_ctrl.jsonl", [minimal("a", 33, 16, 24, prompt=None), minimal("b", 33, 16, 24)])
    capsys.readouterr()
    assert produce(flags_of(here), "wan21") == 3
    said, books = capsys.readouterr().err, here / "out.books" / "helios_giga_ctrl"
    assert "a_33_16_24.pt: nothing that is made now has this name: set aside in" in said
    assert "refused: helios_giga_ctrl.jsonl:1 (a): no prompt" in said
    (row,) = map(json.loads, (books / "failures.jsonl").read_text().splitlines())
    assert (row["uttid"], row["code"], [path.name for path in (books / "quarantine").iterdir()]) == ("a", "E_PROMPT_MISSING", ["a_33_16_24.pt"])
    (here / "helios_giga_ctrl.jsonl").write_bytes(good)
    assert produce(flags_of(here), "wan21") == 0
    assert written(here) == first, "moved back, not encoded again"
    assert [path.name for path in (books / "quarantine").iterdir()] == ["b_33_16_24.pt"]


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"no video")], ids=["gone", "damaged"])
@pytest.mark.parametrize("folder", ["videos", "control_videos"])
def test_a_video_that_cannot_be_read_is_named_with_its_folder(here, capsys, folder, spoil):
    spoil(here / folder / "a.mp4")
    with pytest.raises(DataError, match="no sample of 1 can be encoded"):
        produce(flags_of(here), "wan21")
    assert f"refused: {folder}/a.mp4: " in capsys.readouterr().err


def test_a_dry_run_does_not_say_that_a_finished_sample_is_encoded(here, capfd):
    produce(flags_of(here), "wan21")
    capfd.readouterr()
    produce(flags_of(here, "--dry_run"), "wan21")
    said = capfd.readouterr().err
    assert "1 samples: 1 pass, 0 refused" in said and "float32: []" not in said


def test_no_append_makes_all_again_and_a_dry_run_of_it_makes_the_next_run_make_nothing(here):
    produce(flags_of(here), "wan21")
    first = written(here)
    produce(flags_of(here, "--dry_run", "--no-append"), "wan21")
    produce(flags_of(here), "wan21")
    assert written(here) == first
    produce(flags_of(here, "--no-append"), "wan21")
    second = written(here)
    assert second.keys() == first.keys() and second != first
    produce(flags_of(here), "wan21")
    assert written(here) == second


@pytest.mark.parametrize("value", ["", "0", " "])
def test_a_launcher_that_says_no_rank_or_the_first_is_worked_for(here, monkeypatch, value):
    monkeypatch.setenv("RANK", value)
    assert produce(flags_of(here, "--dry_run"), "wan21") == 0 and (here / "out.books").exists()


def test_a_process_of_another_rank_does_nothing(here, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert produce(flags_of(here), "wan21") == 0 and not (here / "out.books").exists()


def test_a_rank_that_is_no_number_is_named(here, monkeypatch):
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(DataError, match="bad_argument"):
        produce(flags_of(here), "wan21")


def test_the_folder_that_one_is_in_is_an_output_with_its_notes_beside_it(here, monkeypatch):
    (here / "in").mkdir()
    monkeypatch.chdir(here / "in")
    assert produce(flags_of(here, "--output_root=."), "wan21") == 0
    assert [path.name for path in (here / "in").iterdir()] == ["a_33_16_24.pt"] and (here / "in.books" / "helios_giga_ctrl" / "dataset.json").exists()


def test_the_root_of_all_folders_is_no_output(here):
    with pytest.raises(DataError, match="bad_argument"):
        produce(flags_of(here, "--output_root=/"), "wan21")


@pytest.mark.parametrize("told", [True, False], ids=["by its description", "by its first file"])
@pytest.mark.parametrize(("model", "layout"), [("wan22-5b", "sections"), ("wan21", "whole")])
def test_a_folder_of_another_model_or_layout_is_refused(tmp_path, told, model, layout):
    if told:
        write_json(tmp_path / "out.books" / "m" / "dataset.json", {"samples": 1, "settings": {"model": "wan21", "layout": "sections"}})
    else:
        save_sample(tmp_path / "out" / "a_33_32_48.pt", content())
    check_owner(tmp_path / "out", tmp_path / "out.books", "wan21", "sections")
    with pytest.raises(DataError, match="bad_argument") as caught:
        check_owner(tmp_path / "out", tmp_path / "out.books", model, layout)
    assert "wan21 sections" in caught.value.found


def test_files_that_are_no_samples_tell_nothing_of_a_folder(tmp_path):
    (tmp_path / "a_33_32_48.pt").write_bytes(b"x")
    (tmp_path / "model.pt").write_bytes(b"x")
    save_sample(tmp_path / "b_33_32_48.pt", content("wan22-5b"))
    with pytest.raises(DataError, match="wan22-5b sections"):
        check_owner(tmp_path, tmp_path / "none", "wan21", "sections")


def test_a_full_disk_is_said_before_a_sample_is_made_and_redoes_nothing_later(here, monkeypatch):
    produce(flags_of(here), "wan21")
    first = written(here)
    with monkeypatch.context() as patch:
        patch.setattr("vidlatents.room.shutil.disk_usage", lambda path: SimpleNamespace(free=-1))
        with pytest.raises(DataError, match="E_DISK"):
            produce(flags_of(here, "--no-append"), "wan21")
    produce(flags_of(here), "wan21")
    assert written(here) == first


def test_records_in_two_files_for_one_folder_with_other_settings_are_not_taken_for_each_others(here):
    produce(flags_of(here, "--how=sample"), "wan21")
    first = (here / "out" / "a_33_16_24.pt").read_bytes()
    shutil.copy(here / "helios_giga_ctrl.jsonl", here / "n.jsonl")
    produce(flags_of(here, "--how=mode", "--metadata_file=n.jsonl"), "wan21")
    facts = read_json(here / "out.books" / "n" / "dataset.json")
    assert facts["adopted"] == 0 and (here / "out" / "a_33_16_24.pt").read_bytes() != first
