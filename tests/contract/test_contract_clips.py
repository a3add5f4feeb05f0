"""The contract holds for composite_clips, whose items are folders of the dataset, and for render_clip_controls; the steps before them run undisturbed.

As for plan_clips the table is a number of clips, so the last clip comes first in `good`, and a changed asset changes every clip at once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sam3dvid.composite.composite_step import Stock, composite_items, composite_step
from sam3dvid.composite.origin import Origin
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.composite.validate_step import clip_items, validate_step
from sam3dvid.stage import PLAN_STEP, RENDER_STEP, clip_controls_place, clip_of, clip_shards, clips_place
from shardwork.jsonio import read_json, write_json
from shardwork.place import the_manifest
from shardwork.run import Options, run_shard
from tests.contract.contract import ROOT, StageContract, World
from tests.sam3dvid.datasets import corner_mesh, glb_bytes
from tests.sam3dvid.renders import LIMITED, SPLIT, Renders

CHANGED = "corner_eval-4"
"""An asset that some of the clips show."""
ALL, FEW = 100, 4
"""Clips of a work shard: all in one, or some in each of two, with room for the spare one."""


class CompositeWorld(World):
    # one attempt of four draws: of these seeds, that of clip 2 alone draws no positions without overlap; nothing else rejects a plan here
    good: tuple[str, ...] = ("00000005", "00000000", "00000001", "00000003", "00000004")
    bad, bad_code, spare = "00000002", "plan_exhausted", "00000006"
    bad_status = "upstream"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # its own dataset, beside that of the assets: nothing but clips stands in it
        self.home = self.dataset = folder / "run" / "it's a dataset"
        self.renders = Renders(folder / "earlier", settings=LIMITED)
        self.place = replace(clips_place(self.stage, self.dataset), before=self.renders.renders)
        self.per_shard: dict[str, int] = {}
        self.changes = 0
        self.ready: dict[str, object] = {}

    def set_table(self, ids: tuple[str, ...]) -> None:
        assert sorted(ids) == [f"{index:08d}" for index in range(len(ids))]
        self.current = ids

    def change_source(self, item_id: str) -> None:
        """Give one of the assets another mesh."""
        self.changes += 1
        folder = self.renders.dataset / "assets" / SPLIT / CHANGED
        data = glb_bytes(*corner_mesh(4 + 5 * self.changes))
        (folder / "mesh.glb").write_bytes(data)
        write_json(folder / "meta.json", {**read_json(folder / "meta.json"), "mesh": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}})

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        per_shard = ALL if work_shards == 1 else FEW
        found = clip_shards(len(self.current), per_shard)
        self.per_shard |= dict.fromkeys(found, per_shard)
        return found

    def ids_of(self, shard: str) -> list[str]:
        return clip_shards(len(self.current), self.per_shard[shard])[shard]

    def earlier(self, shard: str) -> None:
        ids = self.ids_of(shard)
        if self.ready.get(shard) == (now := [ids, self.changes]) and self.renders.renders.manifests(RENDER_STEP, shard):
            return
        self.ready[shard] = now
        self.renders.plan(ids, shard)
        self.renders.render(shard)

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        self.earlier(shard)
        made = self.renders
        where = (f"--plans={made.plans.stage}", f"--renders={made.renders.stage}", f"--dataset={self.dataset}", f"--pool={made.pool}", f"--split={SPLIT}")
        line = [sys.executable, str(ROOT / "scripts" / "composite_clips.py"), *where, f"--stage={self.stage}", f"--shard={shard}", f"--workers={workers}"]
        return [*line, *flags]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("composite_clips", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return clip_of(self.dataset, item_id, SPLIT)

    def one_file(self, item_id: str) -> Path:
        """Return a file that the step writes itself: one that it links is the render's too."""
        return self.output(item_id) / "rgb" / "001.png"


