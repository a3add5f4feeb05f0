"""What is costly to make and that tests only look at is made once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """Return what `make` made in a folder that is not there yet: the first worker that asks calls it, those that ask meanwhile wait, all get its value.

    name : of the folder, for one thing only.   make : returns what can be pickled. If it fails, the next worker tries in another folder.
    Nothing may write into what is made, not even a run that finds nothing to do (it takes a lock): tests that do work on a copy.
    """
    own = factory.getbasetemp()
    whole = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own  # of the run: pytest-xdist gives each worker a folder in it
    folder = whole / f"once-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        value = folder / "value.pickle"
        if not value.exists():
            tries = sum(path.name.startswith("try") for path in folder.iterdir())
            made = make(folder / f"try{tries}")
            value.write_bytes(pickle.dumps(made))
        return pickle.loads(value.read_bytes())
