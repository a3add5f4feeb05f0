"""Ids, shards, journal, workers, gate, streams, commands: the parts of the shard of work."""

from __future__ import annotations

import argparse
import hashlib
import io
import multiprocessing
import os
import signal
import sys
import tempfile
import zlib
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelmill.codes import ConfigError
from shardwork import command
from shardwork.digests import digest_value, sha256_file, xxh3_file
from shardwork.errors import CODES, DataError, Fault, fault_from
from shardwork.gate import check_gate, tally
from shardwork.ids import check_id, is_id, suggest_id
from shardwork.journal import Entry, Journal, look, open_journal
from shardwork.place import Place, set_aside, sweep, the_manifest
from shardwork.pool import run_tasks
from shardwork.progress import Progress
from shardwork.run import write_manifest
from shardwork.shards import parse_shard, shard_of, split_rows
from shardwork.step import Item, Source, Step
from shardwork.streams import stream
from shardwork.work import Task, Work


@pytest.mark.parametrize("good", ["a", "v_--edUL8zmA", "-Zr7PHNAjJI", "0123", "NA", "x" * 100])
def test_good_id_is_accepted(good: str) -> None:
    assert check_id(good) == good


@pytest.mark.parametrize("bad", ["", "a.b", "a/b", "..", "x y", "é", "x" * 101, "a\n", "$(id)"])
def test_bad_id_is_refused_with_a_usable_suggestion(bad: str) -> None:
    with pytest.raises(DataError) as caught:
        check_id(bad)
    assert caught.value.code == "bad_id" and repr(suggest_id(bad)) in caught.value.hint and is_id(suggest_id(bad))


@given(st.text(), st.integers(1, 9999))
def test_shard_is_sha256_modulo(item_id: str, work_shards: int) -> None:
    value = int.from_bytes(hashlib.sha256(item_id.encode("utf-8", "surrogatepass")).digest(), "big")
    try:
        item_id.encode()
    except UnicodeEncodeError:
        return  # no table can hold it
    assert shard_of(item_id, work_shards) == f"{value % work_shards:04d}-of-{work_shards:04d}"
    assert parse_shard(shard_of(item_id, work_shards)) == (value % work_shards, work_shards)