class ControlsWorld(CompositeWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = None
        self.dataset.mkdir(parents=True)
        (self.dataset / "assets").symlink_to(os.path.relpath(self.renders.dataset / "assets", self.dataset))
        self.clips = replace(clips_place(folder / "run" / "clips", self.dataset), before=self.renders.renders)
        self.place = clip_controls_place(self.stage, self.clips)

    def earlier(self, shard: str) -> None:
        super().earlier(shard)
        if self.ready.get(f"clips {shard}") == self.ready[shard] and self.clips.manifests("composite_clips", shard):
            return
        self.ready[f"clips {shard}"] = self.ready[shard]
        plans, renders = self.renders.plans, self.renders.renders
        planned, rendered = the_manifest(plans, PLAN_STEP, shard), the_manifest(renders, RENDER_STEP, shard)
        step = composite_step(CompositeSettings(), Stock(plans, self.renders.pool, Origin("0.1.0", "0" * 40)))
        made = run_shard(step, shard, composite_items(rendered, planned, SPLIT, renders, self.clips), self.clips, Options(workers=0))
        run_shard(validate_step(self.dataset, any_size=True), shard, clip_items(made, self.clips, SPLIT), self.clips, Options(workers=0))

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        self.earlier(shard)
        where = (f"--clips={self.clips.stage}", f"--dataset={self.dataset}", f"--split={SPLIT}")
        line = [sys.executable, str(ROOT / "scripts" / "render_clip_controls.py"), *where, f"--stage={self.stage}", f"--shard={shard}", f"--workers={workers}"]
        return [*line, *flags]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("render_clip_controls", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return self.stage / SPLIT / f"{item_id}.depth.mkv"

    def one_file(self, item_id: str) -> Path:
        return self.output(item_id)


class ClipsContract(StageContract):
    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, made: World) -> None:
        """A changed asset: every clip that shows it is made again at once, and none of the others."""
        assert isinstance(made, CompositeWorld)
        old: dict[str, Any] = {item_id: made.one_file(item_id).read_bytes() for item_id in made.good}
        made.change_source(CHANGED)
        said = made.run()
        shown = {item_id for item_id in made.good if CHANGED in [one["asset_id"] for one in made.renders.read_plan(item_id)["objects"]]}
        assert 0 < len(shown) < len(made.good) and f"{len(shown)} made" in said
        assert {row["status"] for item_id, row in made.rows().items() if item_id != made.bad} == {"ok"}
        assert {item_id for item_id in made.good if made.one_file(item_id).read_bytes() != old[item_id]} == shown


class TestCompositeClips(ClipsContract):
    world_class = CompositeWorld

    def test_redo_makes_everything_again(self, made: World, undisturbed: dict[str, Any]) -> None:
        """Each clip is computed anew in memory and compared: what is equal to the last byte is not written again."""
        assert f"{len(made.good)} adopted" in made.run(1, 0, "--redo=1")
        assert made.everything() == undisturbed

    @pytest.mark.parametrize("kind", ["flipped", "missing"])
    def test_render_that_changed_is_set_aside_and_made_again(self, world: CompositeWorld, undisturbed: dict[str, Any], kind: str) -> None:
        (shard,) = world.shards(1)
        line = world.command(shard, 1)
        spoilt = world.renders.folder_of(world.good[1]) / "depth" / "002.npz"
        data = bytearray(spoilt.read_bytes())
        data[len(data) // 2] ^= 1
        spoilt.unlink() if kind == "missing" else spoilt.write_bytes(data)
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "[fault_stale]" in done.stderr and spoilt.name in done.stderr
        assert not spoilt.exists() and (world.renders.renders.quarantine / SPLIT / world.good[1]).is_dir()
        world.run()
        assert world.everything() == undisturbed

    def test_dataset_holds_nothing_but_finished_clips(self, made: CompositeWorld) -> None:
        assert {path.split("/")[2] for path in made.published()} == set(made.good)


class TestRenderClipControls(ClipsContract):
    world_class = ControlsWorld
