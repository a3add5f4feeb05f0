"""The contract holds for render_event_controls; the steps before it, which work in another place, run undisturbed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eventvox.stage import controls_place
from tests.contract.contract import ROOT, StageContract
from tests.contract.test_contract_events import EventsWorld


class ControlsWorld(EventsWorld):
    bad_status = "upstream"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.events = self.stage
        self.place = controls_place(folder / "run" / "controls", self.place)
        self.stage = self.place.stage
        self.ready: dict[str, object] = {}

    def earlier(self, shard: str) -> None:
        now = [self.table.read_bytes(), [(path.name, path.stat().st_size) for path in sorted(self.videos.iterdir())]]
        if self.ready.get(shard) == now and list(self.events.glob(f"shards/voxelize_events/{shard}.*")):
            return
        self.ready[shard] = now
        for name, *flags in (("voxelize_events", f"--table={self.table}"), ("validate_events",)):
            line = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), f"--stage={self.events}", f"--shard={shard}", *flags]
            subprocess.run(line, check=True, capture_output=True)

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        self.earlier(shard)
        return self.step("render_event_controls", f"--events={self.events}", f"--shard={shard}", f"--workers={workers}", *flags)

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("render_event_controls", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return self.stage / f"{item_id}.mkv"


class TestRenderEventControls(StageContract):
    world_class = ControlsWorld

    @pytest.mark.parametrize("kind", ["flipped", "missing"])
    def test_event_file_that_changed_since_validation_is_set_aside_and_made_again(self, world: ControlsWorld, undisturbed, kind: str) -> None:
        (shard,) = world.shards(1)
        line = world.command(shard, 1)
        spoilt = world.events / "train" / f"{world.good[1]}.h5"
        data = bytearray(spoilt.read_bytes())
        data[len(data) // 2] ^= 1
        spoilt.unlink() if kind == "missing" else spoilt.write_bytes(data)
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "[fault_stale]" in done.stderr and spoilt.name in done.stderr
        assert not spoilt.exists() and (world.events / "quarantine" / "train" / spoilt.name).exists() is (kind == "flipped")
        assert list(world.events.glob("shards/voxelize_events/*")) == [], "the same command of the workflow makes the file again"
        world.run()
        assert world.everything() == undisturbed
