"""How the inner loops are compiled, and the two machine instructions that they need beyond Python's."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def compiled(function: Any) -> Any:
    """Return the function as machine code that leaves Python's lock free: without checks of indices, with integer division as in C.

    The code is kept beside its source, in the user's cache folder, or in NUMBA_CACHE_DIR, so that only the first process on a machine waits for the compiler.
    """
    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # none of the places can be written to: each process compiles for itself
        return numba.njit(**options)(function)


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
