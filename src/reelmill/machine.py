"""What this machine gives the process: cores, memory, disk, and a file system that keeps its promises. Standard library alone."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes a number near 2**63 for "no limit"."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Free space of the file system that holds a folder; inodes is None where it counts none, such as btrfs."""

    folder: Path
    free_bytes: int
    free_inodes: int | None


def existing_folder(folder: Path) -> Path:
    """Return `folder`, or the nearest folder above it that is there."""
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def disk_at(folder: Path) -> Disk:
    """Return what is free where `folder` is or will be, for a user without special rights."""
    there = existing_folder(folder)
    stat = os.statvfs(there)
    return Disk(there, shutil.disk_usage(there).free, stat.f_favail if stat.f_files else None)


def _limits(names: tuple[str, ...], controller: str, root: Path, own: Path) -> Iterator[tuple[Path, str]]:
    """Yield path and contents of a cgroup file at the process's own group and every group above it, in version 2 and version 1.

    names : the file's name in version 2 and in version 1.   controller : the folder of version 1.
    """
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        name, base = (names[1], root / controller) if controllers else (names[0], root)
        # In a container the group's path may name folders of the host, so the root is looked at in any case.
        for folder in (base / group.lstrip("/"), *(base / group.lstrip("/")).parents):
            if folder.is_relative_to(base) and (file := folder / name).is_file():
                yield file, file.read_text(encoding="utf-8").strip()


def usable_cores(root: Path = CGROUP_ROOT, own: Path = Path("/proc/self/cgroup")) -> float:
    """Return the cores that this process may use: affinity, and the CPU quota of its cgroups.

    root, own : where cgroups are, and the file that names the process's own.
    """
    cores = float(len(os.sched_getaffinity(0)))
    for file, text in _limits(("cpu.max", "cpu.cfs_quota_us"), "cpu", root, own):
        quota, *period = text.split()
        if quota in ("max", "-1"):
            continue
        length = period[0] if period else file.with_name("cpu.cfs_period_us").read_text(encoding="utf-8")
        cores = min(cores, int(quota) / int(length))
    return cores


def usable_memory_bytes(root: Path = CGROUP_ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """Return the memory that this process may use: the machine's, or the limit of its cgroups if that is less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for _, text in _limits(("memory.max", "memory.limit_in_bytes"), "memory", root, own):
        if text != "max" and int(text) < UNLIMITED_BYTES:
            memory = min(memory, int(text))
    return memory


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Return whether this machine shows a GPU that torch may use: of NVIDIA, of AMD, or of a Windows host. No driver is asked."""
    return any(next(devices.glob(pattern), None) is not None for pattern in ("nvidia[0-9]*", "kfd", "dxg"))


def probe_folder(folder: Path) -> str:
    """Return what a folder's file system does not keep of what atomic files and locks need; empty if all is well.

    Works in a folder of its own inside `folder`, and removes it.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as name:
            return _probe_rename(Path(name)) or _probe_lock(Path(name))
    except OSError as error:
        return f"it cannot be written ({error.strerror or error})"


def _probe_rename(folder: Path) -> str:
    """Return what is wrong with writing, flushing and renaming over an existing file, as every result is published."""
    old, new = folder / "result", folder / ".result.tmp"
    old.write_bytes(b"old")
    with new.open("wb") as file:
        file.write(b"new")
        file.flush()
        os.fsync(file.fileno())
        inode = os.fstat(file.fileno()).st_ino
    os.replace(new, old)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    if old.read_bytes() != b"new" or new.exists() or old.stat().st_ino != inode:
        return "a renamed file is not what was written"
    return ""


def _probe_lock(folder: Path) -> str:
    """Return what is wrong with flock: a second opening of a locked file must be refused."""
    with (folder / "lock").open("wb") as first, (folder / "lock").open("wb") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return f"it takes no locks ({error.strerror})"
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return "" if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else f"its locks fail ({error.strerror})"
    return "its locks hold nobody off"
