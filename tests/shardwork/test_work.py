"""Ids, shards, journal, workers, gate, streams, commands: the parts of the shard of work."""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import signal
import sys
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwork import command
from shardwork.digests import digest_value, sha256_file, xxh3_file
from shardwork.errors import CODES, DataError, Fault, fault_from
from shardwork.gate import check_gate, tally
from shardwork.ids import check_id, is_id, suggest_id
from shardwork.journal import Journal, look, open_journal
from shardwork.jsonio import write_jsonl
from shardwork.pool import run_items
from shardwork.progress import Progress
from shardwork.run import write_manifest
from shardwork.shards import shard_of, split_rows
from shardwork.step import Item, Source, Step
from shardwork.streams import stream


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
    assert int(shard_of(item_id, work_shards)) == value % work_shards


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


def make_journal(folder: Path) -> tuple[Journal, Path]:
    final = folder / "out" / "a.h5"
    final.parent.mkdir()
    final.write_bytes(b"x" * 100)
    os.utime(final, ns=(10**18, 10**18))
    with open_journal(folder / ".journal" / "s-0000.jsonl", folder) as journal:
        journal.add("a", "f1", [final], {"n": 1})
    return journal, final


def reopened(folder: Path) -> Journal:
    journal = Journal(folder / ".journal" / "s-0000.jsonl", folder)
    journal.load()
    return journal


def test_journal_row_matches_until_size_time_or_fingerprint_differ(tmp_path: Path) -> None:
    _, final = make_journal(tmp_path)
    assert reopened(tmp_path).matches("a", "f1", [final], full=True)
    assert not reopened(tmp_path).matches("a", "f2", [final], full=False)
    stat = final.stat()
    final.write_bytes(b"y" * 100)
    assert not reopened(tmp_path).matches("a", "f1", [final], full=False)
    os.utime(final, ns=(0, stat.st_mtime_ns))
    assert reopened(tmp_path).matches("a", "f1", [final], full=False)
    assert not reopened(tmp_path).matches("a", "f1", [final], full=True)


def test_journal_survives_a_move_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    make_journal(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "it's new")
    assert reopened(tmp_path / "it's new").matches("a", "f1", [tmp_path / "it's new" / "out" / "a.h5"], full=True)


@given(st.data())
def test_any_flipped_bit_of_the_journal_is_noticed(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        make_journal(Path(name))
        path = Path(name) / ".journal" / "s-0000.jsonl"
        line = bytearray(path.read_bytes())
        line[data.draw(st.integers(0, len(line) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(line)
        rows = reopened(Path(name)).rows
        assert rows in ({}, {"a": rows.get("a")})
        assert not rows or rows["a"]["fields"] == {"n": 1}


def test_row_after_a_torn_line_is_read(tmp_path: Path) -> None:
    _, final = make_journal(tmp_path)
    path = tmp_path / ".journal" / "s-0000.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id":"b","finger')
    with open_journal(path, tmp_path) as journal:
        journal.add("c", "f", [final], {})
    assert reopened(tmp_path).rows.keys() == {"a", "c"}


def test_folder_look_sees_every_change(tmp_path: Path) -> None:
    (tmp_path / "d" / "s").mkdir(parents=True)
    (tmp_path / "d" / "s" / "f").write_bytes(b"12")
    first = look(tmp_path / "d", True)
    assert (first["files"], first["bytes"]) == (1, 2)
    assert first["digest"] == hashlib.sha256(f"{hashlib.sha256(b'12').hexdigest()}  s/f\n".encode()).hexdigest()
    (tmp_path / "d" / "s" / "f").rename(tmp_path / "d" / "s" / "g")
    assert look(tmp_path / "d", True)["digest"] != first["digest"]
    assert look(tmp_path / "none", True) is None


def act(item: Item) -> dict[str, int]:
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
        case "bad":
            raise DataError("no_frames", "bad.mp4", "0", "2", "mend")
    return {"pid": os.getpid()}


def outcomes(ids: list[str], workers: int) -> dict[str, Any]:
    return {item.id: outcome for item, outcome in run_items(act, [Item(item_id, None) for item_id in ids], workers)}


def test_crash_names_its_item_and_the_others_complete() -> None:
    found = outcomes(["a", "segv", "b", "c", "bad", "bug", "kill", "d"], 2)
    codes = {item_id: outcome.code if isinstance(outcome, DataError) else "ok" for item_id, outcome in found.items()}
    good = dict.fromkeys("abcd", "ok")
    assert codes == {**good, "segv": "fault_crashed", "bad": "no_frames", "bug": "fault_bug", "kill": "fault_killed"}
    assert "SIGSEGV" in found["segv"].found and found["segv"].where == "segv"


@pytest.mark.parametrize(("item_id", "code"), [("full", "fault_disk"), ("memory", "fault_memory"), ("bug", "fault_bug")])
def test_trouble_of_machine_or_program_is_a_fault(item_id: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcomes([item_id], 0)[item_id]
    assert isinstance(outcome, Fault) and outcome.code == code
    assert ("ZeroDivisionError" in capsys.readouterr().err) == (item_id == "bug")


def test_more_workers_than_items_and_none_at_all() -> None:
    assert outcomes(["a"], 4).keys() == {"a"}
    assert outcomes([], 4) == {}
    assert outcomes(["a"], 0)["a"] == {"pid": os.getpid()}
    assert outcomes(["a"], 1)["a"] != {"pid": os.getpid()}


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
    source = Source(Path("/x/v.mp4"), "v.mp4", 10, 20)
    base = (Step("s", 1, {"a": 1}, act), Item("v", {"split": "train"}, source=source), 0)
    same = (Step("s", 1, {"a": 1}, act), Item("v", {"split": "train"}, source=Source(Path("/moved/v.mp4"), "v.mp4", 10, 20)), 0)
    others = [
        (Step("s", 2, {"a": 1}, act), base[1], 0),
        (Step("t", 1, {"a": 1}, act), base[1], 0),
        (Step("s", 1, {"a": 2}, act), base[1], 0),
        (base[0], Item("v", {"split": "validation"}, source=source), 0),
        (base[0], Item("v", {"split": "train"}, source=Source(Path("/x/v.mp4"), "v.mp4", 10, 21)), 0),
        (base[0], base[1], 1),
    ]
    digests = [step.fingerprint(item, redo) for step, item, redo in (base, *others)]
    assert len(set(digests)) == len(digests)
    assert same[0].fingerprint(same[1], same[2]) == digests[0]


def test_gate_counts_an_item_once_over_all_steps(tmp_path: Path) -> None:
    refused = {"id": "b", "status": "quarantined", "code": "truncated", "where": "b.mp4", "found": "f", "expected": "e", "hint": "h"}
    write_jsonl(tmp_path / "1", [{"id": "a", "status": "ok"}, refused, {"id": "c", "status": "ok"}])
    later = {**refused, "id": "c", "code": "invalid_hdf5"}
    write_jsonl(tmp_path / "2", [{"id": "a", "status": "ok"}, {"id": "b", "status": "upstream", "code": "truncated", "step": "one"}, later])
    found = tally([("one", [tmp_path / "1"]), ("two", [tmp_path / "2"])])
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
