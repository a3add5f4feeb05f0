"""How the inner loops of this library are compiled, and the two machine instructions that they need beyond Python's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from shardwork.compiled import compiler, inlined

__all__ = ["compiled", "inlined", "load_eight", "zero_bits"]

SOURCES = tuple(Path(__file__).parent / f"{name}.py" for name in ("compiled", "contrast", "deflate", "kernel", "layout"))
"""The modules that compiled code is made from."""
compiled = compiler(SOURCES)
"""Turns a function into machine code; it is kept, and saves a user's later processes about 25 CPU seconds."""


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
