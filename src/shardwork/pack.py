"""Release shards: units (a video, a clip) in sorted order, so many in each tar. One plan a folder; what is finished is kept, the rest is made."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shardwork.digests import digest_value, seal, sha256_file, unseal
from shardwork.errors import DataError, Fault, plain
from shardwork.files import make_folder, retract
from shardwork.jsonio import Json, read_json, write_json
from shardwork.locks import held_lock
from shardwork.place import clear_temporary
from shardwork.pool import run_tasks
from shardwork.progress import Progress
from shardwork.run import STOPPING
from shardwork.tarball import Member, Written, write_tar
from shardwork.work import guarded

RECORD_NAME = ".plan.json"
SAVE_SECONDS = 5.0
SUFFIX = ".tar"


@dataclass(frozen=True, slots=True)
class Unit:
    """What is never parted: one video, one clip.

    id : str.   inputs : all that decides names, order and bytes of its members, such as their digests.
    """

    id: str
    inputs: Json


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """One tar to be. name : its file name.   units : in order."""

    name: str
    units: tuple[Unit, ...]

    def digest(self) -> str:
        """Return the digest of all that decides the tar's bytes, the plan's version apart."""
        return digest_value([[unit.id, unit.inputs] for unit in self.units])


@dataclass(frozen=True, slots=True)
class Plan:
    """The shards of one folder. prefix : how their names begin.   per_shard : units in each but the last.   version : raised when a change of code
    changes the bytes of a tar.   beside : names of the caller's own files in the folder, such as an index.   others : what decides those files
    and no shard: with other ones it is another plan, whose shards are kept.
    """

    prefix: str
    per_shard: int
    version: int
    shards: tuple[PlannedShard, ...]
    beside: tuple[str, ...] = ()
    others: Json = None

    def as_json(self) -> dict[str, Json]:
        """Return what the plan's record says of it."""
        shards = [[shard.name, shard.digest()] for shard in self.shards]
        units = sum(len(shard.units) for shard in self.shards)
        digest = digest_value(shards if self.others is None else [shards, self.others])
        return {"digest": digest, "per_shard": self.per_shard, "shards": len(shards), "units": units, "version": self.version}

    def owns(self, name: str) -> bool:
        """Return whether a file name is one that shards of this folder can have."""
        return re.fullmatch(rf"{re.escape(self.prefix)}-[0-9]{{6,}}{re.escape(SUFFIX)}", name) is not None


def tar_name(prefix: str, index: int) -> str:
    """Return the file name of a shard, such as train-000000.tar."""
    return f"{prefix}-{index:06d}{SUFFIX}"


def cut_plan(prefix: str, units: Iterable[Unit], per_shard: int, version: int, beside: tuple[str, ...] = ()) -> Plan:
    """Return the plan for units, sorted by id. Raises DataError (bad_argument, duplicate_id)."""
    if per_shard < 1:
        raise DataError("bad_argument", "members per shard", str(per_shard), "1 or more", "correct it")
    ordered = sorted(units, key=lambda unit: unit.id)
    repeated = [unit_id for unit_id, count in Counter(unit.id for unit in ordered).items() if count > 1]
    if repeated:
        raise DataError("duplicate_id", prefix, f"{repeated[0]!r} stands twice", "one row an id", "make the manifest again")
    cuts = range(0, len(ordered), per_shard)
    shards = (PlannedShard(tar_name(prefix, index), tuple(ordered[start : start + per_shard])) for index, start in enumerate(cuts))
    return Plan(prefix, per_shard, version, tuple(shards), beside)


@dataclass(frozen=True, slots=True)
class PackOptions:
    """How shards are packed: nothing here changes a byte.

    workers : processes; 0 works in this one.   replan : take the place of another plan's shards.   full : compare finished shards by digest, not only
    by size.
    """

    workers: int = 1
    replan: bool = False
    full: bool = False


WriteShard = Callable[[Path, PlannedShard], Written]
"""Writes one shard atomically: its final path and its units to what stands there then."""


