"""The command line: exit codes, and file names that break careless programs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from eventvox.__main__ import main
from eventvox.hdf5 import read_values_digest
from tests.eventvox.conftest import moving_frames, turn_video, write_video, write_x264


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with videos of awkward names, as the working folder."""
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / "a.mkv", moving_frames(9))
    for name in ("-x.mkv", "sp ace é 视.mkv"):
        shutil.copy("a.mkv", tmp_path / name)
    return tmp_path


def test_voxelize_writes_the_file_and_its_record(folder, capsys):
    assert main(["voxelize", "a.mkv", "a.h5"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "9 frames of 32x24" in out
    sidecar = json.loads((folder / "a.h5.json").read_text())
    assert sidecar["record"]["values_xxh3"] == read_values_digest(folder / "a.h5")
    assert sidecar["settings"]["threshold_pos"] == 0.2 and sidecar["video_id"] == "a"


@pytest.mark.parametrize("argv", [["voxelize", "--", "-x.mkv", "-x.h5"], ["voxelize", "./-x.mkv", "./-x.h5"]])
def test_a_name_with_a_leading_dash_works(folder, argv):
    assert main(argv) == 0
    assert main(["validate", "--", "-x.h5"]) == 0
    assert json.loads((folder / "-x.h5.json").read_text())["video_id"] == "-x"


def test_a_name_that_is_no_id_gets_one_and_says_so(folder, capsys):
    assert main(["voxelize", "sp ace é 视.mkv", "sp ace é 视.h5"]) == 0
    assert "note:" in capsys.readouterr().err
    assert json.loads((folder / "sp ace é 视.h5.json").read_text())["video_id"].startswith("sp_ace_e_")


def test_flags_become_settings(folder):
    assert main(["voxelize", "a.mkv", "a.h5", "--intensity=linear", "--threshold-neg=0.1", "--interpolate-bins=true", "--codec=isal:1"]) == 0
    settings = json.loads((folder / "a.h5.json").read_text())["settings"]
    assert (settings["intensity"], settings["threshold_neg"], settings["interpolate_bins"], settings["codec"]) == ("linear", 0.1, True, "isal:1")


@pytest.mark.parametrize(
    "argv",
    [
        ["voxelize", "a.mkv", "a.h5", "--threshold-pos=0"],
        ["voxelize", "a.mkv", "a.h5", "--codec=zstd:1"],
        ["voxelize", "a.mkv", "a.mkv"],
        ["voxelize", "a.mkv", "a.h5", "--id=a b"],
    ],
)
def test_bad_input_is_2_and_writes_nothing(folder, argv, capsys):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "argv",
    [
        ["render", "a.h5", "--out=source.mp4", "--video=source.mp4"],
        ["render", "a.h5", "--out=link.mp4", "--video=source.mp4"],
        ["render", "a.h5", "--out=source.mp4", "--video=link.mp4"],
        ["render", "a.h5", "--out=sheet.png"],
        ["voxelize", "source.h5", "source.h5"],
        ["voxelize", "out.h5.json", "out.h5"],
    ],
)
def test_a_file_that_is_read_is_never_written_over(folder, argv, capsys):
    main(["voxelize", "a.mkv", "a.h5"])
    for name in ("source.mp4", "source.h5", "out.h5.json"):
        shutil.copy("a.mkv", name)
    (folder / "link.mp4").symlink_to("source.mp4")
    (folder / "sheet.png").symlink_to("a.h5")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert main(argv) == 2
    assert "the same file as" in (err := capsys.readouterr().err) and err.rstrip().endswith("[bad_argument]")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("argv", [[], ["voxelize"], ["voxelize", "a.mkv", "a.h5", "--num-bins=6"], ["voxelize", "a.mkv", "a.h5", "--gama=2"]])
def test_a_wrong_command_line_is_2(folder, argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2 and "bad_argument" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "code"), [("none.mp4", "missing_file"), ("empty.mp4", "empty_file"), ("page.mp4", "not_a_video")])
def test_a_refused_video_is_3_with_its_code(folder, name, code, capsys):
    (folder / "empty.mp4").touch()
    (folder / "page.mp4").write_text("<html>")
    assert main(["voxelize", name, "z.h5"]) == 3
    assert capsys.readouterr().err.rstrip().endswith(f"[{code}]")
    assert not (folder / "z.h5").exists() and not (folder / "z.h5.json").exists()


def test_a_fault_of_the_machine_is_1(folder, capsys):
    assert main(["voxelize", "a.mkv", "a.mkv/out.h5"]) == 1
    assert "fault_" in capsys.readouterr().err


