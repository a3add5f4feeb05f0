"""Whether a file keeps the EventActivityNet format: every dataset, attribute, filter, chunk and rule, each fault by name."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from eventvox.chunktable import unsound_chunks
from eventvox.codes import HINTS
from eventvox.layout import ATTRIBUTES, COUNTS, DATASETS, EVENTS, HDF5_ERRORS, SIDE_CHUNK, STARTS, event_chunks
from eventvox.timing import rational_fps
from shardwork.errors import DataError, Problem
from shardwork.watched import WatchedFile

NUM_BINS = 5
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
FILTER_NAMES = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 32000: "lzf"}
LISTED = 5
DTYPES = {EVENTS: np.dtype("<i2"), STARTS: np.dtype("<i8"), COUNTS: np.dtype("<i4")}
FILTERS = {EVENTS: ["shuffle", "gzip"], STARTS: ["shuffle", "lzf"], COUNTS: ["shuffle", "lzf"]}
ATTRIBUTE_DTYPES = {name: np.dtype(np.int64) for name in ATTRIBUTES} | {"fps": np.dtype(np.float64), "interpolate_bins": np.dtype(np.bool_)}
CHILD = """
import sys, json
from pathlib import Path
from eventvox import validate
try:
    json.dump(getattr(validate, sys.argv[1])(Path(sys.argv[2]), int(sys.argv[3])), sys.stdout)
except OSError as error:
    if error.errno is None:
        raise
    json.dump({"errno": error.errno, "strerror": error.strerror}, sys.stdout)
"""


def validate_file(path: Path, *, frames_per_bin: int = 1, timeout_seconds: float | None = None) -> list[Problem]:
    """Return every problem of an event file, none if it keeps the format; reads every chunk.

    frames_per_bin : the setting it was made with, 1 in v1.0.
    timeout_seconds : look in a process of its own and give up after so long, since HDF5 can spin on one wrong byte; None looks here.
    Raises OSError only where the machine does not let us look.   Source: EventActivityNet format; events spec, "Identities".
    """
    problem = _path_problem(path)
    if problem is not None:
        return [problem]
    if timeout_seconds is None:
        return _problems(path, frames_per_bin)
    found = _in_child("_problems_json", path, frames_per_bin, timeout_seconds)
    return [found] if isinstance(found, Problem) else [Problem(**row) for row in found]


def info(path: Path, *, timeout_seconds: float | None = None) -> dict[str, Any]:
    """Return what a file says of itself, ready for JSON: bytes, shapes, dtypes, chunks, filters, attributes, slices, exact frame rate.

    timeout_seconds : as for validate_file.   Raises DataError (invalid_hdf5) for a file that cannot be described.
    """
    found: Any = _path_problem(path)
    if found is None and timeout_seconds is None:
        try:
            return _info_json(path, 1)
        except HDF5_ERRORS as error:
            found = Problem("file", str(error), "an event file")
    elif found is None and timeout_seconds is not None:
        found = _in_child("_info_json", path, 1, timeout_seconds)
    if isinstance(found, Problem):
        raise DataError("invalid_hdf5", path, f"{found.where}: {found.found}", found.expected, HINTS["invalid_hdf5"])
    described: dict[str, Any] = found
    return described


def timeout_for(path: Path) -> float:
    """Return a time limit that a healthy file of this size never needs: a minute, and 5 s per MB (measured: 0.1 to 0.3 s)."""
    return 60.0 + (path.stat().st_size / 2e5 if path.is_file() else 0.0)


def _path_problem(path: Path) -> Problem | None:
    if path.is_dir():
        return Problem("file", "a folder", "an HDF5 file")
    if not path.exists():
        return Problem("file", "no such file" if not path.is_symlink() else "a link that leads nowhere", "an HDF5 file")
    if not path.is_file():
        return Problem("file", "not a regular file", "an HDF5 file")
    with open(path, "rb") as file:
        start = file.read(len(HDF5_SIGNATURE))
    return None if start == HDF5_SIGNATURE else Problem("file", f"begins with {start!r}", f"the HDF5 signature {HDF5_SIGNATURE!r}")


def _in_child(name: str, path: Path, frames_per_bin: int, timeout_seconds: float) -> Any:
    """Return what a function of this module gives in a process of its own, or the Problem that the process met."""
    roots = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-c", CHILD, name, str(path.absolute()), str(frames_per_bin)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root), "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_seconds, check=False)
    except subprocess.TimeoutExpired:
        return Problem("file", f"not read within {timeout_seconds:g} s", "a file that can be read to its end")
    if done.returncode < 0:
        return Problem("file", f"the HDF5 library dies of it (signal {-done.returncode})", "a file that can be read")
    if done.returncode:
        return Problem("file", (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1], "an event file")
    told = json.loads(done.stdout)
    if isinstance(told, dict) and told.keys() == {"errno", "strerror"}:
        raise OSError(told["errno"], told["strerror"])
    return told


def _problems_json(path: Path, frames_per_bin: int) -> list[dict[str, str]]:
    return [asdict(problem) for problem in _problems(path, frames_per_bin)]


def _problems(path: Path, frames_per_bin: int) -> list[Problem]:
    with WatchedFile(path) as watched:
        try:
            with h5py.File(watched, "r") as file:
                problems = _Look(file, frames_per_bin).problems()
        except HDF5_ERRORS as error:
            problems = [Problem("file", f"cannot be opened ({_short(error)})", "a whole HDF5 file")]
    watched.raise_error()
    return problems


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _filters(dataset: Any) -> list[str]:
    """Return the names of a dataset's filters in the order they are applied when writing."""
    plist = dataset.id.get_create_plist()
    codes = [plist.get_filter(index)[0] for index in range(plist.get_nfilters())]
    return [FILTER_NAMES.get(code, f"filter {code}") for code in codes]


