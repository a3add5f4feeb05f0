"""Read a tar as strictly as ours are written: every field, every padding byte. Readers that forgive take a cut tar for a short one."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardwork.digests import BLOCK_BYTES, new_xxh3
from shardwork.errors import Problem, plain
from shardwork.tarball import SECTOR_BYTES, ending, header

FIELDS = {
    "name": (0, 100),
    "mode": (100, 108),
    "uid": (108, 116),
    "gid": (116, 124),
    "size": (124, 136),
    "mtime": (136, 148),
    "checksum": (148, 156),
    "type": (156, 157),
    "link name": (157, 257),
    "format": (257, 265),
    "owner name": (265, 297),
    "group name": (297, 329),
    "device": (329, 345),
    "rest of the header": (345, 512),
}
NUMBERS = ("mode", "uid", "gid", "size", "mtime")
LONGEST_NAME = 4096
LONG_NAME = b"L"


@dataclass(frozen=True, slots=True)
class Scanned:
    """A member as it stands in a tar. name : str.   size_bytes : int.   xxh3 : digest of the payload, None where none was taken."""

    name: str
    size_bytes: int
    xxh3: str | None


@dataclass(slots=True)
class Scan:
    """What a tar holds.

    members : regular files in order.   problems : what is not as we write it.   complete : whether the members were followed to the end.
    size_bytes : int.   sha256 : of all bytes, None where payloads were not read or the tar is not complete.
    """

    size_bytes: int
    members: list[Scanned] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = False
    sha256: str | None = None


def posix_header(name: str, size_bytes: int) -> bytes:
    """Return a member's header as `tarball.header` does, but in POSIX format (ustar), as libraries write it by default."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def scan_tar(path: Path, payload: bool, header_of: Callable[[str, int], bytes] = header) -> Scan:
    """Return what a tar holds and every fault of its structure.

    payload : read everything and take digests; False only follows the headers.   header_of : the header that a member of a name and size must have.
    Raises OSError alone, where the machine does not let us look.
    """
    with open(path, "rb", buffering=0) as file:
        return _Reader(file, payload, header_of).scan()


class _Broken(Exception):
    """The tar cannot be followed any further."""


