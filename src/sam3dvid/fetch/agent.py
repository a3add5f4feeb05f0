"""Who asks: the name that every request of this software carries."""

from __future__ import annotations

import os
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
