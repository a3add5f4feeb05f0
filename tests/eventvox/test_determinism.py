"""The same video gives the same bytes, every time, whatever else the machine does."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from eventvox.settings import VoxelSettings
from eventvox.voxelize import voxelize_video
from tests.contract.test_contract_events import write_video

RUNS = 50


def test_fifty_runs_under_load_give_the_same_bytes(tmp_path: Path) -> None:
    write_video(tmp_path / "v.mkv", seed=5, frames=40)
    # Half of the time each: load that never rests starves the disk of a virtual machine, and with it every test that runs beside this one.
    burn = "import time\nwhile True:\n    end = time.perf_counter() + 0.01\n    while time.perf_counter() < end: pass\n    time.sleep(0.01)"
    busy = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(os.cpu_count() or 1)]
    try:
        digests = set()
        for run in range(RUNS):
            voxelize_video(tmp_path / "v.mkv", tmp_path / f"{run}.h5", "v", VoxelSettings())
            digests.add(hashlib.sha256((tmp_path / f"{run}.h5").read_bytes()).hexdigest())
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert len(digests) == 1
