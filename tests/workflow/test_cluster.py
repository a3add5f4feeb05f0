"""The same small run as on a cluster: steps in conda environments of their own, and as jobs of a real SLURM of one node."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardwork.jsonio import read_json
from tests.workflow.project import ROOT, Project

HERE = Path(__file__).parent
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="session")
def launcher() -> Path:
    """Return the folder of programs of a light launcher: Snakemake, the SLURM plugin, and none of the steps' packages. Made once, by the pins."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = [pin for pin in (*extras["workflow"], *extras["slurm"]) if not pin.startswith("reelmill")]
    venv = ROOT / ".venv-test-launcher"
    made_from = hashlib.sha256("\n".join([sys.version, str(venv), *pins]).encode()).hexdigest()
    stamp = venv / "made-from"
    if not stamp.exists() or stamp.read_text() != made_from:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-input", *pins], check=True)
        stamp.write_text(made_from)
    lacks = subprocess.run([venv / "bin" / "python", "-c", "import h5py"], capture_output=True, check=False)
    assert lacks.returncode != 0, "the launcher holds the steps' packages: it would hide gaps in envs/"
    return venv / "bin"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the voxel files of a run on this machine alone."""
    project = Project(tmp_path_factory.mktemp("local") / "p")
    project.ok()
    return project.voxel_files()


def test_conda_environments_hold_all_that_each_step_needs(launcher: Path, tmp_path: Path, expected: dict[str, bytes]) -> None:
    project = Project(tmp_path / "p")
    env = {
        "PATH": f"{HERE / 'conda_standin' / 'bin'}:{Path(sys.executable).resolve().parent}:/usr/bin:/bin",
        "CONDA_STANDIN_CACHE": str(ROOT / ".venv-test-launcher" / "conda"),
        **{key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "REQUESTS_", "CURL_"))},
    }
    done = project.run("--sdm", "conda", snakemake=launcher / "snakemake", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.voxel_files() == expected
    (python,) = project.folder.glob(".snakemake/conda/*/bin/python")
    for package, found in (("h5py", True), ("snakemake", False), ("pydantic", False)):
        assert (subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0) is found, package


def test_python_key_and_conda_exclude_each_other(launcher: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    done = project.run("--sdm", "conda", "--config", "python=/usr/bin/python3", "--dry-run", snakemake=launcher / "snakemake")
    assert done.returncode == 2 and "python" in done.stderr and "conda" in done.stderr


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """Bring up a SLURM of one node and yield the environment that reaches it."""
    if os.geteuid() != 0:
        pytest.skip("SLURM's daemons need root")
    folder = tempfile.mkdtemp(prefix="reelmill-slurm-")
    up = subprocess.run(["bash", HERE / "slurm_up.sh", folder], capture_output=True, text=True, timeout=900, check=False)
    assert up.returncode == 0, up.stderr
    try:
        yield {"SLURM_CONF": f"{folder}/slurm.conf"}
    finally:
        subprocess.run(["bash", HERE / "slurm_down.sh", folder], timeout=60, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def on_slurm(project: Project, launcher: Path, slurm: dict[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a project as a user does on a cluster, with this cluster's own words: partition, and squeue since it has no accounting."""
    own = ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2", "--default-resources", "slurm_partition=main"]
    line = [str(launcher / "snakemake"), "--workflow-profile", "slurm", *own, "--latency-wait", "5", "--config", f"python={sys.executable}", *flags]
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8", **slurm}
    # SIGINT, so that Snakemake cancels its jobs
    return subprocess.run(["timeout", "-s", "INT", "300", *line], cwd=project.folder, env=env, capture_output=True, text=True, check=False)


def test_slurm_profile_runs_every_step_as_a_job(launcher: Path, tmp_path: Path, slurm: dict[str, str], expected: dict[str, bytes]) -> None:
    project = Project(tmp_path / "p", work_shards=2)
    done = on_slurm(project, launcher, slurm)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert said.count("has been submitted with SLURM jobid") == 6, said
    assert project.voxel_files() == expected
    assert read_json(project.results() / "report" / "events.json")["passed"] == 4
    assert "Nothing to be done" in (again := on_slurm(project, launcher, slurm)).stdout + again.stderr


def test_refused_video_is_a_verdict_on_slurm_too(launcher: Path, tmp_path: Path, slurm: dict[str, str]) -> None:
    project = Project(tmp_path / "p", work_shards=1)
    (project.folder / "data" / "videos" / "page.mp4").write_text("<html>404</html>")
    project.make_table()
    done = on_slurm(project, launcher, slurm)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "page: not_a_video" in said and "[too_many_quarantined]" in said
    assert said.count("has been submitted with SLURM jobid") == 4, "a verdict is no failure: nothing is retried"
    assert len(project.voxel_files()) == 4
