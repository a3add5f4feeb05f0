"""Whether the files of a folder are samples, whole and as written: levels from a look at the size to every byte, each fault by name.

torch is imported for the levels `full` and `sha256` only.
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shardwork.digests import sha256_file
from shardwork.errors import DataError
from shardwork.files import retract
from shardwork.jsonio import Json, read_jsonl
from shardwork.watched import WatchedFile
from vidlatents.codes import HINTS
from vidlatents.models import ModelKind
from vidlatents.records import parse_name

if TYPE_CHECKING:
    from vidlatents.contents import Form

LEVELS = ("size", "zip", "manifest", "crc", "full", "sha256")
"""Each level looks at all that the ones before it do. Source: latents spec, "Verify levels"."""
LEAST_BYTES = 1024
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, NotImplementedError, EOFError, ValueError, KeyError, IndexError)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.   file : name in the folder, or "." for the folder itself.   code : E_FILE_*.   found, expected : for people."""

    file: str
    code: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file}: {self.found}, expected {self.expected} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a manifest says of a file.   bytes : int.   sha256 : hex, or None where it has none: then there is nothing to compare."""

    bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """How files are looked at.

    level : one of LEVELS.   manifest : name -> entry, or None where there is none.   kind : the model they must be of, or None for any of MODELS.
    layout : sections, whole, or None for either.
    """

    level: str = "full"
    manifest: Mapping[str, Entry] | None = None
    kind: ModelKind | None = None
    layout: str | None = None

    def reaches(self, level: str) -> bool:
        """Whether this look includes a level."""
        return LEVELS.index(self.level) >= LEVELS.index(level)


@dataclass(frozen=True, slots=True)
class Report:
    """What verifying a folder showed.   files : names looked at.   findings : faults, in the order of names."""

    files: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def bad(self) -> dict[str, list[str]]:
        """Names of samples that are bad or missing, each with its codes; files that are no samples are left out."""
        bad: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.code != "E_FILE_EXTRA" and parse_name(finding.file) is not None:
                bad.setdefault(finding.file, []).append(finding.code)
        return bad


def read_manifest(path: Path) -> dict[str, Entry]:
    """Return the entries of a manifest: JSONL, a row with `file`, `bytes` and `sha256` for each file; rows without `file` are samples that failed.

    Raises DataError (bad_json, E_FIELD).
    """
    entries = {}
    for number, row in enumerate(read_jsonl(path), 1):
        if isinstance(row, dict) and "file" not in row:
            continue
        name, size, digest = (row.get(key) for key in ("file", "bytes", "sha256")) if isinstance(row, dict) else (None, None, None)
        if not isinstance(name, str) or not isinstance(size, int) or not (digest is None or isinstance(digest, str)):
            raise DataError("E_FIELD", f"{path}: row {number}", str(row)[:80], "file, bytes and sha256", "give the manifest that the run wrote")
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise DataError(
                "E_FIELD", f"{path}: row {number}", f"the file {name!r}"[:80], "the name of a file in the folder", "give the manifest that the run wrote"
            )
        entries[name] = Entry(size, digest)
    return entries


def sample_files(folder: Path) -> list[str]:
    """Return the names in a folder that a trainer takes for samples, sorted: all that end in .pt."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name.endswith(".pt"))


def verify_folder(folder: Path, look: Look) -> Report:
    """Return what is wrong in a folder of samples. Raises DataError (bad_argument), OSError where the machine does not let us look."""
    if look.manifest is None and look.level in ("manifest", "sha256"):
        raise DataError("bad_argument", "--level", f"{look.level} without a manifest", "a manifest to compare with", "give --manifest FILE")
    names = sample_files(folder)
    findings: list[Finding] = []
    forms: Counter[str] = Counter()
    for name in names:
        if parse_name(name) is None or (look.manifest is not None and name not in look.manifest):
            expected = "names uttid_frames_height_width.pt" if parse_name(name) is None else "only files that the manifest names"
            findings.append(Finding(name, "E_FILE_EXTRA", "no sample of this dataset", expected))
            continue
        found, form = _look_at(folder / name, look)
        findings += found
        forms.update([str(form)] if form is not None else [])
    if len(forms) > 1:
        kinds = ", ".join(f"{count} of {form}" for form, count in sorted(forms.items()))
        findings.append(Finding(".", "E_FILE_CONTENT", kinds, "one model and one layout in a folder"))
    findings += [Finding(name, "E_FILE_MISSING", "no such file", "the file that the manifest names") for name in sorted((look.manifest or {}).keys() - names)]
    return Report(tuple(names), tuple(findings))


def verify_file(path: Path, look: Look) -> list[Finding]:
    """Return what is wrong with one sample's file, none if it is whole; later levels are left out where an earlier one finds a fault."""
    return _look_at(path, look)[0]


