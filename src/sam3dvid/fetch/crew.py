"""A few downloads at once: one that is refused is a row in a table, a fault of the machine ends them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from sam3dvid.fetch.client import Client
from shardwork.errors import DataError, Fault

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
