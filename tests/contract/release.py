"""What every packing of release shards must pass. A stage subclasses `ReleaseContract` and says, in a `ReleaseWorld`, how its units are made."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from tests.contract.contract import RUN_SECONDS, kill_when_changed, small_disk, strace
from tests.once import made_once

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: exact system calls are not tried")
PER_SHARD = 2


class ReleaseWorld(ABC):
    """One folder of release shards with small real units.

    units : ids in no order, `PER_SHARD` go into a shard; seven, so that the last of four shards is not full.   late : an id that sorts behind all.
    shards : the folder of the tars.   declared : the file that is written last.
    """

    units: tuple[str, ...]
    late: str
    shards: Path
    declared: Path

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def set_units(self, ids: tuple[str, ...]) -> None:
        """Write the manifest of these units as their files are now."""

    @abstractmethod
    def source(self, unit: str) -> Path:
        """Return the file that a unit's member is copied from."""

    @abstractmethod
    def command(self, workers: int, per_shard: int, *flags: str) -> list[str]:
        """Return the command that packs."""

    def start(self, workers: int = 1, per_shard: int = PER_SHARD, *flags: str, **more) -> subprocess.CompletedProcess[str]:
        line = self.command(workers, per_shard, *flags)
        return subprocess.run(line, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, **more)

    def run(self, workers: int = 0, per_shard: int = PER_SHARD, *flags: str, **more) -> str:
        done = self.start(workers, per_shard, *flags, **more)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def tars(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.shards.glob("*.tar"))}

    def everything(self) -> dict[str, bytes]:
        """Return what must be equal whatever happened on the way."""
        return {**self.tars(), "declared": self.declared.read_bytes()}


