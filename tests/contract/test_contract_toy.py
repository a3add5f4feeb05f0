"""The contract holds for two toy stages, one that publishes files and one that publishes folders: it tests `shardwork` itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shardwork.tables import write_table
from tests.contract.contract import MANY, StageContract, World

SCRIPT = Path(__file__).with_name("toy_stage.py")


def write_source(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(10**18, 10**18))  # two worlds are then equal to the byte


class ToyWorld(World):
    good = ("alpha", "-beta", "gamma_1", "NA", "000012")
    bad, bad_code, spare = "broken", "toy_refused", "late"
    kind = "file"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.table = folder / "table.csv"
        for item_id in (*self.good, self.spare):
            write_source(folder / f"source_{item_id}.txt", f"text of {item_id}\n" * 700)
        write_source(folder / f"source_{self.bad}.txt", "BAD")

    def set_table(self, ids: tuple[str, ...]) -> None:
        rows = []
        for item_id in ids:
            stat = (self.folder / f"source_{item_id}.txt").stat()
            rows.append({"id": item_id, "path": f"source_{item_id}.txt", "bytes": str(stat.st_size), "mtime_ns": str(stat.st_mtime_ns)})
        write_table(self.table, ("id", "path", "bytes", "mtime_ns"), rows)
        self.current = ids

    def change_source(self, item_id: str) -> None:
        (self.folder / f"source_{item_id}.txt").write_text("another text\n" * 50)

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        where = [f"--table={self.table}", f"--stage={self.stage}", f"--shard={shard}"]
        return [sys.executable, str(SCRIPT), f"--kind={self.kind}", *where, f"--workers={workers}", *flags]

    def manifest(self, shard: str) -> Path:
        return self.stage / "shards" / "make_toy" / f"{shard}.by-hand.jsonl"

    def output(self, item_id: str) -> Path:
        return self.stage / "out" / f"{item_id}.toy"


class ToyFolderWorld(ToyWorld):
    kind = "folder"


class TestToyFiles(StageContract):
    world_class = ToyWorld
    tries = MANY


class TestToyFolders(StageContract):
    world_class = ToyFolderWorld
    tries = MANY
