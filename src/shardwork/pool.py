"""Worker processes, one item each at a time: a crash names its item and never takes the others with it."""

from __future__ import annotations

import ctypes
import multiprocessing as mp
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from shardwork.errors import DataError, Fault, fault_from
from shardwork.step import Fields, Item

Outcome = Fields | DataError
"""An item's fields, its verdict (DataError) or a Fault."""

_PR_SET_PDEATHSIG = 1


def call_item(run_item: Callable[[Item], Fields], item: Item) -> Outcome:
    """Return the outcome of one item. The one place that catches everything: what is no verdict becomes a Fault."""
    try:
        return run_item(item)
    except DataError as error:
        return error
    except Exception as error:  # noqa: BLE001 (the one blind except: any other error is this item's fault)
        if not isinstance(error, OSError | MemoryError):
            traceback.print_exc()
        return fault_from(error, item.id)


def _work(connection: Connection, run_item: Callable[[Item], Fields]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":  # a killed parent leaves no worker behind
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    while (item := connection.recv()) is not None:
        connection.send(call_item(run_item, item))


@dataclass(slots=True)
class _Worker:
    process: Any
    connection: Connection
    item: Item | None = None

    def give(self, item: Item | None) -> None:
        self.item = item
        try:
            self.connection.send(item)
        except BrokenPipeError:
            pass  # it died between two items: the next look finds it

    def take(self) -> Outcome:
        try:
            outcome: Outcome = self.connection.recv()
            return outcome
        except (EOFError, ConnectionResetError):
            self.process.join()
            return _death(self.process.exitcode, self.item.id if self.item else "worker")


def _death(exitcode: int, item_id: str) -> Fault:
    found = f"its worker process ended by {signal.Signals(-exitcode).name if exitcode < 0 else f'exit code {exitcode}'}"
    if exitcode in (-signal.SIGKILL, -signal.SIGTERM):
        return Fault("fault_killed", item_id, found, "a verdict", "give the job more memory or fewer workers, then run the same command")
    return Fault("fault_crashed", item_id, found, "a verdict", "run this item alone to see more, or take it out of the table")


def _start(run_item: Callable[[Item], Fields]) -> _Worker:
    context = mp.get_context("spawn")  # a fork would inherit the threads' locks of OpenBLAS, OpenCV and torch
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, run_item), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def run_items(run_item: Callable[[Item], Fields], items: Sequence[Item], workers: int) -> Iterator[tuple[Item, Outcome]]:
    """Yield each item with its outcome, in the order they finish.

    workers : processes; 0 works in this process (no isolation; for debugging). A worker that dies is replaced.
    """
    if workers == 0:
        yield from ((item, call_item(run_item, item)) for item in items)
        return
    todo = list(reversed(items))
    live = [_start(run_item) for _ in range(min(workers, len(todo)))]
    try:
        for worker in live:
            worker.give(todo.pop())
        while live:
            for connection in wait([worker.connection for worker in live]):
                worker = next(w for w in live if w.connection is connection)
                item, outcome = worker.item, worker.take()
                if item is None:
                    live.remove(worker)
                    continue
                yield item, outcome
                if not worker.process.is_alive():
                    live.remove(worker)
                    if todo:
                        live.append(worker := _start(run_item))
                        worker.give(todo.pop())
                else:
                    worker.give(todo.pop() if todo else None)
                    if worker.item is None:
                        live.remove(worker)
    finally:
        for worker in live:
            worker.process.kill()
