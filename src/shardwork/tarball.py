"""Deterministic tar files: the same members give the same bytes on any machine, at any time, under any umask."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path

from shardwork.files import atomic_path


def write_tar(final: Path, members: Iterable[tuple[str, Path]]) -> None:
    """Write an uncompressed tar atomically.

    members : (name in the tar, file), in the order wanted. GNU format (members beyond 8 GiB), mtime 0, uid and gid 0, no owner names, mode 0644.
    """
    with atomic_path(final) as temp, tarfile.open(temp, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, path in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = path.stat().st_size, 0o644
            with open(path, "rb") as file:
                tar.addfile(info, file)
