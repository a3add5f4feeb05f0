"""A failing read is trouble of the machine: it never becomes a verdict on a video or a voxel file, and never a shorter result."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_contract_events import EventsWorld

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: failing reads are not tried")
SHARD = "0000-of-0001"
GOOD = "v_--edUL8zmA"


class OneVideo(EventsWorld):
    good = (GOOD,)

    def ids(self) -> tuple[str, ...]:
        return self.good


@pytest.fixture
def world(tmp_path: Path) -> OneVideo:
    world = OneVideo(tmp_path / "w")
    world.set_table(world.good)
    return world


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    world = OneVideo(tmp_path_factory.mktemp("quiet"))
    world.set_table(world.good)
    world.run()
    return world.everything()


def injected(command: list[str], path: Path, fault: str) -> subprocess.CompletedProcess[str]:
    call = fault.partition(":")[0]
    line = ["strace", "-f", "-qq", "-o", str(path.parent / "strace.log"), "-P", str(path), "-e", f"trace={call}", "-e", f"inject={fault}", *command]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert "INJECTED" in (path.parent / "strace.log").read_text(), "the fault was not hit"
    return done


READS = ["openat:error=EMFILE:when=1", "openat:error=EACCES:when=2", "read:error=EIO:when=1", "read:error=EIO:when=2", "read:error=ESTALE:when=3+"]


@pytest.mark.parametrize("fault", READS)
@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_failing_read_of_a_video_is_a_fault_or_changes_nothing(world: OneVideo, quiet: dict[str, Any], fault: str, policy: str) -> None:
    done = injected(world.command(SHARD, 1, f"--gap-policy={policy}"), world.videos / f"{GOOD}.mkv", fault)
    if done.returncode == 0:  # the read that failed was one that was tried again
        row = world.rows()[GOOD]
        assert (row["status"], row["values_xxh3"], row["fps_source"]) == ("ok", quiet["rows"][GOOD]["values_xxh3"], "opencv")
    else:
        assert done.returncode == 1 and "[fault_" in done.stderr, done.stderr
        assert not world.manifest(SHARD).exists() and not world.output(GOOD).exists()


@pytest.mark.parametrize("fault", ["openat:error=EMFILE:when=2", "read:error=EIO:when=1", "read:error=EIO:when=4", "read:error=ESTALE:when=6"])
def test_failing_read_of_a_voxel_file_is_a_fault_or_changes_nothing(world: OneVideo, fault: str) -> None:
    world.run()
    done = injected(world.step("validate_events", f"--shard={SHARD}"), world.output(GOOD), fault)
    assert done.returncode == 1 and "[fault_" in done.stderr, done.stderr
    assert world.output(GOOD).exists(), "a good file is never set aside for a failing read"
    assert not world.place.manifests("validate_events", SHARD)


def test_voxel_file_that_another_process_has_locked_is_validated(world: OneVideo) -> None:
    world.run()
    with open(world.output(GOOD), "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(world.step("validate_events", f"--shard={SHARD}"), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "1 ok" in done.stderr, done.stderr
