"""The contract holds for render_clips, in a real Blender: kills and failing disks while it renders; the planning before it runs undisturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from sam3dvid.stage import RENDER_RECORD, render_of
from shardwork.digests import unseal
from tests.contract.contract import ROOT, RUN_SECONDS, World, wait_until
from tests.contract.test_contract_clips import ClipsContract, CompositeWorld
from tests.sam3dvid.renders import SPLIT

QUICK = ("--samples=1", "--denoise=false", "--threads=1")


class RenderWorld(CompositeWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = None
        self.place = self.renders.renders
        self.stage = self.place.stage

    def earlier(self, shard: str) -> None:
        ids = self.ids_of(shard)
        if self.ready.get(shard) != (now := [ids, self.changes]):
            self.ready[shard] = now
            self.renders.plan(ids, shard)

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        self.earlier(shard)
        where = (f"--plans={self.renders.plans.stage}", f"--dataset={self.renders.dataset}", f"--split={SPLIT}", f"--stage={self.stage}")
        return [sys.executable, str(ROOT / "scripts" / "render_clips.py"), *where, f"--shard={shard}", f"--workers={workers}", *QUICK, *flags]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("render_clips", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return render_of(self.place, item_id, SPLIT)

    def one_file(self, item_id: str) -> Path:
        return self.output(item_id) / "depth" / "002.npz"

    def rows(self, work_shards: int = 1) -> dict[str, dict[str, Any]]:
        """Return the rows without the digests of whole folders, whose records hold times; `pictures` in each row is the digest of what was rendered."""
        return {item_id: {key: value for key, value in row.items() if key != "files"} for item_id, row in super().rows(work_shards).items()}

    def published(self) -> dict[str, bytes]:
        """Return every file, a record without its times and its seal."""
        return {name: untimed(data) if name.endswith(RENDER_RECORD) else data for name, data in super().published().items()}


def untimed(data: bytes) -> bytes:
    """Return a render's record without what the host says of itself. The seal must hold."""
    noted = unseal(json.loads(data))
    assert noted is not None
    return json.dumps({key: value for key, value in noted.items() if key != "timing"}, sort_keys=True).encode()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes that a command has started and that render: those that hold Blender's library."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getpgid(int(folder.name)) == process.pid and "/bpy/" in (folder / "maps").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def end_blender(world: World, how: signal.Signals) -> tuple[int, str]:
    """Send a signal to the one Blender of a run while it renders; return the exit status of the run and what it said."""
    (shard,) = world.shards(1)
    process = subprocess.Popen(world.command(shard, 1), stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: any(world.stage.rglob("*.tmp/rgba_fg/001.png")) or process.poll() is not None)
    (blender,) = workers_of(process)
    os.kill(blender, how)
    _, said = process.communicate(timeout=RUN_SECONDS)
    return process.returncode, said.decode()


class TestRenderClips(ClipsContract):
    world_class = RenderWorld

    def test_a_blender_that_crashes_is_replaced_and_its_clip_rendered_again(self, world: World, undisturbed: dict[str, Any]) -> None:
        code, said = end_blender(world, signal.SIGSEGV)
        assert code == 0, said
        assert world.everything() == undisturbed and not world.temporary()

    def test_a_blender_that_is_killed_is_a_fault_not_a_verdict(self, world: World, undisturbed: dict[str, Any]) -> None:
        code, said = end_blender(world, signal.SIGKILL)
        assert code == 1 and "[fault_killed]" in said
        world.run()
        assert world.everything() == undisturbed and not world.temporary()