def write_members(final: Path, shard: PlannedShard, members: Callable[[Unit], Iterable[Member]]) -> Written:
    """Write a shard whose units are files as they are.   members : what a unit puts into the tar."""
    return write_tar(final, (member for unit in shard.units for member in members(unit)))


def pack_shards(
    plan: Plan, folder: Path, write: WriteShard, options: PackOptions, declared: Path, finish: Callable[[dict[str, Written]], None] = lambda packed: None
) -> dict[str, Written]:
    """Return every shard of the plan, by name and in order, after all stand in `folder`.

    write : writes one shard; runs in another process, so it must be picklable.   declared : the file by which others know that all is done; it is
    removed before anything changes, and the caller writes it.   finish : called with the shards while the folder is still locked.
    Raises DataError (bad_argument, other_plan, member_changed) and Fault; finished shards are kept, and the same command goes on from there.
    """
    if options.workers < 0:
        raise DataError("bad_argument", "workers", str(options.workers), "0 or more", "correct it")
    with open_record(plan, folder, options.replan) as record:
        retract(declared)
        record.begin()
        try:
            _work(_Packer(folder, write, options.full), record, options.workers)
        finally:
            record.save()
        packed = {shard.name: _written(record.done[shard.name]) for shard in plan.shards}
        for name, written in packed.items():
            _look_again(folder / name, written)
        finish(packed)
    return packed


def _written(entry: Json) -> Written:
    return Written(entry["bytes"], entry["sha256"], entry["members"], entry.get("facts"))


@dataclass(slots=True)
class Record:
    """What `.plan.json` says, sealed: the plan, and of each finished shard the digest of its units, its size and its sha256."""

    plan: Plan
    folder: Path
    done: dict[str, Json] = field(default_factory=dict)
    stale: list[Path] = field(default_factory=list)
    _saved: float = 0.0
    _plan_json: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plan_json = self.plan.as_json()

    @property
    def path(self) -> Path:
        """Where the record stands."""
        return self.folder / RECORD_NAME

    def load(self, replan: bool) -> None:
        """Read the record and look at what lies in the folder. Raises DataError (other_plan) where neither may be replaced."""
        before = self._read()
        names = {shard.name for shard in self.plan.shards}
        self.stale = [path for path in sorted(self.folder.iterdir()) if self.plan.owns(path.name) and path.name not in names]
        if before is not None:
            if before["plan"] != self._plan_json and not replan:
                raise self._other(_words(before["plan"]))
            if before["plan"]["version"] == self._plan_json["version"]:
                fits = {shard.name: shard.digest() for shard in self.plan.shards}
                self.done = {name: entry for name, entry in before["done"].items() if entry["units"] == fits.get(name)}
        if self.stale and not replan:
            raise self._other(f"{self.stale[0].name}, which this plan does not have")

    def _read(self) -> dict[str, Json] | None:
        try:
            found: dict[str, Json] | None = unseal(read_json(self.path))
        except FileNotFoundError:
            return None
        except DataError:
            found = None
        if found is None:
            say(f"{self.path}: spoilt: every shard is made again")
        return found

    def _other(self, found: str) -> DataError:
        hint = "give --replan to make the shards that differ again and remove those that are too many, or pack into another folder"
        return DataError("other_plan", self.folder, found, _words(self._plan_json), hint)

    def begin(self) -> None:
        """Make the folder this plan's: note the plan, then remove shards of another one and what a kill left; name the rest."""
        self.save()
        clear_temporary(self.folder, lambda name: self.plan.owns(name) or name in (RECORD_NAME, *self.plan.beside))
        for path in sorted(self.folder.iterdir()):
            if path in self.stale:
                path.unlink()
                say(f"{path.name}: not in this plan: removed")
            elif not (self.plan.owns(path.name) or path.name.startswith(RECORD_NAME) or path.name in self.plan.beside):
                say(f"{path}: is none of this step's files: left as it is")

    def add(self, name: str, entry: Json) -> None:
        """Note a finished shard."""
        if self.done.get(name) != entry:
            self.done[name] = entry
            if time.monotonic() - self._saved > SAVE_SECONDS:  # the whole record each time: a kill costs the shards of some seconds
                self.save()

    def save(self) -> None:
        """Write the record, atomically."""
        write_json(self.path, seal({"plan": self._plan_json, "done": self.done}))
        self._saved = time.monotonic()


