"""Worker processes, one task each at a time: a crash names its task and never takes the others with it."""

from __future__ import annotations

import ctypes
import multiprocessing as mp
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar

from shardwork.errors import Fault

T = TypeVar("T")
R = TypeVar("R")

_PR_SET_PDEATHSIG = 1
END_SECONDS = 5.0
"""How long a worker that is told to end may take to clear its temporary files."""


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one, from the parent or the group, must not interrupt the clearing up
    raise SystemExit(128 + number)


def _work(connection: Connection, work: Callable[[T], R]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    if sys.platform == "linux":  # a killed parent leaves no worker behind
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    connection.send(None)  # ready: what goes wrong before is no task's doing
    while (task := connection.recv()) is not None:
        connection.send(work(task))
    # all results are delivered: what libraries do when they are unloaded (Blender may crash or hang there) is no one's concern
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may take.

    seconds : for one task, 0 without end; a worker that takes longer is killed.   tasks : after so many it is replaced, 0 never.
    """

    seconds: float = 0.0
    tasks: int = 0


@dataclass(slots=True)
class _Worker(Generic[T]):
    process: Any
    connection: Connection
    ready: bool = False
    task: T | None = None
    given: int = 0
    deadline: float = float("inf")
    late: bool = False

    def give(self, task: T | None, seconds: float = 0.0) -> None:
        self.task = task
        self.given += task is not None
        self.deadline = time.monotonic() + seconds if seconds and task is not None else float("inf")
        try:
            self.connection.send(task)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it died between two tasks: the next look finds it

    def end(self) -> None:
        self.process.terminate()
        self.process.join(END_SECONDS)
        self.process.kill()
        self.process.join()


def _start(work: Callable[[T], R]) -> _Worker[T]:
    context = mp.get_context("spawn")  # a fork would inherit the threads' locks of OpenBLAS, OpenCV and torch
    ours, theirs = context.Pipe()
    # no daemon: a step may start processes of its own (a data loader, a renderer)
    process = context.Process(target=_work, args=(theirs, work), daemon=False)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _death(worker: _Worker[T], name: str, limits: Limits) -> Fault:
    worker.process.join()
    if worker.late:
        found = f"not finished after {limits.seconds:g} s: its worker process was ended"
        return Fault("fault_timeout", name, found, "a verdict", "run it alone to see more, or take it out of the table")
    code = worker.process.exitcode
    found = f"its worker process ended by {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
    if code in (-signal.SIGKILL, -signal.SIGTERM):
        return Fault("fault_killed", name, found, "a verdict", "give the job more memory or fewer workers, then run the same command")
    return Fault("fault_crashed", name, found, "a verdict", "run it alone to see more, or take it out of the table")


def run_tasks(
    work: Callable[[T], R], tasks: Sequence[T], workers: int, name_of: Callable[[T], str], limits: Limits = Limits()
) -> Generator[tuple[T, R | Fault], None, None]:
    """Yield each task with its result, in the order they finish; a task whose worker dies or takes too long gives a Fault.

    workers : processes; 0 works in this process (no isolation, no limits; for debugging). A worker that dies is replaced.   name_of : what a fault
    calls a task.   Raises Fault if a worker cannot start at all. However it ends, no worker is left.
    """
    if workers == 0:
        yield from ((task, work(task)) for task in tasks)
        return
    todo = list(reversed(tasks))
    live: list[_Worker[T]] = [_start(work) for _ in range(min(workers, len(todo)))]
    try:
        while live:
            # the sentinel too: a process that a dead worker started may hold its end of the pipe
            signs: list[Any] = [sign for worker in live for sign in (worker.connection, worker.process.sentinel)]
            first = min(worker.deadline for worker in live)
            ready = set(wait(signs, None if first == float("inf") else max(0.0, first - time.monotonic())))
            for worker in [w for w in live if w.connection in ready or w.process.sentinel in ready]:
                yield from _hear(worker, live, todo, work, name_of, limits)
            for worker in live:
                # one that has spoken was in time; another is heard of in the next round, as one that died
                if worker.deadline <= time.monotonic() and not worker.connection.poll():
                    worker.late, worker.deadline = True, float("inf")
                    worker.process.kill()
    finally:
        for worker in live:
            worker.end()


def _hear(
    worker: _Worker[T], live: list[_Worker[T]], todo: list[T], work: Callable[[T], R], name_of: Callable[[T], str], limits: Limits
) -> Generator[tuple[T, R | Fault], None, None]:
    """Take what one worker has to say, give it its next task first, then yield the result."""
    task, heard = worker.task, False
    result: Any = None
    with suppress(EOFError, ConnectionResetError):
        if worker.connection.poll():
            result = worker.connection.recv()
            heard = True
    if not heard:
        live.remove(worker)
        result = _death(worker, "worker" if task is None else name_of(task), limits)
        if not worker.ready:
            raise result
        if todo:
            live.append(_start(work))
    elif todo and not worker.late and not (limits.tasks and worker.given >= limits.tasks):
        worker.give(todo.pop(), limits.seconds)
    else:
        live.remove(worker)
        worker.give(None)
        worker.process.join(END_SECONDS)
        worker.end()
        if todo:
            live.append(_start(work))
    worker.ready = True
    if task is not None:
        yield task, result
