"""Objaverse-XL through its own package, with what that leaves out: back-off, a check of every file, and a verdict for each object.

Source: objaverse 0.1.7 (objaverse.xl). What it does and shapes this module: a wrong sha256 raises nothing; one failed download raises for all of a call;
handlers run in other processes and must be picklable; GitHub objects come as temporary clones, of one commit a repository and call; what is found on disk
already is neither checked nor handled. Of an OBJ or glTF that refers to other files, only the file itself comes.
"""

from __future__ import annotations

import functools
import importlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.objects import Wanted
from sam3dvid.stage import MESH_SUFFIXES
from shardwork.digests import sha256_file
from shardwork.errors import DISK_ERRNOS, DataError, Fault
from shardwork.files import atomic_path, make_folder, publish

TROUBLE = (OSError, AssertionError, LookupError, ValueError, EOFError, subprocess.SubprocessError)
"""What the package raises when the network or one object fails. OSError covers urllib's and requests' errors; a full disk is told apart by its number."""


def package() -> Any:
    """Return the module objaverse.xl. Raises DataError (bad_argument) with the line that installs it."""
    try:
        return importlib.import_module("objaverse.xl")
    except ImportError as error:
        hint = "pip install 'reelmill[objaverse]' (or: pip install objaverse==0.1.7)"
        raise DataError("bad_argument", "objaverse", f"not installed here ({error})", "the package objaverse", hint) from error


def keep_found(local_path: str, file_identifier: str, sha256: str, metadata: dict[str, Any], folder: str) -> None:
    """Copy an object that the package found out of its temporary folder, under its sha256. Called in the package's processes."""
    _keep(Path(local_path), Path(folder) / sha256)


def keep_modified(local_path: str, file_identifier: str, new_sha256: str, old_sha256: str, metadata: dict[str, Any], folder: str) -> None:
    """Copy an object that the package found changed, under the sha256 that was asked for: our own check refuses it."""
    _keep(Path(local_path), Path(folder) / old_sha256)


def _keep(source: Path, target: Path) -> None:
    with atomic_path(target) as temp:
        shutil.copyfile(source, temp)


@dataclass(frozen=True, slots=True)
class Job:
    """How objects are fetched.

    xl : objaverse.xl, or what stands in for it.   out : the folder for finished files.   processes : of the package.   tries : calls for a batch before
    its objects are fetched one by one.   wait : called with the number of the failed try, from 1.   say : for the log.
    """

    xl: Any
    out: Path
    processes: int
    tries: int
    wait: Callable[[int], object]
    say: Callable[[str], None]

    @property
    def work(self) -> Path:
        """The package's own folder: annotations, and files not yet checked."""
        return self.out / ".objaverse"

    def final(self, wanted: Wanted) -> Path:
        """Return where an object's file is kept."""
        return self.out / f"{wanted.sha256}{wanted.suffix}"


def is_there(job: Job, wanted: Wanted) -> bool:
    """Return whether an object's file stands in its place, with its sha256."""
    return job.final(wanted).is_file() and sha256_file(job.final(wanted)) == wanted.sha256


def batches(wanted: Sequence[Wanted], size: int) -> Iterator[list[Wanted]]:
    """Yield objects in batches of one source, in which no repository stands with two commits: the package refuses that."""
    for source in sorted({one.source for one in wanted}):
        todo = sorted((one for one in wanted if one.source == source), key=lambda one: (one.repository, one.identifier))
        while todo:
            batch: list[Wanted] = []
            later: list[Wanted] = []
            commits: dict[str, str] = {}
            for one in todo:
                repository, commit = one.repository
                fits = len(batch) < size and commits.setdefault(repository, commit) == commit
                (batch if fits else later).append(one)
            yield batch
            todo = later


def fetch_batch(job: Job, annotations: Any, batch: Sequence[Wanted]) -> Iterator[tuple[Wanted, Path | DataError]]:
    """Yield every object of a batch with its finished file or its verdict (download_failed, digest_mismatch).

    annotations : the package's DataFrame of this source.   A batch that fails as a whole is asked for again, then its objects one by one.
    """
    left = list(batch)
    for number in range(1, job.tries + 1):
        trouble = _call(job, annotations, left)
        for one in list(left):
            result = _take(job, one)
            if result is not None:
                left.remove(one)
                yield one, result
        if trouble is None or not left:
            break
        job.say(f"objaverse: {_line(trouble)}; {len(left)} objects left of {len(batch)}")
        if number < job.tries:
            job.wait(number)
    for one in left:
        last = _call(job, annotations, [one]) if trouble is not None and len(batch) > 1 else trouble
        result = _take(job, one)
        found = _line(last) if last is not None else "the package did not find it"
        yield one, result if result is not None else AssetRefused("download_failed", one.identifier, found, "the object")
    shutil.rmtree(_kept(job), ignore_errors=True)


def _call(job: Job, annotations: Any, wanted: Sequence[Wanted]) -> BaseException | None:
    """Let the package fetch objects, and return what it raised. Raises OSError where the disk is at fault."""
    for folder in (_kept(job), job.work / "hf-objaverse-v1" / "glbs", job.work / "thingiverse", job.work / "smithsonian" / "objects"):
        if folder != _kept(job):
            _drop_files(folder)  # what the package finds here it neither checks nor hands over
    make_folder(_kept(job))
    rows = annotations[annotations["fileIdentifier"].isin([one.identifier for one in wanted])]
    rows = rows.drop_duplicates("fileIdentifier")
    handlers = {
        "handle_found_object": functools.partial(keep_found, folder=str(_kept(job))),
        "handle_modified_object": functools.partial(keep_modified, folder=str(_kept(job))),
    }
    try:
        job.xl.download_objects(objects=rows, download_dir=str(job.work), processes=job.processes, **handlers)
    except TROUBLE as error:
        if isinstance(error, Fault) or (isinstance(error, OSError) and error.errno in DISK_ERRNOS):
            raise
        return error
    return None


def _kept(job: Job) -> Path:
    return job.work / "kept"


def _drop_files(folder: Path) -> None:
    for path in folder.rglob("*.*") if folder.is_dir() else ():
        if path.suffix.lower() in MESH_SUFFIXES and path.is_file():
            path.unlink()


def _take(job: Job, wanted: Wanted) -> Path | DataError | None:
    """Put an object that came into its place, or return why it may not stand there; None if it did not come. A wrong file is removed."""
    kept = _kept(job) / wanted.sha256
    if not kept.is_file():
        return None
    found = sha256_file(kept)
    if found != wanted.sha256:
        kept.unlink()
        return AssetRefused("digest_mismatch", wanted.identifier, f"sha256 {found}", f"sha256 {wanted.sha256}")
    final = job.final(wanted)
    publish(kept, final)
    return final


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def annotations_of(job: Job, source: str) -> Any:
    """Return the package's annotations of one source, a DataFrame. Raises AssetRefused (download_failed) after all tries, DataError for a broken file."""
    for number in range(1, job.tries + 1):
        try:
            return job.xl.downloaders[source].get_annotations(download_dir=str(job.work))
        except TROUBLE as error:
            if isinstance(error, OSError) and error.errno in DISK_ERRNOS:
                raise
            shutil.rmtree(job.work / source, ignore_errors=True)  # the package takes a half file for a whole one
            if number == job.tries:
                raise AssetRefused("download_failed", f"the annotations of {source}", _line(error), "a table of objects") from error
            job.say(f"objaverse: annotations of {source}: {_line(error)}")
            job.wait(number)
    raise AssertionError("unreachable")
