"""Compressors of chunks: zlib streams all, so that any HDF5 reads them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventvox.settings import Codec, parse_codec
from shardwork.errors import Fault

PACKAGES = {"auto": "zlib-ng", "isal": "isal", "zlib-ng": "zlib-ng", "libdeflate": "deflate"}
"""Codec -> the package it needs."""

BOTH_BYTES = 1 << 17
"""Chunks below this size are compressed both ways by `auto`."""
CLEARLY = 1.03
"""How much larger the output of `rle` may be before `auto` takes zlib-ng:4, which needs three times as long and is 3 % smaller than gzip-4."""

Compress = Callable[[NDArray[np.uint8]], bytes]


def compressor(codec: Codec) -> Compress:
    """Return the function that makes a zlib stream of a chunk: a one-dimensional uint8 array, low bytes in its first half, high ones in the second.

    It lets other threads run meanwhile. Raises Fault where the codec's package is not installed.
    """
    level = codec.level
    if codec.name == "rle":
        from eventvox.deflate import compress

        return compress
    if codec.name == "zlib":
        return lambda chunk: zlib.compress(chunk.data, level)
    try:
        if codec.name == "auto":
            return _automatic()
        if codec.name == "isal":
            isal: Any = import_module("isal.isal_zlib")
            return lambda chunk: bytes(isal.compress(chunk, level))
        if codec.name == "zlib-ng":
            zlib_ng: Any = import_module("zlib_ng.zlib_ng")
            return lambda chunk: bytes(zlib_ng.compress(chunk, level))
        deflate: Any = import_module("deflate")
        return lambda chunk: bytes(deflate.zlib_compress(chunk, level))
    except ImportError as error:
        package = PACKAGES[codec.name]
        found, hint = f"{package} is not installed", f"pip install {package}, or set codec to rle or zlib:4"
        raise Fault("fault_bug", f"codec {codec.name}", found, "the package that it needs", hint) from error


def codec_version(codec: str) -> dict[str, str]:
    """Return the version of the package whose bytes a codec writes, by name; none for `rle`, and Python's zlib for `zlib`."""
    name = parse_codec(codec).name
    if name == "zlib":
        return {"zlib": zlib.ZLIB_RUNTIME_VERSION}
    return {PACKAGES[name]: version(PACKAGES[name])} if name in PACKAGES else {}


def _automatic() -> Compress:
    """Return the function that takes `rle`, or zlib-ng:4 where that makes a twentieth of the chunk clearly smaller: half the low bytes of its middle bin.

    Films with grain are smaller and three times faster with `rle`; smooth, drawn or repeating pictures are smaller with zlib-ng (measured: docs/benchmarks.md).
    Of small chunks both are made whole, and the smaller is taken.
    """
    from eventvox.deflate import compress

    zlib_ng: Any = import_module("zlib_ng.zlib_ng")

    def smaller(chunk: NDArray[np.uint8]) -> bytes:
        if chunk.size < BOTH_BYTES:
            ours, theirs = compress(chunk), bytes(zlib_ng.compress(chunk, 4))
            return ours if len(ours) <= len(theirs) else theirs
        plane = chunk.size // 10
        part = chunk[2 * plane : 2 * plane + plane // 2]
        if len(compress(part)) <= CLEARLY * len(zlib_ng.compress(part, 4)):
            return compress(chunk)
        return bytes(zlib_ng.compress(chunk, 4))

    return smaller
