"""What exports keep, make again and refuse, beyond the contract of release shards: other plans, other splits, foreign files, clips that cannot be read."""

from __future__ import annotations

import errno
import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

import sam3dvid.export.run as run_module
from sam3dvid.export.shards import ShardWriter
from shardwork import packrecord
from shardwork.errors import DataError
from shardwork.pack import Declared, PackOptions, PlannedShard, Unit, cut_plan, pack_shards
from shardwork.tarball import Written
from tests.sam3dvid.exported_datasets import IDS, SPLIT, add_clip, change_json, clip_folder, export, files, make_dataset, repaint


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Path, Path, dict[str, bytes]]:
    """A dataset and its export, which no test changes, and the export's files."""
    root = tmp_path_factory.mktemp("kept")
    dataset, out = make_dataset(root / "dataset"), root / "out"
    export(dataset, out)
    return dataset, out, files(out)


@pytest.fixture
def dataset(kept, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(kept[0], tmp_path / "dataset"))


@pytest.fixture
def out(kept, tmp_path) -> Path:
    """A copy of the finished export."""
    return Path(shutil.copytree(kept[1], tmp_path / "out"))


# the first sample ends at a member boundary, where a reader sees a whole tar; 10,240 bytes of zeros end a tar
@pytest.mark.parametrize("kind", ["cut between members", "cut inside a member", "cut before the zeros", "a flipped byte"])
def test_spoilt_shard_is_made_again_to_the_byte(kept, out, capsys, kind):
    path = out / "train-000000.tar"
    data = bytearray(path.read_bytes())
    boundary = data.index(b"00000001.json\0")
    if kind == "a flipped byte":
        data[boundary + 2000] ^= 1
    path.write_bytes(data[: {"cut between members": boundary, "cut inside a member": boundary + 700, "cut before the zeros": len(data) - 10240}.get(kind)])
    export(kept[0], out)
    assert "2 kept, 1 made again" in capsys.readouterr().err and files(out) == kept[2]


@pytest.mark.parametrize("name", ["rgb/007.png", "mask_visible/031.png"])
def test_changed_pixel_of_a_picture_is_another_plan_and_replan_makes_its_shard_alone(kept, dataset, out, capsys, name):
    repaint(clip_folder(dataset, IDS[2]) / name)
    export(dataset, out, code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]
    export(dataset, out, "--replan")
    assert "2 kept, 1 made" in capsys.readouterr().err
    assert [name for name, data in files(out).items() if data != kept[2][name]] == ["index.json", "train-000001.tar"]


def test_changed_pose_is_another_plan(kept, dataset, out, capsys):
    path = clip_folder(dataset, IDS[0]) / "objects.json"
    objects = json.loads(path.read_text())
    objects[0]["t_wo"][0] += 1e-9
    path.write_text(json.dumps(objects, sort_keys=True))
    export(dataset, out, code=2)
    assert "[other_plan]" in capsys.readouterr().err


def test_changed_pixel_is_another_plan_where_size_and_last_bytes_are_the_same(dataset, tmp_path, capsys):
    path = clip_folder(dataset, IDS[2]) / "rgb" / "007.png"
    text = b"tEXtComment\0" + b"x" * 1000
    note = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))

    def write(pixels: np.ndarray) -> int:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG", compress_level=0)
        data = buffer.getvalue()
        path.write_bytes(data[:-12] + note + data[-12:])
        return path.stat().st_size

    pixels = np.asarray(Image.open(path)).copy()
    size = write(pixels)
    export(dataset, tmp_path / "out")
    pixels[3, 5] ^= 1
    assert write(pixels) == size
    export(dataset, tmp_path / "out", code=2)
    assert "[other_plan]" in capsys.readouterr().err


def test_what_no_sample_holds_may_change_without_another_plan(kept, dataset, out):
    change_json(clip_folder(dataset, IDS[0]) / "meta.json", timing={"render_seconds": 9.0})
    (clip_folder(dataset, IDS[0]) / "depth" / "000.npz").write_bytes(b"")
    export(dataset, out)
    assert files(out) == kept[2]


def test_added_clip_that_sorts_before_others_is_another_plan(kept, dataset, out, capsys):
    shutil.rmtree(clip_folder(dataset, IDS[1]))
    lines = [line for line in (dataset / "manifest.jsonl").read_text().splitlines(keepends=True) if IDS[1] not in line]
    (dataset / "manifest.jsonl").write_text("".join(lines))
    export(dataset, out, code=2)
    export(dataset, out, "--replan")
    add_clip(dataset, IDS[1], IDS[3])
    export(dataset, out, code=2)
    assert capsys.readouterr().err.count("[other_plan]") == 2


