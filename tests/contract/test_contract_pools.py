"""The contract holds for build_polyhaven_pool, but for what a frozen pool is: added, changed and removed sources are refused, nothing is made anew."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sam3dvid.backgrounds.tables import PANORAMA_COLUMNS
from sam3dvid.stage import ONE_SHARD, pool_place
from shardwork.tables import write_table
from tests.contract.contract import ROOT, StageContract, World, strace

NOON = (10**18, 10**18)
STEP = "build_polyhaven_pool"


def write_panorama(path: Path, seed: int, height: int = 512) -> None:
    """Write coarse noise that the seed decides, 1024 pixels wide."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (8, 16, 3), np.uint8)
    Image.fromarray(noise).resize((1024, height)).save(path)
    os.utime(path, ns=NOON)


class PoolWorld(World):
    """All panoramas are one shard, whatever number is asked for; each gives two views, all in train."""

    good: tuple[str, ...] = ("hall_--a", "-dash", "NA", "000012")
    bad, bad_code, spare = "photo", "not_equirectangular", "late"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stage = folder / "run" / "books"
        self.home = folder / "run" / "pool"
        self.table = folder / "panoramas.csv"
        self.place = pool_place("polyhaven", self.stage, self.home)
        for seed, slug in enumerate((*self.good, self.spare)):
            write_panorama(self.source(slug), seed)
        write_panorama(self.source(self.bad), 9, 600)

    def source(self, slug: str) -> Path:
        return self.folder / "it's panoramas" / f"{slug}.png"

    def set_table(self, ids: tuple[str, ...]) -> None:
        rows = []
        for slug in ids:
            seen = self.source(slug).stat()
            said = {"slug": slug, "path": os.path.relpath(self.source(slug), self.table.parent), "license": "CC0-1.0"}
            rows.append({**dict.fromkeys(PANORAMA_COLUMNS, ""), **said, "bytes": str(seen.st_size), "mtime_ns": str(seen.st_mtime_ns)})
        write_table(self.table, PANORAMA_COLUMNS, rows)
        self.current = ids

    def change_source(self, item_id: str) -> None:
        write_panorama(self.source(item_id), 99)
        os.utime(self.source(item_id), ns=(10**18, 10**18 + 1))

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        return {ONE_SHARD: list(self.current)}

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        where = (f"--table={self.table}", f"--pool={self.home}", f"--stage={self.stage}", f"--workers={workers}")
        small = ("--views=2", "--width=512", "--height=256", "--eval-fraction=0")
        return [sys.executable, str(ROOT / "scripts" / f"{STEP}.py"), *where, *small, *flags]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest(STEP, shard, "by-hand")

    def output(self, item_id: str) -> Path:
        assert self.home is not None
        return self.home / "train" / f"ph_{item_id}_v0.jpg"

    def is_refused(self, code: str) -> None:
        """Fail unless the command is refused as bad input and changes nothing that is published."""
        before = self.published()
        done = self.run_shard(ONE_SHARD, 1)
        assert done.returncode == 2 and f"[{code}]" in done.stderr, done.stderr
        assert self.published() == before


class TestBuildPolyhavenPool(StageContract):
    world_class = PoolWorld

    def test_added_id_reruns_its_shard_only(self, made: World) -> None:
        """Here it is refused: a picture more could move clips that were planned."""
        assert isinstance(made, PoolWorld)
        made.set_table((*made.ids(), made.spare))
        made.is_refused("pool_frozen")

    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, made: World) -> None:
        """Here it is refused after that too, before any item is looked at."""
        assert isinstance(made, PoolWorld)
        made.change_source(made.good[0])
        made.is_refused("source_changed")
        made.set_table(made.ids())
        made.is_refused("pool_frozen")

    def test_removed_id_is_set_aside_and_comes_back_without_work(self, made: World, undisturbed) -> None:
        """Here its removal is refused, so nothing is set aside."""
        assert isinstance(made, PoolWorld)
        made.set_table(made.ids()[1:])
        made.is_refused("pool_frozen")
        made.set_table(made.ids())
        assert f"{len(made.good)} kept" in made.run()
        assert made.everything() == undisturbed

    def test_redo_makes_everything_again(self, made: World, undisturbed) -> None:
        """Here it looks at every digest again and keeps what is as it was frozen: another encoder's bytes must not take its place."""
        before = {path: path.stat().st_mtime_ns for path in map(made.output, made.good)}
        assert f"{len(made.good)} adopted" in made.run(1, 0, "--redo=1")
        assert made.everything() == undisturbed and {path: path.stat().st_mtime_ns for path in before} == before

    @pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: failing system calls are not tried")
    def test_failed_redo_keeps_what_was_there(self, made: World, undisturbed) -> None:
        """Here the manifest alone is written."""
        before = made.published()
        done = strace(made.command(ONE_SHARD, 0, "--redo=1"), "rename:error=EIO:when=1")
        assert done.returncode == 1, done.stderr
        assert made.published() == before
        made.run(1, 0, "--redo=1")
        assert made.everything() == undisturbed

    @pytest.mark.parametrize("index", ["train.jsonl", "eval.jsonl", "CREDITS.md"])
    def test_lost_index_comes_back_as_it_was(self, made: World, undisturbed, index: str) -> None:
        assert made.home is not None
        (made.home / index).unlink()
        made.run()
        assert made.everything() == undisturbed

    def test_pool_holds_nothing_but_views_index_and_credits(self, made: World) -> None:
        views = [f"train/ph_{slug}_v{k}.jpg" for slug in made.good for k in (0, 1)]
        assert sorted(made.published()) == sorted([*views, "CREDITS.md", "eval.jsonl", "selection.json", "train.jsonl"])