class _Reader:
    """One look at one open tar. Any byte of it may be wrong."""

    def __init__(self, file: io.FileIO, payload: bool, header_of: Callable[[str, int], bytes]) -> None:
        self._file, self._payload, self._header_of, self._at = file, payload, header_of, 0
        self._sha256 = hashlib.sha256()
        self._found = Scan(os.fstat(file.fileno()).st_size)
        self._where = "the first member"

    def scan(self) -> Scan:
        try:
            while self._member():
                pass
            self._found.complete = True
            self._end()
            if self._payload and not self._found.problems:
                self._found.sha256 = self._sha256.hexdigest()
        except _Broken:
            self._found.complete = False
        return self._found

    def _add(self, where: str, found: str, expected: str) -> None:
        self._found.problems.append(Problem(where, found, expected))

    def _broken(self, where: str, found: str, expected: str) -> _Broken:
        self._add(where, found, expected)
        return _Broken()

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (more := self._file.read(count - len(data))):
            data += more
        self._at += len(data)
        self._sha256.update(data)
        return data

    def _sector(self) -> bytes:
        at, data = self._at, self._read(SECTOR_BYTES)
        if len(data) < SECTOR_BYTES:
            raise self._broken(self._where, f"the file ends at byte {at + len(data)}", "another member, or the zeros that end a tar")
        return data

    def _member(self) -> bool:
        """Read one member; return False at the first sector of zeros."""
        at, raw = self._at, self._sector()
        if not any(raw):
            return False
        kind, size_bytes = self._checked(at, raw)
        long_name = None
        if kind == LONG_NAME:
            if size_bytes > LONGEST_NAME:
                raise self._broken(self._where, f"a name of {size_bytes} bytes", f"at most {LONGEST_NAME}")
            body = b"".join(self._sector() for _ in range(-(-size_bytes // SECTOR_BYTES)))
            long_name = body[:size_bytes].partition(b"\0")[0]
            at, last = self._at, self._sector()
            kind, size_bytes = self._checked(at, last)
            raw += body + last
        name = (raw[-SECTOR_BYTES:][:100].partition(b"\0")[0] if long_name is None else long_name).decode("utf-8", "surrogateescape")
        self._where = f"member {plain(name)}"
        self._look_at_fields(raw, self._header_of(name, size_bytes))
        digest = self._pass(size_bytes)
        if kind in (b"0", b"\0"):
            self._found.members.append(Scanned(name, size_bytes, digest))
        return True

    def _checked(self, at: int, raw: bytes) -> tuple[bytes, int]:
        """Return type and size of a header whose checksum holds."""
        start, end = FIELDS["checksum"]
        if _number(raw[start:end]) != sum(raw) - sum(raw[start:end]) + 8 * ord(" "):
            raise self._broken(f"header at byte {at}, after {self._where.removeprefix('after ')}", "its checksum does not hold", "an undamaged header")
        size_bytes = _number(raw[slice(*FIELDS["size"])])
        if size_bytes is None or size_bytes < 0:
            raise self._broken(f"header at byte {at}", "no readable size", "a whole number")
        return raw[slice(*FIELDS["type"])], size_bytes

    def _look_at_fields(self, raw: bytes, wanted: bytes) -> None:
        if raw == wanted:
            return
        last, fixed = raw[-SECTOR_BYTES:], wanted[-SECTOR_BYTES:]
        differ = [name for name, part in FIELDS.items() if last[slice(*part)] != fixed[slice(*part)]]
        for name in [name for name in differ if name != "checksum"] or ["checksum"] * (last != fixed):
            found, expected = (_field(name, sector[slice(*FIELDS[name])]) for sector in (last, fixed))
            self._add(self._where, f"{name} {found}", expected)
        if raw[:-SECTOR_BYTES] != wanted[:-SECTOR_BYTES]:
            self._add(self._where, "a long name that is written otherwise", "the format and fields of our own")

    def _pass(self, size_bytes: int) -> str | None:
        """Go past a payload and its padding; return its digest if payloads are read."""
        here = self._found.size_bytes - self._at
        if size_bytes > here:
            raise self._broken(self._where, f"cut after {here} of its bytes", f"{size_bytes}")
        fill = -size_bytes % SECTOR_BYTES
        if not self._payload:
            self._at = self._file.seek(min(self._at + size_bytes + fill, self._found.size_bytes))
            return None
        digest, left = _new_digest(), size_bytes
        while left:
            block = self._read(min(left, BLOCK_BYTES))
            if not block:
                raise self._broken(self._where, "shorter each time it is looked at", "a file that nothing writes to")
            if digest is not None:
                digest.update(block)
            left -= len(block)
        if any(self._read(fill)):
            self._add(self._where, "bytes after its payload", "zeros up to the next header")
        return None if digest is None else str(digest.hexdigest())

    def _end(self) -> None:
        """Look at what follows the members: the first sector of zeros is read already."""
        members_end = self._at - SECTOR_BYTES
        wanted = members_end + len(ending(members_end))
        if self._found.size_bytes != wanted:
            self._add("end", f"the file has {self._found.size_bytes} bytes", f"{wanted}: zeros that fill the last record and nothing after them")
        if any(self._read(wanted - self._at)):
            self._add("end", "bytes that are not zero", "zeros")


def _new_digest() -> Any:
    """Return a hasher for a payload; None without xxhash, which a consumer need not have: the tar's sha256 then stands for its members."""
    try:
        return new_xxh3()
    except ImportError:
        return None


def _number(part: bytes) -> int | None:
    """Return the number in a header field, or None."""
    if part[:1] == b"\x80":
        return int.from_bytes(part[1:], "big")
    text = part.strip(b" \0")
    return int(text, 8) if text and all(byte in b"01234567" for byte in text) else None


def _field(name: str, part: bytes) -> str:
    number: Any = _number(part) if name in NUMBERS else None
    if number is not None:
        return f"{number:#o}" if name == "mode" else str(number)
    return repr(part.rstrip(b"\0").decode("latin-1")) if name != "rest of the header" else "not all zeros" if any(part) else "zeros"
