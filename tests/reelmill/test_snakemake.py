"""What Snakemake itself hands over to the configuration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

SNAKEFILE = """
import sys
sys.path.insert(0, {src!r})
from pathlib import Path
from reelmill.config import resolve
CONFIG = resolve(config, [Path(path) for path in workflow.configfiles])
print("READ", CONFIG.run, CONFIG.prune, CONFIG.events.workers, CONFIG.events.gamma, file=sys.stderr)
rule all:
"""


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["prune=true", "events={workers: 4, gamma: 1.5}", "run=!!str 7"], 0, "READ 7 True 4 1.5"),
        (["run=7", "prun=1"], 1, "--config: prun: no such key, expected a key of the configuration: did you mean prune? (and 1 more problem: --config: run"),
    ],
)
def test_command_line_of_snakemake_arrives(tmp_path: Path, flags: list[str], code: int, said: str) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(src=str(SRC)))
    (tmp_path / "run.yaml").write_text("run: demo\nevents:\n  table: videos.csv\n")
    command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "--configfile", "run.yaml", "--config", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code and said in done.stdout + done.stderr
