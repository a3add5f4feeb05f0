"""The pictures of a dataset: PNG files of pixels alone."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sam3dvid.validate.dataset import Unreadable, read_bytes

PNG_START = b"\x89PNG\r\n\x1a\n"
CHANNELS = {"L": 0, "RGB": 2, "RGBA": 6}
"""Mode of a picture -> colour type in a PNG file's header."""
PARTS = (b"IHDR", b"IDAT", b"IEND")
"""All parts that a picture here may have, in their order. Blender writes dates, paths, resolution and more beside them; Pillow writes these alone."""


def read_png(root: Path, name: str, mode: str, width: int, height: int) -> NDArray[np.uint8]:
    """Return the pixels of a PNG file of 8 bits a channel: (H, W) uint8 for mode L, (H, W, 3) or (H, W, 4) for RGB and RGBA.

    Every chunk's checksum is compared: the decoder alone lets some flipped bytes pass.   Raises Unreadable, OSError.
    """
    data = read_bytes(root, name)
    if not data.startswith(PNG_START):
        raise Unreadable(name, f"begins with {data[:8]!r}", "a PNG file")
    if len(data) < 33 or data[12:16] != b"IHDR":
        raise Unreadable(name, "no header", "a whole PNG file")
    found_width, found_height, bits, colour = struct.unpack_from(">IIBB", data, 16)
    if (bits, colour) != (8, CHANNELS[mode]):
        kinds = {0: "gray", 2: "RGB", 3: "palette", 4: "gray with alpha", 6: "RGBA"}
        raise Unreadable(name, f"{bits} bits of {kinds.get(colour, colour)}", f"8 bits of {mode if mode != 'L' else 'gray'}")
    if (found_width, found_height) != (width, height):
        raise Unreadable(name, f"{found_width} x {found_height} pixels", f"{width} x {height}")
    _check_chunks(data, name)
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            warnings.simplefilter("error")
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, EOFError, AttributeError, struct.error, zlib.error, Warning) as error:
        raise Unreadable(name, f"cannot be decoded ({error})", "a whole PNG file") from error
    except Image.DecompressionBombError as error:
        raise Unreadable(name, str(error), "a whole PNG file") from error
    if pixels.dtype != np.uint8 or pixels.shape[:2] != (height, width) or pixels.ndim != (2 if mode == "L" else 3):
        raise Unreadable(name, f"pixels of shape {pixels.shape}", f"{width} x {height} of {mode}")
    return pixels


def _check_chunks(data: bytes, where: str) -> None:
    """Raise Unreadable unless a PNG file is one header, pixels in adjacent parts and an end, each part whole."""
    kinds = list(_chunks(data, where))
    if (foreign := next((kind for kind in kinds if kind not in PARTS), None)) is not None:
        raise Unreadable(where, f"a part {foreign!r} beside the pixels", "pixels alone, without text, time, colour profile or whatever else")
    if kinds != [b"IHDR", *[b"IDAT"] * (len(kinds) - 2), b"IEND"] or len(kinds) < 3:
        said = ", ".join(str(kind) for kind in kinds[:8])
        raise Unreadable(where, f"the parts {said}", "one header, the pixels, an end")


def _chunks(data: bytes, where: str) -> Iterator[bytes]:
    """Yield the kinds of the chunks of a PNG file, each with its checksum compared. Raises Unreadable unless the file ends with the last one."""
    at, view = len(PNG_START), memoryview(data)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            break
        kind = data[at + 4 : at + 8]
        if zlib.crc32(view[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise Unreadable(where, f"a wrong checksum of its part {kind!r}", "a whole PNG file")
        yield kind
        at = end + 4
        if kind == b"IEND":
            if at < len(data):
                raise Unreadable(where, f"{len(data) - at} bytes after its end", "a whole PNG file")
            return
    raise Unreadable(where, "cut short", "a whole PNG file")
