"""How the inner loops are compiled, and the two machine instructions that they need beyond Python's."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_CONFIG: Any = numba.config
SOURCES = ("compiled", "contrast", "deflate", "kernel", "layout")
"""The modules that compiled code is made from. numba itself looks only at the one that a function stands in."""


def _cache_folder() -> Path:
    """Return where compiled code is kept: a folder for these sources, this numba and this processor, which nothing else shares.

    It stands in NUMBA_CACHE_DIR, or in the user's own cache.
    """
    made_from = [numba.__version__, llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()]
    made_from += [(Path(__file__).parent / f"{name}.py").read_text("utf-8") for name in SOURCES]
    key = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    home = _CONFIG.CACHE_DIR or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reelmill"
    folder = Path(home) / key
    # a power cut may leave empty files, which numba takes for damaged ones in every later run
    for file in folder.glob("**/*.nb[ci]"):
        if not file.stat().st_size:
            file.unlink(missing_ok=True)
    return folder


@cache
def _cache_place() -> str | None:
    """Return the folder as text, or None where there can be none; looked up once, not for every function."""
    try:
        return str(_cache_folder())
    except (OSError, RuntimeError):  # files that cannot be read, or a user without a home
        return None


def compiled(function: Any) -> Any:
    """Return the function as machine code that leaves Python's lock free: without checks of indices, with integer division as in C.

    The code is kept (see `_cache_folder`), so that only the first processes of a user wait for the compiler, about 25 CPU seconds.
    """
    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    place, before = _cache_place(), _CONFIG.CACHE_DIR
    if place is None:
        return numba.njit(**options)(function)
    try:
        _CONFIG.CACHE_DIR = place
        return numba.njit(cache=True, **options)(function)
    except (OSError, RuntimeError):  # it cannot be written to: each process compiles for itself
        return numba.njit(**options)(function)
    finally:
        _CONFIG.CACHE_DIR = before


def inlined(function: Any) -> Any:
    """Return the function to be written into each compiled one that calls it."""
    return numba.njit(inline="always")(function)


def _load_eight(typing: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.intp), generate


def _zero_bits(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


load_eight: Any = intrinsic(_load_eight)
"""load_eight(data, index): the eight bytes at data[index:index + 8] as one uint64, the first lowest; any index, not checked."""
zero_bits: Any = intrinsic(_zero_bits)
"""zero_bits(value): how many of the lowest bits of a uint64 are 0; the value is not 0."""
