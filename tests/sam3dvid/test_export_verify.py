"""Planted faults of an export, each of which `verify` must name."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

from sam3dvid.export.__main__ import main
from sam3dvid.export.verify import verify_export
from shardwork.digests import seal, sha256_file, unseal
from shardwork.jsonio import read_json, write_json
from tests.sam3dvid.damaged_npz import NPZ_FLIPS, flipped_npz
from tests.sam3dvid.exported_datasets import IDS, SPLIT, add_clip, change_json, clip_folder, export, make_dataset, members, repaint


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Path, Path]:
    """A dataset and its export, which no test changes."""
    root = tmp_path_factory.mktemp("kept")
    dataset, out = make_dataset(root / "dataset"), root / "out"
    export(dataset, out)
    return dataset, out


@pytest.fixture
def dataset(kept, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(kept[0], tmp_path / "dataset"))


@pytest.fixture
def out(kept, tmp_path) -> Path:
    """A copy of the export, to be spoilt."""
    return Path(shutil.copytree(kept[1], tmp_path / "out"))


def told(out: Path, dataset: Path | None = None) -> str:
    """Return the faults, one a line; without any the empty text."""
    return "\n".join(map(str, verify_export(out, dataset)))


def write_tar(path: Path, named: list[tuple[str, bytes]]) -> None:
    """Write a tar with the fields that an export gives its members, by the standard library."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in named:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))


def agree(out: Path, name: str = "train-000000.tar") -> None:
    """Make the index agree with a shard as it is now, as somebody who hides a change would: size, sha256 and CRC-32 of its clips."""
    index = unseal(read_json(out / "index.json"))
    (entry,) = (shard for shard in index["shards"] if shard["name"] == name)
    entry.update(bytes=(out / name).stat().st_size, sha256=sha256_file(out / name))
    found = members(out / name)
    for clip_id in entry["clip_ids"]:
        index["clips"][clip_id]["crc32"] = "".join(f"{zlib.crc32(data):08x}" for key, data in found.items() if key.startswith(clip_id))
    write_json(out / "index.json", seal(index))


