"""The preview as a command: what it writes, that it writes the same again, and how it says that it cannot."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid.preview import film
from sam3dvid.preview.__main__ import main
from sam3dvid.preview.clip import read_clip
from sam3dvid.preview.draw import preview_clip
from sam3dvid.preview.sheet import GAP, RED, ROWS, SIDE_PX, chosen_frames, draw_column
from shardwork.errors import DataError, Fault
from shardwork.jsonio import write_json
from tests.sam3dvid.datasets import CLIPS, write_dataset

ROOT = Path(__file__).resolve().parents[2]
CLIP = CLIPS[0].path
PANEL = 256
"""How wide a frame of 64 px is shown."""


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid") / "dataset")


@pytest.fixture
def dataset(valid, tmp_path):
    shutil.copytree(valid, tmp_path / "data set é")
    return tmp_path / "data set é"


@pytest.fixture(scope="module")
def drawn(valid):
    return preview_clip(valid / CLIP)


def decoded(path):
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)], stream.codec_context.name, stream.average_rate


def swap_pose(root, t):
    record = json.loads((root / CLIP / "cameras.json").read_text())
    record["frames"][t]["T_cw"] = record["frames"][t + 1]["T_cw"]
    write_json(root / CLIP / "cameras.json", record)


def top_of_panels(root, sheet, survey):
    """Return the row of a sheet, an array, at which the panels begin."""
    clip = read_clip(root / CLIP)
    return len(sheet) - sum(len(panel) + GAP for panel in draw_column(clip, 0, clip.frame(0), survey))


def letters(sheet, colour):
    """Return how many pixels above the panels have a colour."""
    with Image.open(sheet) as image:
        pixels = np.asarray(image)
    height = len(ROWS) * (PANEL + GAP)
    return int((pixels[:-height] == colour).all(axis=-1).sum())


def test_files_stand_beside_the_dataset_named_by_split_and_clip(valid, drawn):
    assert (drawn.sheet, drawn.film) == (valid.parent / "previews/eval_00000000.png", valid.parent / "previews/eval_00000000.mp4")
    assert drawn.sheet.is_file() and drawn.film.is_file()


def test_the_sheet_shows_rgb_of_the_chosen_frames_in_order(valid, drawn):
    with Image.open(drawn.sheet) as image:
        sheet = np.asarray(image)
    top = top_of_panels(valid, sheet, drawn.survey)
    assert drawn.frames == (0, 1, 2, 3)
    for column, t in enumerate(drawn.frames):
        rgb = np.asarray(Image.open(valid / CLIP / f"rgb/{t:03d}.png")).repeat(4, axis=0).repeat(4, axis=1)
        left = SIDE_PX + column * (PANEL + GAP)
        assert np.array_equal(sheet[top : top + PANEL, left : left + PANEL], rgb)


def test_the_film_has_every_frame_three_pictures_wide_below_a_line_of_text(drawn):
    frames, _, rate = decoded(drawn.film)
    assert (len(frames), rate) == (4, 8)
    assert {frame.shape for frame in frames} == {(PANEL + film.STRIP_PX, 3 * PANEL, 3)}


def test_the_film_shows_rgb_at_the_left_of_frame_t(valid, drawn):
    for t, frame in enumerate(decoded(drawn.film)[0]):
        rgb = np.asarray(Image.open(valid / CLIP / f"rgb/{t:03d}.png")).repeat(4, axis=0).repeat(4, axis=1)
        assert np.abs(frame[film.STRIP_PX :, :PANEL].astype(int) - rgb).mean() < 6


def test_a_second_run_writes_the_same_bytes(valid, drawn, tmp_path):
    again = preview_clip(valid / CLIP, tmp_path / "again")
    assert again.sheet.read_bytes() == drawn.sheet.read_bytes()
    assert again.film.read_bytes() == drawn.film.read_bytes()


def test_an_mpeg_4_film_is_written_where_there_is_no_h264(valid, tmp_path, monkeypatch):
    import av

    assert decoded(preview_clip(valid / CLIP, tmp_path / "with").film)[1] == "h264"
    monkeypatch.setattr(av, "codecs_available", {"mpeg4"})
    frames, codec, _ = decoded(preview_clip(valid / CLIP, tmp_path / "without").film)
    assert (codec, len(frames)) == ("mpeg4", 4)


def test_without_any_encoder_it_says_so_and_leaves_nothing(valid, tmp_path, monkeypatch):
    import av

    monkeypatch.setattr(av, "codecs_available", set())
    with pytest.raises(Fault, match=r"no encoder libx264 or mpeg4.*\[fault_library\]"):
        preview_clip(valid / CLIP, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_good_clip_has_no_red_letters_and_the_command_says_that_all_agrees(valid, tmp_path, capsys):
    assert main([str(valid / CLIP), f"--out={tmp_path / 'out'}"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/out/eval_00000000.png: frames 0, 1, 2, 3",
        f"{tmp_path}/out/eval_00000000.mp4: 4 frames at 8 a second",
        f"{valid / CLIP}: voxels and silhouettes agree",
    ]
    assert letters(tmp_path / "out/eval_00000000.png", RED) == 0


def test_a_pose_taken_from_the_next_frame_is_said_in_red_with_its_count_and_still_ends_with_0(dataset, tmp_path, capsys):
    swap_pose(dataset, 1)
    assert main([str(dataset / CLIP), f"--out={tmp_path / 'out'}"]) == 0
    line = capsys.readouterr().out.splitlines()[2].removeprefix(f"{dataset / CLIP}: ")
    assert int(line.split(" of ")[0].replace(",", "")) > 0 and "most in frame 1" in line
    assert letters(tmp_path / "out/eval_00000000.png", RED) > 100


def test_nothing_is_written_into_the_dataset(dataset, tmp_path):
    before = sorted(path.relative_to(dataset) for path in dataset.rglob("*"))
    preview_clip(dataset / CLIP, tmp_path / "out")
    assert sorted(path.relative_to(dataset) for path in dataset.rglob("*")) == before


def test_frames_and_rate_can_be_named(valid, tmp_path):
    named = preview_clip(valid / CLIP, tmp_path / "out", 25, [3, 0])
    with Image.open(named.sheet) as image:
        sheet = np.asarray(image)
    rgb = np.asarray(Image.open(valid / CLIP / "rgb/003.png")).repeat(4, axis=0).repeat(4, axis=1)
    top = top_of_panels(valid, sheet, named.survey)
    assert np.array_equal(sheet[top : top + PANEL, SIDE_PX : SIDE_PX + PANEL], rgb)
    assert decoded(named.film)[2] == 25


@pytest.mark.parametrize(("frames", "chosen"), [(32, [0, 8, 16, 24, 31]), (4, [0, 1, 2, 3]), (2, [0, 1]), (1, [0])])
def test_by_default_first_quarter_half_three_quarters_and_last_are_shown(frames, chosen):
    assert chosen_frames(frames) == chosen


def refused(root, capsys, *flags, clip=CLIP):
    """Return what the command says of a clip that it cannot draw; it must end with 2 and leave no file."""
    out = root.parent / "out"
    assert main([str(root / clip), f"--out={out}", *flags]) == 2
    assert not out.exists() or list(out.iterdir()) == []
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["rgb/002.png", "rgba_fg/003.png", "mask_visible/000.png", "mask_amodal/obj2/001.png", "depth/003.npz", "cameras.json", "objects.json", "meta.json"]
)
def test_a_missing_file_is_named(dataset, capsys, name):
    (dataset / CLIP / name).unlink()
    said = refused(dataset, capsys)
    assert f"{CLIP}/{name}: no such file" in said and "[missing_file]" in said


def test_missing_voxels_are_named(dataset, capsys):
    (dataset / "assets/eval/corner_eval-1/voxels.npy").unlink()
    assert "assets/eval/corner_eval-1/voxels.npy: no such file" in refused(dataset, capsys)


@pytest.mark.parametrize("clip", ["clips/eval", "clips/eval/0000000", "clips/test/00000000", "assets/eval/corner_eval-1", "clips/eval/00000099"])
def test_a_folder_that_is_no_clips_is_refused(valid, capsys, clip, tmp_path):
    assert main([str(valid / clip), f"--out={tmp_path / 'out'}"]) == 2
    assert "[bad_argument]" in capsys.readouterr().err


def test_the_dataset_is_found_from_inside_the_clips_folder(valid, monkeypatch):
    monkeypatch.chdir(valid / CLIP)
    assert read_clip(Path()).root == valid


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("rgb/001.png", np.zeros((64, 32, 3), np.uint8), "32 x 64 pixels, expected 64 x 64"),
        ("rgb/001.png", np.zeros((64, 64), np.uint8), "8 bits of gray, expected 8 bits of RGB"),
        ("mask_visible/001.png", np.zeros((64, 64, 3), np.uint8), "8 bits of RGB, expected 8 bits of gray"),
        ("depth/001.npz", np.zeros((32, 64), np.float32), "float32 of shape (32, 64), expected float32 of shape (64, 64)"),
        ("depth/001.npz", np.zeros((64, 64)), "float32 of shape (64, 64)"),
    ],
)
def test_a_picture_of_another_shape_or_kind_is_named(dataset, capsys, name, array, said):
    if name.endswith("npz"):
        np.savez_compressed(dataset / CLIP / name, depth=array)
    else:
        Image.fromarray(array).save(dataset / CLIP / name)
    error = refused(dataset, capsys)
    assert f"{CLIP}/{name}: " in error and said in error and "[bad_clip]" in error


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("cameras.json", lambda one: one.update(width="64"), 'cameras.json: width: "64", expected a whole number'),
        ("cameras.json", lambda one: one.update(K=[[1, 0], [0, 1]]), "cameras.json: K: [[1,0],[0,1]], expected finite numbers of shape (3, 3)"),
        ("cameras.json", lambda one: one["frames"][2].update(T_cw=[[1.0]]), "frames[2].T_cw: [[1.0]], expected finite numbers of shape (4, 4)"),
        ("cameras.json", lambda one: one["frames"].reverse(), "frames[0].t: 3, expected 0"),
        ("cameras.json", lambda one: one.pop("frames"), "no key 'frames'"),
        ("objects.json", lambda one: one.clear(), "0 objects, expected 1 to 4"),
        ("objects.json", lambda one: one[1].update(t_wo=[0, 0]), "[1].t_wo: [0,0], expected finite numbers of shape (3,)"),
        ("objects.json", lambda one: one[1].update(voxels="../x/voxels.npy"), "[1].voxels"),
        ("objects.json", lambda one: one.reverse(), "[0].k: 3, expected 1"),
        ("meta.json", lambda one: one.pop("seed"), "no key 'seed'"),
        ("meta.json", lambda one: one.update(background=3), "background: 3, expected an object with image_id"),
    ],
)
def test_a_record_of_another_form_is_named_with_its_place(dataset, capsys, name, change, said):
    record = json.loads((dataset / CLIP / name).read_text())
    change(record)
    write_json(dataset / CLIP / name, record)
    error = refused(dataset, capsys)
    assert said in error and "[bad_clip]" in error


def test_voxels_of_another_shape_are_named(dataset, capsys):
    np.save(dataset / "assets/eval/corner_eval-1/voxels.npy", np.zeros((32, 32, 32), bool))
    error = refused(dataset, capsys)
    assert "corner_eval-1/voxels.npy: bool of shape (32, 32, 32), expected bool of shape (64, 64, 64)" in error


def test_json_whose_keys_are_in_another_order_is_drawn(dataset, tmp_path):
    record = json.loads((dataset / CLIP / "cameras.json").read_text())
    (dataset / CLIP / "cameras.json").write_text(json.dumps(dict(reversed(record.items()))))
    assert preview_clip(dataset / CLIP, tmp_path / "out").survey.fits


def test_a_clip_without_voxels_or_depth_is_drawn(dataset, tmp_path):
    np.save(dataset / "assets/eval/corner_eval-1/voxels.npy", np.zeros((64, 64, 64), bool))
    for t in range(4):
        np.savez_compressed(dataset / CLIP / f"depth/{t:03d}.npz", depth=np.full((64, 64), np.nan, np.float32))
    survey = preview_clip(dataset / CLIP, tmp_path / "out").survey
    assert survey.bare[:, 1].tolist() == survey.amodal_px[:, 1].tolist() and np.isnan(survey.nearest)


@pytest.mark.parametrize("flag", ["--frames=4", "--frames=0,9", "--frames=a", "--frames=-1", "--fps=0"])
def test_frames_that_are_not_there_and_a_rate_of_0_are_refused(valid, tmp_path, flag):
    done = subprocess.run(
        [sys.executable, "-m", "sam3dvid.preview", str(valid / CLIP), f"--out={tmp_path / 'out'}", flag],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("where", [".", "clips/eval/00000000", "previews"])
def test_a_folder_inside_of_the_dataset_is_refused(dataset, where):
    with pytest.raises(DataError, match=r"outside of the dataset.*\[bad_argument\]"):
        preview_clip(dataset / CLIP, dataset / where)


def test_what_the_machine_does_not_show_ends_with_2(valid, tmp_path, capsys, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert main([str(valid / CLIP), f"--out={tmp_path / 'out'}"]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_neither_blender_nor_the_planner_is_loaded():
    code = "import sys, sam3dvid.preview.__main__, sam3dvid.preview.draw; print([n for n in sys.modules if n == 'bpy' or n.startswith('sam3dvid.plan')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.stdout.strip() == "[]"
