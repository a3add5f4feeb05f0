"""The files of a dataset, read with one clear fault for each that cannot be read. Nothing in a file is trusted, its own sizes included."""

from __future__ import annotations

import io
import json
import lzma
import os
import struct
import zipfile
import zlib
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardwork.errors import DataError, Problem
from shardwork.jsonio import Json, loads

NPY_HEADER_BYTES = 4096
"""More than the header of any array here takes."""
LOCAL_HEADER, LIST_ENTRY, LIST_END, STREAMED = 30, 46, 22, 0x8
"""Bytes of a zip's parts, and the flag of a member that was written without knowing its size, with a description of 12 to 24 bytes behind it."""
MOST_EXTRA = 32
"""Bytes that a member says further of itself: sizes of 64 bits take 20 or 28."""
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
            junk = _beside(archive, data)
    except BROKEN_ZIP as error:
        raise Unreadable(name, f"cannot be read ({error})", "a whole NPZ file") from error
    if junk:
        raise Unreadable(name, f"{junk} bytes beside the array", "one array and nothing else")
    return parse_array(inner, name, np.dtype("<f4"), (height, width))


def _beside(archive: zipfile.ZipFile, data: bytes) -> int:
    """Return how many bytes of a zip file belong neither to its one member nor to what lists it."""
    (member,) = archive.infolist()
    name_bytes: int
    extra_bytes: int
    name_bytes, extra_bytes = struct.unpack_from("<HH", data, member.header_offset + 26)
    described = (0,) if not member.flag_bits & STREAMED else (12, 16, 20, 24)
    used = LOCAL_HEADER + name_bytes + member.compress_size + LIST_ENTRY + len(member.orig_filename) + LIST_END
    spare: int = max(0, extra_bytes - MOST_EXTRA) + max(0, len(member.extra) - MOST_EXTRA)
    left = len(data) - used - extra_bytes - len(member.extra)
    return spare + min(abs(left - size) for size in described)


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
