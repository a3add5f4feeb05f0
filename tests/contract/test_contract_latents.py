"""The contract holds for encode_latents; plan and embeddings of the steps before it are made undisturbed, in this process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardwork.errors import DataError
from shardwork.run import Options, run_shard
from shardwork.shards import shard_of
from tests.contract.contract import ROOT, RUN_SECONDS, StageContract, World
from tests.contract.latents_stage import encode_latents, pooled
from tests.vidlatents.pairs import encoded, minimal, settings_of, write_records
from tests.vidlatents.tiny_models import folder as tiny_folder
from vidlatents.card import text_card
from vidlatents.members import record_members
from vidlatents.plan_step import plan_items, plan_step
from vidlatents.records import read_records
from vidlatents.settings import SetSettings
from vidlatents.stage import TEXT_SHARD, latents_place, plans_place, text_place
from vidlatents.text_step import TextModel, text_items, text_step

SIZE = (16, 24)
SEEDS = {"a": 1, "b-b": 2, "NA": 3, "short": 4, "spare": 5}


def item_of(uttid: str) -> str:
    return f"{uttid}_33_{SIZE[0]}_{SIZE[1]}"


def uttid_of(item: str) -> str:
    return item.rsplit("_", 3)[0]


class LatentsWorld(World):
    good = (item_of("a"), item_of("b-b"), item_of("NA"))
    bad, bad_code, bad_status = item_of("short"), "E_FRAMES_SHORT", "upstream"
    spare = item_of("spare")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = folder / "run" / "latents"
        self.data, self.books = folder / "data", folder / "books"
        self.plans, self.texts = plans_place(folder / "plans"), text_place(self.books / "text")
        self.place = latents_place(self.stage, self.home)
        self.changed: dict[str, int] = {}
        self.ready: dict[str, Any] = {}

    def set_table(self, ids: tuple[str, ...]) -> None:
        self.current = ids
        for item in ids:
            uttid = uttid_of(item)
            for room, seed in (("videos", 2), ("control_videos", 3)):
                (self.data / room).mkdir(parents=True, exist_ok=True)
                data = encoded(20 if uttid == "short" else 33, SIZE, seed * (SEEDS[uttid] + self.changed.get(uttid, 0)), 24)
                if not (path := self.data / room / f"{uttid}.mp4").exists() or path.read_bytes() != data:
                    path.write_bytes(data)
        write_records(self.data / "r.jsonl", [minimal(uttid_of(item), 33, *SIZE, prompt=f"a {uttid_of(item)}") for item in ids])

    def change_source(self, item_id: str) -> None:
        self.changed[uttid_of(item_id)] = 20
        self.set_table(self.current)

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for item in self.current:
            found.setdefault(shard_of(uttid_of(item), work_shards), []).append(item)
        return dict(sorted(found.items()))

    def earlier(self, shard: str) -> None:
        work_shards = int(shard.rpartition("-")[2])
        now = [self.current, dict(self.changed)]
        if self.ready.get(shard) == now:
            return
        self.ready[shard] = now
        roots = {"records": (self.data / "videos", self.data / "control_videos")}
        members = record_members(read_records(self.data / "r.jsonl", settings_of(self.data)))
        rows = {}
        for name in self.shards(work_shards):
            held = [one for one in members if shard_of(one.uttid, work_shards) == name]
            rows[name] = run_shard(plan_step(SetSettings(), roots), name, plan_items(held, roots), self.plans, Options(0))
        model = TextModel(str(tiny_folder("wan21")), "bfloat16", "cpu", tiny_card())
        items = text_items([row for held in rows.values() for row in held], self.texts, model.card.short)
        run_shard(text_step(model), TEXT_SHARD, items, self.texts, Options(0))

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        self.earlier(shard)
        roots = (f"--videos={self.data / 'videos'}", f"--control-videos={self.data / 'control_videos'}")
        where = (f"--stage={self.stage}", f"--folder={self.home}", f"--plans={self.plans.stage}", f"--books={self.books}", f"--weights={tiny_folder('wan21')}")
        line = [sys.executable, str(ROOT / "tests" / "contract" / "latents_stage.py"), *roots, *where, f"--shard={shard}", f"--workers={workers}"]
        return [*line, "--device=cpu", *flags]

    def run(self, work_shards: int = 1, workers: int = 0, *flags: str) -> str:
        """Work on every shard. The first quiet run of a world like any other is a copy of the one that was made."""
        if (work_shards, workers, flags, self.stage.exists(), self.current) == (1, 0, (), False, self.ids()) and not self.changed:
            template = finished()
            self.earlier(next(iter(self.shards(1))))
            shutil.copytree(template.stage.parent, self.stage.parent, dirs_exist_ok=True)
            for path in (self.data / "videos").iterdir():
                for room in ("videos", "control_videos"):
                    shutil.copystat(template.data / room / path.name, self.data / room / path.name)
            return ""
        return super().run(work_shards, workers, *flags)

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("encode_latents", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        assert self.home is not None
        return self.home / f"{item_id}.pt"


@cache
def tiny_card():
    return text_card(tiny_folder("wan21"))


@cache
def finished() -> LatentsWorld:
    """A world after one quiet run."""
    world = LatentsWorld(Path(tiny_folder("wan21")).parent / "finished")
    world.set_table(world.ids())
    World.run(world)
    return world


class TestEncodeLatents(StageContract):
    world_class = LatentsWorld

    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, world: World) -> None:
        """A record says nothing of its videos' bytes: their change is seen by the plan, and the sample made again at once."""
        world.run()
        old = world.one_file(world.good[0]).read_bytes()
        world.change_source(world.good[0])
        assert "1 made" in world.run()
        assert world.one_file(world.good[0]).read_bytes() != old

    def test_a_video_that_changed_since_it_was_planned_takes_the_plan_away(self, world: LatentsWorld) -> None:
        (shard,) = world.shards(1)
        line = world.command(shard, 1)
        shutil.copy(world.data / "videos" / "NA.mp4", world.data / "videos" / "a.mp4")
        done = subprocess.run(line, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        assert done.returncode == 1 and "[fault_stale]" in done.stderr
        assert not world.plans.manifests("plan_latents", shard) and not world.manifest(shard).exists()

    def test_files_without_a_note_are_verified_in_full_and_adopted(self, world: World) -> None:
        world.run()
        for name in (".journal", "notes"):
            shutil.rmtree(world.stage / name)
        before = world.published()
        assert "3 adopted" in world.run()
        assert world.published() == before

    @pytest.mark.parametrize("other", [item_of("NA")])
    def test_a_sample_of_another_video_without_a_note_is_not_adopted(self, world: World, other: str) -> None:
        world.run()
        for name in (".journal", "notes"):
            shutil.rmtree(world.stage / name)
        shutil.copy(world.output(other), world.output(world.good[0]))
        assert "1 made" in world.run()

    def test_a_disk_without_room_is_named_before_a_sample_is_made(self, world: LatentsWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        (shard,) = world.shards(1)
        args = encode_latents.arguments.parse_args(world.command(shard, 1)[2:])
        monkeypatch.setattr("vidlatents.room.shutil.disk_usage", lambda path: SimpleNamespace(free=3 * 512 * 4096 * 2))
        with pytest.raises(DataError, match="E_DISK"):
            encode_latents.main(args, pooled)
        assert not world.manifest(shard).exists() and not world.output(world.good[0]).exists()
