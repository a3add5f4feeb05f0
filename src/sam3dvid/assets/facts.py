"""What sources say of an asset beside its mesh: metadata.pbtxt of a scan, a download's fetched.jsonl, a CSV of scores. Standard library alone."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from shardwork.errors import DataError
from shardwork.jsonio import read_jsonl

FUEL = "https://fuel.gazebosim.org/1.0/GoogleResearch/models/"
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]|[^\s{}":]+|:')
ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
FETCHED_KEYS = ("source", "source_name", "source_url", "license", "author", "sha256")
SHA256 = re.compile(r"[0-9a-f]{64}")
UID = re.compile(r"[0-9a-f]{32}")
"""Sketchfab's id of a model, the last part of its address."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said of one asset; "" where nothing is.   sha256 : of its file.   license : as the source writes it.   scores : name -> number."""

    source: str = ""
    source_name: str = ""
    source_url: str = ""
    license: str = ""
    author: str = ""
    attribution: str = ""
    sha256: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)

    def over(self, other: Facts) -> Facts:
        """Return these facts, and the other's where these say nothing."""
        return Facts(*(getattr(self, name) or getattr(other, name) for name in self.__slots__))


def scan_facts(model: Path) -> Facts:
    """Return what the metadata.pbtxt of a scanned object says, nothing where there is none.   model : its folder.   Source: Gazebo Fuel's form."""
    path = model / "metadata.pbtxt"
    if not path.is_file():
        return Facts()
    values = dict(_text_proto(path.read_text("utf-8", "replace")))
    name = values.get("name", "")
    return Facts(
        source="gso",
        source_name=name,
        source_url=FUEL + quote(name) if name else "",
        license=values.get("legal.license", ""),
        author=values.get("authors.name", ""),
        attribution=values.get("legal.copyright", ""),
    )


def _text_proto(text: str) -> Iterable[tuple[str, str]]:
    """Yield the values of a protobuf text in reverse, so that a dict keeps the first of a name: ("legal.license", "...")."""
    found: list[tuple[str, str]] = []
    room: list[str] = []
    key = ""
    for token in TOKEN.findall(text):
        if token == "{":
            room.append(key)
        elif token == "}":
            del room[-1:]
        elif token.startswith('"'):
            found.append((".".join([*room, key]), _unescaped(token[1:-1])))
        elif token != ":":
            key = token
    return reversed(found)


def _unescaped(text: str) -> str:
    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255]) if code[:1] in b"01234567" else {b"n": b"\n", b"t": b"\t", b"r": b"\r"}.get(code, code)

    return ESCAPE.sub(one, text.encode()).decode("utf-8", "replace")


def fetched_facts(lists: Iterable[Path]) -> dict[Path, Facts]:
    """Return what downloads say of their files: resolved path -> facts. Raises DataError (bad_json) for a list of another form."""
    found = {}
    for path in lists:
        for record in read_jsonl(path):
            if not isinstance(record, dict) or not all(isinstance(value, str | None) for value in record.values()) or not record.get("file"):
                raise DataError("bad_json", path, f"{str(record)[:80]!r}", "objects of text, with file", "run the download again: it writes the list anew")
            source, name, url, license, author, sha256 = (record.get(key) or "" for key in FETCHED_KEYS)
            facts = Facts(source=source, source_name=name, source_url=url, license=license, author=author, sha256=sha256)
            found[(path.parent / record["file"]).resolve()] = facts
    return found


class Scores:
    """Rows of CSV files in TRELLIS-500K's form: sha256, file_identifier, aesthetic_score, captions and perhaps license."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Read the files. Raises DataError (bad_table)."""
        self.by_sha256: dict[str, Facts] = {}
        self.by_identifier: dict[str, Facts] = {}
        for path in files:
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                rows = csv.DictReader(file)
                if not {"sha256", "file_identifier"} & set(rows.fieldnames or ()):
                    columns = ", ".join(rows.fieldnames or ()) or "none"
                    raise DataError("bad_table", f"{path}:1", f"columns {columns}", "sha256 or file_identifier", "give a CSV as TRELLIS-500K has it")
                for row in rows:
                    self._add(row, f"{path}:{rows.line_num}")
        except FileNotFoundError as error:
            raise DataError("bad_table", path, "no such file", "a CSV of scores", "correct the path") from error
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError("bad_table", path, str(error), "well-formed CSV in UTF-8", "download it again") from error

    def _add(self, row: Mapping[str, str], where: str) -> None:
        identifier, sha256 = row.get("file_identifier") or "", (row.get("sha256") or "").lower()
        text = row.get("aesthetic_score") or ""
        try:
            score = float(text) if text else None
        except ValueError:
            score = math.nan
        if score is not None and not math.isfinite(score):
            raise DataError("bad_table", where, f"aesthetic_score is {text[:40]!r}", "a number", "correct it, or leave it blank")
        facts = Facts(
            source_name=PurePosixPath(identifier).name,
            source_url=identifier if identifier.startswith(("https://", "http://")) else "",
            license=row.get("license") or "",
            sha256=sha256,
            scores={} if score is None else {"aesthetic": score},
        )
        if sha256:
            self.by_sha256.setdefault(sha256, facts)
        if identifier:
            self.by_identifier.setdefault(identifier, facts)
            if UID.fullmatch(facts.source_name):
                self.by_identifier.setdefault(facts.source_name, facts)

    def of(self, path: Path, stated: Facts, digest: Callable[[Path], str]) -> Facts | None:
        """Return the row of a file, or None.

        By the digest or address that its download states, or its name where that is its digest or Sketchfab's id; only then is the file read:
        `digest` returns its sha256.
        """
        for key, rows in (
            (stated.sha256, self.by_sha256),
            (path.stem, self.by_sha256),
            (stated.source_url, self.by_identifier),
            (path.stem, self.by_identifier),
        ):
            if key and key in rows:
                return rows[key]
        if not self.by_sha256 or stated.sha256 or SHA256.fullmatch(path.stem):
            return None
        return self.by_sha256.get(digest(path))
