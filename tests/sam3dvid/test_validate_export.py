"""T5 and T6: each difference of an export from its dataset is named; poses agree with SAM 3D's transform, wrong readings do not."""

import errno
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid import sam3d
from sam3dvid.export_reader import iter_samples
from sam3dvid.validate import Choice, clips, convention, roundtrip, validate_dataset
from sam3dvid.validate.__main__ import main
from sam3dvid.validate.dataset import read_json
from sam3dvid.validate.roundtrip import psnr_db
from shardwork.errors import DataError
from tests.sam3dvid.damaged_npz import NPZ_FLIPS, flipped_npz
from tests.sam3dvid.datasets import Clip, Lent, write_dataset
from tests.sam3dvid.handmade_exports import clip_members, jpeg, png, write_export, write_tar, write_voxels
from tests.sam3dvid.spoiled import data, drop, edit, flip, put

CLIPS = (Clip("eval", "00000003", (0, 1), "ph_meadow_v0"), Clip("eval", "00000012", (1,), "ph_meadow_v1"))
TWO, ONE = (clip.path for clip in CLIPS)
SHARD, VOXELS = "eval-000000.tar", "voxels_eval.npz"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid"), CLIPS, 32, 64)


@pytest.fixture(scope="module")
def members(valid):
    """Return the samples of both clips, in order."""
    return [member for clip in CLIPS for member in clip_members(valid, "eval", clip.clip_id)]


@pytest.fixture(scope="module")
def grids(valid):
    return {name: np.load(valid / f"assets/eval/{name}/voxels.npy") for name in ("corner_eval-0", "corner_eval-1")}


