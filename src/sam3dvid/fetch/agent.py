"""Who asks: the name that every request of this software carries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from sam3dvid.fetch.client import Client, Patience
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
