"""A copy of the project in a folder of its own, with small videos, and Snakemake as a user starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.contract.test_contract_events import write_video

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("Snakefile", "config", "envs", "profiles", "rules", "scripts", "src", "workflow")
SNAKEMAKE = Path(sys.executable).parent / "snakemake"
RUN_SECONDS = 300


class Project:
    """A clone with `videos` small videos, a table and a config; `run` starts Snakemake unactivated: its folder is not on PATH."""

    def __init__(self, folder: Path, ids: tuple[str, ...] = ("v_k", "v_--b", "c_3", "NA"), work_shards: int = 4) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for room in ROOMS:
            source = ROOT / room
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / room, ignore=ignore) if source.is_dir() else shutil.copy2(source, folder)
        (folder / "data" / "videos").mkdir(parents=True)
        for seed, item_id in enumerate(ids):
            self.add_video(item_id, seed)
        self.make_table()
        self.write_config(f"run: small\nevents:\n  table: data/videos.csv\n  work_shards: {work_shards}\n")

    def copied(self, folder: Path) -> Self:
        """Return a copy in another folder, times kept, as it is after a move."""
        copy = object.__new__(type(self))
        copy.folder = folder
        shutil.copytree(self.folder, folder, symlinks=True)
        return copy

    def add_video(self, item_id: str, seed: int) -> None:
        write_video(self.folder / "data" / "videos" / f"{item_id}.mkv", seed)

    def make_table(self, *flags: str) -> None:
        line = [sys.executable, "scripts/make_video_table.py", "--videos=data/videos", "--out=data/videos.csv", *flags]
        subprocess.run(line, cwd=self.folder, check=True, capture_output=True, timeout=RUN_SECONDS)

    def write_config(self, text: str) -> None:
        (self.folder / "config" / "config.yaml").write_text(text)

    def run(self, *flags: str, cwd: Path | None = None, snakemake: Path = SNAKEMAKE, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the project's folder, or from `cwd` with --snakefile and --directory."""
        away = ["--snakefile", str(self.folder / "Snakefile"), "--directory", str(self.folder)] if cwd else []
        clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8", **(env or {})}
        line = [str(snakemake), "--cores", "2", *away, *flags]
        return subprocess.run(line, cwd=cwd or self.folder, env=clean, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)

    def ok(self, *flags: str, cwd: Path | None = None) -> str:
        done = self.run(*flags, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def results(self) -> Path:
        return self.folder / "results" / "small"

    def voxel_files(self) -> dict[str, bytes]:
        events = self.results() / "events"
        return {path.relative_to(events).as_posix(): path.read_bytes() for path in sorted(events.glob("*/*.h5"))}


def jobs(said: str, rule: str) -> int:
    """Return how many jobs of a rule Snakemake's statistics count."""
    return next((int(line.split()[1]) for line in said.splitlines() if line.split()[:1] == [rule] and line.split()[1:2] and line.split()[1].isdigit()), 0)
