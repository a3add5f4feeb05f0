"""Finished assets: what a folder holds, that it is a function of its inputs, and what happens to one that was spoilt."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sam3dvid.assets.mesh import read_canonical
from sam3dvid.assets.voxelize_step import voxel_items, voxelize_step
from sam3dvid.assets.voxels import voxelize
from sam3dvid.stage import ASSET_COLUMNS, ASSET_NOTES, asset_of, assets_place, mesh_of, normalized_place
from shardwork.errors import Fault
from shardwork.run import Options, run_guard, write_manifest
from shardwork.tables import write_table

ROOT = Path(__file__).resolve().parents[2]
SHARD = "0000-of-0001"


class World:
    """A table, its normalised meshes, and the place of finished assets."""

    def __init__(self, folder):
        self.folder = folder
        self.before = normalized_place(folder / "run" / "assets")
        self.dataset = folder / "run" / "dataset"
        self.place = replace(assets_place(folder / "run" / "voxels", self.dataset), before=self.before)
        self.rows, self.records = [], []
        self.add("ball", "eval", trimesh.creation.icosphere(3, 0.5), author="Ann", scores='{"aesthetic": 6}')
        self.add("box", "train", trimesh.creation.box((1, 0.25, 0.5)))  # canonical (1, .5, .25)

    def add(self, name, split, mesh, **notes):
        path, _ = mesh_of(self.before, name, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(trimesh.Scene(mesh).export(file_type="glb"))
        row = dict.fromkeys((*ASSET_COLUMNS, *ASSET_NOTES), "")
        row |= {"asset_id": name, "path": f"raw/{name}.obj", "split": split, "source": "gso", "source_name": f"The {name}", "license": "CC-BY-4.0"}
        self.rows.append(row | {"up_axis": "Z", "bytes": "7", "mtime_ns": "5", "parts": '[["raw/maps/t.png", 3, 4]]'} | notes)
        record = {
            "blender_version": "4.5.15",
            "code": "ok",
            "id": name,
            "mesh_bytes": path.stat().st_size,
            "mesh_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "notes": ["mirrored"],
            "num_triangles": len(mesh.faces),
            "num_vertices": len(mesh.vertices),
            "offset": [0.0, 0.25, 0.0],
            "raw_bbox": [[0, 0, 0], [2, 1, 2]],
            "scale": 0.5,
            "split": split,
            "status": "ok",
            "textures": [{"height": 4, "name": "t.png", "width": 4}],
        }
        self.records.append(record)

    def earlier(self):
        write_manifest(self.before.manifest("normalize_assets", SHARD, "by-hand"), self.records, [record["id"] for record in self.records])

    def run(self, **options):
        self.earlier()
        items = lambda rows: voxel_items(rows, self.rows, self.place, self.before)  # noqa: E731
        return {row["id"]: row for row in run_guard(voxelize_step(), SHARD, items, "normalize_assets", self.place, Options(workers=0, **options))}

    def files(self):
        return {str(path.relative_to(self.dataset)): path.read_bytes() for path in sorted(self.dataset.rglob("*")) if path.is_file()}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_finished_asset_holds_mesh_voxels_and_meta_and_nothing_else(world):
    world.run()
    assert sorted(world.files()) == [f"assets/{name}/{file}" for name in ("eval/ball", "train/box") for file in ("mesh.glb", "meta.json", "voxels.npy")]


def test_the_mesh_is_the_normalised_one_without_a_second_copy(world):
    world.run()
    made, before = asset_of(world.dataset, "ball", "eval") / "mesh.glb", mesh_of(world.before, "ball", "eval")[0]
    assert os.path.samefile(made, before)


def test_the_mesh_is_copied_where_there_are_no_links(world, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *paths: (_ for _ in ()).throw(OSError(18, "cross-device")))
    world.run()
    made, before = asset_of(world.dataset, "ball", "eval") / "mesh.glb", mesh_of(world.before, "ball", "eval")[0]
    assert made.read_bytes() == before.read_bytes() and not os.path.samefile(made, before)


def test_voxels_are_those_of_the_canonical_mesh_and_of_the_formats_dtype(world):
    rows = world.run()
    for name, split, count in (("ball", "eval", 19160), ("box", "train", 7074)):
        path = asset_of(world.dataset, name, split) / "voxels.npy"
        grid = np.load(path, allow_pickle=False)
        assert (grid.shape, grid.dtype, grid.flags.c_contiguous, int(grid.sum())) == ((64, 64, 64), np.bool_, True, count)
        assert path.read_bytes()[:8] == b"\x93NUMPY\x01\x00" and rows[name]["num_voxels"] == count


def test_the_box_is_long_along_x_then_y_then_z(world):
    world.run()
    grid = np.load(asset_of(world.dataset, "box", "train") / "voxels.npy")
    assert [int(axis.sum()) for axis in (grid.any((1, 2)), grid.any((0, 2)), grid.any((0, 1)))] == [64, 33, 17]


def test_meta_says_all_that_the_format_asks_for(world):
    world.run()
    folder = asset_of(world.dataset, "ball", "eval")
    data = (folder / "voxels.npy").read_bytes()
    assert json.loads((folder / "meta.json").read_text()) == {
        "asset_id": "ball",
        "attribution": "",
        "author": "Ann",
        "blender_version": "4.5.15",
        "filter_scores": {"aesthetic": 6.0},
        "generator_version": "0.1.0",
        "license": "CC-BY-4.0",
        "mesh": {"bytes": (folder / "mesh.glb").stat().st_size, "sha256": hashlib.sha256((folder / "mesh.glb").read_bytes()).hexdigest()},
        "normalization": {"offset": [0.0, 0.25, 0.0], "raw_bbox": [[0, 0, 0], [2, 1, 2]], "scale": 0.5},
        "notes": ["mirrored"],
        "num_triangles": 1280,
        "num_vertices": 642,
        "num_voxels": 19160,
        "source": "gso",
        "source_files": [{"bytes": 7, "name": "ball.obj"}, {"bytes": 3, "name": "t.png"}],
        "source_name": "The ball",
        "source_url": "",
        "split": "eval",
        "textures": [{"height": 4, "name": "t.png", "width": 4}],
        "up_axis": "Z",
        "voxels": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()},
    }


def test_no_path_of_the_machine_stands_in_a_folder(world):
    world.run()
    assert not [name for name, data in world.files().items() if str(world.folder).encode() in data]


def test_every_vertex_of_a_finished_asset_lies_in_a_set_voxel(world):
    world.run()
    for name, split in (("ball", "eval"), ("box", "train")):
        folder = asset_of(world.dataset, name, split)
        vertices, _ = read_canonical(folder / "mesh.glb")
        index = np.clip(np.floor((vertices + 0.5) * 64).astype(int), 0, 63)
        assert np.load(folder / "voxels.npy")[tuple(index.T)].all()


@pytest.mark.parametrize("shift", [(0.5, 0, 0), (0, 0.5, 0), (0, 0, -0.5)])
def test_a_grid_that_is_half_a_voxel_off_fails_the_test_of_vertices(shift):
    # a control of the test above: the counts alone would not show it
    sphere = trimesh.creation.icosphere(5, 0.45)
    vertices = np.asarray(sphere.vertices)
    moved = voxelize(vertices + np.array(shift) / 64, np.asarray(sphere.faces, np.int32))
    assert not moved[tuple(np.floor((vertices + 0.5) * 64).astype(int).T)].all()


def test_a_second_run_keeps_what_is_there(world, capfd):
    world.run()
    before = {path: path.stat().st_ino for path in world.dataset.rglob("*")}
    rows = world.run()
    assert {path: path.stat().st_ino for path in world.dataset.rglob("*")} == before and rows["ball"]["status"] == "ok"


def test_two_worlds_give_the_same_bytes_and_rows(tmp_path):
    worlds = [World(tmp_path / name) for name in "ab"]
    rows = [world.run() for world in worlds]
    assert worlds[0].files() == worlds[1].files() and rows[0] == rows[1]


def test_a_changed_licence_makes_meta_anew_and_nothing_else(world):
    world.run()
    before = world.files()
    world.rows[0]["license"] = "CC0-1.0"
    world.run()
    assert [name for name, data in world.files().items() if data != before[name]] == ["assets/eval/ball/meta.json"]


def journal_gone(world):
    world.place.journal("voxelize_assets", SHARD).unlink()


def test_whole_folders_without_a_journal_are_adopted(world):
    rows = world.run()
    inodes = {path: path.stat().st_ino for path in world.dataset.rglob("*.npy")}
    journal_gone(world)
    assert world.run() == rows
    assert {path: path.stat().st_ino for path in world.dataset.rglob("*.npy")} == inodes


@pytest.mark.parametrize("name", ["voxels.npy", "meta.json", "mesh.glb"])
@pytest.mark.parametrize("known", [True, False])
def test_a_folder_in_which_a_byte_was_changed_is_set_aside_and_made_again(world, name, known):
    world.run()
    before = world.files()
    path = asset_of(world.dataset, "ball", "eval") / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # a link shares its bytes with the normalised mesh, which is not what is meant here
    path.write_bytes(data)
    if not known:
        journal_gone(world)
    world.run(full=True)
    assert world.files() == before
    assert (world.place.quarantine / "assets" / "eval" / "ball" / name).read_bytes() == data


def test_a_file_that_does_not_belong_there_makes_the_folder_foreign(world):
    world.run()
    (asset_of(world.dataset, "ball", "eval") / "extra.txt").write_text("x")
    journal_gone(world)
    world.run()
    assert "assets/eval/ball/extra.txt" not in world.files()


@pytest.mark.parametrize("kind", ["flipped", "missing"])
def test_a_mesh_that_changed_since_it_was_normalised_is_set_aside_and_asked_for_again(world, kind):
    world.earlier()
    path, _ = mesh_of(world.before, "ball", "eval")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink() if kind == "missing" else path.write_bytes(data)
    with pytest.raises(Fault, match=r"ball\.glb.*fault_stale"):
        world.run()
    assert not path.exists() and not world.before.manifests("normalize_assets", SHARD)
    if kind == "flipped":
        assert (world.before.quarantine / "eval" / "ball.glb").read_bytes() == data
    assert not asset_of(world.dataset, "ball", "eval").exists() and asset_of(world.dataset, "box", "train").exists()


def test_an_asset_that_was_refused_before_has_a_row_and_no_folder(world):
    world.run()
    world.records[0] = {"id": "ball", "status": "quarantined", "code": "flat_mesh"}
    row = world.run()["ball"]
    assert (row["status"], row["code"], row["step"]) == ("upstream", "flat_mesh", "normalize_assets")
    assert not asset_of(world.dataset, "ball", "eval").exists()


def test_a_mesh_outside_the_cube_is_refused(world):
    world.add("far", "eval", trimesh.creation.box((1.1, 1, 1)))
    assert world.run()["far"]["code"] == "not_canonical"


def test_an_asset_that_the_table_lacks_is_a_mismatch(world):
    world.rows.pop()
    with pytest.raises(Fault, match="manifest_mismatch"):
        world.run()


def test_the_script_does_as_the_step_does(world):
    rows = world.run()
    expected = world.files()
    table = world.folder / "table.csv"
    write_table(table, (*ASSET_COLUMNS, *ASSET_NOTES), world.rows)
    other = world.folder / "other"
    line = [sys.executable, str(ROOT / "scripts" / "voxelize_assets.py"), f"--table={table}", f"--normalized={world.before.stage}", f"--dataset={other}"]
    line += [f"--stage={world.folder / 'stage'}", f"--shard={SHARD}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    world.dataset = other
    assert world.files() == expected
    made = (world.folder / "stage" / "shards" / "voxelize_assets" / f"{SHARD}.by-hand.jsonl").read_text().splitlines()
    assert [json.loads(line)["voxels_sha256"] for line in made] == [rows[name]["voxels_sha256"] for name in ("ball", "box")]
