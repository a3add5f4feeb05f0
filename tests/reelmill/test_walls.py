"""Walls: what importing the configuration brings along, and what Snakemake itself hands over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
ALLOWED = {"reelmill", "shardwork", "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection", "yaml", "_yaml"}

SNAKEFILE = """
import sys
sys.path.insert(0, {src!r})
from pathlib import Path
from reelmill.config import resolve
CONFIG = resolve(config, [Path(path) for path in workflow.configfiles])
print("READ", CONFIG.run, CONFIG.prune, CONFIG.events.workers, CONFIG.events.gamma, file=sys.stderr)
rule all:
"""


def test_configuration_imports_pydantic_and_yaml_alone() -> None:
    program = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {str(SRC)!r}); import reelmill.config\n"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(root for root in roots if root not in sys.stdlib_module_names and 'cython' not in root and not root.startswith('_sysconfig')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert found >= {"reelmill", "pydantic", "yaml"} and found <= ALLOWED


def test_no_library_imports_another() -> None:
    for path in (SRC / "reelmill").glob("*.py"):
        text = path.read_text()
        assert not any(f"{word} {name}" in text for word in ("import", "from") for name in ("eventvox", "sam3dvid", "vidlatents")), path


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
