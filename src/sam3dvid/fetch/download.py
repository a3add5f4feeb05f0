"""One file from a server: resumed where an earlier attempt stopped, checked, and only then under its name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.client import BLOCK_BYTES, Client, Trouble
from shardwork.errors import DataError
from shardwork.files import fsync_path, make_folder, publish
from shardwork.jsonio import read_json, write_json

PART_SUFFIX, NOTES_SUFFIX = ".part", ".part.json"


@dataclass(frozen=True, slots=True)
class Expected:
    """What the source states of a file; None where it states nothing.   limit_bytes : the most that is taken where no size is stated."""

    bytes: int | None = None
    md5: str | None = None
    sha256: str | None = None
    limit_bytes: int = 8 << 30

    @property
    def has_digest(self) -> bool:
        """Whether a file's bytes can be told from others."""
        return bool(self.md5 or self.sha256)

    @property
    def most_bytes(self) -> int:
        """The longest body that can be right."""
        return self.limit_bytes if self.bytes is None else self.bytes

    def mismatch(self, found: Fetched) -> tuple[str, str] | None:
        """Return how a file differs (found, expected), or None."""
        for name, stated in (("bytes", self.bytes), ("md5", self.md5), ("sha256", self.sha256)):
            value = getattr(found, name)
            if stated is not None and value != (stated.lower() if isinstance(stated, str) else stated):
                return f"{name} {value}", f"{name} {stated}"
        return None


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a file holds.   bytes : int.   md5, sha256 : hex."""

    bytes: int
    md5: str
    sha256: str


class _Hashes:
    """Both digests and the size of the bytes that were fed."""

    def __init__(self) -> None:
        self.size, self._md5, self._sha256 = 0, hashlib.md5(usedforsecurity=False), hashlib.sha256()

    def feed(self, block: bytes) -> None:
        self.size += len(block)
        self._md5.update(block)
        self._sha256.update(block)

    def done(self) -> Fetched:
        return Fetched(self.size, self._md5.hexdigest(), self._sha256.hexdigest())


def measure(path: Path) -> Fetched:
    """Return the size and digests of a file on disk."""
    return _measured(path).done()


def _measured(path: Path) -> _Hashes:
    hashes = _Hashes()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES << 4):
            hashes.feed(block)
    return hashes


@dataclass(frozen=True, slots=True)
class _Part:
    """What an earlier attempt left.   path : the bytes so far.   notes : whose they are: url, and the validator that the server gave with them."""

    path: Path
    notes: Path

    @classmethod
    def of(cls, target: Path) -> _Part:
        return cls(target.with_name(target.name + PART_SUFFIX), target.with_name(target.name + NOTES_SUFFIX))

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def validator(self, url: str) -> str:
        """Return what If-Range may be asked with, "" if nothing is known, or of another address."""
        try:
            notes = read_json(self.notes)
        except (DataError, FileNotFoundError):
            return ""
        if not isinstance(notes, dict) or notes.get("url") != url or not isinstance(notes.get("validator"), str):
            return ""
        return str(notes["validator"])


def download(client: Client, url: str, target: Path, expected: Expected) -> Fetched:
    """Fetch a file and return what it is; a target that is already there with the right digest is not fetched again.

    The bytes gather in `<target>.part`, which a later call goes on with, and get their name when size and digests are right.
    Raises AssetRefused: download_failed (refused, or given up after all tries), digest_mismatch (twice, from the first byte on, other bytes than stated).
    OSError (a full disk) is let through.
    """
    part = _Part.of(target)
    if expected.has_digest and target.is_file():
        found = measure(target)
        if expected.mismatch(found) is None:
            part.drop()
            return found
    make_folder(target.parent)
    for last in (False, True):
        try:
            found = client.patiently(url, lambda: _attempt(client, url, part, expected))
            if (wrong := expected.mismatch(found)) is not None:
                raise AssetRefused("digest_mismatch", url, *wrong)
        except AssetRefused as error:
            if error.code == "digest_mismatch":
                part.drop()
            if last or error.code != "digest_mismatch":
                raise
        else:
            fsync_path(part.path)
            publish(part.path, target)
            part.drop()
            return found
    raise AssertionError("unreachable")


def _attempt(client: Client, url: str, part: _Part, expected: Expected) -> Fetched:
    """Add to the part what lacks, in one request, and return what it then is. Raises Trouble where it is cut short."""
    have = _measured(part.path) if part.path.is_file() else _Hashes()
    validator = part.validator(url)
    if have.size > expected.most_bytes or (have.size and not validator and not expected.has_digest):
        part.drop()  # longer than the file is, or nobody can say whether it is of the same file
        have = _Hashes()
    if have.size and have.size == expected.bytes and expected.has_digest:
        return have.done()
    headers = {}
    if have.size:
        headers["Range"] = f"bytes={have.size}-"
        if validator:
            headers["If-Range"] = validator
    with client.answer(url, headers, fine=(200, 206, 416)) as response:
        if response.status_code == 416:
            part.drop()
            raise Trouble(f"status 416 for the rest after {have.size} bytes", wait_seconds=0.0)
        begin, total = _span(response)
        if response.status_code == 206 and begin != have.size:
            part.drop()
            raise Trouble(f"a part from byte {begin}, not from {have.size}", wait_seconds=0.0)
        if response.status_code == 200:
            part.drop()  # it has no ranges, or the file is another one now: all of it comes
            have = _Hashes()
        if total is not None and expected.bytes is not None and total != expected.bytes:
            raise AssetRefused("digest_mismatch", url, f"{total} bytes", f"{expected.bytes} bytes")
        write_json(part.notes, {"url": url, "validator": _validator(response)})
        with open(part.path, "ab" if have.size else "wb") as file:
            for block in client.blocks(response, expected.limit_bytes):
                file.write(block)
                have.feed(block)
                if expected.bytes is not None and have.size > expected.bytes:
                    raise AssetRefused("digest_mismatch", url, f"more than {expected.bytes} bytes", f"{expected.bytes} bytes")
        if total is not None and have.size != total:
            raise Trouble(f"{have.size} of {total} bytes")
        if expected.bytes is not None and have.size < expected.bytes:
            raise Trouble(f"{have.size} of {expected.bytes} bytes")
    return have.done()


def _span(response: Any) -> tuple[int, int | None]:
    """Return the first byte that an answer brings, and the size of the whole file if it says it."""
    if response.status_code == 206:
        unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
        span, _, whole = rest.partition("/")
        begin = span.partition("-")[0]
        if unit != "bytes" or not begin.isdigit():
            return -1, None
        return int(begin), int(whole) if whole.isdigit() else None
    length = response.headers.get("Content-Length", "")
    coded = response.headers.get("Content-Encoding", "identity") != "identity"
    return 0, int(length) if length.isdigit() and not coded else None


def _validator(response: requests.Response) -> str:
    """Return what tells this state of the file from others: a strong ETag, else the time of its last change; "" for an encoded body."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return ""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
