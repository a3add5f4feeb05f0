"""Ids: one rule for videos, clips and assets, so that an id is a safe file name, tar key and command-line value."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from shardwork.errors import DataError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
"""A model on huggingface.co: owner/name."""
ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,100}")


def is_id(text: str) -> bool:
    """Return whether `text` is a usable id."""
    return ID_PATTERN.fullmatch(text) is not None


def suggest_id(text: str) -> str:
    """Return a usable id near `text`: accents dropped, other characters as underscores, and six digits of its sha256, so that no two are alike."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    near = re.sub(r"[^A-Za-z0-9_-]+", "_", plain).strip("_")[:90]
    return "_".join(filter(None, (near, hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6])))


def check_id(text: str) -> str:
    """Return `text` if it is a usable id. Raises DataError (bad_id) with a suggestion."""
    if is_id(text):
        return text
    raise DataError(
        "bad_id", repr(text), "not a usable id", "1 to 100 of A-Z a-z 0-9 _ -", f"name it {suggest_id(text)!r} in the table (the file itself may keep its name)"
    )
