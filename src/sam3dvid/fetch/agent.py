"""Who asks: the name that every request of this software carries, and a few downloads at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from sam3dvid.fetch.client import Client, Patience
from shardwork.errors import DataError, Fault
from shardwork.streams import stream


def user_agent() -> str:
    """Return the name and version of this software, as Poly Haven's terms ask for."""
    try:
        return f"reelmill/{version('reelmill')}"
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "reelmill/0"


def new_client(patience: Patience | None = None) -> Client:
    """Return a client of this software. Each process draws other waits, so that many do not come back at one moment."""
    return Client(user_agent(), stream(os.getpid(), "backoff"), patience)


def growing_waits(first_seconds: float = 5.0, longest_seconds: float = 120.0) -> Callable[[int], None]:
    """Return what waits after a failed try: longer with each number (from 1), and never quite as long as another process."""
    jitter = stream(os.getpid(), "waits")

    def wait(number: int) -> None:
        time.sleep(min(longest_seconds, first_seconds * 2.0 ** (number - 1)) * jitter.uniform(0.5, 1.0))

    return wait


T = TypeVar("T")
R = TypeVar("R")

MOST_WORKERS = 4
"""At most so many requests at once: these servers are free of charge for all. Source: synthetic spec, section 4."""


def each(client: Client, work: Callable[[T], R], tasks: Sequence[T], workers: int) -> Iterator[tuple[T, R | DataError]]:
    """Yield each task with its result or its verdict (DataError), in the order they finish.

    workers : threads, 1 to MOST_WORKERS.   Faults and OSError end all and are raised; so does whatever the caller raises. No thread is left.
    """
    if not 1 <= workers <= MOST_WORKERS:
        raise DataError("bad_argument", "workers", str(workers), f"1 to {MOST_WORKERS}", "choose fewer: the servers are shared")
    todo = list(reversed(tasks))
    with ThreadPoolExecutor(workers) as pool:
        live: dict[Future[R], T] = {}
        try:
            while todo or live:
                while todo and len(live) < workers:
                    task = todo.pop()
                    live[pool.submit(work, task)] = task
                for future in wait(live, return_when=FIRST_COMPLETED).done:
                    task = live.pop(future)
                    try:
                        result: R | DataError = future.result()
                    except Fault:
                        raise
                    except DataError as error:
                        result = error
                    yield task, result
        except BaseException:
            client.stop()
            raise
