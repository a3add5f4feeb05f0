"""What an export writes: members, JSON, pictures, voxels, index. Source of the expected: the format, sections 3.3 and 9."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

pytest.importorskip("webdataset", reason="webdataset writes the tars: it comes with the extra `clips`")

from sam3dvid.export.pictures import jpeg, mask_png, psnr_db, rgb_pixels
from sam3dvid.export.voxels import packed_voxels, write_voxels
from sam3dvid.export_reader import iter_samples
from sam3dvid.validate import Choice, validate_dataset
from shardwork.digests import unseal
from tests.sam3dvid.exported_datasets import IDS, clip_folder, export, files, flags, make_dataset, members

ROOT = Path(__file__).resolve().parents[2]
KEYS_9_2 = {"clip_id", "split", "seed", "num_objects", "generator_version", "git_commit", "K", "T_cw", "objects", "visibility"}
OBJECT_KEYS = {"k", "asset_id", "R_wo", "t_wo", "s_wo", "R_co", "t_co", "s_co"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """A dataset that no test changes."""
    return make_dataset(tmp_path_factory.mktemp("export") / "dataset")


@pytest.fixture(scope="module")
def out(dataset, tmp_path_factory) -> Path:
    """An export that no test changes."""
    folder = tmp_path_factory.mktemp("export") / "out"
    export(dataset, folder)
    return folder


@pytest.fixture(scope="module")
def first(out) -> dict[str, bytes]:
    """The members of the first shard."""
    return members(out / "train-000000.tar")


@pytest.fixture(scope="module")
def index(out):
    return json.loads((out / "index.json").read_text())


def info_of(first, clip_id="00000000"):
    return json.loads(first[f"{clip_id}.json"])


def test_a_sample_is_65_members_with_its_json_first_then_frames_then_masks(first):
    one = [
        *["00000000.json"],
        *(f"00000000.rgb.{t:03d}.jpg" for t in range(32)),
        *(f"00000000.visible.{t:03d}.png" for t in range(32)),
    ]
    assert list(first) == [*one, *(name.replace("00000000", "00000001") for name in one)] and len(one) == 65


def test_the_round_trip_suite_finds_no_difference_from_the_dataset(dataset, out):
    report = validate_dataset(dataset, Choice(("T5",), any_size=True, export=out))
    assert report.lines() == [] and report.valid
    assert report.counts == {"files": 2, "samples": 5, "voxels": 3}


def test_the_reader_gives_the_dataset_s_masks_and_frames_near_its_own(dataset, out):
    samples = [sample for path in sorted(out.glob("*.tar")) for sample in iter_samples(path)]
    assert [clip_id for clip_id, *_ in samples] == list(IDS)
    for clip_id, rgb, visible, info in samples:
        folder = clip_folder(dataset, clip_id)
        masks, frames = (np.stack([np.asarray(Image.open(path)) for path in sorted((folder / name).iterdir())]) for name in ("mask_visible", "rgb"))
        assert np.array_equal(visible, masks) and np.abs(rgb.astype(int) - frames).mean() < 5
        assert info["num_objects"] == len(info["objects"]) == len(json.loads((folder / "objects.json").read_text()))


def test_clips_stand_sorted_so_many_in_a_shard(out):
    held = [sorted({name.partition(".")[0] for name in members(path)}) for path in sorted(out.glob("*.tar"))]
    assert held == [list(IDS[0:2]), list(IDS[2:4]), list(IDS[4:])]


def test_members_bear_no_time_owner_or_umask(out):
    with tarfile.open(out / "train-000000.tar") as tar:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode, m.type) for m in tar} == {(0, 0, 0, "", "", 0o644, b"0")}


def test_sample_json_has_the_keys_of_the_format_and_the_background(first):
    info = info_of(first)
    assert info.keys() == KEYS_9_2 | {"background"}
    assert {frozenset(one) for one in info["objects"]} == {frozenset(OBJECT_KEYS)}


def test_sample_json_tells_the_background_s_provenance_as_the_clip_does(dataset, first):
    assert info_of(first)["background"] == json.loads((clip_folder(dataset, "00000000") / "meta.json").read_text())["background"]


def test_blender_version_is_told_only_where_the_clip_tells_it(dataset, tmp_path):
    from tests.sam3dvid.exported_datasets import change_json

    copy = tmp_path / "dataset"
    shutil.copytree(dataset, copy)
    change_json(clip_folder(copy, "00000001") / "meta.json", blender_version="4.5.15")
    export(copy, tmp_path / "out")
    found = members(tmp_path / "out" / "train-000000.tar")
    assert "blender_version" not in info_of(found) and info_of(found, "00000001")["blender_version"] == "4.5.15"


def test_camera_poses_are_the_product_of_camera_and_world_pose(first):
    info = info_of(first)
    for one in info["objects"]:
        for t, T_cw in enumerate(np.array(info["T_cw"])):
            assert np.abs(np.array(one["R_co"][t]) - T_cw[:3, :3] @ np.array(one["R_wo"])).max() < 1e-14
            assert np.abs(np.array(one["t_co"][t]) - (T_cw[:3, :3] @ np.array(one["t_wo"]) + T_cw[:3, 3])).max() < 1e-14
            assert one["s_co"][t] == one["s_wo"]


def test_camera_visibility_and_seed_are_those_of_the_clip(dataset, first):
    info, folder = info_of(first), clip_folder(dataset, "00000000")
    cameras, meta = (json.loads((folder / name).read_text()) for name in ("cameras.json", "meta.json"))
    assert (info["K"], info["T_cw"]) == (cameras["K"], [frame["T_cw"] for frame in cameras["frames"]])
    assert (info["visibility"], info["seed"]) == (meta["visibility"], 1_000_000)


def test_masks_are_the_dataset_s_files_to_the_byte(dataset, first):
    for t in range(32):
        assert first[f"00000000.visible.{t:03d}.png"] == (clip_folder(dataset, "00000000") / "mask_visible" / f"{t:03d}.png").read_bytes()


def png(pixels: np.ndarray, mode: str | None = None, **more) -> bytes:
    buffer = io.BytesIO()
    image = Image.fromarray(pixels)
    if mode == "P":
        image = Image.frombytes("P", image.size, pixels.tobytes())
        image.putpalette([0, 0, 0, 200, 10, 10, 10, 200, 10, *[0] * 759])
    image.save(buffer, "PNG", **more)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["text", "palette"])
def test_mask_with_more_than_its_pixels_is_encoded_anew_with_the_same_pixels(kind):
    pixels = np.random.default_rng(0).integers(0, 3, (64, 64), np.uint8)
    note = PngImagePlugin.PngInfo()
    note.add_text("Date", "2020-01-01")
    data = png(pixels, pnginfo=note) if kind == "text" else png(pixels, "P", bits=8)
    made = mask_png(data, "mask", 64, 64, 2)
    with Image.open(io.BytesIO(made)) as image:
        assert made != data and image.mode == "L" and not image.info and np.array_equal(np.asarray(image), pixels)


def test_frames_are_jpegs_of_quality_95_that_share_no_colour_sample(first):
    data = first["00000000.rgb.000.jpg"]
    with Image.open(io.BytesIO(data)) as image:
        # Annex K's table at quality 95 is a tenth of it, rounded: 16 -> 2, 11 -> 1
        assert cast(Any, image).quantization[0][:2] == [2, 1]
    start = data.index(b"\xff\xc0")
    sampling = [data[start + 11 + 3 * component] for component in range(3)]
    assert sampling == [0x11, 0x11, 0x11]


def test_a_colour_profile_of_a_png_does_not_enter_the_jpeg(first):
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    profiled = png(pixels, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    assert b"iCCP" in profiled
    assert jpeg(rgb_pixels(profiled, "frame", 64, 64)) == jpeg(pixels)
    assert not any(mark in data for name, data in first.items() if name.endswith(".jpg") for mark in (b"ICC_PROFILE", b"Exif"))


def test_psnr_is_the_mean_square_over_all_channels_in_decibel(dataset, first, index):
    found = []
    for t in range(32):
        wanted = np.asarray(Image.open(clip_folder(dataset, "00000000") / "rgb" / f"{t:03d}.png")).astype(float)
        given = np.asarray(Image.open(io.BytesIO(first[f"00000000.rgb.{t:03d}.jpg"]))).astype(float)
        found.append(10 * math.log10(255**2 / ((wanted - given) ** 2).mean()))
    entry = index["clips"]["00000000"]
    assert entry["psnr_min_db"] == pytest.approx(min(found), abs=1e-3) and entry["psnr_min_frame"] == int(np.argmin(found))
    assert entry["frames_below_40_db"] == sum(one < 40 for one in found)


def test_psnr_of_equal_pixels_is_100():
    pixels = np.full((16, 16, 3), 128, np.uint8)
    assert psnr_db(pixels, jpeg(pixels)) == 100.0


def test_voxel_1_2_3_is_byte_528_value_16(tmp_path):
    grid = np.zeros((64, 64, 64), bool)
    grid[1, 2, 3] = True
    np.save(tmp_path / "voxels.npy", grid)
    packed = packed_voxels(tmp_path / "voxels.npy")
    assert packed.shape == (32768,) and packed.dtype == np.uint8
    assert {int(at): int(packed[at]) for at in np.flatnonzero(packed)} == {528: 16}


def test_voxels_hold_the_assets_that_the_split_uses_sorted_and_no_other(out):
    with np.load(out / "voxels_train.npz") as archive:
        assert archive.files == ["corner_train-0", "corner_train-1", "corner_train-2"]


def test_an_asset_may_bear_the_name_of_an_argument_of_savez(tmp_path):
    folder = tmp_path / "assets" / "train" / "file"
    folder.mkdir(parents=True)
    np.save(folder / "voxels.npy", np.ones((64, 64, 64), bool))
    write_voxels(tmp_path / "voxels.npz", tmp_path, "train", ["file"])
    with np.load(tmp_path / "voxels.npz") as archive:
        assert archive["file"].sum() == 255 * 32768


def test_voxels_bear_no_time(out):
    with zipfile.ZipFile(out / "voxels_train.npz") as archive:
        assert {(member.date_time, member.compress_type) for member in archive.infolist()} == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED)}


def test_index_tells_ids_sizes_and_digests_of_the_shards(out, index):
    assert [(shard["name"], shard["clip_ids"], shard["bytes"], shard["sha256"], shard["samples"]) for shard in index["shards"]] == [
        (path.name, list(IDS[2 * at : 2 * at + 2]), path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest(), len(IDS[2 * at : 2 * at + 2]))
        for at, path in enumerate(sorted(out.glob("*.tar")))
    ]
    assert index["voxels"]["sha256"] == hashlib.sha256((out / "voxels_train.npz").read_bytes()).hexdigest()


def test_index_tells_of_each_shard_the_least_psnr_and_the_sums_of_its_clips(index):
    clips = index["clips"]
    for shard in index["shards"]:
        own = [clips[clip_id] for clip_id in shard["clip_ids"]]
        assert shard["psnr_min_db"] == sorted(one["psnr_min_db"] for one in own)[0]
        assert shard["frames_below_40_db"] == sum(one["frames_below_40_db"] for one in own) and shard["members"] == 65 * len(own)
    assert index["psnr"]["frames_below"] == sum(one["frames_below_40_db"] for one in clips.values())


def test_the_least_psnr_of_all_is_that_of_the_worst_shard(dataset, tmp_path):
    export(dataset, tmp_path / "out", "--clips-per-shard=1")
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    least = sorted({shard["psnr_min_db"] for shard in index["shards"]})
    assert len(least) == 2 and index["psnr"]["min_db"] == least[0]


def test_index_is_sealed(index):
    assert unseal(index) is not None and unseal({**index, "samples": 4}) is None


def test_index_tells_the_conventions_that_a_trainer_must_know(index):
    told = index["conventions"]
    assert told["pose"].startswith("x_c = R_co (s_co * x_o) + t_co") and "y down" in told["axes"]["camera"]
    assert "at integers" in told["pixel_centres"] and "no quaternions" in told["matrices"] and "no metric scale" in told["units"]


def test_index_tells_the_encoders_and_their_versions(index):
    import PIL
    import webdataset

    jpeg_told = index["encoders"]["jpeg"]
    assert (jpeg_told["version"], jpeg_told["quality"], jpeg_told["chroma"]) == (PIL.__version__, 95, "4:4:4") and jpeg_told["libjpeg"]
    assert index["encoders"]["tar"] == {"library": "webdataset", "version": webdataset.__version__}


def test_index_tells_licence_and_origin_of_assets_and_backgrounds(index):
    assert {asset["license"] for asset in index["assets"].values()} == {"CC-BY-4.0"}
    assert index["backgrounds"]["ph_street_v0"]["source_url"] == "https://polyhaven.com/a/street"


def test_workers_umask_locale_zone_file_times_and_place_change_no_byte(dataset, out, tmp_path):
    moved = tmp_path / "it's moved"
    moved.mkdir()
    # copied in reversed order, with other times and rights
    for path in sorted((path for path in dataset.rglob("*") if path.is_file()), reverse=True):
        target = moved / path.relative_to(dataset)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        os.utime(target, (1, 10**9))
    env = {**os.environ, "LC_ALL": "C", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT / "src")}
    line = [sys.executable, "-m", "sam3dvid.export", *flags(moved, tmp_path / "out"), "--workers=2"]
    done = subprocess.run(line, env=env, umask=0o077, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "out") == files(out)


def test_webdataset_reads_the_shards_with_the_clips_ids_as_keys(out):
    import webdataset

    samples = list(webdataset.WebDataset(str(out / "train-000001.tar"), shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == list(IDS[2:4])
    assert {len([field for field in sample if not field.startswith("__")]) for sample in samples} == {65}


def test_the_script_of_the_rule_writes_the_bytes_of_the_command(dataset, out, tmp_path):
    line = [sys.executable, str(ROOT / "scripts" / "export_clips.py"), *flags(dataset, tmp_path / "out", "--replan")]
    subprocess.run(line, check=True, capture_output=True)
    assert files(tmp_path / "out") == files(out)
