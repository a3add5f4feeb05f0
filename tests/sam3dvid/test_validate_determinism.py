"""T4: a clip made again is the same, and each kind of difference is named with its file and size."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from sam3dvid.validate import Choice, validate_dataset
from sam3dvid.validate.__main__ import main
from sam3dvid.validate.determinism import Again, first_other, look_at_again
from sam3dvid.validate.kinds import LARGEST
from shardwork.errors import DataError
from tests.sam3dvid.datasets import Clip, Lent, write_dataset
from tests.sam3dvid.spoiled import add, data, depth, drop, edit, flip, inside, new, picture, put, remove, text

CLIPS = (Clip("eval", "00000003", (0, 1), "ph_meadow_v0"), Clip("eval", "00000004", (1,), "ph_meadow_v1"))
CLIP, OTHER = (clip.path for clip in CLIPS)
META, CAMERAS, OBJECTS = (f"{CLIP}/{name}.json" for name in ("meta", "cameras", "objects"))


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid"), CLIPS, 4, 64)


@pytest.fixture(scope="module")
def lent(valid, tmp_path_factory):
    return Lent(valid, tmp_path_factory.mktemp("lent") / "dataset")


@pytest.fixture
def again(lent):
    """Return a copy of the dataset to spoil, as if its clips were made again."""
    yield lent.root
    lent.put_right()


def look(root, other, noise=0, clips=()):
    report = validate_dataset(root, Choice(("T4",), clips=clips, any_size=True, again=Again(other, noise)))
    return next(part for part in report.suites if part.suite == "T4")


def told(part):
    return [str(fault) for fault in part.faults]


def test_the_same_clips_pass_with_every_file_the_same_to_the_byte(valid, again):
    part = look(valid, again)
    assert (part.verdict, told(part)) == ("passed", [])
    # 3 JSON files and, a frame, rgb, rgba_fg, mask_visible, depth and each object's silhouette
    files = (3 + 4 * (4 + 2)) + (3 + 4 * (4 + 1))
    assert part.figures["files"] == part.figures["files_same_bytes"] == files
    assert part.figures["clips"] == [CLIP, OTHER]


def test_times_and_the_commit_may_differ(valid, again):
    put(META, ("timing",), {"seconds": 3.5})(again)
    put(META, ("git_commit",), "1" * 40)(again)
    part = look(valid, again)
    assert part.verdict == "passed" and part.figures["files"] - part.figures["files_same_bytes"] == 1


def whiter(by):
    return lambda pixels: np.minimum(pixels.astype(int) + by, 255).astype(np.uint8)


def scaled(factor):
    return lambda values: (values * np.float32(factor)).astype(np.float32)


DIFFERENCES = {
    "camera": (add(CAMERAS, ("frames", 2, "T_cw", 0, 3), 1e-15), f"{CAMERAS}: frames[2].T_cw[0][3]: made again, "),
    "pose": (add(OBJECTS, (1, "R_wo", 0, 0), 1e-15), f"{OBJECTS}: [1].R_wo[0][0]: made again, "),
    "number of another kind": (put(META, ("num_objects",), 2.0), f"{META}: num_objects: made again, 2.0, expected 2"),
    "visibility": (add(META, ("visibility", "visible_px", 1, 0), 1), f"{META}: visibility.visible_px[1][0]: made again, "),
    "key gone": (drop(META, "light"), f"{META}: made again, "),
    "other bytes of one value": (text(CAMERAS, lambda old: old.replace("\n", " \n", 1)), f"{CAMERAS}: made again, the same values in other bytes"),
    "visible mask": (picture(f"{CLIP}/mask_visible/001.png", lambda mask: np.roll(mask, 1, axis=1)), f"{CLIP}/mask_visible/001.png: "),
    "silhouette": (picture(f"{CLIP}/mask_amodal/obj2/003.png", lambda mask: np.roll(mask, 1, axis=0)), f"{CLIP}/mask_amodal/obj2/003.png: "),
    "depth": (depth(f"{CLIP}/depth/002.npz", scaled(1.00002)), f"{CLIP}/depth/002.npz: depth differs by up to 2"),
    "depth with a hole": (depth(f"{CLIP}/depth/002.npz", inside(np.nan)), f"{CLIP}/depth/002.npz: 1 pixels with a depth in one clip alone"),
    "rgb": (picture(f"{CLIP}/rgb/000.png", whiter(3)), f"{CLIP}/rgb/000.png: 4096 pixels differ, by up to 3, expected the same pixels"),
    "rgba_fg": (picture(f"{CLIP}/rgba_fg/000.png", whiter(1)), f"{CLIP}/rgba_fg/000.png: "),
    "file gone": (remove(f"{CLIP}/rgb/003.png"), f"{CLIP}: missing in the clip made again: rgb/003.png, expected the same files"),
    "one file more": (new(f"{CLIP}/rgb/004.png"), f"{CLIP}: only in the clip made again: rgb/004.png, expected the same files"),
    "spoilt picture": (data(f"{CLIP}/rgb/000.png", flip(5)), f"{CLIP}/rgb/000.png: made again, a wrong checksum"),
    "cut JSON": (data(META, lambda content: content[:-20]), f"{META}: made again, "),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_a_difference_is_named_and_no_other(difference, valid, again):
    spoil, expected = DIFFERENCES[difference]
    spoil(again)
    part = look(valid, again)
    assert part.verdict == "failed"
    assert [line.startswith(expected) for line in told(part)] == [True], told(part)


FREE = {"timing", "git_commit"}
COMPARED = [
    *("arc_direction", "arc_retries", "arc_span_deg", "attempt", "background", "clip_id", "elevation_drift_deg", "generator_version", "hfov_deg", "light"),
    *("num_objects", "orbit_radius", "reference_T_cw", "rejections", "render", "scene_center", "seed", "split", "start_azimuth_deg", "start_elevation_deg"),
    "visibility",
]
"""The other keys of meta.json."""


def other(value):
    """Return a value of the same kind that differs, however deep."""
    if isinstance(value, dict):
        return {**value, min(value): other(value[min(value)])} if value else {"a": 1}
    if isinstance(value, list):
        return [other(value[0]), *value[1:]] if value else [1]
    return value + "x" if isinstance(value, str) else value + 1


def test_the_keys_that_are_compared_are_all_but_two(valid):
    assert set(json.loads((valid / META).read_text())) - FREE == set(COMPARED)


@pytest.mark.parametrize("key", COMPARED)
def test_each_other_key_of_meta_json_must_be_the_same(key, valid, again):
    edit(META, lambda record: record.update({key: other(record[key])}))(again)
    (line,) = told(look(valid, again, clips=("00000003",)))
    assert line.startswith(f"{META}: {key}") and ": made again, " in line


def test_depth_may_differ_by_1e_5_of_itself(valid, again):
    depth(f"{CLIP}/depth/002.npz", scaled(1.000008))(again)
    part = look(valid, again)
    assert part.verdict == "passed"
    assert part.figures["depth_relative_most"] == pytest.approx(8e-6, rel=0.03)


INFINITE = {
    "ours": (np.inf, 1.0),
    "the one made again": (1.0, np.inf),
    "both, of other signs": (np.inf, -np.inf),
}


@pytest.mark.parametrize("which", INFINITE)
def test_an_infinite_depth_is_as_far_off_as_can_be(which, valid, again, tmp_path):
    path = f"{CLIP}/depth/002.npz"
    one, other_one = INFINITE[which]
    shutil.copytree(valid / CLIP, tmp_path / CLIP)
    depth(path, inside(one))(tmp_path)
    depth(path, inside(other_one))(again)
    found, difference = look_at_again(tmp_path, Again(again), CLIP)
    assert [str(problem) for _, problem in found.told()] == [f"{path}: depth differs by up to 1e+15 of itself, expected at most 1e-05"]
    assert difference.depth_relative == LARGEST


def test_a_depth_that_is_infinite_in_both_is_the_same(valid, again, tmp_path):
    path = f"{CLIP}/depth/002.npz"
    shutil.copytree(valid / CLIP, tmp_path / CLIP)
    depth(path, inside(np.inf))(tmp_path)
    depth(path, inside(np.inf))(again)
    found, difference = look_at_again(tmp_path, Again(again), CLIP)
    assert (found.faults, difference.depth_relative) == ([], 0.0)


def test_pictures_of_other_bytes_and_the_same_pixels_are_the_same(valid, again):
    for folder in ("rgb", "mask_visible"):
        path = again / CLIP / folder / "001.png"
        with Image.open(path) as image:
            image.copy().save(path, compress_level=0)
    part = look(valid, again)
    assert part.verdict == "passed" and part.figures["files"] - part.figures["files_same_bytes"] == 2


def test_noise_is_allowed_up_to_what_is_asked_and_told(valid, again):
    picture(f"{CLIP}/rgb/000.png", lambda pixels: pixels - np.array([0, 2, 0], np.uint8))(again)
    assert look(valid, again, noise=1).verdict == "failed"
    part = look(valid, again, noise=2)
    assert part.verdict == "passed"
    assert (part.figures["colour_most"], part.figures["colour_px"]) == (2, 64 * 64)


def test_noise_is_not_allowed_in_masks(valid, again):
    picture(f"{CLIP}/mask_visible/001.png", lambda mask: mask // 2)(again)
    assert look(valid, again, noise=255).verdict == "failed"


def test_the_same_difference_in_many_frames_is_told_once(valid, again):
    for t in range(4):
        picture(f"{CLIP}/rgb/{t:03d}.png", whiter(3))(again)
    (line,) = told(look(valid, again))
    assert line.startswith(f"{CLIP}/rgb/000.png: ") and "(and so 3 times more)" in line


def test_clips_that_were_not_made_again_are_not_compared(valid, again):
    shutil.rmtree(again / OTHER)
    part = look(valid, again)
    assert part.verdict == "passed" and part.figures["clips"] == [CLIP]


def test_a_named_clip_must_have_been_made_again(valid, again):
    shutil.rmtree(again / OTHER)
    with pytest.raises(DataError, match="no clip 00000004"):
        look(valid, again, clips=("00000004",))


def test_a_dataset_without_any_of_the_clips_cannot_be_compared_with(valid, tmp_path):
    with pytest.raises(DataError, match="no clip that the dataset has too"):
        look(valid, tmp_path)


def test_what_cannot_be_read_of_the_dataset_itself_blocks_t4_and_is_told_by_t1(valid, again):
    data(f"{CLIP}/rgb/000.png", flip(5))(again)
    report = validate_dataset(again, Choice(("T4",), any_size=True, again=Again(valid)))
    assert [(part.suite, part.verdict) for part in report.suites] == [("T1", "failed"), ("T4", "blocked")]
    assert report.suites[1].blocked == (f"{CLIP}/rgb/000.png",)


def test_clips_without_files_are_not_the_same_but_nothing_to_compare(valid, again, tmp_path):
    for root in (again, tmp_path):
        shutil.rmtree(root / CLIP, ignore_errors=True)
        (root / CLIP).mkdir(parents=True)
    found, difference = look_at_again(again, Again(tmp_path), CLIP, tell=True)
    assert (found.blocked, difference.files) == ([("T4", CLIP)], 0)
    assert [(suite, str(problem)) for suite, problem in found.told()] == [("T1", f"{CLIP}: no files, expected the files of a clip")]


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "the one made again"])
def test_a_folder_that_cannot_be_read_is_no_empty_one(ours, valid, again, monkeypatch):
    shut, scandir = (valid if ours else again) / CLIP / "rgb", os.scandir

    def refuse(path):
        if str(path) == str(shut):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report = validate_dataset(valid, Choice(("T4",), any_size=True, again=Again(again)))
    assert not report.valid
    assert [(fault.where, "Permission denied" in fault.found) for fault in report.not_looked] == [(CLIP, True)]


def test_files_in_a_folder_that_is_a_link_are_compared(valid, again):
    (again / CLIP / "rgb").rename(again / "elsewhere")
    (again / CLIP / "rgb").symlink_to(again / "elsewhere")
    part = look(valid, again)
    assert (part.verdict, part.figures["files"]) == ("passed", 50)


def test_folders_that_lead_into_themselves_end(valid, again):
    (again / CLIP / "rgb" / "up").symlink_to(again / CLIP)
    (again / CLIP / "depth" / "up").symlink_to(again / CLIP)
    (line,) = told(look(valid, again))
    assert line.startswith(f"{CLIP}: only in the clip made again: ")


def test_t4_without_another_dataset_says_how_to_make_one(valid, capsys):
    assert main([str(valid), "--any-size", "--suite=T4"]) == 2
    error = capsys.readouterr().err
    assert "make some of its clips again in another results folder" in error and "--again" in error


def test_another_dataset_adds_t4_to_the_usual_suites(valid, again, capsys):
    assert main([str(valid), "--any-size", "--workers=0", f"--again={again}", "--json=-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {suite: part["verdict"] for suite, part in report["suites"].items()} == dict.fromkeys(("T1", "T2", "T3", "T4"), "passed")


def test_another_dataset_is_no_use_without_t4(valid, again, capsys):
    assert main([str(valid), "--any-size", "--suite=T1", f"--again={again}"]) == 2
    assert "add --suite T4" in capsys.readouterr().err


def test_the_report_does_not_depend_on_the_number_of_workers(valid, again):
    picture(f"{OTHER}/rgb/000.png", whiter(3))(again)
    edit(META, lambda record: record.update(seed=9))(again)
    choice = Choice(("T4",), any_size=True, again=Again(again))
    alone, many = (validate_dataset(valid, choice, workers).as_json() for workers in (0, 2))
    assert alone == many and len(alone["suites"]["T4"]["faults"]) == 2


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [(0.0, -0.0, ""), (1, True, ""), (1, 1.0, ""), ({"a": 1}, {"b": 1}, ""), ([1, 2], [1], ""), ({"a": [0, {"b": 1}]}, {"a": [0, {"b": 2}]}, "a[1].b")],
)
def test_values_that_python_calls_equal_are_told_apart(one, other, at):
    found = first_other(one, other)
    assert found is not None and found[0] == at
    assert first_other(one, one) is None


def test_differences_of_two_json_files_are_two_faults(valid, again):
    put(CAMERAS, ("width",), 65)(again)
    put(META, ("num_objects",), 3)(again)
    put(OBJECTS, (0, "k"), 3)(again)
    assert len(told(look(valid, again))) == 3


def test_a_dataset_is_not_compared_with_itself(valid, tmp_path):
    (tmp_path / "link").symlink_to(valid)
    with pytest.raises(DataError, match="the clip 00000003 itself"):
        look(valid, tmp_path / "link")


def test_the_command_tells_the_greatest_differences_in_one_line(valid, again, capsys):
    assert main([str(valid), "--any-size", "--suite=T4", "--workers=0", f"--again={again}"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"{valid}: T4 (determinism) passed",
        f"{valid}: T4: 2 clips made again, 50 of 50 files the same to the byte; depth differs by at most 0.0e+00 of itself, colours by 0 in 0 px",
    ]
