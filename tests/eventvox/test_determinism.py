"""The same video gives the same bytes, every time, whatever else the machine does."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from eventvox.settings import VoxelSettings
from eventvox.voxelize import voxelize_video
from tests.contract.test_contract_events import write_video

RUNS = 50


def _burn(stop: object) -> None:
    while not stop.is_set():  # type: ignore[attr-defined]
        sum(range(10_000))


def _digest_of_run(folder: str, run: int) -> str:
    out = Path(folder) / f"{run}.h5"
    voxelize_video(Path(folder) / "v.mkv", out, "v", VoxelSettings())
    return hashlib.sha256(out.read_bytes()).hexdigest()


def test_fifty_runs_under_load_give_the_same_bytes(tmp_path: Path) -> None:
    write_video(tmp_path / "v.mkv", seed=5, frames=40)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    burners = [context.Process(target=_burn, args=(stop,), daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()
    try:
        with ProcessPoolExecutor(3, mp_context=context) as pool:
            digests = set(pool.map(_digest_of_run, [str(tmp_path)] * RUNS, range(RUNS)))
    finally:
        stop.set()
        for burner in burners:
            burner.join(10)
    assert len(digests) == 1
