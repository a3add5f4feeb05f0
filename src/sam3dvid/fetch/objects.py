"""Which objects of Objaverse-XL are wanted, and what is recorded of each that came."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from sam3dvid.assets.licenses import spdx_of
from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.books import Record, read_names
from sam3dvid.stage import MESH_SUFFIXES
from shardwork.errors import DataError
from shardwork.jsonio import loads
from shardwork.tables import read_table

DIGEST = re.compile(r"[0-9a-f]{64}")
_UID = re.compile(r"[0-9a-f]{32}")
SKETCHFAB_PAGE = "https://sketchfab.com/3d-models/"
_HOSTS = {"sketchfab.com": "sketchfab", "github.com": "github", "www.thingiverse.com": "thingiverse", "thingiverse.com": "thingiverse"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object to fetch.   sha256 : of its file.   identifier : the package's fileIdentifier.   source : sketchfab, github, thingiverse, smithsonian."""

    sha256: str
    identifier: str
    source: str

    @property
    def suffix(self) -> str:
        """Return the suffix of its file, such as .glb."""
        if self.source == "sketchfab":
            return ".glb"
        if self.source == "thingiverse":
            return ".stl"
        return PurePosixPath(unquote(urlsplit(self.identifier).path)).suffix.lower() or ".glb"

    @property
    def repository(self) -> tuple[str, str]:
        """Return repository and commit of a GitHub object, else its own name twice: nothing shares it."""
        parts = self.identifier.split("/")
        return ("/".join(parts[3:5]), parts[6]) if self.source == "github" and len(parts) > 7 else (self.identifier, self.identifier)


def source_of(identifier: str) -> str:
    """Return which of the package's sources an identifier belongs to. Raises AssetRefused (bad_answer)."""
    host = urlsplit(identifier).hostname or ""
    source = _HOSTS.get(host, "smithsonian" if host.endswith(".si.edu") else "")
    if not source or (source == "github" and len(identifier.split("/")) < 8):
        raise AssetRefused("bad_answer", identifier, "not the address of an object", "an address at sketchfab, github, thingiverse or si.edu")
    return source


def read_wanted(table: Path, least_score: float) -> tuple[list[Wanted], int]:
    """Return the objects of a TRELLIS-500K-style table whose score is high enough, sorted by sha256, and how many are below.

    table : CSV with sha256, file_identifier, and aesthetic_score where least_score is above 0.   Raises DataError (bad_table, duplicate_id).
    """
    rows = read_table(table, "sha256", ("file_identifier", *(("aesthetic_score",) if least_score > 0 else ())))
    wanted, below = [], 0
    for row in rows:
        if not DIGEST.fullmatch(row["sha256"]):
            raise DataError("bad_table", f"{table}: {row['sha256'][:70]!r}", "no sha256", "64 hex digits", "correct the table")
        if least_score > 0 and not _number(row["aesthetic_score"]) >= least_score:
            below += 1
            continue
        try:
            wanted.append(Wanted(row["sha256"], row["file_identifier"], source_of(row["file_identifier"])))
        except AssetRefused as error:
            raise DataError("bad_table", f"{table}: {row['sha256']}", f"file_identifier {error.where!r}", error.expected, "correct the table") from error
    return sorted(wanted, key=lambda one: one.sha256), below


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")  # no score: not high enough


def described(annotations: Any, wanted: Sequence[Wanted]) -> dict[str, dict[str, Any]]:
    """Return identifier -> annotation of those objects that the annotations hold."""
    rows = annotations[annotations["fileIdentifier"].isin([one.identifier for one in wanted])]
    return {row["fileIdentifier"]: row for row in rows.to_dict("records")}


def record_for(wanted: Wanted, file: str, annotation: dict[str, Any]) -> Record:
    """Return the record of a fetched object, with its own licence."""
    stated = annotation.get("license")
    return Record(
        file=file,
        sha256=wanted.sha256,
        source="objaverse",
        source_name=wanted.identifier.rpartition("/")[2] if wanted.source == "sketchfab" else wanted.identifier,
        source_url=wanted.identifier,
        license=spdx_of(stated, "", wanted.source) if isinstance(stated, str) else "",
        author=_author(wanted, annotation),
    )


def _author(wanted: Wanted, annotation: dict[str, Any]) -> str:
    """Return the owner of a repository, or the author that the metadata names; "" where it names none (Sketchfab's annotations do not)."""
    if wanted.source == "github":
        return wanted.identifier.split("/")[3]
    try:
        metadata = loads(annotation.get("metadata") or "{}")
    except (DataError, TypeError):
        return ""
    name = metadata.get("author") or metadata.get("username") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


def read_ids(path: Path) -> list[Wanted]:
    """Return the objects that a text file names, one a line: addresses, or Sketchfab's 32 hex digits. Their sha256 is "" until it is looked up.

    Raises DataError (bad_argument) for a file that names none, AssetRefused (bad_answer) for a line that is no object.
    """
    names = [SKETCHFAB_PAGE + name if _UID.fullmatch(name) else name for name in read_names(path)]
    return [Wanted("", name, source_of(name)) for name in names]


def settle(wanted: Sequence[Wanted], known: dict[str, dict[str, Any]]) -> tuple[list[Wanted], dict[Wanted, AssetRefused]]:
    """Return the objects that can be asked for, each with its sha256, and a verdict for each other one.

    known : identifier -> annotation.   Verdicts: download_failed for an object that the package does not know, digest_mismatch for one whose sha256
    it states otherwise, format_unsupported.
    """
    fine: list[Wanted] = []
    refused: dict[Wanted, AssetRefused] = {}
    for one in wanted:
        stated = known.get(one.identifier, {}).get("sha256")
        if one.suffix not in MESH_SUFFIXES:
            refused[one] = AssetRefused("format_unsupported", one.identifier, one.suffix, " ".join(MESH_SUFFIXES))
        elif not isinstance(stated, str):
            refused[one] = AssetRefused("download_failed", one.identifier, "not among the annotations of Objaverse-XL", "a known object")
        elif one.sha256 and stated != one.sha256:
            refused[one] = AssetRefused("digest_mismatch", one.identifier, f"sha256 {stated} in the annotations", f"sha256 {one.sha256} as in the table")
        else:
            fine.append(replace(one, sha256=stated))
    return fine, refused
