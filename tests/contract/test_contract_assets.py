"""The contract holds for the steps of assets: normalize_assets, and voxelize_assets, whose items are folders of the dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid.stage import ASSET_COLUMNS, ASSET_KEY, ASSET_NOTES, asset_of, assets_place, normalized_place
from shardwork.tables import write_table
from tests.contract.contract import ROOT, StageContract, World

NOON = (10**18, 10**18)


def write_box(folder: Path, seed: int) -> None:
    """Write a textured box whose sides and colours depend on the seed: model.obj, model.mtl, texture.png."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sides = rng.uniform(0.5, 3.0, 3)
    corners = [sides * [x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    quads = ((1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4))
    lines = [
        "mtllib model.mtl",
        *("v {:.6f} {:.6f} {:.6f}".format(*corner) for corner in corners),
        "vt 0 0",
        "vt 1 0",
        "vt 1 1",
        "vt 0 1",
        "usemtl paint",
        *("f " + " ".join(f"{vertex}/{corner}" for corner, vertex in enumerate(quad, 1)) for quad in quads),
    ]
    (folder / "model.obj").write_text("\n".join(lines) + "\n")
    (folder / "model.mtl").write_text("newmtl paint\nmap_Kd texture.png\n")
    Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / "texture.png")
    for path in folder.iterdir():
        os.utime(path, ns=NOON)


def write_points(folder: Path) -> None:
    """Write an OBJ file of points alone."""
    folder.mkdir(parents=True)
    (folder / "model.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 1\np 1 2 3\n")
    os.utime(folder / "model.obj", ns=NOON)


class NormalizeWorld(World):
    good: tuple[str, ...] = ("box_--a", "-dash", "NA", "000012")
    bad, bad_code, spare = "points", "points_only", "late"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.table = folder / "assets.csv"
        self.assets = folder / "it's assets"
        self.place = normalized_place(self.stage)
        for seed, item_id in enumerate((*self.good, self.spare)):
            write_box(self.assets / item_id, seed)
        write_points(self.assets / self.bad)

    def set_table(self, ids: tuple[str, ...]) -> None:
        rows = []
        for item_id in ids:
            folder = self.assets / item_id
            parts = [path for path in sorted(folder.iterdir()) if path.name != "model.obj"]
            seen = {path: (os.path.relpath(path, self.table.parent), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir()}
            name, size, mtime = seen[folder / "model.obj"]
            said = {"path": name, "bytes": str(size), "mtime_ns": str(mtime), "parts": json.dumps([seen[path] for path in parts])}
            known = {"split": "eval", "source": "toys", "source_name": item_id, "license": "CC0-1.0", "up_axis": "Z", "scores": '{"aesthetic": 6.5}'}
            rows.append({**dict.fromkeys((*ASSET_COLUMNS, *ASSET_NOTES), ""), ASSET_KEY: item_id, **said, **known})
        write_table(self.table, (*ASSET_COLUMNS, *ASSET_NOTES), rows)
        self.current = ids

    def change_source(self, item_id: str) -> None:
        write_box(self.assets / item_id, 99)
        for path in (self.assets / item_id).iterdir():
            os.utime(path, ns=(10**18, 10**18 + 1))

    def step(self, name: str, *flags: str) -> list[str]:
        return [sys.executable, str(ROOT / "scripts" / f"{name}.py"), f"--table={self.table}", *flags]

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        return self.step("normalize_assets", f"--stage={self.stage}", f"--shard={shard}", f"--workers={workers}", *flags)

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("normalize_assets", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return self.stage / "eval" / f"{item_id}.glb"


class VoxelizeWorld(NormalizeWorld):
    bad_status = "upstream"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.normalized = self.stage
        self.dataset = self.home = folder / "run" / "dataset"
        self.stage = folder / "run" / "voxels"
        self.place = assets_place(self.stage, self.dataset)
        self.ready: dict[str, object] = {}

    def earlier(self, shard: str) -> None:
        now = [self.table.read_bytes(), [(path.name, path.stat().st_mtime_ns) for path in sorted(self.assets.rglob("*"))]]
        if self.ready.get(shard) == now and list(self.normalized.glob(f"shards/normalize_assets/{shard}.*")):
            return
        self.ready[shard] = now
        line = self.step("normalize_assets", f"--stage={self.normalized}", f"--shard={shard}")
        subprocess.run(line, check=True, capture_output=True)

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        self.earlier(shard)
        where = (f"--normalized={self.normalized}", f"--dataset={self.dataset}", f"--stage={self.stage}")
        return self.step("voxelize_assets", *where, f"--shard={shard}", f"--workers={workers}", *flags)

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("voxelize_assets", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return asset_of(self.dataset, item_id, "eval")


class TestNormalizeAssets(StageContract):
    world_class = NormalizeWorld


class TestVoxelizeAssets(StageContract):
    world_class = VoxelizeWorld

    def test_redo_makes_everything_again(self, made: World, undisturbed) -> None:
        """Each folder is computed anew in memory and compared: what is equal to the last byte is not written again."""
        assert f"{len(made.good)} adopted" in made.run(1, 0, "--redo=1")
        assert made.everything() == undisturbed

    @pytest.mark.parametrize("kind", ["flipped", "missing"])
    def test_mesh_that_changed_since_it_was_normalised_is_set_aside_and_made_again(self, world: VoxelizeWorld, undisturbed, kind: str) -> None:
        (shard,) = world.shards(1)
        line = world.command(shard, 1)
        spoilt = world.normalized / "eval" / f"{world.good[1]}.glb"
        data = bytearray(spoilt.read_bytes())
        data[len(data) // 2] ^= 1
        spoilt.unlink() if kind == "missing" else spoilt.write_bytes(data)
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "[fault_stale]" in done.stderr and spoilt.name in done.stderr
        assert not spoilt.exists() and (world.normalized / "quarantine" / "eval" / spoilt.name).exists() is (kind == "flipped")
        assert list(world.normalized.glob("shards/normalize_assets/*")) == [], "the same command of the workflow makes the file again"
        world.run()
        assert world.everything() == undisturbed

    def test_dataset_holds_nothing_but_finished_assets(self, made: VoxelizeWorld) -> None:
        found = sorted(path.relative_to(made.dataset).as_posix() for path in made.dataset.rglob("*") if path.is_file())
        names = ("mesh.glb", "meta.json", "voxels.npy")
        assert found == sorted(f"assets/eval/{item_id}/{name}" for item_id in made.good for name in names)
