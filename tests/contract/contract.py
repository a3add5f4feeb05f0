"""What every stage must pass. A stage subclasses `StageContract` and says, in a `World`, how its sources, table and commands are made."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardwork.shards import shard_of
from tests.once import made_once

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 120


class World(ABC):
    """One stage with small real inputs in a folder of its own.

    stage : where results go.   home : where published items stand, if elsewhere.
    good : ids that pass.   bad : an id that is refused, with code `bad_code`; `bad_status` is "upstream" where the last
    of several steps only passes the verdict on.   spare : an id not in the table at first.   kill_group : the command is several processes in a row.
    least_disk : bytes of a disk that is too small for the run, where half of what is published is less.
    """

    good: tuple[str, ...]
    bad: str
    bad_code: str
    bad_status = "quarantined"
    kill_group = False
    least_disk = 16 << 10
    spare: str
    stage: Path

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stage = folder / "run" / "stage"
        self.home: Path | None = None
        self.current: tuple[str, ...] = ()
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def set_table(self, ids: tuple[str, ...]) -> None:
        """Write the table of these ids with the sources as they are now, and note them in `current`."""

    @abstractmethod
    def change_source(self, item_id: str) -> None:
        """Put another source in the place of this item's."""

    @abstractmethod
    def command(self, shard: str, workers: int, *flags: str) -> list[str]:
        """Return the command that works on one shard."""

    def shards(self, work_shards: int) -> dict[str, list[str]]:
        """Return the ids of each shard that holds any."""
        found: dict[str, list[str]] = {}
        for item_id in self.current:
            found.setdefault(shard_of(item_id, work_shards), []).append(item_id)
        return dict(sorted(found.items()))

    @abstractmethod
    def manifest(self, shard: str) -> Path:
        """Return a shard's manifest."""

    @abstractmethod
    def output(self, item_id: str) -> Path:
        """Return the main output of an item: the file or folder that a consumer reads."""

    def ids(self) -> tuple[str, ...]:
        return (*self.good, self.bad)

    def run_shard(self, shard: str, workers: int, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(shard, workers, *flags), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)

    def run(self, work_shards: int = 1, workers: int = 0, *flags: str) -> str:
        """Work on every shard, in the command's own process unless workers are asked for; return what they said."""
        said = ""
        for shard in self.shards(work_shards):
            done = self.run_shard(shard, workers, *flags)
            assert done.returncode == 0, done.stderr
            said += done.stderr
        return said

    def rows(self, work_shards: int = 1) -> dict[str, dict[str, Any]]:
        """Return the manifest row of every item."""
        lines = [line for shard in self.shards(work_shards) for line in self.manifest(shard).read_text().splitlines()]
        return {row["id"]: row for row in map(json.loads, lines)}

    def published(self) -> dict[str, bytes]:
        """Return every file that a consumer could find, by relative path: no journals, no quarantine, no shard manifests."""
        home = self.home or self.stage
        files = (path for path in home.rglob("*") if path.is_file())
        names = {path.relative_to(home): path for path in files}
        return {name.as_posix(): path.read_bytes() for name, path in names.items() if name.parts[0] not in (".journal", "quarantine", "shards")}

    def temporary(self) -> list[Path]:
        """Return the temporary files that are left."""
        return [path for folder in {self.stage, self.home or self.stage} for path in folder.rglob("*.tmp")]

    def everything(self, work_shards: int = 1) -> dict[str, Any]:
        """Return published bytes and manifest rows: what must be equal whatever happened on the way."""
        return {**self.published(), "rows": self.rows(work_shards)}

    def copy_of(self, quiet: Quiet) -> None:
        """Become a copy, in this world's folder, of one that ran: its files with their times, and what it knew of itself."""
        shutil.rmtree(self.folder)
        shutil.copytree(quiet.folder, self.folder, symlinks=True)
        vars(self).update(copy.deepcopy(quiet.known))

    def known(self) -> dict[str, Any]:
        """Return what this world knows of itself beside where its files are."""
        return {name: value for name, value in vars(self).items() if isinstance(value, (tuple, dict, int))}

    def one_file(self, item_id: str) -> Path:
        """Return a file of an item's main output (the output itself, or the largest file in the folder)."""
        output = self.output(item_id)
        return output if output.is_file() else max((p for p in output.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def no_manifest_is_ahead(world: World) -> None:
    """The oracle after every disturbance: no final name holds a wrong file, and a manifest only names files that are there."""
    for path in world.stage.glob("shards/*/*.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            if row["status"] == "ok":
                assert world.output(row["id"]).exists()


MANY: dict[str, tuple[Any, ...]] = {
    "cut": ((1, 0), (1, 3), (4, 2)),
    "events": (1, 2, 4, 7, 11, 16),
    "at_call": (1, 2, 5, 6),
    "fault": ("fsync:error=EIO:when=1", "rename:error=EIO:when=1", "fsync:error=ENOSPC:when=2"),
    "spoilt_as": ("truncated", "foreign", "empty"),
    "rename_at": (1, 2, 3),
}
"""cut : work shards and workers.   events : after how many changes of its folder the stage is killed.   at_call : at which rename and which fsync.
fault : the system call that fails.   spoilt_as : what a file is spoilt to.   rename_at : the rename that fails while finished items are made again.
"""
FEW: dict[str, tuple[Any, ...]] = {
    "cut": ((4, 2),),
    "events": (7,),
    "at_call": (5,),
    "fault": ("rename:error=EIO:when=1",),
    "spoilt_as": ("truncated",),
    "rename_at": (1,),
}
"""For a stage whose runs are slow: what is disturbed is shardwork, the same for all, which the toy stages try with MANY."""


class Quiet(NamedTuple):
    """A world after one quiet run, made once for all workers, which nothing may write into.   everything : of that world."""

    folder: Path
    known: dict[str, Any]
    everything: dict[str, Any]


class StageContract:
    """The facts. `world` makes a fresh World in a folder; `made` a copy of one after a quiet run; `undisturbed` is the result of that run."""

    world_class: type[World]
    tries: dict[str, tuple[Any, ...]] = FEW
    """What each kind of disturbance is tried with: FEW, or MANY."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        for name, values in metafunc.cls.tries.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, values)

    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        world = self.world_class(tmp_path / "world")
        world.set_table(world.ids())
        return world

    @pytest.fixture(scope="class")
    @classmethod
    def quiet(cls, tmp_path_factory: pytest.TempPathFactory) -> Quiet:
        def make(folder: Path) -> Quiet:
            world = cls.world_class(folder)
            world.set_table(world.ids())
            world.run()
            return Quiet(folder, world.known(), world.everything())

        return made_once(tmp_path_factory, f"contract-{cls.__name__}", make)

    @pytest.fixture
    def made(self, tmp_path: Path, quiet: Quiet) -> World:
        world = self.world_class(tmp_path / "world")
        world.copy_of(quiet)
        return world

    @pytest.fixture
    def undisturbed(self, quiet: Quiet) -> dict[str, Any]:
        return quiet.everything

    def test_one_bad_item_gives_one_row_and_the_rest_complete(self, undisturbed: dict[str, Any]) -> None:
        rows = undisturbed["rows"]
        world = self.world_class
        assert {item_id: row["status"] for item_id, row in rows.items()} == {**dict.fromkeys(world.good, "ok"), world.bad: world.bad_status}
        assert rows[world.bad]["code"] == world.bad_code
        assert all(rows[world.bad][part] for part in (("where", "found", "expected", "hint") if world.bad_status == "quarantined" else ("step",)))

    def test_second_run_makes_nothing_and_changes_no_byte(self, made: World) -> None:
        before = {path: path.stat().st_mtime_ns for path in map(made.one_file, made.good)}
        first = made.everything()
        said = made.run()
        assert f"{len(made.good)} kept" in said and "made" not in said.replace("made again", "")
        assert made.everything() == first
        assert {path: path.stat().st_mtime_ns for path in before} == before

    def test_any_number_of_shards_and_workers_gives_the_same_bytes(self, world: World, undisturbed: dict[str, Any], cut: tuple[int, int]) -> None:
        work_shards, workers = cut
        world.run(work_shards, workers)
        assert world.everything(work_shards) == undisturbed

    def test_kill_anywhere_then_the_same_command_gives_the_same_bytes(self, world: World, undisturbed: dict[str, Any], events: int) -> None:
        kill_after_changes(world, events)
        no_manifest_is_ahead(world)
        world.run()
        assert world.everything() == undisturbed
        assert not world.temporary()

    @pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: kills at an exact system call are not tried")
    @pytest.mark.parametrize("call", ["rename", "fsync"])
    def test_kill_at_a_system_call_then_the_same_command_gives_the_same_bytes(self, world: World, undisturbed: dict[str, Any], call: str, at_call: int) -> None:
        (shard,) = world.shards(1)
        done = strace(world.command(shard, 0), f"{call}:signal=KILL:when={at_call}")
        assert done.returncode != 0, "the kill was not hit"
        no_manifest_is_ahead(world)
        world.run()
        assert world.everything() == undisturbed

    @pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: failing system calls are not tried")
    def test_failing_system_call_is_a_fault_not_a_verdict(self, world: World, undisturbed: dict[str, Any], fault: str) -> None:
        (shard,) = world.shards(1)
        done = strace(world.command(shard, 1), fault)
        assert done.returncode == 1, done.stderr
        assert "fault_disk" in done.stderr
        assert not world.manifest(shard).exists()
        world.run()
        assert world.everything() == undisturbed

    def test_full_disk_is_a_fault_not_a_verdict(self, world: World, undisturbed: dict[str, Any]) -> None:
        (shard,) = world.shards(1)
        need = sum(len(data) for name, data in undisturbed.items() if name != "rows")
        with small_disk(world.home or world.stage, max(need // 2, world.least_disk)) as grow:
            done = world.run_shard(shard, 1)
            assert done.returncode == 1, done.stderr
            assert "fault_disk" in done.stderr, done.stderr
            assert not world.manifest(shard).exists()
            grow()
            world.run()
            assert world.everything() == undisturbed

    def test_flipped_byte_is_named_and_mended_under_verify_full(self, made: World, undisturbed: dict[str, Any]) -> None:
        damaged = made.one_file(made.good[1])
        stat, data = damaged.stat(), bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        os.utime(damaged, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # a bad disk changes no time
        said = made.run(1, 0, "--verify=full")
        assert made.output(made.good[1]).name in said and "1 made" in said
        assert made.everything() == undisturbed

    def test_file_that_is_not_ours_is_named_set_aside_and_made_again(self, made: World, undisturbed: dict[str, Any], spoilt_as: str) -> None:
        spoilt = made.one_file(made.good[0])
        data = {"truncated": spoilt.read_bytes()[:-7], "foreign": b"not one of ours", "empty": b""}[spoilt_as]
        spoilt.write_bytes(data)
        said = made.run()
        assert made.output(made.good[0]).name in said and "1 made" in said
        assert (made.stage / "quarantine" / spoilt.relative_to(made.home or made.stage)).read_bytes() == data
        assert made.everything() == undisturbed

    def test_missing_file_is_made_again(self, made: World, undisturbed: dict[str, Any]) -> None:
        made.one_file(made.good[2]).unlink()
        assert "1 made" in made.run()
        assert made.everything() == undisturbed

    def test_lost_journal_costs_a_check_and_not_the_work(self, made: World, undisturbed: dict[str, Any]) -> None:
        shutil.rmtree(made.stage / ".journal")
        assert f"{len(made.good)} adopted" in made.run()
        assert made.everything() == undisturbed

    def test_torn_journal_line_costs_one_item_a_check(self, made: World, undisturbed: dict[str, Any]) -> None:
        for journal in (made.stage / ".journal").glob("*/*.jsonl"):
            journal.write_bytes(journal.read_bytes()[:-9])
        assert "1 adopted" in made.run()
        assert made.everything() == undisturbed

    def test_added_id_reruns_its_shard_only(self, world: World) -> None:
        world.run(4)
        before = {shard: world.manifest(shard).read_bytes() for shard in world.shards(4)}
        world.set_table((*world.ids(), world.spare))
        assert " made" in world.run(4)
        changed = [shard for shard in world.shards(4) if world.manifest(shard).read_bytes() != before.get(shard)]
        assert changed == [shard for shard, ids in world.shards(4).items() if world.spare in ids]

    def test_changed_source_is_refused_until_the_table_is_made_again_then_redone(self, made: World) -> None:
        old = made.one_file(made.good[0]).read_bytes()
        made.change_source(made.good[0])
        made.run()
        assert made.rows()[made.good[0]]["code"] == "source_changed"
        assert not made.output(made.good[0]).exists()
        made.set_table(made.ids())
        assert "1 made" in made.run()
        assert made.rows()[made.good[0]]["status"] == "ok"
        assert made.one_file(made.good[0]).read_bytes() != old

    def test_removed_id_is_set_aside_and_comes_back_without_work(self, made: World, undisturbed: dict[str, Any]) -> None:
        made.set_table(made.ids()[1:])
        made.run()
        assert not made.output(made.good[0]).exists()
        assert made.good[0] not in made.rows()
        made.set_table(made.ids())
        assert "1 adopted" in made.run()
        assert made.everything() == undisturbed

    def test_redo_makes_everything_again(self, made: World, undisturbed: dict[str, Any]) -> None:
        assert f"{len(made.good)} made" in made.run(1, 0, "--redo=1")
        assert made.rows().keys() == undisturbed["rows"].keys()

    def test_second_process_on_the_same_shard_is_refused(self, made: World) -> None:
        (shard,) = made.shards(1)
        (lock, *_) = sorted((made.stage / ".journal").glob("*/*.lock"))
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            second = made.run_shard(shard, 1)
        assert second.returncode == 1 and "fault_busy" in second.stderr

    def test_sigterm_ends_it_and_leaves_nothing_half_done(self, world: World, undisturbed: dict[str, Any]) -> None:
        (shard,) = world.shards(1)
        process = subprocess.Popen(world.command(shard, 2), stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: list((world.stage / ".journal").rglob("*.jsonl")) or process.poll() is not None)
        os.killpg(process.pid, signal.SIGTERM) if world.kill_group else process.terminate()
        process.wait(RUN_SECONDS)
        wait_until(lambda: not _group_lives(process.pid))
        assert not world.temporary()
        world.run()
        assert world.everything() == undisturbed

    @pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: failing system calls are not tried")
    def test_failed_redo_keeps_what_was_there(self, made: World, rename_at: int) -> None:
        before = made.published()
        (shard,) = made.shards(1)
        done = strace(made.command(shard, 0, "--redo=1"), f"rename:error=EIO:when={rename_at}")
        assert done.returncode == 1, done.stderr
        assert {name for name in before if name not in made.published()} == set()
        made.run(1, 0, "--redo=1")
        assert before.keys() == made.published().keys()

    def test_wrong_flag_is_bad_input_before_anything_starts(self, world: World) -> None:
        (shard,) = world.shards(1)
        done = subprocess.run(world.command(shard, 1, "--no-such-flag"), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert not world.stage.exists()


def wait_until(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def kill_after_changes(world: World, events: int) -> None:
    """Start the stage and kill -9 its first process once its folder has changed `events` times; its workers die with it."""
    (shard,) = world.shards(1)
    kill_when_changed(world.command(shard, 1), world.stage if world.home is None else world.stage.parent, events, world.kill_group)


def kill_when_changed(command: list[str], folder: Path, events: int, whole_group: bool = False) -> None:
    """Start a command and kill -9 its first process (or all of them) once a folder has changed `events` times; return when none lives."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    seen: set[tuple[str, str, int]] = set()
    first, changes = None, 0
    while changes < events and process.poll() is None:
        now = {(base, name, _size(Path(base, name))) for base, _, names in os.walk(folder) for name in names}
        first = now if first is None else first
        if now == first:  # it still loads its libraries: looking all the time would take the processor from it
            time.sleep(0.002)
        changes, seen = changes + (now != seen), now
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL) if whole_group else process.kill()
    process.wait()
    wait_until(lambda: not _group_lives(process.pid))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(_group_of(int(p.name)) == group and _state_of(int(p.name)) != "Z" for p in Path("/proc").iterdir() if p.name.isdigit())


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def strace(command: list[str], inject: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a fault injected into a system call of it or its workers."""
    call = inject.partition(":")[0]
    line = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={inject}", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


class small_disk:
    """Mount a small disk at a folder; calling what it yields makes it large. Skips where mounting is not allowed."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder, self.size_bytes = folder, size_bytes

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        line = ["mount", "-t", "tmpfs", "-o", f"size={self.size_bytes}", "tmpfs", str(self.folder)]
        if os.geteuid() != 0 or subprocess.run(line, capture_output=True, check=False).returncode:
            pytest.skip("a small disk cannot be mounted here (needs root)")
        return self.grow

    def grow(self) -> None:
        subprocess.run(["mount", "-o", "remount,size=1G", str(self.folder)], check=True)

    def __exit__(self, *error: object) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