def _words(plan: Mapping[str, Json]) -> str:
    return f"the plan {plan['digest'][:8]} (version {plan['version']}) of {plan['units']} in {plan['shards']} shards of {plan['per_shard']}"


@contextmanager
def open_record(plan: Plan, folder: Path, replan: bool) -> Iterator[Record]:
    """Yield the record of a folder of release shards, locked. Raises DataError (other_plan), Fault (fault_busy)."""
    make_folder(folder)
    with held_lock(folder / f"{RECORD_NAME}.lock", folder, "folder of release shards"):
        record = Record(plan, folder)
        record.load(replan)
        yield record


def say(text: str) -> None:
    """Print a line for people."""
    print(plain(text), file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class _Task:
    """A shard, and what the record says of it."""

    shard: PlannedShard
    entry: Json


@dataclass(frozen=True, slots=True)
class _Packed:
    """A finished shard. entry : for the record.   how : kept, made, or made again."""

    entry: Json
    how: str


@dataclass(frozen=True, slots=True)
class _Packer:
    """What a worker does to one shard."""

    folder: Path
    write: WriteShard
    full: bool

    def __call__(self, task: _Task) -> _Packed | DataError:
        """Return the finished shard, or why there is none."""
        return guarded(lambda: self._pack(task), task.shard.name)

    def _pack(self, task: _Task) -> _Packed:
        final, entry = self.folder / task.shard.name, task.entry
        if entry is not None and self._keeps(final, entry):
            return _Packed(entry, "kept")
        written = self.write(final, task.shard)
        made = {"bytes": written.size_bytes, "members": written.members, "sha256": written.sha256, "units": task.shard.digest()}
        if written.facts is not None:
            made["facts"] = written.facts
        return _Packed(made, "made" if entry is None else "made again")

    def _keeps(self, final: Path, entry: Json) -> bool:
        return final.is_file() and final.stat().st_size == entry["bytes"] and not (self.full and sha256_file(final) != entry["sha256"])


def _work(packer: _Packer, record: Record, workers: int) -> None:
    """Keep or make every shard. Raises the first fault, else the first refusal, once nothing more can be done."""
    shards = record.plan.shards
    tasks = [_Task(shard, record.done.get(shard.name)) for shard in shards]
    counts: Counter[str] = Counter()
    faults: list[Fault] = []
    refusals: dict[str, DataError] = {}
    with Progress(len(tasks), f"pack {record.plan.prefix}", "shard") as progress:
        for task, outcome in run_tasks(packer, tasks, workers, lambda task: task.shard.name):
            progress.step()
            if isinstance(outcome, Fault):
                progress.say(f"fault: {outcome}")
                faults.append(outcome)
                if outcome.code in STOPPING:
                    break
            elif isinstance(outcome, DataError):
                progress.say(f"refused: {task.shard.name}: {outcome}")
                refusals[task.shard.name] = outcome
            else:
                counts[outcome.how] += 1
                if outcome.how == "made again":
                    progress.say(f"{task.shard.name}: missing, or not what was packed: made again")
                record.add(task.shard.name, outcome.entry)
    say(f"pack {record.plan.prefix}: {len(shards)} shards: " + (", ".join(f"{count} {how}" for how, count in sorted(counts.items())) or "none finished"))
    for error in (*faults[:1], *(refusals[name] for name in sorted(refusals)[:1])):
        raise error


def _look_again(path: Path, written: Written) -> None:
    """Raise Fault (not_published) unless a finished shard stands in its place."""
    size_bytes = path.stat().st_size if path.is_file() else -1
    if size_bytes != written.size_bytes:
        found = "no such file" if size_bytes < 0 else f"{size_bytes} bytes"
        hint = "something else writes into this folder: run the same command again"
        raise Fault("not_published", path, found, f"the {written.size_bytes} bytes that were packed", hint)
