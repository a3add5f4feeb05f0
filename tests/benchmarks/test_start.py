"""Benchmarks run seldom: each still starts. That it calls what src has is seen by the type checker."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(path.name for path in (ROOT / "benchmarks").glob("*.py") if '__name__ == "__main__"' in path.read_text())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_benchmark_loads_what_it_needs_and_says_how_it_is_called(name, tmp_path):
    # From another folder: it finds what is beside it by itself.
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / name), "--help"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {name} ")


def test_only_what_programs_share_is_no_program_itself():
    beside = {path.name for path in (ROOT / "benchmarks").glob("*.py")} - set(PROGRAMS)
    assert beside == {"clips_stages.py", "demo.py"}
