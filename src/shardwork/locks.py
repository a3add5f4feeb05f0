"""Locks: two processes never work on the same files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardwork.errors import Fault
from shardwork.files import make_folder


@contextmanager
def held_lock(path: Path, where: object, what: str) -> Iterator[None]:
    """Hold the lock file `path`; it ends with the process, however that ends.

    where, what : for people, such as the journal and "work shard".   Raises Fault (fault_busy) if another process holds it.
    """
    make_folder(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            hint = "wait for it or end it, then run the same command"
            raise Fault("fault_busy", where, f"another process holds this {what}", f"one process a {what}", hint) from error
        except OSError:
            pass  # a file system without locks (doctor says so): whoever runs there must not start one job twice
        yield
    finally:
        os.close(fd)
