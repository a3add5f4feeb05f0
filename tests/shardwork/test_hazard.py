"""What a foreign program does to an item: it is tried twice, then the item has its verdict and the others are finished all the same."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from shardwork import pool
from shardwork.errors import Fault
from shardwork.files import make_folder, temp_path, write_bytes
from shardwork.place import Place
from shardwork.pool import Limits, run_tasks
from shardwork.progress import Progress
from shardwork.run import Options, run_shard
from shardwork.step import Fields, Hazard, Item, Step

HINTS = {"toy_crashed": "take it out", "toy_late": "take it out"}


def misbehave(item: Item, folder: Path) -> Fields:
    """Write the item, unless its id says what else to do: crash or hang, always or only the first time, and leave half a file."""
    kind, _, times = item.id.partition("_")
    first = not (folder / item.id).exists()
    (folder / item.id).touch()
    if kind in ("crash", "hang", "killed"):
        make_folder(item.outputs[0].parent)
        temp_path(item.outputs[0]).write_bytes(b"half")
    if kind in ("crash", "hang") and (times == "always" or first):
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(600)
    if kind == "deaf":  # as a library that is long in its own code
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        make_folder(item.outputs[0].parent)
        temp_path(item.outputs[0]).write_bytes(b"half")
        time.sleep(600)
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    write_bytes(item.outputs[0], item.id.encode())
    return {}


def run(folder: Path, *ids: str, workers: int = 2, hazard: bool = True) -> dict[str, Fields]:
    tries = folder / "tries"
    tries.mkdir(exist_ok=True)
    guard = Hazard("toy_crashed", "toy_late", seconds=3.0, items=0, hints=HINTS) if hazard else None
    step = Step("make_toy", 1, {}, partial(misbehave, folder=tries), hazard=guard)
    place = Place(folder / "stage", (folder / "stage" / "out",), str)
    items = [Item(item_id, None, (folder / "stage" / "out" / item_id,)) for item_id in ids]
    return {row["id"]: row for row in run_shard(step, "0000-of-0001", items, place, Options(workers=workers))}


@pytest.mark.parametrize(("item_id", "code"), [("crash_always", "toy_crashed"), ("hang_always", "toy_late")])
def test_item_that_never_gets_through_has_a_verdict_and_the_others_are_made(tmp_path: Path, item_id: str, code: str) -> None:
    rows = run(tmp_path, "a", item_id, "b")
    assert {key: row["code"] for key, row in rows.items()} == {"a": "ok", item_id: code, "b": "ok"}
    assert sorted(path.name for path in (tmp_path / "stage" / "out").iterdir()) == ["a", "b"]
    assert rows[item_id]["hint"] == "take it out" and rows[item_id]["found"].startswith("twice: ")


@pytest.mark.parametrize("item_id", ["crash_once", "hang_once"])
def test_item_that_gets_through_alone_is_made(tmp_path: Path, item_id: str) -> None:
    rows = run(tmp_path, "a", item_id)
    assert {row["code"] for row in rows.values()} == {"ok"} and (tmp_path / "stage" / "out" / item_id).read_text() == item_id


def test_killed_worker_is_a_fault_also_where_crashes_are_verdicts(tmp_path: Path) -> None:
    with pytest.raises(Fault) as caught:
        run(tmp_path, "a", "killed")
    assert caught.value.code == "fault_killed" and not list((tmp_path / "stage" / "out").glob(".*"))


def test_a_run_that_is_ended_leaves_no_half_file_of_a_worker_that_had_to_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(progress: Progress) -> None:
        while not list((tmp_path / "stage" / "out").glob(".deaf.*")):
            time.sleep(0.01)
        raise SystemExit(143)

    monkeypatch.setattr(pool, "END_SECONDS", 0.2)
    monkeypatch.setattr(Progress, "step", end)
    with pytest.raises(SystemExit):
        run(tmp_path, "a", "deaf", hazard=False)
    assert [path.name for path in (tmp_path / "stage" / "out").iterdir()] == ["a"]


def test_without_a_hazard_a_crash_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault) as caught:
        run(tmp_path, "a", "crash_once", hazard=False)
    assert caught.value.code == "fault_crashed"


def pid_of(task: int) -> int:
    return os.getpid()


@pytest.mark.parametrize(("tasks", "processes"), [(0, 1), (3, 3), (1, 7)])
def test_worker_is_replaced_after_so_many_tasks(tasks: int, processes: int) -> None:
    done = list(run_tasks(pid_of, range(7), 1, str, Limits(tasks=tasks)))
    assert sorted(task for task, _ in done) == list(range(7)) and len({pid for _, pid in done}) == processes


def test_task_is_not_late_because_its_result_was_fetched_late() -> None:
    done = []
    for task, result in run_tasks(pid_of, range(8), 2, str, Limits(seconds=0.5)):
        done.append((task, result))
        time.sleep(0.8 if len(done) < 4 else 0)
    assert sorted(task for task, _ in done) == list(range(8)) and not [result for _, result in done if isinstance(result, Fault)]
