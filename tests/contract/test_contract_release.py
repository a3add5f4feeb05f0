"""The contract of release shards holds for events."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contract.contract import ROOT
from tests.contract.release import ReleaseContract, ReleaseWorld
from tests.eventvox.releases import write_event_file, write_manifests


class EventReleaseWorld(ReleaseWorld):
    units = ("v_--edUL8zmA", "-dash", "NA", "000012", "a", "a-b", "L" * 100)
    late = "z"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.release, self.stage = folder / "events_release", folder / "events"
        self.shards = self.release / "data" / "train"
        self.declared = self.release / "metadata" / "shards_train.json"
        for seed, unit in enumerate((*self.units, self.late)):
            write_event_file(self.source(unit), seed)
        write_event_file(self.stage / "validation" / "other.h5", 99)

    def set_units(self, ids: tuple[str, ...]) -> None:
        write_manifests(self.release, self.stage, {**dict.fromkeys(ids, "train"), "other": "validation"})

    def source(self, unit: str) -> Path:
        return self.stage / "train" / f"{unit}.h5"

    def command(self, workers: int, per_shard: int, *flags: str) -> list[str]:
        where = (f"--release={self.release}", f"--stage={self.stage}", "--split=train")
        return [sys.executable, str(ROOT / "scripts" / "pack_events.py"), *where, f"--members-per-shard={per_shard}", f"--workers={workers}", *flags]


class TestEventRelease(ReleaseContract):
    world_class = EventReleaseWorld