def test_another_version_of_an_encoder_is_another_plan(kept, out, capsys, monkeypatch):
    monkeypatch.setattr(run_module, "all_encoders", lambda: {"jpeg": {"version": "14"}})
    export(kept[0], out, code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]


def test_changed_voxels_are_another_plan_whose_shards_are_kept(dataset, out, capsys, kept):
    path = dataset / "assets" / SPLIT / "corner_train-1" / "voxels.npy"
    grid = np.load(path)
    grid[0, 0, 0] = ~grid[0, 0, 0]
    np.save(path, grid)
    export(dataset, out, code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]
    export(dataset, out, "--replan")
    assert "3 kept" in capsys.readouterr().err
    assert [name for name, data in files(out).items() if data != kept[2][name]] == ["index.json", "voxels_train.npz"]


def test_another_version_of_the_format_is_another_plan(kept, out, capsys, monkeypatch):
    monkeypatch.setattr(run_module, "FORMAT_VERSION", "0.2")
    export(kept[0], out, code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]


@pytest.mark.parametrize("name", ["eval-000000.tar", "voxels_eval.npz"])
def test_export_of_the_other_split_is_refused_with_replan_too(kept, out, capsys, name):
    (out / name).write_bytes(b"")
    export(kept[0], out, "--replan", code=2)
    assert f"{name}: split eval" in (said := capsys.readouterr().err) and "[other_split]" in said


def test_foreign_files_are_named_and_left_as_they_are(kept, out, capsys):
    foreign = [out / name for name in ("notes.txt", "train-1.tar", "train-000000.tar.bak", "voxels.npz")]
    for path in foreign:
        path.write_text("mine")
    export(kept[0], out)
    said = capsys.readouterr().err
    assert all(f"{path}: is none of this step's files" in said and path.read_text() == "mine" for path in foreign)


@pytest.mark.parametrize("name", ["train-000000.tar", "voxels_train.npz", "index.json"])
def test_foreign_file_of_an_export_s_name_is_never_overwritten(kept, tmp_path, capsys, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    export(kept[0], out, "--replan", code=2)
    assert f"{name}: there, and no export wrote it" in (said := capsys.readouterr().err) and "[foreign_export]" in said
    assert (out / name).read_text() == "mine" and len(list(out.iterdir())) == 1


def test_name_of_two_lines_is_refused(kept, tmp_path, capsys):
    export(kept[0], tmp_path / "a\nb", code=2)
    assert "a path without line breaks" in (said := capsys.readouterr().err) and said.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_clips_without_an_id_of_their_background_have_each_their_own(dataset, tmp_path):
    for clip_id, license_id in ((IDS[0], "CC0-1.0"), (IDS[2], "CC-BY-4.0")):
        path = clip_folder(dataset, clip_id) / "meta.json"
        background = json.loads(path.read_text())["background"]
        change_json(path, background={**background, "image_id": None, "provenance": {**background["provenance"], "license": license_id}})
    export(dataset, tmp_path / "out")
    backgrounds = json.loads((tmp_path / "out" / "index.json").read_text())["backgrounds"]
    assert {name: rights["license"] for name, rights in backgrounds.items() if name.startswith("of clip")} == {
        f"of clip {IDS[0]}": "CC0-1.0",
        f"of clip {IDS[2]}": "CC-BY-4.0",
    }


def test_export_into_the_dataset_is_refused(kept, capsys):
    export(kept[0], kept[0] / "export", code=2)
    assert "within the dataset" in capsys.readouterr().err and not (kept[0] / "export").exists()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def change_pose(pose: list[list[float]], path: Path) -> None:
    frames = json.loads(path.read_text())["frames"]
    frames[3]["T_cw"] = pose
    change_json(path, frames=frames)


def sheared(path: Path) -> str:
    objects = json.loads(path.read_text())
    objects[0]["R_wo"] = [[1, 0.01, 0], [0, 1, 0], [0, 0, 1]]
    return json.dumps(objects)


def animate(path: Path) -> None:
    with Image.open(path) as image:
        image.copy().save(path, save_all=True, append_images=[image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)])