@pytest.mark.parametrize("bad", ["3", "0003", "0003-of-0003", "0003-of-0002", "3-of-20", "../0003-of-0020", "00003-of-0020", "0000-of-0000", "0003-of-0020\n"])
def test_name_that_is_no_shard_is_refused(bad: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_shard(bad)
    assert caught.value.code == "bad_argument"


def test_adding_a_row_changes_one_shard() -> None:
    rows = [{"id": f"v_{number}"} for number in range(1000)]
    before, after = split_rows(rows, "id", 20), split_rows([*rows, {"id": "new"}], "id", 20)
    assert [shard for shard in after if after[shard] != before.get(shard)] == [shard_of("new", 20)]
    assert sum(map(len, after.values())) == 1001


def test_digests_are_the_public_ones(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256_file(tmp_path / "f") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert xxh3_file(tmp_path / "f") == "06b05ab6733a618578af5f94892f3950"
    assert digest_value({"a": 1, "b": 2}) == hashlib.sha256(b'{"a":1,"b":2}').hexdigest() == digest_value({"b": 2, "a": 1})


def test_streams_depend_on_seed_and_name_alone() -> None:
    a = stream(7, "noise", "v_1").integers(0, 1 << 30, 4)
    stream(7, "other").integers(0, 1 << 30, 100)
    assert (a == stream(7, "noise", "v_1").integers(0, 1 << 30, 4)).all()
    assert (a != stream(8, "noise", "v_1").integers(0, 1 << 30, 4)).any() and (a != stream(7, "noise", "v_2").integers(0, 1 << 30, 4)).any()
    expected = np.random.default_rng(np.random.SeedSequence([7, zlib.crc32(b"light"), 3])).integers(0, 1 << 30, 4)
    assert (stream(7, "light", 3).integers(0, 1 << 30, 4) == expected).all()


def make_journal(folder: Path) -> Path:
    final = folder / "out" / "a.h5"
    final.parent.mkdir()
    final.write_bytes(b"x" * 100)
    os.utime(final, ns=(10**18, 10**18))
    with open_journal(folder / ".journal" / "0000.jsonl") as journal:
        journal.add(Entry("a", "f1", {"out/a.h5": look(final, True) or {}}, {}, {"n": 1}))
    return final


def entries(folder: Path) -> dict[str, Entry]:
    journal = Journal(folder / ".journal" / "0000.jsonl")
    journal.load()
    return journal.entries


def test_entry_is_unchanged_until_size_or_time_differ_and_same_bytes_until_a_byte_does(tmp_path: Path) -> None:
    final = make_journal(tmp_path)
    entry = entries(tmp_path)["a"]
    assert entry.unchanged([final], tmp_path) and entry.same_bytes([final], [final], tmp_path)
    assert not entry.unchanged([tmp_path / "out" / "never.h5"], tmp_path)
    final.write_bytes(b"y" * 100)
    assert not entry.unchanged([final], tmp_path)
    os.utime(final, ns=(0, 10**18))
    assert entry.unchanged([final], tmp_path) and not entry.same_bytes([final], [final], tmp_path)


def test_journal_survives_a_move_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    make_journal(tmp_path / "old")
    moved = (tmp_path / "old").rename(tmp_path / "it's new")
    assert entries(moved)["a"].unchanged([moved / "out" / "a.h5"], moved)


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_any_flipped_bit_of_the_journal_is_noticed(place: float, bit: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        make_journal(Path(name))
        path = Path(name) / ".journal" / "0000.jsonl"
        line = bytearray(path.read_bytes())
        line[int(place * (len(line) - 1))] ^= 1 << bit  # the last byte is the line's end
        path.write_bytes(line)
        assert entries(Path(name)) == {}


def test_row_after_a_torn_line_is_read(tmp_path: Path) -> None:
    make_journal(tmp_path)
    path = tmp_path / ".journal" / "0000.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id":"b","finger')
    with open_journal(path) as journal:
        journal.add(Entry("c", "f", {}, {}, {}))
    assert entries(tmp_path).keys() == {"a", "c"}


def test_half_written_line_of_a_full_disk_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_journal(tmp_path)
    real = os.write
    with open_journal(tmp_path / ".journal" / "0000.jsonl") as journal:
        calls = iter([9, None])

        def fills_up(fd: int, data: bytes) -> int:
            size = next(calls)
            if size is None:
                raise OSError(28, "No space left on device")
            return real(fd, data[:size])

        monkeypatch.setattr(os, "write", fills_up)
        with pytest.raises(OSError):
            journal.add(Entry("b", "f", {}, {}, {}))
        monkeypatch.setattr(os, "write", real)
        journal.add(Entry("c", "f", {}, {}, {}))
    assert entries(tmp_path).keys() == {"a", "c"}


def test_folder_look_sees_every_change(tmp_path: Path) -> None:
    (tmp_path / "d" / "s").mkdir(parents=True)
    (tmp_path / "d" / "s" / "f").write_bytes(b"12")
    first = look(tmp_path / "d", True)
    assert first is not None
    assert (first["files"], first["bytes"]) == (1, 2)
    assert first["digest"] == hashlib.sha256(f"{hashlib.sha256(b'12').hexdigest()}  s/f\n".encode()).hexdigest()
    (tmp_path / "d" / "s" / "f").rename(tmp_path / "d" / "s" / "g")
    assert (look(tmp_path / "d", True) or first)["digest"] != first["digest"]
    assert look(tmp_path / "none", True) is None


def act(item: Item) -> dict[str, Any]:
    """Do what the item's id says."""
    match item.id:
        case "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "bug":
            raise ZeroDivisionError("oops")
        case "full":
            raise OSError(28, "No space left on device")
        case "memory":
            raise MemoryError
        case "nan":
            return {"value": float("nan")}
        case "taken":
            return {"status": "fine"}
        case "children":
            return {"sum": sum(multiprocessing.get_context("spawn").Pool(1).map(abs, [-1, -2]))}
        case "config":
            raise ConfigError([DataError("E_CONFIG_KEY", "b", "c", "d", "e")])
        case "bad":
            raise DataError("no_frames", "bad.mp4", "0", "2", "mend")
    return {"pid": os.getpid()}


def outcomes(ids: list[str], workers: int) -> dict[str, Any]:
    place = Place(Path("/nowhere"), (), str)
    work = Work(Step("act", 1, {}, act), place)
    tasks = [Task(Item(item_id, None), None) for item_id in ids]
    return {task.item.id: outcome for task, outcome in run_tasks(work, tasks, workers, lambda task: task.item.id)}


def code_of(outcome: object) -> str:
    return outcome.code if isinstance(outcome, DataError) else "ok"


def test_crash_names_its_item_and_the_others_complete() -> None:
    found = outcomes(["a", "segv", "b", "c", "bad", "bug", "kill", "d"], 2)
    codes = {item_id: code_of(outcome) for item_id, outcome in found.items()}
    good = dict.fromkeys("abcd", "ok")
    assert codes == {**good, "segv": "fault_crashed", "bad": "no_frames", "bug": "fault_bug", "kill": "fault_killed"}
    assert "SIGSEGV" in found["segv"].found and found["segv"].where == "segv"


@pytest.mark.parametrize(("item_id", "code"), [("full", "fault_disk"), ("memory", "fault_memory"), ("bug", "fault_bug")])
def test_trouble_of_machine_or_program_is_a_fault(item_id: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcomes([item_id], 0)[item_id]
    assert isinstance(outcome, Fault) and outcome.code == code
    assert ("ZeroDivisionError" in capsys.readouterr().err) == (item_id == "bug")


@pytest.mark.parametrize("item_id", ["nan", "taken"])
def test_step_that_says_what_no_row_can_hold_is_named_with_its_item(item_id: str) -> None:
    found = outcomes([item_id, "a"], 1)
    assert (found[item_id].code, found[item_id].where, code_of(found["a"])) == ("fault_bug", item_id, "ok")


def test_step_may_start_processes_of_its_own() -> None:
    assert outcomes(["children"], 1)["children"].entry.fields == {"sum": 3}


def test_error_with_a_constructor_of_its_own_comes_back_whole() -> None:
    outcome = outcomes(["config"], 1)["config"]
    assert isinstance(outcome, ConfigError) and [str(problem) for problem in outcome.problems] == ["b: c, expected d: e [E_CONFIG_KEY]"]


def test_more_workers_than_items_and_none_at_all() -> None:
    assert outcomes(["a"], 4).keys() == {"a"}
    assert outcomes([], 4) == {}
    assert outcomes(["a"], 0)["a"].entry.fields == {"pid": os.getpid()}
    assert outcomes(["a"], 1)["a"].entry.fields != {"pid": os.getpid()}


class Unloadable:
    """Work that cannot be unpickled: a worker that gets it cannot start."""

    def __call__(self, task: str) -> str:
        return task

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, ("no_such_module",)


def test_worker_that_cannot_start_is_no_items_doing() -> None:
    with pytest.raises(Fault) as caught:
        list(run_tasks(Unloadable(), ["a", "b"], 1, str))
    assert caught.value.code == "fault_crashed" and caught.value.where == "worker"


def test_permission_is_a_fault_of_another_kind_than_the_disk() -> None:
    assert fault_from(PermissionError(13, "Permission denied"), "x").code == "fault_file"
    assert {"fault_file", "fault_disk", "fault_bug"} <= CODES.keys()


def test_manifest_with_a_missing_or_double_row_is_never_written(tmp_path: Path) -> None:
    for rows in ([{"id": "a"}], [{"id": "a"}, {"id": "b"}, {"id": "b"}], [{"id": "a"}, {"id": "c"}]):
        with pytest.raises(Fault) as caught:
            write_manifest(tmp_path / "m.jsonl", rows, ["a", "b"])
        assert caught.value.code == "manifest_mismatch"
    assert os.listdir(tmp_path) == []
    write_manifest(tmp_path / "m.jsonl", [{"id": "b"}, {"id": "a"}], ["a", "b"])
    assert (tmp_path / "m.jsonl").read_bytes() == b'{"id":"a"}\n{"id":"b"}\n'


def test_fingerprint_holds_version_settings_inputs_source_and_redo() -> None:
    def item(split: str = "train", where: str = "/x", name: str = "v.mp4", time: int = 20) -> Item:
        return Item("v", {"split": split}, sources=(Source(Path(where) / name, f"videos/{name}", 10, time),))

    step = Step("s", 1, {"a": 1}, act)
    others = [
        Step("s", 2, {"a": 1}, act).fingerprint(item(), 0),
        Step("t", 1, {"a": 1}, act).fingerprint(item(), 0),
        Step("s", 1, {"a": 2}, act).fingerprint(item(), 0),
        *(step.fingerprint(changed, 0) for changed in (item(split="validation"), item(time=21), item(name="w.mp4"), Item("v", {"split": "train"}))),
        step.fingerprint(item(), 1),
    ]
    assert len({step.fingerprint(item(), 0), *others}) == len(others) + 1
    assert step.fingerprint(item(where="/moved"), 0) == step.fingerprint(item(), 0)


def make_stage(folder: Path) -> Place:
    """A stage whose manifest names a.toy; b.toy, a temporary file, notes and a dead shard's files lie there too."""
    place = Place(folder, (folder / "out",), lambda name: name.removesuffix(".toy") if name.endswith(".toy") else None)
    write_manifest(place.manifest("s", "0000-of-0001", "k"), [{"id": "a", "status": "ok", "code": "ok", "files": {"out/a.toy": {}}}], ["a"])
    write_manifest(place.manifest("s", "0000-of-0009", "k"), [{"id": "b", "status": "ok", "code": "ok"}], ["b"])
    (folder / "out").mkdir()
    for name in ("a.toy", "b.toy", "notes.txt", ".a.toy.0123456789ab.tmp"):
        (folder / "out" / name).write_text(name)
    return place


def test_sweep_sets_aside_what_no_row_names_and_leaves_what_is_not_ours(tmp_path: Path) -> None:
    place = make_stage(tmp_path)
    assert sweep(place, ["s"], ["0000-of-0001"], prune=False) == [tmp_path / "out" / "b.toy"]
    assert sorted(os.listdir(tmp_path / "out")) == ["a.toy", "notes.txt"]
    assert (tmp_path / "quarantine" / "out" / "b.toy").read_text() == "b.toy"
    assert [path.name for path in tmp_path.glob("shards/*/*")] == ["0000-of-0001.k.jsonl"]


def test_sweep_leaves_what_others_have_in_the_same_folder(tmp_path: Path) -> None:
    place = replace(make_stage(tmp_path), others=partial(dict, {"b.toy": "another's manifest"}))
    assert sweep(place, ["s"], ["0000-of-0001"], prune=False) == [] and (tmp_path / "out" / "b.toy").exists()


def test_sweep_with_prune_deletes_only_files_of_removed_ids(tmp_path: Path) -> None:
    place = make_stage(tmp_path)
    (tmp_path / "quarantine" / "out" / "folder.toy").mkdir(parents=True)
    for name in ("a.toy", "mine.txt", "b.toy.1"):
        (tmp_path / "quarantine" / "out" / name).write_text("kept, but for the last")
    sweep(place, ["s"], ["0000-of-0001"], prune=True)
    assert sorted(os.listdir(tmp_path / "quarantine" / "out")) == ["a.toy", "mine.txt"]


def test_what_was_set_aside_before_is_never_overwritten(tmp_path: Path) -> None:
    place = Place(tmp_path, (), lambda name: None)
    for text in ("first", "second", "third"):
        (tmp_path / "f").write_text(text)
        set_aside(tmp_path / "f", place)
    assert [(tmp_path / "quarantine" / name).read_text() for name in ("f", "f.1", "f.2")] == ["third", "first", "second"]


@pytest.mark.parametrize("text", ["[1,2]\n", '{"id":"a"}\n', '{"id":"a","status":1,"code":"ok"}\n', "garbage", '{"id":"a",'])
def test_damaged_manifest_is_taken_away_so_that_it_is_made_again(tmp_path: Path, text: str) -> None:
    place = Place(tmp_path, (), lambda name: None)
    path = place.manifest("s", "0000-of-0001", "k")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(Fault) as caught:
        the_manifest(place, "s", "0000-of-0001")
    assert caught.value.code == "fault_stale" and not path.exists()


def test_gate_counts_an_item_once_over_all_steps() -> None:
    refused = {"id": "b", "status": "quarantined", "code": "truncated", "where": "b.mp4", "found": "f", "expected": "e", "hint": "h"}
    first = [{"id": "a", "status": "ok"}, refused, {"id": "c", "status": "ok"}]
    later = {**refused, "id": "c", "code": "invalid_hdf5"}
    second = [{"id": "a", "status": "ok"}, {"id": "b", "status": "upstream", "code": "truncated", "step": "one"}, later]
    found = tally([("one", first), ("two", second)])
    assert (found.items, found.passed) == (3, 1)
    assert [(row["id"], row["step"], row["code"]) for row in found.refused] == [("b", "one", "truncated"), ("c", "two", "invalid_hdf5")]
    check_gate("events", found.as_json(), 2)
    with pytest.raises(DataError) as caught:
        check_gate("events", found.as_json(), 1)
    assert caught.value.code == "too_many_quarantined" and "2 of 3" in caught.value.found


@dataclass(frozen=True, slots=True)
class Settings:
    rate: float = field(default=0.5, metadata={"help": "how much"})
    mode: str = field(default="a", metadata={"choices": ("a", "b")})
    deep: bool = False


@pytest.mark.parametrize("values", [{"rate": 2.2, "mode": "b", "deep": True}, {"rate": 1e-9, "mode": "a", "deep": False}])
def test_settings_survive_the_command_line(values: dict[str, Any]) -> None:
    import shlex

    arguments = command.parser("x")
    command.add_settings(arguments, Settings)
    args = arguments.parse_args(shlex.split(command.as_flags(values)))
    assert command.settings_from(args, Settings) == Settings(**values)


def test_flags_survive_a_shell_and_leading_dashes() -> None:
    import subprocess

    flags = command.as_flags({"id": "-x $(touch PWNED) it's", "work_shards": 3})
    printed = subprocess.run(["sh", "-c", f"printf '%s\\n' {flags}"], capture_output=True, text=True, check=True).stdout
    assert printed == "--id=-x $(touch PWNED) it's\n--work-shards=3\n"


def raise_(error: BaseException, args: argparse.Namespace) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DataError("bad_table", "t", "f", "e", "h"), 2),
        (Fault("fault_disk", "t", "f", "e", "h"), 1),
        (OSError(28, "No space left on device"), 1),
        (ZeroDivisionError("x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_program_ends_with_its_exit_code_and_one_line(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(partial(raise_, error), command.parser("x"), []) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == (0 if code == 130 else 1)


def test_abbreviated_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = command.parser("x")
    arguments.add_argument("--workers")
    with pytest.raises(SystemExit) as caught:
        arguments.parse_args(["--work=3"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_progress_in_a_log_is_a_whole_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    clock = iter(range(10_000))
    monkeypatch.setattr("shardwork.progress.time.monotonic", lambda: next(clock))
    with Progress(100, "voxelize 0001", "video", log) as progress:
        for _ in range(100):  # a second each
            progress.step()
        progress.say("quarantined: v_1")
    first, *_, last = log.getvalue().split("\n")[:-1]
    assert first == "voxelize 0001: 30 of 100 videos, 0.5 min gone, about 1.2 to go"
    assert last == "quarantined: v_1"
    assert log.getvalue().count("\n") == 4 and "\r" not in log.getvalue()


def test_program_cancelled_by_sigterm_clears_its_temporary_files(tmp_path: Path) -> None:
    import subprocess

    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom shardwork import command\nfrom shardwork.files import atomic_path\n"
        "def main(args):\n with atomic_path(Path(sys.argv[2])) as temp:\n  temp.write_text('half'); print('ready', flush=True); time.sleep(60)\n"
        "sys.exit(command.run(main, command.parser('x'), []))"
    )
    source = Path(command.__file__).parents[1]
    process = subprocess.Popen([sys.executable, "-c", program, str(source), str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert os.listdir(tmp_path) == []