@pytest.fixture(scope="module")
def export(valid, tmp_path_factory):
    return write_export(valid, "eval", tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def lent(valid, tmp_path_factory):
    return Lent(valid, tmp_path_factory.mktemp("lent") / "dataset")


@pytest.fixture
def dataset(lent):
    """Return a copy of the dataset to spoil."""
    yield lent.root
    lent.put_right()


def look(root, export, clips=(), workers=0):
    report = validate_dataset(root, Choice(("T5",), clips=clips, any_size=True, export=export), workers)
    return report, next(part for part in report.suites if part.suite == "T5")


def told(part):
    return [str(fault) for fault in part.faults]


# T5


def test_an_export_of_the_dataset_passes_with_its_figures(valid, export):
    report, part = look(valid, export)
    assert (part.verdict, told(part)) == ("passed", [])
    assert (part.figures["clips"], part.figures["shards"], part.figures["not_exported"]) == ([TWO, ONE], 1, 0)
    assert report.counts == {"files": 2, "samples": 2, "voxels": 2}
    assert report.clips == (TWO, ONE)


def test_the_least_psnr_is_that_of_the_worst_frame_of_all(valid, export):
    def of(path):
        picture = np.asarray(Image.open(path)).astype(float)
        again = np.asarray(Image.open(io.BytesIO(jpeg(picture.astype(np.uint8))))).astype(float)
        return 10 * np.log10(255**2 / np.mean((again - picture) ** 2))

    least = min((of(path), clip) for clip in (TWO, ONE) for path in (valid / clip / "rgb").iterdir())
    figures = look(valid, export)[1].figures
    assert (figures["psnr_db_least"], figures["psnr_db_least_clip"]) == (pytest.approx(least[0]), least[1])


def test_two_pictures_that_differ_by_one_everywhere_have_48_db():
    one = np.full((4, 4, 3), 7, np.uint8)
    assert psnr_db(one, np.full_like(one, 8)) == pytest.approx(48.1308, abs=1e-4)
    assert psnr_db(one, one) == 100


def test_shards_of_one_clip_each_are_compared_by_two_workers_as_by_none(valid, tmp_path):
    export = write_export(valid, "eval", tmp_path, 1)
    one, other = (look(valid, export, workers=workers)[0].as_json() for workers in (0, 2))
    assert one == other and one["suites"]["T5"]["figures"]["shards"] == 2


def test_clips_of_the_dataset_that_are_not_exported_are_counted_and_no_fault(valid, members, grids, tmp_path):
    write_tar(tmp_path / SHARD, members[:65])
    write_voxels(tmp_path / VOXELS, grids)
    part = look(valid, tmp_path)[1]
    assert (part.verdict, part.figures["not_exported"]) == ("passed", 1)


def test_named_clips_alone_are_compared(valid, members, grids, tmp_path):
    write_tar(tmp_path / SHARD, members[:65] + changed(members[65:], "json", info(("seed",), 5)))
    write_voxels(tmp_path / VOXELS, grids)
    assert look(valid, tmp_path)[1].verdict == "failed"
    part = look(valid, tmp_path, clips=(CLIPS[0].clip_id,))[1]
    assert (part.verdict, part.figures["clips"]) == ("passed", [TWO])


def test_assets_of_clips_that_were_not_chosen_are_not_too_many(valid, export):
    # the other clip's asset stands in the file too
    part = look(valid, export, clips=(CLIPS[1].clip_id,))[1]
    assert (part.verdict, told(part), part.figures["clips"]) == ("passed", [], [ONE])


def test_pictures_of_clips_that_were_not_chosen_are_not_decoded(valid, members, grids, tmp_path):
    write_tar(tmp_path / SHARD, changed(members, f"{B}.rgb.004.jpg", lambda old: b"no JPEG"))
    write_voxels(tmp_path / VOXELS, grids)
    assert look(valid, tmp_path, clips=(A,))[1].verdict == "passed" and look(valid, tmp_path)[1].verdict == "failed"


def test_the_millionth_shard_stands_behind_those_with_a_digit_less(valid, members, grids, tmp_path):
    write_tar(tmp_path / "eval-999999.tar", members[:65])
    write_tar(tmp_path / "eval-1000000.tar", members[65:])
    write_voxels(tmp_path / VOXELS, grids)
    part = look(valid, tmp_path)[1]
    assert (part.verdict, part.figures["shards"]) == ("passed", 2)


def changed(members, suffix, change):
    """Return members, those that end so changed: at the first clip alone if the suffix is a whole member's name."""
    return [(name, change(old) if name.endswith(suffix) else old) for name, old in members]


def info(keys, value=None, change=None):
    """Return what sets, drops (no value) or changes one value of a sample's JSON."""

    def alter(old):
        record = whole = json.loads(old)
        for key in keys[:-1]:
            record = record[key]
        if change is not None:
            record[keys[-1]] = change(record[keys[-1]])
        elif value is None:
            del record[keys[-1]]
        else:
            record[keys[-1]] = value
        return json.dumps(whole).encode()

    return alter


def mask(old):
    pixels = np.asarray(Image.open(io.BytesIO(old))).copy()
    pixels[5, 5] = 1 - pixels[5, 5]
    return png(pixels)


def encoded(**form):
    """Return what encodes a picture anew."""

    def alter(old):
        file = io.BytesIO()
        Image.open(io.BytesIO(old)).save(file, "JPEG", **form)
        return file.getvalue()

    return alter


def noisy(old):
    pixels = np.asarray(Image.open(io.BytesIO(old))).astype(int)
    return jpeg(np.clip(pixels + np.random.default_rng(0).normal(0, 14, pixels.shape), 0, 255).astype(np.uint8))


def swapped(members, one, other):
    """Return members with the content of two exchanged."""
    by_name = dict(members)
    return [(name, by_name[{one: other, other: one}.get(name, name)]) for name, _ in members]


A, B = CLIPS[0].clip_id, CLIPS[1].clip_id
DIFFERENCES = {
    "seed": (lambda m: changed(m, f"{A}.json", info(("seed",), 9)), f"{A}: json: seed: 9, expected 3"),
    "num_objects as text": (lambda m: changed(m, f"{A}.json", info(("num_objects",), "2")), f'{A}: json: num_objects: "2", expected 2'),
    "K of a half pixel": (lambda m: changed(m, f"{A}.json", info(("K", 0, 2), 32.0)), f"{A}: json: K[0][2]: 32.0, expected 31.5"),
    "T_cw in its last bit": (lambda m: changed(m, f"{A}.json", info(("T_cw", 7, 0, 3), change=lambda x: np.nextafter(x, 9))), f"{A}: json: T_cw[7][0][3]: "),
    "objects of another order": (lambda m: changed(m, f"{A}.json", info(("objects",), change=lambda x: x[::-1])), f"{A}: json: objects[0].R_wo[0][0]: "),
    "R_wo transposed": (
        lambda m: changed(m, f"{A}.json", info(("objects", 0, "R_wo"), change=lambda R: np.transpose(R).tolist())),
        f"{A}: json: objects[0].R_wo[0][1]: ",
    ),
    "R_co transposed": (
        lambda m: changed(m, f"{A}.json", info(("objects", 1, "R_co"), change=lambda R: np.swapaxes(R, 1, 2).tolist())),
        f"{A}: json: objects[1].R_co: off by ",
    ),
    "t_co of the other camera axes": (
        lambda m: changed(m, f"{A}.json", info(("objects", 1, "t_co"), change=lambda t: (np.array(t) * [-1, -1, 1]).tolist())),
        f"{A}: json: objects[1].t_co: off by ",
    ),
    "t_co moved by 1e-11": (
        lambda m: changed(m, f"{A}.json", info(("objects", 0, "t_co", 31, 2), change=lambda z: z + 1e-11)),
        f"{A}: json: objects[0].t_co: off by 1e-11",
    ),
    "R_co of 31 frames": (
        lambda m: changed(m, f"{A}.json", info(("objects", 0, "R_co"), change=lambda R: R[:31])),
        f"{A}: json: objects[0].R_co: ",
    ),
    "no t_co": (lambda m: changed(m, f"{A}.json", info(("objects", 0, "t_co"))), f"{A}: json: objects[0].t_co: null"),
    "s_co": (lambda m: changed(m, f"{A}.json", info(("objects", 0, "s_co", 4, 1), 0.7)), f"{A}: json: objects[0].s_co[4][1]: 0.7, expected 0.5"),
    "visible_px": (lambda m: changed(m, f"{A}.json", info(("visibility", "visible_px", 3, 1), 1)), f"{A}: json: visibility.visible_px[3][1]: 1"),
    "key gone": (lambda m: changed(m, f"{A}.json", info(("git_commit",))), f"{A}: json: no key git_commit"),
    "key too many": (lambda m: changed(m, f"{A}.json", info(("depth",), [1])), f"{A}: json: keys beyond the format's: depth"),
    "provenance": (lambda m: changed(m, f"{A}.json", info(("background", "provenance", "license"), "none")), f"{A}: json: background.provenance.license: "),
    "one pixel of a mask": (lambda m: changed(m, f"{A}.visible.009.png", mask), f"{A}: visible.009.png: 1 pixels differ"),
    "one pixel of many masks": (lambda m: changed(m[:65], ".png", mask) + m[65:], f"{A}: visible.000.png: 1 pixels differ (and so 31 times more)"),
    "another picture": (lambda m: swapped(m, f"{A}.rgb.004.jpg", f"{B}.rgb.004.jpg"), f"{A}: rgb.004.jpg: a PSNR of "),
    "the next frame": (lambda m: swapped(m, f"{A}.rgb.004.jpg", f"{A}.rgb.005.jpg"), f"{A}: rgb.004.jpg: closer to rgb/005.png than to its own frame, "),
    "the frame before": (
        lambda m: changed(m, f"{A}.rgb.005.jpg", lambda old: dict(m)[f"{A}.rgb.004.jpg"]),
        f"{A}: rgb.005.jpg: closer to rgb/004.png than to its own frame, ",
    ),
    "JPEG of quality 60": (lambda m: changed(m, f"{A}.rgb.004.jpg", encoded(quality=60, subsampling=0)), f"{A}: rgb.004.jpg: steps [13, 9, 8, 13] and on"),
    "JPEG of quality 96": (lambda m: changed(m, f"{A}.rgb.004.jpg", encoded(quality=96, subsampling=0)), f"{A}: rgb.004.jpg: steps "),
    "JPEG of 4:2:0": (
        lambda m: changed(m, f"{A}.rgb.004.jpg", encoded(quality=95, subsampling=2)),
        f"{A}: rgb.004.jpg: colour samples shared between pixels (2x2, 1x1, 1x1)",
    ),
    "progressive JPEG": (lambda m: changed(m, f"{A}.rgb.004.jpg", encoded(quality=95, subsampling=0, progressive=True)), f"{A}: rgb.004.jpg: a progressive"),
    "one form of many JPEGs": (
        lambda m: changed(m, ".jpg", encoded(quality=94, subsampling=0)),
        f"{A}: rgb.000.jpg: steps ",
    ),
    "noise": (lambda m: changed(m, f"{A}.rgb.000.jpg", noisy), f"{A}: rgb.000.jpg: a PSNR of "),
    "mirrored pictures": (
        lambda m: changed(m, f"{A}.rgb.003.jpg", lambda old: jpeg(np.asarray(Image.open(io.BytesIO(old)))[:, ::-1])),
        f"{A}: rgb.003.jpg: a PSNR of ",
    ),
    "clip that the dataset lacks": (
        lambda m: [(name.replace(B, "00000050"), old.replace(B.encode(), b"00000050")) for name, old in m],
        "00000050: no such clip",
    ),
    "clips out of order": (lambda m: m[65:] + m[:65], f"{A}: after clip {B} of {SHARD}"),
    "cut tar": (lambda m: m[:100], f"it ends after 35 members of clip {B}"),
    "interleaved": (lambda m: m[:10] + m[65:] + m[10:65], f"{B}.json: another clip after 10 members of clip {A}"),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_a_difference_of_the_export_is_named_with_shard_and_clip(difference, valid, members, grids, tmp_path):
    spoil, said = DIFFERENCES[difference]
    write_tar(tmp_path / SHARD, spoil(members))
    write_voxels(tmp_path / VOXELS, grids)
    report, part = look(valid, tmp_path)
    assert (part.verdict, report.valid) == ("failed", False)
    first = told(part)[0]
    assert first.startswith(f"{SHARD}: {said}"), first
    assert str(tmp_path) not in json.dumps(report.as_json())


def write_index(folder, shards, split="eval"):
    (folder / "index.json").write_text(json.dumps({"split": split, "shards": [{"name": name, "clip_ids": ids} for name, ids in shards.items()]}))


INDEXES = {
    "missing shard": ({SHARD: [A, B], "eval-000001.tar": ["00000050"]}, "eval-000001.tar: no such file, expected a shard that index.json names"),
    "clip that its shard lacks": ({SHARD: [A, B, "00000050"]}, f"{SHARD}: clips: clip 00000050 is missing, expected the 3 clips that index.json names"),
    "clip that is too many": ({SHARD: [A]}, f"{SHARD}: clips: clip {B} is too many, expected the 1 clips that index.json names"),
    "shard that it does not name": ({}, f"{SHARD}: not named by index.json, expected the shards of this export alone"),
}


@pytest.mark.parametrize("fault", INDEXES)
def test_what_the_index_names_and_the_folder_lacks_is_named(fault, valid, export, tmp_path):
    shards, said = INDEXES[fault]
    shutil.copytree(export, tmp_path / "export")
    write_index(tmp_path / "export", shards)
    assert told(look(valid, tmp_path / "export")[1]) == [said]


def test_a_shard_that_ends_in_lost_samples_is_named_with_its_clip(valid, members, grids, tmp_path):
    path = write_tar(tmp_path / SHARD, members)
    data = path.read_bytes()
    at = data.index(f"{B}.json".encode())
    path.write_bytes(data[:at] + bytes(len(data) - at))
    write_voxels(tmp_path / VOXELS, grids)
    write_index(tmp_path, {SHARD: [A, B]})
    lines = told(look(valid, tmp_path)[1])
    assert any("what stood there is lost" in line for line in lines) and any(f"clip {B} is missing" in line for line in lines)


@pytest.mark.parametrize("text", ["", "[]", '{"shards": [1]}', '{"split": "train", "shards": []}'])
def test_an_index_that_is_none_is_named(text, valid, export, tmp_path):
    shutil.copytree(export, tmp_path / "export")
    (tmp_path / "export" / "index.json").write_text(text)
    assert told(look(valid, tmp_path / "export")[1])[0].startswith("index.json")


@pytest.mark.parametrize("place", NPZ_FLIPS)
def test_a_flipped_bit_of_the_voxels_file_is_named_once_an_asset(place, valid, members, grids, tmp_path):
    write_tar(tmp_path / SHARD, members)
    path = write_voxels(tmp_path / VOXELS, grids)
    path.write_bytes(flipped_npz(path.read_bytes(), place))
    part = look(valid, tmp_path)[1]
    assert part.blocked == () and 1 <= len(told(part)) <= 2 and all(line.startswith(f"{VOXELS}: ") for line in told(part))


def test_a_clip_exported_twice_is_named(valid, members, grids, tmp_path):
    write_tar(tmp_path / SHARD, members[:65])
    write_tar(tmp_path / "eval-000001.tar", members)
    write_voxels(tmp_path / VOXELS, grids)
    assert told(look(valid, tmp_path)[1])[0].startswith(f"eval-000001.tar: {A}: after clip {A} of {SHARD}")


def test_frames_of_another_size_than_the_datasets_are_named(valid, members, grids, tmp_path):
    small = [
        (name, old if name.endswith("json") else jpeg(np.zeros((8, 8, 3), np.uint8)) if "rgb" in name else png(np.zeros((8, 8), np.uint8)))
        for name, old in members
    ]
    write_tar(tmp_path / SHARD, small)
    write_voxels(tmp_path / VOXELS, grids)
    assert told(look(valid, tmp_path)[1])[0] == f"{SHARD}: {A}: 32 frames of 8 x 8, expected 32 frames of 64 x 64, as cameras.json has them"


def moved(grids):
    return {name: np.roll(grid, 1, axis=0) if name.endswith("1") else grid for name, grid in grids.items()}


VOXEL_FAULTS = {
    "moved by one": (moved, f"{VOXELS}: corner_eval-1: "),
    "axes exchanged": (lambda grids: {**grids, "corner_eval-0": grids["corner_eval-0"].transpose(2, 1, 0)}, f"{VOXELS}: corner_eval-0: "),
    "asset gone": (lambda grids: {"corner_eval-0": grids["corner_eval-0"]}, f"{VOXELS}: corner_eval-1: no asset corner_eval-1"),
    "asset too many": (lambda grids: {**grids, "jug": grids["corner_eval-0"]}, f"{VOXELS}: assets that no exported clip uses: jug"),
}


@pytest.mark.parametrize("fault", VOXEL_FAULTS)
def test_a_difference_of_the_voxels_is_named(fault, valid, members, grids, tmp_path):
    change, said = VOXEL_FAULTS[fault]
    write_tar(tmp_path / SHARD, members)
    write_voxels(tmp_path / VOXELS, change(grids))
    (line,) = told(look(valid, tmp_path)[1])
    assert line.startswith(said)


def failing(*_):
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(("reader", "name"), [("iter_samples", SHARD), ("open_voxels", VOXELS)])
def test_a_file_of_the_export_that_the_machine_does_not_let_be_read_is_told_by_its_name(valid, export, monkeypatch, reader, name):
    monkeypatch.setattr(roundtrip, reader, failing)
    report, part = look(valid, export)
    assert (part.verdict, part.blocked, [fault.where for fault in report.not_looked]) == ("blocked", (name,), [name])
    assert report.lines() == [] and not report.valid


def test_a_shard_that_cannot_be_read_makes_no_asset_one_too_many(valid, tmp_path, monkeypatch):
    def one_fails(path, frames):
        return failing() if path.name == SHARD else iter_samples(path, frames)

    export = write_export(valid, "eval", tmp_path, 1)
    monkeypatch.setattr(roundtrip, "iter_samples", one_fails)
    part = look(valid, export)[1]
    assert (told(part), part.blocked) == ([], (SHARD,))


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04"])
def test_voxels_that_are_missing_or_damaged_are_named(valid, members, tmp_path, content):
    write_tar(tmp_path / SHARD, members)
    if content is not None:
        (tmp_path / VOXELS).write_bytes(content)
    (line,) = told(look(valid, tmp_path)[1])
    assert line.startswith(f"{VOXELS}: ")


def test_a_broken_file_of_the_dataset_blocks_the_comparison_and_is_named(dataset, export):
    data(f"{TWO}/rgb/003.png", flip(200))(dataset)
    report, part = look(dataset, export)
    assert (part.verdict, part.blocked) == ("blocked", (TWO,))
    assert [str(fault).split(":")[0] for suite in report.suites if suite.suite == "T1" for fault in suite.faults] == [f"{TWO}/rgb/003.png"]


def test_a_clip_whose_records_are_spoilt_blocks_the_comparison(dataset, export):
    put(f"{TWO}/objects.json", (0, "R_wo", 0, 0), 3.0)(dataset)
    drop(f"{ONE}/meta.json", "visibility")(dataset)
    assert look(dataset, export)[1].blocked == (TWO, ONE)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "shards of no split"),
        (("eval-000000.tar", "train-000000.tar"), "shards of eval and train"),
        (("train-000000.tar",), "shards of train"),
        (("eval-0.tar",), "no split"),
    ],
)
def test_a_folder_that_is_no_export_of_a_chosen_split_is_refused(valid, tmp_path, names, said):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=said):
        validate_dataset(valid, Choice(("T5",), ("eval",), any_size=True, export=tmp_path))