SPOILT: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "flipped byte": ("rgb/003.png", flip, "checksum"),
    "cut picture": ("rgb/003.png", lambda path: path.write_bytes(path.read_bytes()[:-9]), "cut short"),
    "gray frame": ("rgb/003.png", lambda path: shutil.copy(path.parents[1] / "mask_visible" / "003.png", path), "colour type 0"),
    "missing mask": ("mask_visible/003.png", Path.unlink, "no such file"),
    "bytes after the end": ("rgb/003.png", lambda path: path.write_bytes(path.read_bytes() + b"x"), "1 bytes after its end"),
    "16 bits": ("mask_visible/003.png", lambda path: Image.fromarray(np.zeros((64, 64), np.uint16)).save(path), "16 bits a channel"),
    "coloured mask": ("mask_visible/003.png", lambda path: shutil.copy(path.parents[1] / "rgb" / "003.png", path), "colour type 2"),
    "cut record": ("cameras.json", lambda path: path.write_text(path.read_text()[:-9]), "cameras.json"),
    "infinite pose": ("objects.json", lambda path: path.write_text(path.read_text().replace('"t_wo": [', '"t_wo": [1e999, ', 1)), "1e999 is beyond"),
    "number beyond any float": (
        "cameras.json",
        lambda path: path.write_text(path.read_text().replace('"K": [', '"K": [' + "9" * 400 + ", ", 1)),
        "cameras.json: K",
    ),
    "infinite number that training ignores": ("meta.json", lambda path: path.write_text(path.read_text().replace("{", '{"a": 1e999,', 1)), "1e999 is beyond"),
    "seed of text": ("meta.json", partial(change_json, seed="abc"), "seed: 'abc', expected a whole number"),
    "seed that is true": ("meta.json", partial(change_json, seed=True), "seed: True, expected a whole number"),
    "no version": ("meta.json", partial(change_json, generator_version=None), "generator_version: None, expected text"),
    "commit that is a list": ("meta.json", partial(change_json, git_commit=["x"]), "git_commit: ['x'], expected text"),
    "camera of another last row": ("cameras.json", partial(change_pose, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [7, 7, 7, 7]]), "T_cw[3]: the last row"),
    "camera that scales": ("cameras.json", partial(change_pose, np.diag([2, 2, 2, 1]).tolist()), "T_cw[3]: R^T R off by 3"),
    "camera that mirrors": ("cameras.json", partial(change_pose, np.diag([1, 1, -1, 1]).tolist()), "T_cw[3]: a mirrored matrix"),
    "camera of huge numbers": ("cameras.json", partial(change_pose, np.diag([1e200, -1e200, 1, 1]).tolist()), "T_cw[3]: R^T R off by inf"),
    "object that is sheared": ("objects.json", lambda path: path.write_text(sheared(path)), "R_wo: R^T R off by"),
    "transparent frame": ("rgb/003.png", lambda path: Image.open(path).save(path, transparency=(0, 0, 0)), "a transparent colour (part tRNS)"),
    "animated frame": ("rgb/003.png", lambda path: animate(path), "an animated picture"),
    "animated mask": ("mask_visible/003.png", lambda path: animate(path), "an animated picture"),
    "other clip's record": ("meta.json", partial(change_json, clip_id="00000009"), "'00000009', expected '00000003'"),
    "too few frames": ("cameras.json", partial(change_json, frames=[]), "not numbered from 0"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_clip_that_cannot_be_read_is_named_and_no_index_is_written(dataset, tmp_path, capsys, kind):
    name, spoil, told = SPOILT[kind]
    spoil(path := clip_folder(dataset, IDS[3]) / name)
    export(dataset, tmp_path / "out", code=2)
    said = capsys.readouterr().err
    assert str(path) in said and told in said and "[bad_clip]" in said
    assert not (tmp_path / "out" / "index.json").exists()


def test_clip_of_another_number_of_frames_is_named(dataset, tmp_path, capsys):
    folder = clip_folder(dataset, IDS[3])
    change_json(folder / "cameras.json", frames=json.loads((folder / "cameras.json").read_text())["frames"][:31])
    visibility = json.loads((folder / "meta.json").read_text())["visibility"]
    change_json(folder / "meta.json", visibility={key: rows[:31] for key, rows in visibility.items()})
    export(dataset, tmp_path / "out", code=2)
    assert f"{folder}: 31 frames, expected 32 as the clips before" in capsys.readouterr().err


def test_background_of_another_origin_under_the_same_id_is_named(dataset, tmp_path, capsys):
    path = clip_folder(dataset, IDS[2]) / "meta.json"
    background = json.loads(path.read_text())["background"]
    change_json(path, background={**background, "provenance": {**background["provenance"], "license": "CC-BY-4.0"}})
    export(dataset, tmp_path / "out", code=2)
    assert "another origin of background ph_street_v0" in (said := capsys.readouterr().err) and str(path) in said


MANIFESTS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "another path": (lambda lines: [line.replace("clips/train/00000003", "clips/train/00000002") for line in lines], "the path 'clips/train/00000002'"),
    "a line twice": (lambda lines: [*lines, lines[3]], "clip 00000003 of train again"),
    "a line that is none": (lambda lines: [*lines, "{}\n"], "no clip_id of 8 digits"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_line_of_the_manifest_that_is_not_in_order_is_named(dataset, tmp_path, capsys, kind):
    change, told = MANIFESTS[kind]
    path = dataset / "manifest.jsonl"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    export(dataset, tmp_path / "out", code=2)
    assert told in (said := capsys.readouterr().err) and f"{path}:" in said and "[bad_clip]" in said


def test_mask_with_a_number_that_no_object_has_is_named(dataset, tmp_path, capsys):
    change_json(clip_folder(dataset, IDS[0]) / "meta.json", num_objects=1)
    path = clip_folder(dataset, IDS[0]) / "objects.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:1]))
    meta = json.loads((clip_folder(dataset, IDS[0]) / "meta.json").read_text())
    change_json(clip_folder(dataset, IDS[0]) / "meta.json", visibility={key: [row[:1] for row in rows] for key, rows in meta["visibility"].items()})
    export(dataset, tmp_path / "out", code=2)
    assert "the object number 2, expected 0 to 1" in capsys.readouterr().err


def test_other_sizes_than_the_format_s_are_refused_unless_allowed(kept, tmp_path, capsys):
    export(kept[0], tmp_path / "out", "--any-size=false", code=2)
    assert "32 frames of 64 x 64, expected 32 of 512 x 512" in capsys.readouterr().err


def test_clip_that_changed_since_the_plan_is_not_packed(kept, tmp_path):
    shard = PlannedShard("train-000000.tar", (Unit(IDS[0], ["0" * 64, {}]),))
    # the plan that was noted is the old clip's
    with pytest.raises(DataError, match=r"with --replan.*member_changed"):
        ShardWriter(kept[0], SPLIT, True)(tmp_path / shard.name, shard)
    assert list(tmp_path.iterdir()) == []


def test_voxels_of_another_shape_are_named_before_anything_is_written(dataset, tmp_path, capsys):
    np.save(dataset / "assets" / SPLIT / "corner_train-1" / "voxels.npy", np.zeros((32, 32, 32), bool))
    export(dataset, tmp_path / "out", code=2)
    assert "corner_train-1/voxels.npy" in (said := capsys.readouterr().err) and "[bad_asset]" in said and not (tmp_path / "out").exists()


def test_psnr_below_40_fails_without_index_where_that_is_asked_for_and_warns_otherwise(kept, tmp_path, capsys):
    out = tmp_path / "out"
    export(kept[0], out, "--psnr=fail", code=2)
    assert "[low_psnr]" in (said := capsys.readouterr().err) and "below 40 dB" in said and not (out / "index.json").exists()
    export(kept[0], out)
    assert "3 kept" in (said := capsys.readouterr().err) and "warning: " in said and files(out) == kept[2]


def test_psnr_that_fails_over_a_finished_export_leaves_it_finished(kept, out, capsys):
    export(kept[0], out, "--psnr=fail", code=2)
    assert "[low_psnr]" in capsys.readouterr().err and files(out) == kept[2]


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_index_stays_where_all_is_kept_and_the_disk_is_full(kept, out, capsys, monkeypatch):
    monkeypatch.setattr(packrecord, "write_json", full_disk)
    monkeypatch.setattr(run_module, "write_json", full_disk)
    export(kept[0], out, code=1)
    assert "[fault_disk]" in capsys.readouterr().err and files(out) == kept[2]


def test_index_goes_before_a_shard_is_made_again(kept, out, monkeypatch):
    (out / "train-000001.tar").write_bytes(b"")
    monkeypatch.setattr(ShardWriter, "__call__", full_disk)
    export(kept[0], out, code=1)
    assert not (out / "index.json").exists()


RECORDS: dict[str, Callable[[Path, Path], object]] = {
    "lost": lambda record, other: record.unlink(),
    "spoilt": lambda record, other: record.write_text(record.read_text().replace("sha256", "sha255", 1)),
    "none": lambda record, other: record.write_text("{}"),
    "of the plan that is asked for": lambda record, other: shutil.copy(other / record.name, record),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_finished_export_of_another_plan_is_refused_by_its_index_whatever_became_of_its_record(kept, out, tmp_path, capsys, kind):
    # more shards than before: no tar is one too many, which would show without the index
    if kind.startswith("of"):
        export(kept[0], tmp_path / "other", "--clips-per-shard=1")
    RECORDS[kind](out / ".plan.json", tmp_path / "other")
    export(kept[0], out, "--clips-per-shard=1", code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]


@pytest.mark.parametrize("more", [(), ("--replan",)])
def test_shards_with_neither_index_nor_record_that_can_be_read_are_left_alone(kept, out, capsys, more):
    (out / "index.json").unlink()
    (out / ".plan.json").write_text("mine")
    before = files(out)
    export(kept[0], out, *more, code=2)
    assert "train-000000.tar: there with a .plan.json that cannot be read" in (said := capsys.readouterr().err) and "[foreign_export]" in said
    assert files(out) == before and (out / ".plan.json").read_text() == "mine"


@pytest.mark.parametrize("text", ["mine", '{"steps": []}'])
def test_foreign_file_of_the_record_s_name_is_never_overwritten(kept, tmp_path, capsys, text):
    out = tmp_path / "out"
    out.mkdir()
    (out / ".plan.json").write_text(text)
    export(kept[0], out, "--replan", code=2)
    assert "[foreign_export]" in capsys.readouterr().err
    assert (out / ".plan.json").read_text() == text and len(list(out.iterdir())) == 1


def write_nothing(final: Path, shard: PlannedShard) -> Written:
    final.write_bytes(b"events")
    return Written(6, "0" * 64, 1)


def test_shards_of_another_product_are_never_replaced(kept, tmp_path, capsys):
    out = tmp_path / "out"
    plan = replace(cut_plan(SPLIT, [Unit("v_a", [])], 1, 1), kind="eventvox.release")
    pack_shards(plan, out, write_nothing, PackOptions(0), Declared(tmp_path / "list.json"))
    export(kept[0], out, "--replan", code=2)
    assert ".plan.json: the record of shards of eventvox.release" in (said := capsys.readouterr().err) and "[foreign_export]" in said
    assert files(out) == {"train-000000.tar": b"events"}


def test_export_is_never_replaced_by_another_product(out, kept):
    plan = replace(cut_plan(SPLIT, [Unit("v_a", [])], 1, 1), kind="eventvox.release")
    with pytest.raises(DataError, match="foreign_shards"):
        pack_shards(plan, out, write_nothing, PackOptions(0, replan=True), Declared(out / "list.json"))
    assert files(out) == kept[2]


def test_export_of_the_other_split_that_began_while_this_one_was_planned_is_refused(kept, tmp_path, capsys, monkeypatch):
    out, gather = tmp_path / "out", run_module.gather

    def meanwhile(*given):
        out.mkdir()
        (out / "eval-000000.tar").write_bytes(b"")
        return gather(*given)

    monkeypatch.setattr(run_module, "gather", meanwhile)
    export(kept[0], out, "--replan", code=2)
    assert "[other_split]" in capsys.readouterr().err and list(files(out)) == ["eval-000000.tar"]


def test_changed_licence_is_another_plan_whose_shards_are_kept(kept, dataset, out, capsys):
    change_json(dataset / "assets" / SPLIT / "corner_train-1" / "meta.json", license="CC-BY-NC-4.0")
    export(dataset, out, code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]
    export(dataset, out, "--replan")
    assert "3 kept" in capsys.readouterr().err
    assert [name for name, data in files(out).items() if data != kept[2][name]] == ["index.json"]


@pytest.mark.parametrize("more", ["--releasable-only", "--release-licenses=CC0-1.0 CC-BY-4.0"])
def test_another_rule_for_what_may_be_released_is_another_plan(kept, out, capsys, more):
    export(kept[0], out, more, code=2)
    assert "[other_plan]" in capsys.readouterr().err and files(out) == kept[2]


def test_split_without_clips_is_refused(kept, tmp_path, capsys):
    export(kept[0], tmp_path / "out", "--split=eval", code=2)
    assert "no clip of split eval" in capsys.readouterr().err
