"""The pictures of a sample: a frame as JPEG, with what that cost it, and a mask as a PNG of the same pixels."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, features

from sam3dvid.export.clips import bad_clip
from sam3dvid.export_reader import NO_PICTURE
from shardwork.jsonio import Json

Picture = NDArray[np.uint8]

QUALITY = 95
FULL_CHROMA = 0
"""Pillow's name for 4:4:4: no colour sample is shared between pixels."""
PNG_LEVEL = 6
LOSSLESS_DB = 100.0
"""What stands for a JPEG whose pixels are those of its PNG: JSON has no infinity."""
PNG_START = b"\x89PNG\r\n\x1a\n"
PIXELS_ALONE = {b"IHDR", b"IDAT", b"IEND"}
TRANSPARENCY, ANIMATION = b"tRNS", b"acTL"
GRAY, RGB, PALETTE = 0, 2, 3
"""Colour types of a PNG file's header."""


def encoders() -> dict[str, Json]:
    """Return what makes the bytes of pictures: libraries, versions and settings."""
    jpeg = {"library": "Pillow", "version": PIL.__version__, "libjpeg": _libjpeg(), "quality": QUALITY, "chroma": "4:4:4", "progressive": False}
    png = {"library": "Pillow", "version": PIL.__version__, "zlib": str(features.version("zlib")), "level": PNG_LEVEL}
    return {"jpeg": jpeg, "png": png}


def _libjpeg() -> str:
    turbo = features.version("libjpeg_turbo") if features.check("libjpeg_turbo") else None
    return f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}"


def _chunks(data: bytes, where: object) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the kind and the content of each chunk of a PNG file. Raises AssetRefused (bad_clip) unless all are whole and nothing follows the last."""
    if not data.startswith(PNG_START):
        raise bad_clip(where, f"begins with {data[:8]!r}", "a PNG file")
    at, view = len(PNG_START), memoryview(data)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            break
        kind = data[at + 4 : at + 8]
        if zlib.crc32(view[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise bad_clip(where, f"a wrong checksum of its part {kind!r}", "a whole PNG file")
        yield kind, view[at + 8 : end]
        at = end + 4
        if kind == b"IEND":
            if at < len(data):
                raise bad_clip(where, f"{len(data) - at} bytes after its end", "a whole PNG file")
            return
    raise bad_clip(where, "cut short", "a whole PNG file")


def _look(data: bytes, where: object, width: int, height: int) -> tuple[int, set[bytes], bool]:
    """Return a PNG file's colour type, kinds of parts, and whether it is interlaced. Every checksum is compared: decoders let some flipped bytes pass."""
    parts = list(_chunks(data, where))
    if parts[0][0] != b"IHDR" or len(parts[0][1]) != 13:
        raise bad_clip(where, "no header", "a whole PNG file")
    found_width, found_height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    if (found_width, found_height) != (width, height):
        raise bad_clip(where, f"{found_width} x {found_height} pixels", f"{width} x {height}")
    if bits != 8:
        raise bad_clip(where, f"{bits} bits a channel", "8")
    kinds = {kind for kind, _ in parts}
    if ANIMATION in kinds:
        raise bad_clip(where, "an animated picture", "one picture")
    return colour, kinds, bool(interlaced)


def rgb_pixels(data: bytes, where: object, width: int, height: int) -> Picture:
    """Return the pixels of a frame: (H, W, 3) uint8, RGB.   data : a PNG file of 8 bits of RGB.   Raises AssetRefused (bad_clip)."""
    colour, kinds, _ = _look(data, where, width, height)
    if colour != RGB:
        raise bad_clip(where, f"colour type {colour}", f"{RGB}, which is RGB")
    if TRANSPARENCY in kinds:
        raise bad_clip(where, "a transparent colour (part tRNS)", "an opaque picture")
    found: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found is None or found.dtype != np.uint8 or found.shape != (height, width, 3):
        raise bad_clip(where, "cannot be decoded", "a whole PNG file")
    pixels: Picture = cv2.cvtColor(found, cv2.COLOR_BGR2RGB)
    return pixels


def mask_png(data: bytes, where: object, width: int, height: int, num_objects: int) -> bytes:
    """Return a mask as a PNG file of 8 bits of gray that holds its pixels alone: the same bytes where they are that already, else encoded anew.

    data : a PNG file whose values are object numbers, gray or indices of a palette.   Raises AssetRefused (bad_clip), also for a number above
    `num_objects`.
    """
    colour, kinds, interlaced = _look(data, where, width, height)
    if colour not in (GRAY, PALETTE):
        raise bad_clip(where, f"colour type {colour}", f"{GRAY} or {PALETTE}, which are gray and palette")
    pixels = _decoded(data, where)
    if pixels.dtype != np.uint8 or pixels.shape != (height, width):
        raise bad_clip(where, f"pixels of shape {pixels.shape}", f"({height}, {width})")
    if (most := int(pixels.max(initial=0))) > num_objects:
        raise bad_clip(where, f"the object number {most}", f"0 to {num_objects}")
    if colour == GRAY and kinds == PIXELS_ALONE and not interlaced:
        return data
    buffer = io.BytesIO()
    # from the array: no palette and no text of the file goes along
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=PNG_LEVEL)
    return buffer.getvalue()


def _decoded(data: bytes, where: object) -> Picture:
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.asarray(image)
    except NO_PICTURE as error:
        raise bad_clip(where, f"cannot be decoded ({error})", "a whole PNG file") from error


def jpeg(pixels: Picture) -> bytes:
    """Return a frame as a JPEG file: quality 95, 4:4:4, baseline.   pixels : (H, W, 3) uint8, RGB. Equal pixels give equal bytes with `encoders`."""
    buffer = io.BytesIO()
    # from the array: a colour profile of the PNG would go along otherwise
    Image.fromarray(pixels).save(buffer, "JPEG", quality=QUALITY, subsampling=FULL_CHROMA)
    return buffer.getvalue()


def psnr_db(pixels: Picture, encoded: bytes) -> float:
    """Return how near a JPEG comes to the pixels it was made from: 10 log10(255^2 / mean squared difference) over all channels, to 0.001 dB.

    pixels : (H, W, 3) uint8, RGB.   encoded : the JPEG, of the same size.   Returns 100 for equal pixels.
    """
    with Image.open(io.BytesIO(encoded), formats=["JPEG"]) as image:
        decoded = np.asarray(image)
    squares = round(cv2.norm(pixels, decoded, cv2.NORM_L2SQR))
    return LOSSLESS_DB if squares == 0 else round(10 * math.log10(255**2 * pixels.size / squares), 3)
