"""Release shards: units (a video, a clip) in sorted order, so many in each tar. One plan a folder; what is finished is kept, the rest is made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from shardwork.digests import digest_value, sha256_file
from shardwork.errors import DataError, Fault
from shardwork.files import retract
from shardwork.jsonio import Json
from shardwork.packrecord import Record, open_record, say
from shardwork.pool import run_tasks
from shardwork.progress import Progress
from shardwork.run import STOPPING
from shardwork.tarball import Member, Written, write_tar
from shardwork.work import guarded

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
    and no shard: with other ones it is another plan, whose shards are kept.   kind : whose shards they are: those of another kind are never replaced.
    """

    prefix: str
    per_shard: int
    version: int
    shards: tuple[PlannedShard, ...]
    beside: tuple[str, ...] = ()
    others: Json = None
    kind: str = ""

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


@dataclass(frozen=True, slots=True)
class Declared:
    """The file by which others know that all is done.

    path : removed before anything else changes, left where nothing does; the caller writes it.   check : called once the folder is locked; what it
    raises leaves the folder as it is.   finish : called with the shards while the folder is still locked.
    """

    path: Path
    check: Callable[[], None] = lambda: None
    finish: Callable[[dict[str, Written]], None] = lambda packed: None


def pack_shards(plan: Plan, folder: Path, write: WriteShard, options: PackOptions, declared: Declared) -> dict[str, Written]:
    """Return every shard of the plan, by name and in order, after all stand in `folder`.

    write : writes one shard; runs in another process, so it must be picklable.
    Raises DataError (bad_argument, other_plan, foreign_shards, member_changed) and Fault; finished shards are kept, and the same command goes on from there.
    """
    if options.workers < 0:
        raise DataError("bad_argument", "workers", str(options.workers), "0 or more", "correct it")
    with open_record(plan, folder, options.replan, declared.check) as record:
        if not record.same:
            retract(declared.path)
        record.begin()
        try:
            _work(_Packer(folder, write, options.full, declared.path), record, options.workers)
        finally:
            record.close()
        packed = {shard.name: _written(record.done[shard.name]) for shard in plan.shards}
        for name, written in packed.items():
            _look_again(folder / name, written)
        declared.finish(packed)
    return packed


def _written(entry: Json) -> Written:
    return Written(entry["bytes"], entry["sha256"], entry["members"], entry.get("facts"))


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
    declared: Path

    def __call__(self, task: _Task) -> _Packed | DataError:
        """Return the finished shard, or why there is none."""
        return guarded(lambda: self._pack(task), task.shard.name)

    def _pack(self, task: _Task) -> _Packed:
        final, entry = self.folder / task.shard.name, task.entry
        if entry is not None and self._keeps(final, entry):
            return _Packed(entry, "kept")
        retract(self.declared)
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
