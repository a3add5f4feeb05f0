"""A copy of the project in a folder of its own, with small videos, and Snakemake as a user starts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Self

from tests.contract.test_contract_events import write_video

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("Snakefile", "config", "envs", "profiles", "rules", "scripts", "src", "workflow")
SNAKEMAKE = Path(sys.executable).parent / "snakemake"
WARM = Path(__file__).with_name("warm_snakemake.py")
RUN_SECONDS = 300
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
"""The environment of a user who has activated nothing."""


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

    def run(self, *flags: str, cwd: Path | None = None, snakemake: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the project's folder, or from `cwd` with --snakefile and --directory.

        snakemake : the command, as a user starts it. Without it the run is a fork of a process that has loaded Snakemake's libraries.
        """
        away = ["--snakefile", str(self.folder / "Snakefile"), "--directory", str(self.folder)] if cwd else []
        line, clean = [str(snakemake or SNAKEMAKE), "--cores", "2", *away, *flags], {**CLEAN, **(env or {})}
        if snakemake is None:
            return warm(line, cwd or self.folder, clean)
        return subprocess.run(line, cwd=cwd or self.folder, env=clean, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)

    def ok(self, *flags: str, cwd: Path | None = None, snakemake: Path | None = None) -> str:
        done = self.run(*flags, cwd=cwd, snakemake=snakemake)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def results(self) -> Path:
        return self.folder / "results" / "small"

    def voxel_files(self) -> dict[str, bytes]:
        events = self.results() / "events"
        return {path.relative_to(events).as_posix(): path.read_bytes() for path in sorted(events.glob("*/*.h5"))}


@cache
def server() -> subprocess.Popen[str]:
    """Start the process that runs are forks of. It ends with this one."""
    return subprocess.Popen([sys.executable, str(WARM)], env=CLEAN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def warm(line: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a fork of the process that has its libraries."""
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        asked, answers = server().stdin, server().stdout
        assert asked is not None and answers is not None
        asked.write(json.dumps({"argv": line, "cwd": str(cwd), "env": env, "out": out.name, "err": err.name, "seconds": RUN_SECONDS}) + "\n")
        asked.flush()
        return subprocess.CompletedProcess(line, int(answers.readline()), out.read(), err.read())


def jobs(said: str, rule: str) -> int:
    """Return how many jobs of a rule Snakemake's statistics count."""
    return next((int(line.split()[1]) for line in said.splitlines() if line.split()[:1] == [rule] and line.split()[1:2] and line.split()[1].isdigit()), 0)
