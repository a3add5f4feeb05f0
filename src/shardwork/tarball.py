"""Deterministic tar files: the same members give the same bytes on any machine, at any time, under any umask."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwork.digests import BLOCK_BYTES, new_xxh3
from shardwork.errors import DataError
from shardwork.files import atomic_path
from shardwork.jsonio import Json

RECORD_BYTES = tarfile.RECORDSIZE
SECTOR_BYTES = tarfile.BLOCKSIZE


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a tar.

    name : its path in the tar.   source : the file to copy, or the content itself.   size_bytes, xxh3, mtime_ns : what a file to copy must turn out to
    be before and after it is copied, None where it is not known beforehand; a file that differs is refused.
    """

    name: str
    source: Path | bytes
    size_bytes: int | None = None
    xxh3: str | None = None
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A tar that stands in its place. size_bytes : int.   sha256 : of its bytes, hex.   members : how many.   facts : what else was found on the way."""

    size_bytes: int
    sha256: str
    members: int
    facts: Json = None


def header(name: str, size_bytes: int) -> bytes:
    """Return a member's header: GNU format (members beyond 8 GiB), mtime 0, uid and gid 0, no owner names, mode 0644."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")  # named, since the default is the locale's


def padding(size_bytes: int) -> bytes:
    """Return the zeros that fill the last sector of a payload."""
    return bytes(-size_bytes % SECTOR_BYTES)


def ending(size_bytes: int) -> bytes:
    """Return the zeros that end a tar whose members take `size_bytes`: two sectors at least, up to a whole record."""
    return bytes(-(size_bytes + 2 * SECTOR_BYTES) % RECORD_BYTES + 2 * SECTOR_BYTES)


def write_tar(final: Path, members: Iterable[Member]) -> Written:
    """Write an uncompressed tar atomically and return its digest, taken in the same pass. Memory does not grow with the members' sizes.

    members : in the order wanted.   Raises DataError (member_changed) for a file that is not what its Member says; then nothing is published.
    """
    count, size_bytes, hasher = 0, 0, hashlib.sha256()
    with atomic_path(final) as temp, open(temp, "wb") as tar:

        def put(data: Any) -> None:
            nonlocal size_bytes
            size_bytes += len(data)
            hasher.update(data)
            tar.write(data)

        for member in members:
            count += 1
            if isinstance(member.source, bytes):
                put(header(member.name, len(member.source)))
                put(member.source)
                put(padding(len(member.source)))
            else:
                _copy(member, member.source, put)
        put(ending(size_bytes))
    return Written(size_bytes, hasher.hexdigest(), count)


def _changed(member: Member, found: str, expected: str) -> DataError:
    hint = "it changed after it was checked: run again with verify full, then it is made anew"
    if member.mtime_ns is not None:
        hint = "it changed after it was looked at: let nothing write there meanwhile, then run the same command again"
    return DataError("member_changed", member.source, found, expected, hint)


def _look_at_time(member: Member, file: io.FileIO) -> None:
    if member.mtime_ns is not None and os.fstat(file.fileno()).st_mtime_ns != member.mtime_ns:
        raise _changed(member, "another time of change", "that of when it was looked at")


def _copy(member: Member, source: Path, put: Callable[[Any], None]) -> None:
    """Copy a file and compare size and digest on the way."""
    try:
        file = open(source, "rb", buffering=0)  # noqa: SIM115 (closed below; only the opening may fail with a verdict)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise _changed(member, str(error.strerror), "the file that the manifest names") from error
    with file:
        size_bytes = file.seek(0, 2)
        if member.size_bytes is not None and member.size_bytes != size_bytes:
            raise _changed(member, f"{size_bytes} bytes", f"{member.size_bytes} as in the manifest")
        _look_at_time(member, file)
        file.seek(0)
        put(header(member.name, size_bytes))
        digest, left, buffer = new_xxh3(), size_bytes, memoryview(bytearray(BLOCK_BYTES))
        while left and (got := file.readinto(buffer[:left])):
            digest.update(buffer[:got])
            put(buffer[:got])
            left -= got
        if left or file.read(1):
            raise _changed(member, "a size that changes while it is read", f"{size_bytes} bytes")
        _look_at_time(member, file)
    if member.xxh3 is not None and member.xxh3 != digest.hexdigest():
        raise _changed(member, f"xxh3 {digest.hexdigest()}", f"{member.xxh3} as in the manifest")
    put(padding(size_bytes))
