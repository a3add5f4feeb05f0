"""Digests: sha256 where others check it, xxh3 where only we do and speed counts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from shardwork.jsonio import Json, dumps

BLOCK_BYTES = 1 << 20


def new_xxh3() -> Any:
    """Return a fresh xxh3 128-bit hasher with `update(buffer)` and `hexdigest()`."""
    import xxhash

    return xxhash.xxh3_128()


def _feed(path: Path, *hashers: Any) -> list[str]:
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            for hasher in hashers:
                hasher.update(block)
    return [str(hasher.hexdigest()) for hasher in hashers]


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file's bytes, as hex."""
    return _feed(path, hashlib.sha256())[0]


def xxh3_file(path: Path) -> str:
    """Return the xxh3 128-bit digest of a file's bytes, as hex."""
    return _feed(path, new_xxh3())[0]


def both_digests(path: Path) -> tuple[str, str]:
    """Return the xxh3 and the sha256 of a file's bytes, as hex, from one reading."""
    xxh3, sha256 = _feed(path, new_xxh3(), hashlib.sha256())
    return xxh3, sha256


def digest_value(value: Json) -> str:
    """Return the sha256 of a value's canonical JSON, as hex: equal for equal values whatever their order or spacing."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()


def seal(record: dict[str, Json]) -> dict[str, Json]:
    """Return the record with a digest of itself, so that a spoilt one is noticed when it is read."""
    return {**record, "seal": digest_value(record)[:16]}


def unseal(record: Json) -> Json:
    """Return the record without its seal, or None if it is not what was sealed."""
    if not isinstance(record, dict) or "seal" not in record:
        return None
    plain = {key: value for key, value in record.items() if key != "seal"}
    return plain if seal(plain) == record else None