class ReleaseContract:
    """The facts. `undisturbed` is the result of one quiet run of an equal world."""

    world_class: type[ReleaseWorld]

    @pytest.fixture
    def world(self, tmp_path: Path) -> ReleaseWorld:
        world = self.world_class(tmp_path / "it's a world")
        world.set_units(world.units)
        return world

    @pytest.fixture
    def packed(self, world: ReleaseWorld, quiet: ReleaseWorld) -> ReleaseWorld:
        """A world as it is after a quiet run."""
        shutil.copytree(quiet.folder, world.folder, dirs_exist_ok=True)
        return world

    @pytest.fixture(scope="class")
    @classmethod
    def quiet(cls, tmp_path_factory: pytest.TempPathFactory) -> ReleaseWorld:
        """A packed world that no test changes."""

        def make(folder: Path) -> ReleaseWorld:
            world = cls.world_class(folder)
            world.set_units(world.units)
            world.run()
            return world

        return made_once(tmp_path_factory, f"release-{cls.__name__}", make)

    @pytest.fixture(scope="class")
    @classmethod
    def undisturbed(cls, quiet: ReleaseWorld) -> dict[str, bytes]:
        return quiet.everything()

    def fresh(self, folder: Path, units: tuple[str, ...], per_shard: int) -> dict[str, bytes]:
        world = self.world_class(folder / "fresh")
        world.set_units(units)
        world.run(0, per_shard)
        return world.everything()

    def test_units_stand_sorted_so_many_in_a_shard_with_fixed_fields(self, packed: ReleaseWorld) -> None:
        names, found = [], []
        for path in sorted(packed.shards.glob("*.tar")):
            with tarfile.open(path) as tar:
                names.append([member.name.partition(".")[0] for member in tar])
                found += [(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode, m.type) for m in tar.getmembers()]
        ordered = sorted(packed.units)
        assert [sorted(set(shard)) for shard in names] == [ordered[start : start + PER_SHARD] for start in range(0, 7, PER_SHARD)]
        assert set(found) == {(0, 0, 0, "", "", 0o644, b"0")}

    def test_second_run_keeps_every_shard(self, packed: ReleaseWorld, undisturbed: dict[str, bytes]) -> None:
        before = {path: path.stat().st_mtime_ns for path in packed.shards.glob("*.tar")}
        assert "4 kept" in packed.run()
        assert {path: path.stat().st_mtime_ns for path in before} == before
        assert packed.everything() == undisturbed

    def test_workers_umask_locale_zone_and_file_times_change_no_byte(self, world: ReleaseWorld, undisturbed: dict[str, bytes]) -> None:
        for unit in world.units:
            world.source(unit).chmod(0o600)
            os.utime(world.source(unit), (1, 10**9))
        env = {**os.environ, "LC_ALL": "C", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "PYTHONUTF8": "0"}
        world.run(3, PER_SHARD, env=env, umask=0o077)
        assert world.everything() == undisturbed

    @pytest.mark.parametrize("events", [1, 3, 6, 9, 13])
    def test_kill_anywhere_then_the_same_command_gives_the_same_bytes(self, world: ReleaseWorld, undisturbed: dict[str, bytes], events: int) -> None:
        kill_when_changed(world.command(1, PER_SHARD), world.shards, events)
        self.nothing_is_wrong(world, undisturbed)
        world.run()
        assert world.everything() == undisturbed
        assert not list(world.shards.glob(".*.tmp"))

    @needs_strace
    @pytest.mark.parametrize(("call", "when"), [("rename", 1), ("rename", 2), ("rename", 3), ("rename", 5), ("fsync", 2), ("fsync", 5), ("fsync", 6)])
    def test_kill_at_a_system_call_then_the_same_command_gives_the_same_bytes(self, world: ReleaseWorld, undisturbed, call: str, when: int) -> None:
        done = strace(world.command(0, PER_SHARD), f"{call}:signal=KILL:when={when}")
        assert done.returncode != 0, "the kill was not hit"
        self.nothing_is_wrong(world, undisturbed)
        world.run()
        assert world.everything() == undisturbed

    def nothing_is_wrong(self, world: ReleaseWorld, undisturbed: dict[str, bytes]) -> None:
        """The oracle after every disturbance: a final name holds the right bytes or nothing, and the declared output comes last."""
        tars = world.tars()
        assert tars.items() <= undisturbed.items()
        assert not world.declared.exists() or len(tars) == len(undisturbed) - 1

    @needs_strace
    @pytest.mark.parametrize("fault", ["fsync:error=EIO:when=4", "rename:error=EIO:when=2", "fsync:error=ENOSPC:when=3", "rename:error=ENOSPC:when=1"])
    def test_failing_system_call_is_a_fault_without_declared_output(self, world: ReleaseWorld, undisturbed: dict[str, bytes], fault: str) -> None:
        done = strace(world.command(0, PER_SHARD), fault)
        assert done.returncode == 1 and "fault_disk" in done.stderr, done.stderr
        self.nothing_is_wrong(world, undisturbed)
        assert not world.declared.exists()
        world.run()
        assert world.everything() == undisturbed

    def test_full_disk_is_a_fault_without_declared_output(self, world: ReleaseWorld, undisturbed: dict[str, bytes]) -> None:
        need = sum(map(len, undisturbed.values()))
        with small_disk(world.shards, need // 2) as grow:
            done = world.start()
            assert done.returncode == 1 and "fault_disk" in done.stderr, done.stderr
            assert not world.declared.exists()
            grow()
            assert "kept" in world.run()
            assert world.everything() == undisturbed

    @pytest.mark.parametrize(("per_shard", "units"), [(3, 7), (PER_SHARD, 5)])
    def test_another_plan_is_refused_and_changes_nothing(self, packed: ReleaseWorld, undisturbed: dict[str, bytes], per_shard: int, units: int) -> None:
        packed.set_units(packed.units[:units])
        done = packed.start(0, per_shard)
        assert done.returncode == 2 and "[other_plan]" in done.stderr and "--replan" in done.stderr
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert packed.everything() == undisturbed

    def test_replan_for_an_added_unit_makes_its_shard_alone(self, packed: ReleaseWorld, tmp_path: Path) -> None:
        units = (*packed.units, packed.late)
        packed.set_units(units)
        assert "3 kept, 1 made\n" in packed.run(1, PER_SHARD, "--replan")
        assert packed.everything() == self.fresh(tmp_path, units, PER_SHARD)

    def test_replan_for_fewer_shards_removes_the_rest_and_no_foreign_file(self, packed: ReleaseWorld, tmp_path: Path) -> None:
        foreign = [packed.shards / name for name in ("notes.txt", "other-000009.tar", "train-1.tar")]
        for path in foreign:
            path.write_text("mine")
        said = packed.run(0, 5, "--replan")
        assert "-000003.tar: not in this plan: removed" in said and all(f"{path}: is none of this step's files" in said for path in foreign)
        assert [path.read_text() for path in foreign] == ["mine"] * 3
        for path in foreign:
            path.unlink()
        assert packed.everything() == self.fresh(tmp_path, packed.units, 5)

    @needs_strace
    def test_kill_during_replan_then_the_same_command_gives_the_new_plan(self, packed: ReleaseWorld, tmp_path: Path) -> None:
        done = strace(packed.command(0, 3, "--replan"), "rename:signal=KILL:when=3")
        assert done.returncode != 0 and not packed.declared.exists()
        packed.run(0, 3, "--replan")
        assert packed.everything() == self.fresh(tmp_path, packed.units, 3)

    def test_all_units_removed_leaves_no_shard(self, packed: ReleaseWorld) -> None:
        packed.set_units(())
        packed.run(1, PER_SHARD, "--replan")
        assert packed.tars() == {} and packed.declared.exists()

    @pytest.mark.parametrize("kind", ["cut", "empty", "missing", "foreign"])
    def test_spoilt_shard_is_named_and_made_again(self, packed: ReleaseWorld, undisturbed: dict[str, bytes], kind: str) -> None:
        spoilt = sorted(packed.shards.glob("*.tar"))[1]
        data = spoilt.read_bytes()
        spoilt.write_bytes({"cut": data[:-512], "empty": b"", "missing": b"", "foreign": b"not one of ours"}[kind])
        if kind == "missing":
            spoilt.unlink()
        said = packed.run()
        assert f"{spoilt.name}: missing, or not what was packed" in said and "3 kept, 1 made again" in said
        assert packed.everything() == undisturbed

    def test_flipped_byte_is_made_again_under_verify_full(self, packed: ReleaseWorld, undisturbed: dict[str, bytes]) -> None:
        spoilt = sorted(packed.shards.glob("*.tar"))[2]
        data = bytearray(spoilt.read_bytes())
        data[len(data) // 2] ^= 1
        spoilt.write_bytes(data)
        said = packed.run(1, PER_SHARD, "--verify=full")
        assert spoilt.name in said and "3 kept, 1 made again" in said
        assert packed.everything() == undisturbed

    @pytest.mark.parametrize("kind", ["lost", "spoilt"])
    def test_lost_or_spoilt_record_costs_the_work_and_no_byte(self, packed: ReleaseWorld, undisturbed: dict[str, bytes], kind: str) -> None:
        record = packed.shards / ".plan.json"
        record.unlink() if kind == "lost" else record.write_text(record.read_text().replace("sha256", "sha255", 1))
        assert "4 made" in packed.run()
        assert packed.everything() == undisturbed

    @pytest.mark.parametrize("kind", ["flipped", "longer", "missing"])
    def test_source_that_changed_since_the_manifest_is_named_and_not_packed(self, world: ReleaseWorld, undisturbed, kind: str) -> None:
        unit = sorted(world.units)[2]
        source, data = world.source(unit), world.source(unit).read_bytes()
        changed = {"flipped": data[:-1] + bytes([data[-1] ^ 1]), "longer": data + b"x", "missing": b""}[kind]
        source.unlink() if kind == "missing" else source.write_bytes(changed)
        done = world.start(2)
        assert done.returncode == 2 and "[member_changed]" in done.stderr and str(source) in done.stderr
        assert len(world.tars()) == 3, "the other shards are made"
        self.nothing_is_wrong(world, undisturbed)
        assert not world.declared.exists()
        source.write_bytes(data)
        assert "3 kept, 1 made" in world.run()
        assert world.everything() == undisturbed

    def test_unit_that_was_made_anew_makes_its_shard_alone(self, packed: ReleaseWorld, tmp_path: Path) -> None:
        before = packed.tars()
        source = packed.source(sorted(packed.units)[2])
        source.write_bytes(packed.source(sorted(packed.units)[0]).read_bytes())
        packed.set_units(packed.units)
        assert "3 kept, 1 made" in packed.run(1, PER_SHARD, "--replan")
        assert [name for name, data in packed.tars().items() if data != before[name]] == [sorted(before)[1]]

    def test_second_process_in_the_same_folder_is_refused(self, world: ReleaseWorld) -> None:
        world.shards.mkdir(parents=True)
        with open(world.shards / ".plan.json.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = world.start()
        assert done.returncode == 1 and "fault_busy" in done.stderr
        assert not world.tars()

    @pytest.mark.parametrize("flag", ["--no-such-flag", "--workers=-1", "--members-per-shard=0"])
    def test_wrong_flag_is_bad_input_before_anything_starts(self, world: ReleaseWorld, flag: str) -> None:
        done = world.start(1, PER_SHARD, flag)
        assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert not world.shards.exists()
