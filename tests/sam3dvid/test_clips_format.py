"""The page on the clips' format: its code runs straight from the page; shards are read by webdataset and by PyTorch as it says."""

import ast
import importlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid import conventions
from sam3dvid.export_reader import iter_samples
from tests.sam3dvid.datasets import Clip, asset_id, write_dataset
from tests.sam3dvid.handmade_exports import painted, write_tar, write_voxels

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/clips_format.md"
EXPORT = "results/demo/export/eval"
IDS = [f"{number:08d}" for number in (0, 3, 12, 31, 100)]
needs_webdataset = pytest.mark.skipif(importlib.util.find_spec("webdataset") is None, reason="webdataset is not installed: what it reads is not tried")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: the example of a data set is not tried")


def run_block(word, folder, more=""):
    """Run the one block of code on the page with this word in it; return what it prints."""
    (code,) = [part.partition("```")[0] for part in PAGE.read_text().split("```python\n")[1:] if word in part.partition("```")[0]]
    (folder / "block.py").write_text(code + more)
    paths = {"PYTHONPATH": ":".join([str(ROOT / "src"), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-W", "ignore", "block.py"], cwd=folder, capture_output=True, text=True, check=False, env=paths)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Return a folder with an export of five clips in three shards where the demo's is."""
    folder = tmp_path_factory.mktemp("page")
    for number, ids in enumerate((IDS[:2], IDS[2:3], IDS[3:])):
        write_tar(folder / EXPORT / f"eval-{number:06d}.tar", [member for clip_id in ids for member in painted(clip_id)])
    cup = np.zeros((64, 64, 64), bool)
    cup[1, 2, 3] = True
    write_voxels(folder / EXPORT / "voxels_eval.npz", {"cup": cup})
    return folder


# Code on the page


def test_the_loader_of_the_dataset_finds_voxel_centres_on_the_silhouette(tmp_path):
    write_dataset(tmp_path / "results/demo/dataset", (Clip("eval", "00000025", (0,), "ph_meadow_v0"),), 2, 512)
    said = run_block("voxel centers on amodal mask", tmp_path, "print(rgb.shape, depth.dtype, (visible_k == np.isfinite(depth)).all())\n").splitlines()
    share = re.fullmatch(r"voxel centers on amodal mask: (.*)", said[0])
    assert share is not None and float(share[1]) > 0.9
    assert said[1] == "(512, 512, 3) float32 True"


def test_the_lines_on_meshes_give_the_canonical_vertices(tmp_path):
    write_dataset(tmp_path / "results/demo/dataset", (Clip("eval", "00000025", (0,), "ph_meadow_v0"),), 2, 16)
    assets = tmp_path / "results/demo/dataset/assets/eval"
    (assets / asset_id("eval", 0)).rename(assets / "plate")
    said = run_block("canonical_from_gltf", tmp_path, "print([round(float(side), 6) for side in abs(x_o).max(axis=0)])\n")
    # the corner is 1 long in x, 0.7 in y and 0.5 in z
    assert said.splitlines()[1] == "[0.5, 0.35, 0.25]"


def test_the_reader_of_the_export_runs_as_written(export):
    said = run_block(
        "import iter_samples, load_voxels\n\nfor", export, "    print(clip_id, rgb.shape, R_co.shape, t_co[31] @ [1, 1, 1], s_co.shape, np.argwhere(voxels))\n"
    )
    assert said.splitlines() == [f"{clip_id} (32, 16, 16, 3) (32, 3, 3) 34 (32, 3) [[1 2 3]]" for clip_id in IDS[:2]]


def test_the_lines_on_sam3d_print_what_they_say(tmp_path):
    (line,) = run_block("q, t, s = ours_to_sam3d", tmp_path, "assert R_co.tolist() == np.eye(3).tolist() and t_co.tolist() == [0.2, -0.1, 3.0]\n").splitlines()
    (said,) = re.findall(r"print\(q, t, s\)  # (.*)", PAGE.read_text())
    assert line == said


def test_the_numbers_that_readers_can_check_are_those_of_the_conventions():
    text = PAGE.read_text()
    T_cw = conventions.look_at([3.0, 0, 0], [0.0, 0, 0])
    for point, (u, v) in {(0, 1, 0): (438.498, 255.5), (0, 0, 1): (255.5, 72.502)}.items():
        assert conventions.project(conventions.K(), T_cw[:3, :3] @ point + T_cw[:3, 3]) == pytest.approx([u, v], abs=5e-4)
        assert all(f"{number:g}" in text for number in (u, v))
    assert "R_cw = [[0, 1, 0], [0, 0, -1], [-1, 0, 0]]" in text and f"{conventions.FOCAL_PX}" in text


# webdataset


def as_webdataset(path, *decoders):
    wds = importlib.import_module("webdataset")
    return list(wds.WebDataset(str(path), shardshuffle=False).decode(*decoders))


@needs_webdataset
def test_webdatasets_own_decoder_turns_masks_into_three_channels(export):
    first = as_webdataset(export / EXPORT / "eval-000000.tar", "rgb8")[0]
    assert first["visible.005.png"].shape == (16, 16, 3)


@needs_webdataset
def test_webdataset_reads_the_same_clips_pixels_and_json_as_the_reader(export):
    path = export / EXPORT / "eval-000000.tar"

    def masks(key, data):
        return np.asarray(Image.open(io.BytesIO(data))) if key.endswith(".png") else None

    theirs = as_webdataset(path, masks, "rgb8")
    ours = list(iter_samples(path))
    assert [one["__key__"] for one in theirs] == [clip_id for clip_id, *_ in ours]
    for one, (_, rgb, visible, info) in zip(theirs, ours, strict=True):
        assert np.array_equal(np.stack([one[f"rgb.{t:03d}.jpg"] for t in range(32)]), rgb)
        assert np.array_equal(np.stack([one[f"visible.{t:03d}.png"] for t in range(32)]), visible)
        assert one["json"] == info


@needs_webdataset
def test_webdataset_makes_four_samples_of_two_that_are_mixed_up_without_an_error(tmp_path):
    a, b = painted(IDS[0]), painted(IDS[1])
    path = write_tar(tmp_path / "s.tar", a[:33] + b[:33] + a[33:] + b[33:])
    assert len(as_webdataset(path)) == 4


@needs_webdataset
def test_webdataset_takes_a_dot_in_an_id_for_a_part_of_the_members_name(tmp_path):
    (one,) = as_webdataset(write_tar(tmp_path / "s.tar", painted("clip.v1")))
    assert one["__key__"] == "clip" and "v1.rgb.000.jpg" in one


@needs_webdataset
def test_the_lines_on_webdataset_yield_each_clip_with_its_masks(export):
    lines = sorted(run_block("masks_as_they_are", export).splitlines())
    assert lines == [f"{clip_id} (32, 16, 16, 3) (32, 16, 16) uint8 1" for clip_id in IDS]


@needs_torch
@needs_webdataset
def test_webdatasets_pipeline_in_several_workers_yields_each_clip_once(export, tmp_path):
    program = """
import sys
import webdataset as wds
shards = "results/demo/export/eval/eval-{000000..000002}.tar"
dataset = wds.WebDataset(shards, shardshuffle=10, nodesplitter=wds.split_by_node).shuffle(4).to_tuple("__key__", "json")
print(sorted(key for key, info in wds.WebLoader(dataset, batch_size=None, num_workers=3)))
"""
    (tmp_path / "program.py").write_text(program)
    paths = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-W", "ignore", str(tmp_path / "program.py")], cwd=export, capture_output=True, text=True, check=False, env=paths)
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout) == IDS


# PyTorch

CHECKS = """
    import itertools, json
    from sam3dvid.sam3d import sam3d_to_ours

    plain = {clip["clip_id"]: clip for clip in clips}
    found = {"ids": sorted(plain)}
    one = plain["00000012"]
    found["shapes"] = {key: [list(value.shape), str(value.dtype)] for key, value in one.items() if hasattr(value, "shape")}
    t = one["frames"].numpy()
    found["frames"] = len(set(t.tolist())) == 16 and (np.diff(t) > 0).all().item() and t.min().item() >= 0 and t.max().item() <= 31
    # frame t is of red t, and its mask t % 3
    found["red"] = np.abs(one["rgb"][:, 0, 8, 8].numpy().astype(int) - t).max().item()
    found["mask"] = (one["visible"][:, 8, 8].numpy() == t % 3).all().item()
    # the object stands still at (0, 0, 3 + t) of the camera; the mean of all 32 distances is 18.5
    R, _, _ = sam3d_to_ours(one["q"][0].numpy(), np.zeros(3), np.ones(3))
    found["R"] = np.abs(R - np.eye(3)).max().item()
    found["distance"] = np.abs(one["t_rel_norm"][0].numpy() - (3 + t) / 18.5).max().item()
    found["size"] = np.abs(one["s_tilde"][0, :, 0].numpy() - 0.5 / (3 + t)).max().item()
    found["voxel"] = torch.nonzero(one["voxels"]).tolist()
    clips.set_epoch(2)
    later = {clip["clip_id"]: clip["frames"].tolist() for clip in clips}
    found["other frames later"] = any(later[name] != plain[name]["frames"].tolist() for name in plain)
    spread = {name: frames for batch in DataLoader(clips, batch_size=None, num_workers=4) for name, frames in [(batch["clip_id"], batch["frames"].tolist())]}
    found["same frames for any workers"] = spread == later
    ranks = []
    distributed.is_available = distributed.is_initialized = lambda: True
    distributed.get_world_size = lambda: 2
    for rank in range(2):
        distributed.get_rank = lambda: rank
        ranks.append([clip["clip_id"] for clip in DataLoader(clips, batch_size=None, num_workers=2)])
    found["ranks"] = sorted(itertools.chain(*ranks))
    found["each rank has some"] = all(ranks)
    print(json.dumps(found))
"""


@needs_torch
def test_the_dataset_of_the_page_yields_16_frames_of_each_clip_with_sam3ds_poses(export):
    *epochs, last = run_block("class TrainClips", export, CHECKS).splitlines()
    for epoch in ("0", "1"):
        named = [re.findall(r"'(\d{8})'", line) for line in epochs if line.startswith(f"{epoch} ")]
        assert sorted(clip_id for batch in named for clip_id in batch) == IDS
    found = json.loads(last)
    assert found.pop("shapes") == {
        "frames": [[16], "torch.int64"],
        "rgb": [[16, 3, 16, 16], "torch.uint8"],
        "visible": [[16, 16, 16], "torch.uint8"],
        "q": [[4, 16, 4], "torch.float32"],
        "t_unit": [[4, 16, 3], "torch.float32"],
        "s_tilde": [[4, 16, 3], "torch.float32"],
        "t_rel_norm": [[4, 16], "torch.float32"],
        "voxels": [[4, 64, 64, 64], "torch.bool"],
    }
    assert max(found.pop(key) for key in ("R", "distance", "size")) < 1e-6
    assert found.pop("red") <= 3
    assert (found.pop("ids"), found.pop("ranks"), found.pop("voxel")) == (IDS, IDS, [[0, 1, 2, 3]])
    assert found == dict.fromkeys(("frames", "mask", "other frames later", "same frames for any workers", "each rank has some"), True)
