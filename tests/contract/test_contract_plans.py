"""The contract holds for plan_clips, whose table is a number: how many clips the split has.

The facts that take an id out of the table or add one hold for the last clip, so the last comes first in `good`. A clip has no source of its own: it is drawn
from all assets and backgrounds. So where the contract speaks of a changed source, the fact here is that a changed asset makes every plan again at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sam3dvid.stage import clip_shards, plan_of, plans_place
from tests.contract.contract import ROOT, StageContract, World
from tests.sam3dvid.stock import SMALL, pool_row, write_asset, write_assets, write_pool

ALL, FEW = 100, 4
"""Clips of a work shard: all in one, or some in each of two, with room for the spare one."""


class PlansWorld(World):
    # one attempt of four draws: of these seeds, that of clip 2 alone draws no positions without overlap; nothing else rejects a plan here
    good: tuple[str, ...] = ("00000005", "00000000", "00000001", "00000003", "00000004")
    bad, bad_code, spare = "00000002", "plan_exhausted", "00000006"
    limits = ("--max-attempts=1", "--max-position-tries=4", "--planned-visible-px=1", "--planned-visible-frac=0")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.dataset, self.pool = folder / "it's a dataset", folder / "pool"
        self.place = plans_place(self.stage)
        self.per_shard: dict[str, int] = {}
        write_assets(self.dataset)
        write_pool(self.pool, [pool_row("a", 256, 256), pool_row("b", 512, 256)])

    def set_table(self, ids: tuple[str, ...]) -> None:
        assert sorted(ids) == [f"{index:08d}" for index in range(len(ids))]
        self.current = ids

    def change_source(self, item_id: str) -> None:
        write_asset(self.dataset, "box_3", (1.0, 0.9, 0.8))

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        per_shard = ALL if work_shards == 1 else FEW
        found = clip_shards(len(self.current), per_shard)
        self.per_shard |= dict.fromkeys(found, per_shard)
        return found

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        sizes = (f"--frames={SMALL.frames}", f"--width={SMALL.width}", f"--height={SMALL.height}", *self.limits)
        clips = (f"--dataset={self.dataset}", f"--pool={self.pool}", "--split=eval", f"--clips={len(self.current)}")
        where = (f"--clips-per-shard={self.per_shard[shard]}", f"--stage={self.stage}", f"--shard={shard}", f"--workers={workers}")
        return [sys.executable, str(ROOT / "scripts" / "plan_clips.py"), *clips, *sizes, *where, *flags]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("plan_clips", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return plan_of(self.place, item_id, "eval")


class TestPlanClips(StageContract):
    world_class = PlansWorld

    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, made: World) -> None:
        """A changed asset, which is a source of all: every plan is made again at once, whether it shows the asset or not."""
        old: dict[str, Any] = {item_id: made.one_file(item_id).read_bytes() for item_id in made.good}
        made.change_source(made.good[0])
        assert f"{len(made.good)} made" in made.run()
        assert {row["status"] for item_id, row in made.rows().items() if item_id != made.bad} == {"ok"}
        assert all(made.one_file(item_id).read_bytes() != old[item_id] for item_id in made.good)
