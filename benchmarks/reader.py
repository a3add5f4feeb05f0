"""Read every voxel of event files with EventVideo and with plain h5py: seconds of CPU and of the clock, one voxel at a time, and whether the values are equal.

python -m eventvox voxelize bikes.mp4 bikes.h5 && python benchmarks/reader.py bikes.h5
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import h5py
import numpy as np

from eventvox import EventVideo, reader
from eventvox.inflate import LIBRARIES, best_inflater, load_inflater


def h5py_reads(path: Path) -> None:
    with h5py.File(path, "r") as file:
        events = file["events"]
        for t in range(len(events)):
            events[t]


def video_reads(path: Path, threads: int) -> None:
    with EventVideo(path, threads) as video:
        for t in range(len(video)):
            video[t]


def seconds(read: Callable[[], None]) -> tuple[float, float]:
    cpu, clock = time.process_time(), time.perf_counter()
    read()
    return time.process_time() - cpu, time.perf_counter() - clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.h5")
    parser.add_argument("--rounds", type=int, default=5, help="each way is tried so often, in turn; ratios are medians over the rounds")
    args = parser.parse_args()
    print(f"inflates with {best_inflater().name}, the best installed")
    for path in args.files:
        with EventVideo(path) as video, h5py.File(path, "r") as file:
            megabytes = int(np.prod(video.shape)) * 2 / 1e6
            equal = all(np.array_equal(video[t], file["events"][t]) for t in range(len(video)))
        print(f"{path}: {video.shape}, {megabytes:.0f} MB of values, equal: {equal}")
        names = [(name, threads) for name in LIBRARIES for threads in (1, 2)]
        ratios: dict[tuple[str, int], list[tuple[float, float]]] = {}
        slow: list[tuple[float, float]] = []
        for _ in range(args.rounds):
            slow.append(seconds(partial(h5py_reads, path)))
            for name, threads in names:
                try:
                    load_inflater(name)
                except ImportError:
                    continue
                with patch.object(reader, "best_inflater", partial(load_inflater, name)):
                    cpu, clock = seconds(partial(video_reads, path, threads))
                ratios.setdefault((name, threads), []).append((slow[-1][0] / cpu, slow[-1][1] / clock))
        cpu, clock = (statistics.median(column) for column in zip(*slow, strict=True))
        print(f"  h5py                 {cpu:6.2f} CPU s {clock:6.2f} s")
        for (name, threads), found in ratios.items():
            cpu, clock = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"  {name:8} {threads} thread{'s' if threads > 1 else ' '}   {cpu:5.1f} x in CPU {clock:5.1f} x by the clock")


if __name__ == "__main__":
    main()
