"""What the machine gives: cgroup limits of both versions, and a probe that finds a file system that does not keep its word."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from reelmill import machine

OWN = {"v2": "0::/user/job\n", "v1": "5:memory:/user/job\n4:cpu,cpuacct:/user/job\n1:name=systemd:/\n"}


def cgroups(tmp_path: Path, version: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Make a cgroup tree; return its root and the file that names the process's own group."""
    own = tmp_path / "own"
    own.write_text(OWN[version])
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "cgroup", own


@pytest.mark.parametrize(
    ("version", "files", "cores"),
    [
        ("v2", {"user/job/cpu.max": "50000 100000\n"}, 0.5),
        ("v2", {"user/job/cpu.max": "max 100000\n", "user/cpu.max": "25000 100000\n"}, 0.25),
        ("v2", {"cpu.max": "75000 100000\n"}, 0.75),
        ("v1", {"cpu/user/job/cpu.cfs_quota_us": "50000\n", "cpu/user/job/cpu.cfs_period_us": "100000\n"}, 0.5),
        ("v1", {"cpu/user/job/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.2),
    ],
)
def test_cpu_quota_limits_cores(tmp_path: Path, version: str, files: dict[str, str], cores: float) -> None:
    assert machine.usable_cores(*cgroups(tmp_path, version, files)) == cores


def test_without_a_quota_cores_are_those_of_the_affinity(tmp_path: Path) -> None:
    assert machine.usable_cores(*cgroups(tmp_path, "v2", {"user/job/cpu.max": "max 100000\n"})) == len(os.sched_getaffinity(0))
    assert machine.usable_cores(tmp_path, tmp_path / "no_proc") == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("version", "files"),
    [
        ("v2", {"user/job/memory.max": "max\n", "user/memory.max": "1048576\n"}),
        ("v1", {"memory/user/job/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.limit_in_bytes": "1048576\n"}),
    ],
)
def test_cgroup_limits_memory(tmp_path: Path, version: str, files: dict[str, str]) -> None:
    assert machine.usable_memory_bytes(*cgroups(tmp_path, version, files)) == 1048576


def test_unlimited_cgroup_leaves_the_machine_s_memory(tmp_path: Path) -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    files = {"memory/user/job/memory.limit_in_bytes": "9223372036854771712\n"}
    assert machine.usable_memory_bytes(*cgroups(tmp_path, "v1", files)) == whole


def test_disk_of_a_folder_to_come_is_that_of_the_folder_above(tmp_path: Path) -> None:
    disk = machine.disk_at(tmp_path / "not" / "there")
    assert disk.folder == tmp_path and disk.free_bytes > 0


def test_sound_folder_passes_and_is_left_empty(tmp_path: Path) -> None:
    assert machine.probe_folder(tmp_path) == "" and list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    assert machine.probe_folder(tmp_path / "nowhere") == "it cannot be written (No such file or directory)"


def test_file_system_that_copies_on_rename_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(source: Path, target: Path) -> None:
        data = source.read_bytes()
        source.unlink()
        target.write_bytes(data[:1])

    monkeypatch.setattr(os, "replace", copy)
    assert machine.probe_folder(tmp_path) == "a renamed file is not what was written" and list(tmp_path.iterdir()) == []


def test_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert machine.probe_folder(tmp_path) == "it takes no locks (Operation not supported)"


def test_file_system_whose_locks_hold_nobody_off_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert machine.probe_folder(tmp_path) == "its locks hold nobody off"