@pytest.mark.parametrize("choice", [Choice(("T5",)), Choice(("T1",), export=Path("x"))])
def test_t5_and_the_folder_of_an_export_need_each_other(valid, choice):
    with pytest.raises(DataError, match=r"T5|--export"):
        validate_dataset(valid, choice)


def test_the_command_compares_an_export_and_ends_with_0_and_1(valid, export, members, tmp_path, capsys):
    assert main([str(valid), "--suite=T5", f"--export={export}", "--any-size", "--workers=0"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{valid}: T5 (export round trip) passed"
    assert out[1].startswith(f"{valid}: T5: 2 clips in 1 shards, PSNR of rgb at least ")
    shutil.copy(export / VOXELS, tmp_path)
    write_tar(tmp_path / SHARD, changed(members, f"{A}.json", info(("seed",), 9)))
    assert main([str(valid), "--suite=T5", f"--export={tmp_path}", "--any-size", "--workers=0"]) == 1
    assert capsys.readouterr().out.startswith(f"T5: {SHARD}: {A}: json: seed: 9, expected 3\n")


def test_frames_below_40_db_are_counted_and_warned_of_but_no_fault(dataset, capsys, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(dataset / f"{ONE}/rgb/002.png")
    export = write_export(dataset, "eval", tmp_path)
    assert main([str(dataset), "--suite=T5", f"--export={export}", "--any-size", "--workers=0"]) == 0
    assert "WARNING: " in capsys.readouterr().out
    figures = look(dataset, export)[1].figures
    assert figures["psnr_db_least_clip"] == ONE and figures["frames_below"] >= 1 and 30 < figures["psnr_db_least"] < 40


# T6


def agreement(root, clips=()):
    report = validate_dataset(root, Choice(("T6",), clips=clips, any_size=True))
    return report, next(part for part in report.suites if part.suite == "T6")


def test_all_poses_agree_with_sam3ds_transform_to_rounding(valid):
    _, part = agreement(valid)
    assert (part.verdict, told(part)) == ("passed", [])
    assert (part.figures["poses"], part.figures["clips"]) == (32 * 3, 2)
    assert part.figures["off"] < 1e-14 and part.figures["back"] < 1e-14


def test_rotations_that_scale_by_what_t1_lets_pass_agree(dataset):
    def scale(record):
        for one in record:
            one["R_wo"] = (np.array(one["R_wo"]) * (1 + 2e-10)).tolist()

    edit(f"{TWO}/objects.json", scale)(dataset)
    report = validate_dataset(dataset, Choice(("T1", "T6"), any_size=True))
    assert report.lines() == [] and report.valid


def test_a_dataset_without_clips_blocks_t6(valid):
    report = validate_dataset(valid, Choice(("T6",), ("train",), any_size=True))
    (part,) = (one for one in report.suites if one.suite == "T6")
    assert (part.verdict, part.blocked, report.valid) == ("blocked", ("clips",), False)


def test_a_clip_that_the_machine_does_not_let_be_read_blocks_t6(valid, monkeypatch):
    def read(root, name):
        return failing() if name == f"{ONE}/objects.json" else read_json(root, name)

    monkeypatch.setattr(clips, "read_json", read)
    report, part = agreement(valid)
    assert (part.verdict, part.blocked, [fault.where for fault in report.not_looked]) == ("blocked", (ONE,), [f"{ONE}/objects.json"])


def test_wrong_readings_are_far_off_in_every_clip(valid):
    controls = agreement(valid)[1].figures["controls"]
    assert all(controls[name][0] > 0.01 for name in ("columns", "scalar_last", "other_axes"))


def test_t_untouched_is_unseen_where_the_one_object_stands_in_the_middle(valid):
    assert agreement(valid, (CLIPS[1].clip_id,))[1].figures["controls_unseen"] == {"t_untouched": 1}
    assert agreement(valid, (CLIPS[0].clip_id,))[1].figures["controls_unseen"] == {}


BROKEN = {
    "R(q) = P R_co": lambda q, t, t_co: (q * [1, -1, -1, -1], t),
    "q as xyzw": lambda q, t, t_co: (np.roll(q, -1, axis=-1), t),
    "P = diag(1, -1, -1)": lambda q, t, t_co: (q, t_co * [1, -1, -1]),
    "t untouched": lambda q, t, t_co: (q, t_co),
    "float32": lambda q, t, t_co: (q.astype(np.float32).astype(float), t),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_wrong_converter_fails(fault, valid, monkeypatch):
    def convert(R_co, t_co, s_co):
        q, t, s = sam3d.ours_to_sam3d(R_co, t_co, s_co)
        return (*BROKEN[fault](q, t, t_co), s)

    monkeypatch.setattr(convention, "ours_to_sam3d", convert)
    assert agreement(valid)[1].verdict == "failed"


def test_a_wrong_way_back_fails(valid, monkeypatch):
    monkeypatch.setattr(convention, "sam3d_to_ours", lambda q, t, s: sam3d.sam3d_to_ours(q * [1, -1, -1, -1], t, s))
    assert told(agreement(valid)[1])[0].startswith(f"{TWO}: a pose turned there and back is off by ")


def test_a_suite_that_cannot_see_a_wrong_reading_says_so(valid, monkeypatch):
    monkeypatch.setattr(convention, "SEEN", 10.0)
    assert f"{ONE}: blind: the wrong reading columns is off by " in told(agreement(valid)[1])[3]


def test_poses_that_are_not_in_order_block_t6_and_are_named(dataset):
    put(f"{ONE}/objects.json", (0, "R_wo", 0, 0), 3.0)(dataset)
    report, part = agreement(dataset)
    assert (part.verdict, part.blocked) == ("blocked", (ONE,))
    assert report.suites[0].faults[0].where == f"{ONE}/objects.json: [0].R_wo"


def test_t6_reads_no_pictures(dataset):
    shutil.rmtree(dataset / ONE / "rgb")
    report, part = agreement(dataset)
    assert (part.verdict, report.counts["files"]) == ("passed", 3 * 2 + 2)


def test_the_command_says_that_sam3d_itself_was_not_run(valid, capsys):
    assert main([str(valid), "--suite=T6", "--any-size", "--workers=0"]) == 0
    assert "not against SAM 3D's own outputs" in capsys.readouterr().out
