"""How the inner loops are compiled."""

from __future__ import annotations

from typing import Any

import numba


def compiled(function: Any) -> Any:
    """Return the function as machine code that leaves Python's lock free: without checks of indices, with integer division as in C.

    The code is kept beside its source, in the user's cache folder, or in NUMBA_CACHE_DIR, so that only the first process on a machine waits for the compiler.
    """
    options = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # none of the places can be written to: each process compiles for itself
        return numba.njit(**options)(function)