def _look_at(path: Path, look: Look) -> tuple[list[Finding], Form | None]:
    """Return what is wrong, and the model and layout where the file was loaded."""
    for code, found, expected in _bytes_wrong(path, look):
        return [Finding(path.name, code, found, expected)], None
    form: Form | None = None
    if look.reaches("full"):
        from vidlatents.contents import look_inside

        try:
            form, problems = look_inside(path, look.kind, look.layout)
        except DataError as error:
            return [Finding(path.name, error.code, error.found, error.expected)], None
        if problems:
            return [Finding(path.name, "E_FILE_CONTENT", found, expected) for found, expected in problems], form
    entry = (look.manifest or {}).get(path.name)
    if look.reaches("sha256") and entry is not None and entry.sha256 is not None and (digest := sha256_file(path)) != entry.sha256:
        return [Finding(path.name, "E_FILE_DIGEST", digest, entry.sha256)], form
    return [], form


def _bytes_wrong(path: Path, look: Look) -> Iterator[tuple[str, str, str]]:
    """Yield (code, found, expected) of what the file's bytes show, before anything is loaded."""
    if not path.is_file():
        yield "E_FILE_SIZE", "a folder" if path.is_dir() else "a link that leads nowhere" if path.is_symlink() else "no regular file", "a file"
        return
    size = path.stat().st_size
    if size < LEAST_BYTES:
        yield "E_FILE_SIZE", f"{size} bytes", f"{LEAST_BYTES} or more"
    if look.reaches("zip") and (found := zip_fault(path)) is not None:
        yield "E_FILE_ZIP", found, "a whole zip archive"
    entry = (look.manifest or {}).get(path.name)
    if look.reaches("manifest") and entry is not None and size != entry.bytes:
        yield "E_FILE_SIZE", f"{size} bytes", f"{entry.bytes} as in the manifest"
    if look.reaches("crc") and (found := crc_fault(path)) is not None:
        yield "E_FILE_CRC", found, "the bytes that were written"


def zip_fault(path: Path) -> str | None:
    """Return why a file is no whole zip archive, or None; reads its directory only. Raises OSError where the machine is at fault."""
    return _fault(path, lambda archive: None)


def whole_zip(path: Path) -> bool:
    """Return whether a file has the size and the directory of a whole sample, by a look at its end alone. Raises OSError where the machine is at fault."""
    return path.stat().st_size >= LEAST_BYTES and zip_fault(path) is None


def crc_fault(path: Path) -> str | None:
    """Return which part of a zip archive is damaged, or None; reads every byte of every part. Raises OSError where the machine is at fault."""
    return _fault(path, zipfile.ZipFile.testzip)


def _fault(path: Path, look: Callable[[zipfile.ZipFile], str | None]) -> str | None:
    """Return what is wrong with an archive.   look : returns the part that is damaged.   zipfile takes a read that fails for the end of the file."""
    found: str | None
    with WatchedFile(path) as file:
        try:
            if not zipfile.is_zipfile(file):
                found = "no end of a zip archive"
            else:
                with zipfile.ZipFile(file) as archive:
                    bad = look(archive)
                found = None if bad is None else f"{bad} is damaged"
        except ZIP_ERRORS as error:
            found = str(error) or type(error).__name__
        except OSError as error:
            found = _offset_fault(error)
        file.raise_error()
    return found


def _offset_fault(error: OSError) -> str:
    """Return what to say of an offset that no file has; any other error is the machine's and raised again."""
    if error.errno != errno.EINVAL:
        raise error
    return "an offset outside the file"


def delete_bad(folder: Path, report: Report) -> list[str]:
    """Delete the bad samples of a report and return their names; files that are no samples stay: they are somebody's. So do folders, whatever their names.

    folder : the one that was looked at.   report : only what was found in the folder is deleted, whatever else a manifest names.
    """
    here = {name: folder / name for name in report.bad if name in report.files}
    names = [name for name, path in here.items() if path.is_file() or path.is_symlink()]
    for name in names:
        retract(folder / name)
    return names


def requeue_rows(report: Report) -> list[dict[str, Json]]:
    """Return a row for each sample to make again: file, uttid, bucket and the codes of its faults."""
    rows: list[dict[str, Json]] = []
    for name, codes in sorted(report.bad.items()):
        parsed = parse_name(name)
        assert parsed is not None
        uttid, frames, height, width = parsed
        rows.append({"bucket_height": height, "bucket_num_frame": frames, "bucket_width": width, "codes": codes, "file": name, "uttid": uttid})
    return rows


def finding_as_json(finding: Finding) -> dict[str, Json]:
    """Return a finding ready for JSON."""
    return {"code": finding.code, "expected": finding.expected, "file": finding.file, "found": finding.found, "hint": HINTS[finding.code]}