def edited_sample(out: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the first sample's JSON in place, and make the index agree."""
    found = members(out / "train-000000.tar")
    info = json.loads(found["00000000.json"])
    edit(info)
    found["00000000.json"] = json.dumps(info).encode()
    write_tar(out / "train-000000.tar", list(found.items()))
    agree(out)


def changed_sample(out: Path, key: str, value: object) -> None:
    """Give the first sample's JSON another value, and make the index agree."""
    edited_sample(out, lambda info: info.update({key: value}))


def edited_index(out: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the index in place, and seal it again."""
    index = unseal(read_json(out / "index.json"))
    edit(index)
    write_json(out / "index.json", seal(index))


def test_whole_export_has_no_fault_with_and_without_its_dataset(kept):
    assert told(kept[1]) == "" and told(kept[1], kept[0]) == ""


def test_the_tests_own_writer_is_not_what_is_found(out):
    found = members(out / "train-000000.tar")
    write_tar(out / "train-000000.tar", list(found.items()))
    assert told(out) == ""


def test_tar_cut_at_a_member_boundary_is_named_with_the_first_member_that_is_missing(out):
    path = out / "train-000000.tar"
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"00000001.json\0")])
    said = told(out)
    assert f"train-000000.tar: {path.stat().st_size} bytes, expected {len(data)} as in the index" in said
    assert "65 members are missing, 00000001.json first" in said and "the file ends at byte" in said


def test_flipped_byte_of_a_payload_is_named_by_its_member(out):
    path = out / "train-000000.tar"
    data = bytearray(path.read_bytes())
    at = data.index(b"00000001.rgb.004.jpg\0")
    data[at + 512 + 300] ^= 1
    path.write_bytes(data)
    lines = told(out).splitlines()
    assert [line.partition(", expected")[0].rpartition(" ")[0] for line in lines] == [
        "train-000000.tar: sha256",
        "train-000000.tar: 00000001.rgb.004.jpg: CRC-32",
    ]


def test_flipped_byte_of_a_header_is_named_by_its_place(out):
    path = out / "train-000000.tar"
    data = bytearray(path.read_bytes())
    data[data.index(b"00000001.rgb.004.jpg\0") + 110] ^= 1
    path.write_bytes(data)
    assert "header at byte" in told(out) and "its checksum does not hold" in told(out)


def test_two_members_with_each_other_s_payload_are_named(out):
    found = members(out / "train-000000.tar")
    one, two = "00000000.visible.000.png", "00000001.visible.000.png"
    found[one], found[two] = found[two], found[one]
    write_tar(out / "train-000000.tar", list(found.items()))
    assert f"train-000000.tar: {one}: CRC-32" in told(out) and f"train-000000.tar: {two}: CRC-32" in told(out)


def test_payload_of_another_frame_is_told_by_its_name(out):
    found = members(out / "train-000000.tar")
    found["00000000.rgb.003.jpg"] = found["00000000.rgb.009.jpg"]
    write_tar(out / "train-000000.tar", list(found.items()))
    assert "the payload of 00000000.rgb.009.jpg" in told(out)


def test_members_in_another_order_are_named_by_the_first(out):
    found = list(members(out / "train-000000.tar").items())
    found[1], found[2] = found[2], found[1]
    write_tar(out / "train-000000.tar", found)
    agree(out)
    assert "00000000.rgb.001.jpg: stands as member 1, expected 00000000.rgb.000.jpg there" in told(out)


def test_interleaved_samples_are_named(out):
    found = list(members(out / "train-000000.tar").items())
    write_tar(out / "train-000000.tar", [found[0], found[65], *found[1:65], *found[66:]])
    assert "00000001.json: stands as member 1" in told(out)


def test_member_that_stands_twice_and_one_too_many_are_named(out):
    found = list(members(out / "train-000000.tar").items())
    write_tar(out / "train-000000.tar", [*found[:2], found[1], ("00000000.depth.npz", b"x"), *found[2:]])
    said = told(out)
    assert "00000000.rgb.000.jpg: stands 2 times, expected once" in said and "00000000.depth.npz: a member of this tar" in said


def test_shard_in_another_s_place_is_named_with_its_own(out):
    shutil.copy(out / "train-000001.tar", out / "train-000000.tar")
    assert "train-000000.tar: holds the clips of train-000001.tar: 2 clips, 00000002 to 00000003, expected 2 clips, 00000000 to 00000001" in told(out)


def test_shard_of_another_plan_is_named(kept, out, tmp_path):
    export(kept[0], tmp_path / "other", "--clips-per-shard=3")
    shutil.copy(tmp_path / "other" / "train-000001.tar", out / "train-000001.tar")
    said = told(out)
    assert "train-000001.tar: " in said and "00000004.json: a clip of train-000002.tar" in said and "65 members are missing, 00000002.json first" in said


def test_missing_shard_and_extra_files_are_named(out):
    (out / "train-000001.tar").unlink()
    (out / "train-000007.tar").write_bytes(b"")
    assert told(out).splitlines() == [
        "train-000001.tar: missing, expected a file that the index names",
        "train-000007.tar: not named by the index, expected the files of this export alone",
    ]


def test_edited_index_is_named(out):
    path = out / "index.json"
    path.write_text(path.read_text().replace('"samples": 5', '"samples": 6'))
    assert "index.json: not what its seal says" in told(out)


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]"])
def test_index_that_is_none_is_named(out, data):
    (out / "index.json").write_bytes(data)
    assert told(out).startswith("index.json: ")


def test_missing_index_is_named(out):
    (out / "index.json").unlink()
    assert told(out) == "index.json: no such file, expected the index that an export writes last into its folder, such as export/eval"


def test_index_of_an_earlier_export_is_named_by_the_shard_that_differs(dataset, out, kept):
    repaint(clip_folder(dataset, IDS[2]) / "rgb" / "000.png")
    export(dataset, out, "--replan")
    shutil.copy(kept[1] / "index.json", out / "index.json")
    said = told(out)
    assert "train-000001.tar: 00000002.rgb.000.jpg: CRC-32" in said and "train-000000.tar" not in said


def test_export_older_than_its_dataset_is_stale(dataset, out):
    repaint(clip_folder(dataset, IDS[2]) / "rgb" / "000.png")
    assert told(out) == "" and "00000002: the dataset's clip has the fingerprint" in told(out, dataset)


def test_clip_that_the_dataset_got_or_lost_since_is_named(dataset, out):
    add_clip(dataset, "00000009", IDS[0])
    lines = [line for line in (dataset / "manifest.jsonl").read_text().splitlines(keepends=True) if IDS[4] not in line]
    (dataset / "manifest.jsonl").write_text("".join(lines))
    said = told(out, dataset)
    assert "index.json: 00000004: not in the dataset's manifest" in said and "index.json: 00000009: in the dataset, not in the index" in said


def test_licence_of_an_asset_that_changed_since_is_named_with_the_clips_that_it_refuses(dataset, out):
    change_json(dataset / "assets" / SPLIT / "corner_train-1" / "meta.json", license="CC-BY-NC-4.0")
    assert told(out) == ""
    lines = told(out, dataset).splitlines()
    assert 'index.json: assets: corner_train-1: license: "CC-BY-4.0", expected "CC-BY-NC-4.0" as in the dataset: the export is stale' in lines
    assert 'train-000001.tar: 00000002: refusals: none, expected ["asset corner_train-1: CC-BY-NC-4.0"], as the dataset says now: the export is stale' in lines
    assert sum(": refusals: " in line for line in lines) == 3


def test_clip_that_was_left_out_and_may_be_released_now_is_named(dataset, tmp_path):
    path = dataset / "assets" / SPLIT / "corner_train-1" / "meta.json"
    change_json(path, license="CC-BY-NC-4.0")
    export(dataset, tmp_path / "out", "--releasable-only")
    assert told(tmp_path / "out", dataset) == ""
    change_json(path, license="CC-BY-4.0")
    lines = told(tmp_path / "out", dataset).splitlines()
    assert len(lines) == 3 and lines[0].startswith('index.json: left_out: 00000000: ["asset corner_train-1: CC-BY-NC-4.0"], expected none')


SAMPLES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "extra key": (lambda info: info.update(depth=[]), ": an extra key 'depth'"),
    "missing key": (lambda info: info.pop("seed"), ": no key 'seed'"),
    "clip_id of another": (lambda info: info.update(clip_id="00000001"), ": clip_id: '00000001', expected '00000000'"),
    "other split": (lambda info: info.update(split="eval"), ": split: 'eval', expected 'train'"),
    "other number of objects": (lambda info: info.update(num_objects=3), ": num_objects: 3, expected 2"),
    "objects that are no list": (lambda info: info.update(objects={}), ": objects, visibility: another layout"),
    "visibility without a key": (lambda info: info["visibility"].pop("amodal_px"), ": objects, visibility: another layout"),
    "k out of order": (lambda info: info["objects"][1].update(k=3), ": objects[1]: another layout"),
    "object without a key": (lambda info: info["objects"][0].pop("s_co"), ": objects[0]: another layout"),
    "asset that the index lacks": (lambda info: info["objects"][1].update(asset_id="jug"), ": objects[1]: asset jug"),
    "asset_id that is a list": (lambda info: info["objects"][0].update(asset_id=["jug"]), ": objects[0]: asset ['jug']"),
    "K of two rows": (lambda info: info["K"].pop(), ": K: "),
    "T_cw of 31 frames": (lambda info: info["T_cw"].pop(), ": T_cw: "),
    "R_co of 31 frames": (lambda info: info["objects"][1]["R_co"].pop(), ": objects[1]: R_co: "),
    "t_wo of text": (lambda info: info["objects"][0].update(t_wo=["0", "0", "0"]), ": objects[0]: t_wo: "),
    "visible_px of one object": (
        lambda info: info["visibility"].update(visible_px=[row[:1] for row in info["visibility"]["visible_px"]]),
        ": visibility: visible_px: ",
    ),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_sample_whose_json_is_not_in_order_is_named_without_its_dataset(out, kind):
    edit, said = SAMPLES[kind]
    edited_sample(out, edit)
    assert told(out).startswith(f"train-000000.tar: 00000000.json{said}")


INDEXES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "clips of a shard in another order": (lambda index: index["shards"][0]["clip_ids"].reverse(), "index.json: shards: clips repeated or out of order"),
    "clip without an entry": (lambda index: index["clips"].pop("00000002"), "index.json: clips: other clips than its shards have"),
    "asset without voxels": (lambda index: index["assets"].update(jug={}), "voxels_train.npz: jug is missing, expected the assets of the index"),
    "voxels without an asset": (lambda index: index["assets"].pop("corner_train-2"), "voxels_train.npz: corner_train-2 is too many"),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_index_that_was_sealed_with_a_fault_is_named(out, kind):
    edit, said = INDEXES[kind]
    edited_index(out, edit)
    assert told(out).startswith(said)


def test_changed_pose_is_named_where_the_dataset_is_at_hand(kept, out):
    info = json.loads(members(out / "train-000000.tar")["00000000.json"])
    info["objects"][0]["t_co"][5][2] += 1e-3
    changed_sample(out, "objects", info["objects"])
    assert told(out) == "" and "00000000.json: objects: " in told(out, kept[0])


def test_changed_number_of_the_camera_is_told_by_how_much(kept, out):
    info = json.loads(members(out / "train-000000.tar")["00000000.json"])
    info["K"][0][2] += 0.5
    changed_sample(out, "K", info["K"])
    assert "00000000.json: K: numbers that differ by up to 0.5" in told(out, kept[0])


def swap_pictures(out: Path, one: str, two: str) -> None:
    found = members(out / "train-000000.tar")
    found[one] = found[two]
    write_tar(out / "train-000000.tar", list(found.items()))
    agree(out)


def test_mask_that_is_not_the_dataset_s_is_named_with_its_pixels(kept, out):
    swap_pictures(out, "00000000.visible.000.png", "00000000.visible.031.png")
    said = told(out, kept[0])
    assert "00000000.visible.000.png: " in said and "pixels differ from mask_visible/000.png" in said


@pytest.mark.parametrize(("member", "like", "source"), [("rgb.000.jpg", "visible.000.png", "rgb/000.png"), ("visible.000.png", "json", "mask_visible/000.png")])
def test_member_that_is_no_picture_of_its_kind_is_named(kept, out, member, like, source):
    swap_pictures(out, f"00000000.{member}", f"00000000.{like}")
    assert f"00000000.{member}: cannot be compared with {source}" in told(out, kept[0])


def test_frame_that_is_not_the_dataset_s_shows_in_the_psnr(kept, out):
    swap_pictures(out, "00000000.rgb.000.jpg", "00000000.rgb.031.jpg")
    assert "00000000.rgb.000.jpg: " in (said := told(out, kept[0])) and "dB against the dataset" in said


def test_changed_voxels_file_is_named(out):
    path = out / "voxels_train.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    said = told(out)
    assert "voxels_train.npz: sha256" in said and "voxels_train.npz: cannot be read" in said


@pytest.mark.parametrize("place", NPZ_FLIPS)
def test_flipped_bit_of_the_voxels_file_is_named_beside_its_sha256(out, place):
    path = out / "voxels_train.npz"
    path.write_bytes(flipped_npz(path.read_bytes(), place))
    lines = told(out).splitlines()
    assert lines[0].startswith("voxels_train.npz: sha256") and all(line.startswith("voxels_train.npz: ") for line in lines)


def test_size_beyond_any_file_in_a_header_is_named(out):
    path = out / "train-000000.tar"
    data = bytearray(path.read_bytes())
    at = data.index(b"00000001.rgb.004.jpg\0")
    data[at + 124 : at + 136] = b"\x80" + b"\xff" * 11
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    path.write_bytes(data)
    assert "member 00000001.rgb.004.jpg: cut after" in told(out)


def test_voxels_that_differ_from_the_dataset_s_are_counted(dataset, out):
    path = dataset / "assets" / SPLIT / "corner_train-1" / "voxels.npy"
    grid = np.load(path)
    grid[0, 0, :3] = ~grid[0, 0, :3]
    np.save(path, grid)
    assert told(out, dataset) == "voxels_train.npz: corner_train-1: 3 voxels differ, expected the voxels of the dataset"


def test_faults_do_not_depend_on_the_workers(kept, out):
    shutil.copy(out / "train-000001.tar", out / "train-000000.tar")
    assert verify_export(out, kept[0], workers=2) == verify_export(out, kept[0], workers=0)


@pytest.mark.parametrize(("spoil", "code"), [(False, 0), (True, 1)])
def test_command_exits_0_for_a_whole_export_and_1_for_faults(kept, out, capsys, spoil, code):
    if spoil:
        change_json(out / "index.json", samples=6)
    assert main(["verify", str(out), f"--dataset={kept[0]}", "--workers=0", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["valid"] is not spoil


def test_command_exits_2_where_there_is_nothing_to_look_at(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "none")]) == 2 and "no such folder" in capsys.readouterr().err