def test_validate_names_each_fault_on_a_line_and_exits_1(folder, capsys):
    main(["voxelize", "a.mkv", "a.h5"])
    (folder / "cut.h5").write_bytes((folder / "a.h5").read_bytes()[:5000])
    capsys.readouterr()
    assert main(["validate", "a.h5"]) == 0
    assert main(["validate", "cut.h5", "a.h5", "none.h5"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "a.h5: valid" == out[2] and out[1].startswith("cut.h5: file: cannot be opened") and out[3].startswith("none.h5: file: no such file")


def test_validate_speaks_json(folder, capsys):
    main(["voxelize", "a.mkv", "a.h5"])
    capsys.readouterr()
    assert main(["validate", "--json", "--timeout-seconds=0", "a.h5", "a.mkv"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["valid"] for row in rows] == [True, False]
    assert rows[1]["problems"][0]["where"] == "file"


def test_validate_is_2_where_it_cannot_look(folder, capsys, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("eventvox.__main__.validate_file", refuse)
    assert main(["validate", "a.h5"]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_info_shows_the_file_and_refuses_another(folder, capsys):
    main(["voxelize", "a.mkv", "a.h5"])
    capsys.readouterr()
    assert main(["info", "a.h5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slices"] == 8
    assert main(["info", "a.h5"]) == 0
    assert "slices: 8" in capsys.readouterr().out
    assert main(["info", "a.mkv"]) == 2


def test_render_makes_a_sheet_or_a_film_by_the_ending(folder, capsys):
    main(["voxelize", "a.mkv", "a.h5"])
    capsys.readouterr()
    assert main(["render", "a.h5", "--out", "a.png", "--voxel", "1", "0"]) == 0
    assert main(["render", "a.h5", "--out=a.MP4", "--video=a.mkv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["a.png: voxels 1, 0 of 2", "a.MP4: 9 frames at 25 fps"]
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG") and (folder / "a.MP4").read_bytes()[4:8] == b"ftyp"


def corner_of_film(name):
    """Return whether the source shown in a film is bright at its upper left and at its lower right."""
    import av

    with av.open(name) as container:
        first = next(container.decode(video=0)).to_ndarray(format="gray")
    return bool(first[8, 8] > 150), bool(first[-8, 56] > 150)


@pytest.mark.parametrize(
    ("made", "asked", "stored"), [("stored", None, True), ("display", None, False), ("stored", "display", False), ("display", "stored", True)]
)
@pytest.mark.parametrize("place", ["record", "sidecar", "none"])
def test_film_turns_the_source_as_the_record_or_the_flag_says(folder, made, asked, stored, place):
    frames = np.full((9, 48, 64), 60, np.uint8)
    frames[:, :16, :16] = 230
    turn_video(write_x264(folder / "t.mp4", frames), 180)
    (folder / "train").mkdir()
    assert main(["voxelize", "t.mp4", "train/t.h5", f"--rotation={made}"]) == 0
    record = folder / "train" / "t.h5.json"
    if place == "sidecar":
        (folder / "sidecars").mkdir()
        record.rename(folder / "sidecars" / "t.json")
    elif place == "none":
        record.write_text("[]")
    flags = [f"--rotation={asked}"] if asked else []
    assert main(["render", "train/t.h5", "--out=f.mp4", "--video=t.mp4", *flags]) == 0
    seen_stored = stored if asked or place != "none" else False  # a player turns it
    assert corner_of_film("f.mp4") == (seen_stored, not seen_stored)


@pytest.mark.parametrize(
    "argv",
    [
        ["a.h5", "--out=a.mp4", "--rotation=stored"],
        ["a.h5", "--out=a.gif"],
        ["a.h5", "--out=png"],
        ["a.h5", "--out=a.mp4", "--voxel=1"],
        ["a.h5", "--out=a.png", "--video=a.mkv"],
        ["a.h5", "--out=a.png", "--voxel=2"],
        ["a.h5", "--out=a.mp4", "--video=none.mkv"],
        ["a.mkv", "--out=a.png"],
        ["none.h5", "--out=a.png"],
        [".", "--out=a.png"],
    ],
)
def test_render_of_what_cannot_be_is_2_and_writes_nothing(folder, argv, capsys):
    main(["voxelize", "a.mkv", "a.h5"])
    capsys.readouterr()
    before = sorted(folder.iterdir())
    assert main(["render", *argv]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert sorted(folder.iterdir()) == before
