"""The files of a dataset, read with one clear fault for each that cannot be read. Nothing in a file is trusted, its own sizes included."""

from __future__ import annotations

import io
import json
import lzma
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shardwork.errors import DataError, Problem
from shardwork.jsonio import Json, loads

PNG_START = b"\x89PNG\r\n\x1a\n"
CHANNELS = {"L": 0, "RGB": 2, "RGBA": 6}
"""Mode of a picture -> colour type in a PNG file's header."""
UNWANTED = {b"tEXt": "text", b"zTXt": "text", b"iTXt": "text", b"tIME": "a time", b"eXIf": "camera data", b"tRNS": "a transparent colour"}
"""Parts of a PNG file that no picture here has: renderers write dates, hosts and paths into them, or they change what is seen."""
NPY_HEADER_BYTES = 4096
"""More than the header of any array here takes."""
LARGEST_JSON_BYTES = 64 << 20
BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError, struct.error, OSError)
"""What damaged bytes in memory make of a zip's reader; the disk is out of it by then."""


class Unreadable(Exception):
    """A file that is not there, or cannot be read as what it should be.   problem : what is wrong with it."""

    def __init__(self, where: str, found: str, expected: str) -> None:
        super().__init__(where, found, expected)
        self.problem = Problem(where, found, expected)


class UnsortedKeys(ValueError):
    """Keys of a JSON object that are not in order."""


def read_bytes(root: Path, name: str, most: int | None = None) -> bytes:
    """Return the bytes of a file of the dataset.   name : path relative to the dataset.   most : bytes that it may have.

    Raises Unreadable if there is no such file or it is too long, OSError where the machine does not let us look.
    """
    path = root / name
    try:
        if not path.is_file():
            raise Unreadable(name, "no such file" if not os.path.lexists(path) else "a folder" if path.is_dir() else "no regular file", "a file")
        if most is not None and (size := path.stat().st_size) > most:
            raise Unreadable(name, f"{size} bytes", f"at most {most}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise Unreadable(name, "no such file", "a file") from error


def _in_order(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    keys = [key for key, _ in pairs]
    for before, after in pairwise(keys):
        if before > after:
            raise UnsortedKeys(f"key {after!r} after {before!r}")
    return dict(pairs)


def parse_json(data: bytes, where: str) -> Json:
    """Return the value of JSON bytes as this format has it: UTF-8, LF, sorted keys, no key twice, no NaN. Raises Unreadable."""
    try:
        text = data.decode("utf-8")
        value = loads(text, where)
        json.loads(text, object_pairs_hook=_in_order)
    except UnicodeDecodeError as error:
        raise Unreadable(where, f"byte {error.start} is not UTF-8", "JSON in UTF-8") from error
    except DataError as error:
        raise Unreadable(where, error.found, "strict JSON") from error
    except UnsortedKeys as error:
        raise Unreadable(where, str(error), "sorted keys") from error
    if "\r" in text:
        raise Unreadable(where, "a carriage return", "lines that end in LF alone")
    return value


def read_json(root: Path, name: str) -> Json:
    """Return the value of a JSON file, which must end in a line feed. Raises Unreadable, OSError."""
    data = read_bytes(root, name, LARGEST_JSON_BYTES)
    value = parse_json(data, name)
    if not data.endswith(b"\n"):
        raise Unreadable(name, "no line feed at the end", "a last line that ends in LF")
    return value


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
    """Raise Unreadable unless the chunks of a PNG file are whole, and such as a picture here may have."""
    if (unwanted := next((UNWANTED[kind] for kind in _chunks(data, where) if kind in UNWANTED), None)) is not None:
        raise Unreadable(where, f"{unwanted} beside the pixels", "pixels alone, without text, time or transparent colour")


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


def read_depth(root: Path, name: str, width: int, height: int) -> NDArray[np.float32]:
    """Return the depth of a frame: (H, W) float32, the one array of the file. Raises Unreadable, OSError."""
    data = read_bytes(root, name)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if [member.filename for member in members] != ["depth.npy"]:
                raise Unreadable(name, f"the arrays {', '.join(member.filename for member in members) or 'none'}", "one array, depth.npy")
            if members[0].file_size > 4 * width * height + NPY_HEADER_BYTES:
                raise Unreadable(name, f"an array of {members[0].file_size} bytes", f"float32 of shape ({height}, {width})")
            inner = archive.read(members[0])  # compares the checksum
    except BROKEN_ZIP as error:
        raise Unreadable(name, f"cannot be read ({error})", "a whole NPZ file") from error
    return parse_array(inner, name, np.dtype("<f4"), (height, width))


def parse_array(data: bytes, where: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array of the bytes of an NPY file, which is of this dtype and shape, C order, with nothing behind it. Raises Unreadable."""
    file = io.BytesIO(data)
    try:
        layout: Any = np.lib.format
        header = {(1, 0): layout.read_array_header_1_0, (2, 0): layout.read_array_header_2_0}[layout.read_magic(file)]
        found_shape, fortran, found_dtype = header(file)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, EOFError, TokenError) as error:
        raise Unreadable(where, f"no header of an array ({error})", "an NPY file") from error
    if (found_dtype, found_shape) != (dtype, shape):
        raise Unreadable(where, f"{found_dtype} of shape {found_shape}", f"{dtype} of shape {shape}")
    body = data[file.tell() :]
    if len(body) != dtype.itemsize * int(np.prod(shape)):
        raise Unreadable(where, f"{len(body)} bytes of values", f"{dtype.itemsize * int(np.prod(shape))}")
    if fortran:
        raise Unreadable(where, "Fortran order", "C order")
    return np.frombuffer(body, dtype).reshape(shape)