class _Look:
    """One look at one open file. Every access is guarded: any byte of it may be wrong."""

    def __init__(self, file: Any, frames_per_bin: int) -> None:
        self._file, self._frames_per_bin = file, frames_per_bin
        self._found: list[Problem] = []
        self._attributes: dict[str, Any] = {}

    def problems(self) -> list[Problem]:
        """Return all problems; values are read only where the layout allows it."""
        self._guard("file", "names that can be read", self._look_at_names)
        self._guard("attributes", "attributes that can be read", self._look_at_attributes)
        datasets = {name: self._guard(name, "a dataset that can be opened", self._open, name) for name in DATASETS}
        if all(dataset is not None for dataset in datasets.values()):
            sound = [self._guard(name, "a layout that can be read", self._look_at_layout, name, datasets[name]) for name in DATASETS]
            if all(sound):
                self._look_at_values(datasets)
        return self._found

    def _add(self, where: str, found: object, expected: object) -> None:
        self._found.append(Problem(where, str(found), str(expected)))

    def _guard(self, where: str, expected: str, look: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return look(*arguments)
        except HDF5_ERRORS as error:
            self._add(where, f"cannot be read ({_short(error)})", expected)
            return None

    def _look_at_names(self) -> None:
        names = set(self._file)
        for name in sorted(names - set(DATASETS)):
            self._add(name, "an extra name at the root", "only " + ", ".join(DATASETS))

    def _open(self, name: str) -> Any:
        if name not in self._file:
            return self._add(name, "missing", "a dataset at the root")
        if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
            return self._add(name, "a link to elsewhere", "a dataset of this file")
        if not isinstance(self._file[name], h5py.Dataset):
            return self._add(name, "a group", "a dataset")
        return self._file[name]

    def _look_at_attributes(self) -> None:
        attrs = self._file.attrs
        names = set(attrs)
        for name in sorted(names - set(ATTRIBUTES)):
            self._add(f"attribute {name}", "an extra attribute at the root", "only " + ", ".join(ATTRIBUTES))
        for name in ATTRIBUTES:
            if name not in names:
                self._add(f"attribute {name}", "missing", f"{ATTRIBUTE_DTYPES[name]}")
            else:
                self._guard(f"attribute {name}", "a value that can be read", self._look_at_attribute, name)

    def _look_at_attribute(self, name: str) -> None:
        kind = self._file.attrs.get_id(name)
        # Text is never read: HDF5 can spin on a damaged string of variable length.
        if kind.shape != () or kind.dtype != ATTRIBUTE_DTYPES[name]:
            return self._add(f"attribute {name}", f"{kind.dtype} of shape {kind.shape}", f"one {ATTRIBUTE_DTYPES[name]}")
        value = self._attributes[name] = self._file.attrs[name]
        if name == "fps" and not (math.isfinite(value) and value > 0):
            self._add("attribute fps", value, "a finite number above 0")
        if name == "num_bins" and value != NUM_BINS:
            self._add("attribute num_bins", value, NUM_BINS)
        return None

    def _look_at_layout(self, name: str, dataset: Any) -> bool:
        """Return whether the dataset's values can be read and judged."""
        shape, dimensions = dataset.shape, 4 if name == EVENTS else 1
        if shape is None or len(shape) != dimensions:
            self._add(name, f"shape {shape}", "(T, 5, H, W)" if name == EVENTS else "(T,)")
            return False
        if dataset.dtype != DTYPES[name]:
            self._add(name, f"dtype {dataset.dtype}", DTYPES[name])
        chunks = event_chunks(NUM_BINS, *shape[2:]) if name == EVENTS else (SIDE_CHUNK,)
        if dataset.chunks != chunks:
            self._add(name, f"chunks {dataset.chunks}", chunks)
        if _filters(dataset) != FILTERS[name]:
            self._add(name, "filters " + (", ".join(_filters(dataset)) or "none"), ", ".join(FILTERS[name]))
        if name == EVENTS:
            self._look_at_size(shape)
        if dataset.chunks is None or dataset.dtype != DTYPES[name] or (name == EVENTS and shape[1] != NUM_BINS):
            return False
        stored, wanted = dataset.id.get_num_chunks(), math.prod(-(-size // chunk) for size, chunk in zip(shape, dataset.chunks, strict=True))
        if stored != wanted:
            # A chunk that was never written reads as zeros; and a wrong length must not be read at all.
            self._add(name, f"{stored} chunks stored", f"{wanted} for shape {shape}")
            return False
        return True

    def _look_at_size(self, shape: tuple[int, ...]) -> None:
        if shape[1] != NUM_BINS:
            self._add(EVENTS, f"{shape[1]} bins", NUM_BINS)
        for name, size in (("height", shape[2]), ("width", shape[3])):
            if self._attributes.get(name, size) != size:
                self._add(f"attribute {name}", self._attributes[name], f"{size}, as in shape {shape} of events")

    def _look_at_values(self, datasets: dict[str, Any]) -> None:
        length = datasets[EVENTS].shape[0]
        columns: dict[str, NDArray[np.integer[Any]]] = {}
        for name in (STARTS, COUNTS):
            if datasets[name].shape[0] != length:
                self._add(name, f"{datasets[name].shape[0]} entries", f"{length}, the length of events")
                continue
            values = self._guard(name, "chunks that can be read", datasets[name].__getitem__, ())
            if values is not None:
                columns[name] = values
        self._look_at_starts(columns.get(STARTS))
        used = self._look_at_counts(columns.get(COUNTS))
        self._look_at_events(datasets[EVENTS], used)

    def _look_at_starts(self, starts: NDArray[np.integer[Any]] | None) -> None:
        if starts is not None:
            wanted = np.arange(len(starts), dtype=np.int64) * (NUM_BINS * self._frames_per_bin)
            self._add_first(STARTS, starts, wanted, starts != wanted)

    def _look_at_counts(self, counts: NDArray[np.integer[Any]] | None) -> int:
        """Return how many bins of the last voxel may hold values."""
        full = NUM_BINS * self._frames_per_bin
        if counts is None or not len(counts):
            return NUM_BINS
        wanted = np.full(len(counts), full, np.int64)
        if 1 <= counts[-1] <= full:
            wanted[-1] = counts[-1]
        self._add_first(COUNTS, counts, wanted, counts != wanted)
        interpolated = bool(self._attributes.get("interpolate_bins", False))
        return NUM_BINS if interpolated else -(-int(wanted[-1]) // self._frames_per_bin)

    def _add_first(self, name: str, values: NDArray[np.integer[Any]], wanted: NDArray[np.integer[Any]], wrong: NDArray[np.bool_]) -> None:
        places = np.flatnonzero(wrong)
        if len(places):
            t = int(places[0])
            last = " or fewer" if name == COUNTS and t == len(values) - 1 else ""
            self._add(name, f"{values[t]} for voxel {t} ({len(places)} wrong in all)", f"{wanted[t]}{last}")

    def _look_at_events(self, events: Any, used: int) -> None:
        """Read every chunk; the last voxel must be zero beyond its count."""
        buffer: NDArray[np.int16] = np.zeros(events.shape[1:], "<i2")
        broken: dict[int, str] = {}
        for t in range(events.shape[0] if buffer.size else 0):
            try:
                events.read_direct(buffer, np.s_[t])
            except HDF5_ERRORS as error:
                broken[t] = _short(error)
        self._add_voxels("voxels that cannot be read", broken, events.shape[0], "chunks that can be read")
        unsound: dict[int, str] = {}
        if buffer.size and events.chunks == event_chunks(*events.shape[1:]):
            for t, reason in self._guard(EVENTS, "an index of chunks that can be read", list, unsound_chunks(events)) or ():
                unsound.setdefault(t, reason)
        self._add_voxels("voxels that HDF5 reads otherwise than they are stored", unsound, events.shape[0], "chunks that are found, filtered and their own")
        if broken:
            return
        if events.shape[0] and buffer[used:].any():
            self._add(EVENTS, f"values beyond the count in bins {used} to {NUM_BINS - 1} of the last voxel", "zeros")

    def _add_voxels(self, what: str, wrong: dict[int, str], voxels: int, expected: str) -> None:
        if wrong:
            listed = ", ".join(map(str, list(wrong)[:LISTED])) + (", ..." if len(wrong) > LISTED else "")
            self._add(EVENTS, f"{what}: {listed} ({len(wrong)} of {voxels}; {next(iter(wrong.values()))})", expected)


def _info_json(path: Path, _frames_per_bin: int) -> dict[str, Any]:
    with h5py.File(path, "r") as file:
        described: dict[str, Any] = {"bytes": path.stat().st_size}
        for name in DATASETS:
            dataset = file[name]
            described[name] = {
                "shape": list(dataset.shape),
                "dtype": str(dataset.dtype),
                "chunks": list(dataset.chunks or ()),
                "filters": _filters(dataset),
                "stored_bytes": int(dataset.id.get_storage_size()),
            }
        described |= {name: file.attrs[name].item() for name in ATTRIBUTES if file.attrs.get_id(name).dtype == ATTRIBUTE_DTYPES[name]}
        lengths = [described[name]["shape"][:1] for name in DATASETS]
        if lengths.count(lengths[0]) != len(lengths):  # a damaged one is never read
            raise ValueError(f"lengths {', '.join(f'{name} {length}' for name, length in zip(DATASETS, lengths, strict=True))}")
        described["slices"] = int(file[COUNTS][()].sum())
    described["fps_num"], described["fps_den"] = rational_fps(described["fps"])
    return described
