"""The contract holds for the events stage: for voxelize_events alone, and for both its steps in a row."""

from __future__ import annotations

import os
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

from eventvox.stage import events_place
from eventvox.videolist import find_videos, video_rows
from shardwork.tables import write_table
from tests.contract.contract import ROOT, StageContract, World


def write_video(path: Path, seed: int, frames: int = 13) -> None:
    """Write a small lossless video of moving squares; equal seeds give equal bytes."""
    import av

    rng = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(30000, 1001))
        stream.width, stream.height, stream.pix_fmt = 48, 32, "gray"
        stream.bit_rate = 0
        for index in range(frames):
            image = np.full((32, 48), 60, np.uint8)
            x, y = (index * 3 + rng.integers(0, 8)) % 36, (index * 2) % 20
            image[y : y + 12, x : x + 12] = rng.integers(100, 255)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "gray")))
        container.mux(stream.encode())
    os.utime(path, ns=(10**18, 10**18))


class EventsWorld(World):
    good: tuple[str, ...] = ("v_--edUL8zmA", "-dash", "NA", "000012")
    bad, bad_code, spare = "page", "not_a_video", "v_late"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.table = folder / "videos.csv"
        self.videos = folder / "it's videos"
        self.place = events_place(self.stage)
        self.videos.mkdir()
        for seed, item_id in enumerate((*self.good, self.spare)):
            write_video(self.videos / f"{item_id}.mkv", seed)
        (self.videos / f"{self.bad}.mp4").write_text("<html>404</html>")
        os.utime(self.videos / f"{self.bad}.mp4", ns=(10**18, 10**18))

    def set_table(self, ids: tuple[str, ...]) -> None:
        rows = video_rows(find_videos(self.videos, "train"), self.table, [], probe=False)
        # relative, so that the names in two worlds' manifests are equal
        rows = [{**row, "path": os.path.relpath(row["path"], self.table.parent)} for row in rows if row["video_id"] in ids]
        write_table(self.table, tuple(rows[0]), rows)
        self.current = ids

    def change_source(self, item_id: str) -> None:
        write_video(self.videos / f"{item_id}.mkv", 99, frames=9)

    def step(self, name: str, *flags: str) -> list[str]:
        return [sys.executable, str(ROOT / "scripts" / f"{name}.py"), f"--stage={self.stage}", *flags]

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        common = (f"--shard={shard}", f"--workers={workers}", *flags)
        return self.step("voxelize_events", f"--table={self.table}", *common)

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("voxelize_events", shard, "by-hand")

    def output(self, item_id: str) -> Path:
        return self.stage / "train" / f"{item_id}.h5"


class EventsBranchWorld(EventsWorld):
    bad_status = "upstream"
    kill_group = True

    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        first = super().command(shard, workers, *flags)
        second = self.step("validate_events", f"--shard={shard}", f"--workers={workers}", *flags)
        return ["sh", "-c", f"{shlex.join(first)} && exec {shlex.join(second)}"]

    def manifest(self, shard: str) -> Path:
        return self.place.manifest("validate_events", shard, "by-hand")


class TestVoxelizeEvents(StageContract):
    world_class = EventsWorld


class TestEventsBranch(StageContract):
    world_class = EventsBranchWorld
