"""How inner loops are compiled with numba, and where their machine code is kept. numba is loaded by the call, not by the import of this module."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

Decorator = Callable[[Any], Any]


def cache_folder(sources: Iterable[Path]) -> Path:
    """Return where compiled code is kept: a folder for these sources, this numba and this processor, which nothing else shares.

    sources : the files of the modules that compiled code is made from; numba itself looks only at the one that a function stands in.
    It stands in NUMBA_CACHE_DIR, or in the user's own cache.   Raises OSError, RuntimeError where there can be none.
    """
    import llvmlite.binding
    import numba

    config: Any = numba.config
    made_from = [numba.__version__, llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()]
    made_from += [path.read_text("utf-8") for path in (Path(__file__), *sources)]
    key = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    home = config.CACHE_DIR or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reelmill"
    folder = Path(home) / key
    # a power cut may leave empty files, which numba takes for damaged ones in every later run
    for file in folder.glob("**/*.nb[ci]"):
        if not file.stat().st_size:
            file.unlink(missing_ok=True)
    return folder


@cache
def _cache_place(sources: tuple[Path, ...]) -> str | None:
    """Return the folder as text, or None where there can be none; looked up once for a library, not for every function."""
    try:
        return str(cache_folder(sources))
    except (OSError, RuntimeError):  # files that cannot be read, or a user without a home
        return None


def compiler(sources: Iterable[Path]) -> Decorator:
    """Return what compiles a library's functions.

    sources : as for `cache_folder`.   What comes back turns a function into machine code that leaves Python's lock free: without checks of indices,
    with integer division as in C. The code is kept, so that only the first processes of a user wait for the compiler.
    """
    found = tuple(sources)

    def compiled(function: Any) -> Any:
        import numba

        config: Any = numba.config
        options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
        place, before = _cache_place(found), config.CACHE_DIR
        if place is None:
            return numba.njit(**options)(function)
        try:
            config.CACHE_DIR = place
            return numba.njit(cache=True, **options)(function)
        except (OSError, RuntimeError):  # it cannot be written to: each process compiles for itself
            return numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = before

    return compiled


def inlined(function: Any) -> Any:
    """Return the function to be written into each compiled one that calls it."""
    import numba

    return numba.njit(inline="always")(function)
