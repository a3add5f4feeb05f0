"""A picture file -> RGB pixels in sRGB, or a verdict. What is cut is refused, never half gray."""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageCms, ImageFile

from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.codes import AssetRefused

Rgb = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF")
"""What is read. Pillow calls a JPEG with further pictures behind the first (a second eye) MPO: the first is taken."""
PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp")
LARGEST_SIDE = 32766
"""OpenCV's warp addresses pixels by int16."""

COLOURS = frozenset(("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16", "I;16L", "I;16B", "I;16N"))
"""Pillow's modes that have a colour here; others (float, 32 bits, Lab, premultiplied) are refused."""
_MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")
DAMAGED = (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, EOFError, RuntimeError, AttributeError, struct.error, zlib.error)
"""What Pillow's readers raise on damaged bytes. The bytes are in memory by then, so an OSError is no fault of a disk."""
_UNDO = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""EXIF orientation -> what undoes it."""


def read_photo(path: Path, settings: PhotoSettings | None = None, where: object = None) -> Rgb:
    """Return the pixels of a photo that can be a background, as the file stores them: EXIF orientation is ignored.

    settings : limits of size and shape.   where : what a verdict calls the file (default: its name).
    Returns (H, W, 3) uint8, RGB, sRGB: embedded profiles are converted, 16 bits scaled to 8, gray and CMYK made RGB, an opaque alpha dropped.
    Raises AssetRefused: unreadable_image, image_too_large, image_too_small, image_shape, image_unsupported; OSError where the machine is at fault.
    """
    limits = settings or PhotoSettings()
    name = path.name if where is None else where
    with open_picture(path, limits.max_pixels, name) as image:
        _check_shape(stored_size(image), limits, name)
        return to_rgb(image, name)


def _check_shape(size: tuple[int, int], limits: PhotoSettings, where: object) -> None:
    width, height = size
    found, aspect = f"{width} x {height} pixels", width / height
    if max(size) > LARGEST_SIDE:
        raise AssetRefused("image_too_large", where, found, f"no side of more than {LARGEST_SIDE}")
    if width < limits.min_width or (height < limits.min_height and aspect <= limits.max_aspect):
        raise AssetRefused("image_too_small", where, found, f"at least {limits.min_width} x {limits.min_height}")
    if not limits.min_aspect <= aspect <= limits.max_aspect:
        raise AssetRefused("image_shape", where, found, f"a width of {limits.min_aspect} to {limits.max_aspect} times the height")


@contextmanager
def open_picture(path: Path, max_pixels: int, where: object) -> Iterator[Image.Image]:
    """Yield an opened picture, not yet decoded. `to_rgb` decodes it inside the block.

    Raises AssetRefused: unreadable_image, image_too_large; image_unsupported for one that moves or has several pages.
    """
    data = path.read_bytes()  # from here on an OSError speaks of the picture, not of the disk
    with _pillow_set():
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        except DAMAGED as error:
            found = _said(error) if data else "no bytes"
            raise AssetRefused("unreadable_image", where, found, f"a picture ({', '.join(FORMATS)})") from error
        with image:
            width, height = image.size
            if width * height > max_pixels:
                raise AssetRefused("image_too_large", where, f"{width} x {height} pixels", f"at most {max_pixels} pixels")
            if frames > 1:
                raise AssetRefused("image_unsupported", where, f"{frames} frames or pages", "one picture")
            if image.format in ("JPEG", "MPO") and not is_whole_jpeg(data):
                raise AssetRefused("unreadable_image", where, "it ends before its end marker: cut", "a whole JPEG")
            yield image


@contextmanager
def _pillow_set() -> Iterator[None]:
    """Lift Pillow's own limit of pixels (ours stands in its place), hush its warnings, and have it refuse cut files whatever others set."""
    limit, cut = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = None, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = limit, cut


def _said(error: Exception) -> str:
    """Return what a library said, without addresses of its objects."""
    text = re.sub(r"<[^>]*>", "the file", str(error)) or type(error).__name__
    return text if len(text) <= 200 else text[:200] + "..."


def is_whole_jpeg(data: bytes) -> bool:
    """Return whether a JPEG's first picture reaches its end marker: one that is cut or zero-filled is decoded without an error, in gray."""
    at = 2
    while match := _MARKER.search(data, at):
        kind, at = match[1][0], match.end()
        if kind == 0xD9:
            return True
        if kind not in (0x01, 0xD8):
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
    return False


def stored_size(image: Image.Image) -> tuple[int, int]:
    """Return width and height as the file stores them; Pillow turns a TIFF by its orientation, which backgrounds ignore."""
    width, height = image.size
    return (height, width) if _tiff_orientation(image) in (5, 6, 7, 8) else (width, height)


def _tiff_orientation(image: Image.Image) -> Any:
    return image.getexif().get(ExifTags.Base.Orientation) if image.format == "TIFF" else None


def to_rgb(image: Image.Image, where: object) -> Rgb:
    """Return the pixels of an opened picture: (H, W, 3) uint8, sRGB. Raises AssetRefused: unreadable_image, image_unsupported."""
    if image.mode not in COLOURS:
        raise AssetRefused("image_unsupported", where, f"colour model {image.mode}", "gray, RGB, CMYK or palette, 8 or 16 bits")
    turn = _UNDO.get(_tiff_orientation(image))  # asked before decoding, which forgets it
    try:
        image.load()
    except DAMAGED as error:
        raise AssetRefused("unreadable_image", where, _said(error), "a whole picture") from error
    profile = image.info.get("icc_profile")
    plain = _in_srgb(_opaque(_eight_bits(image), where), profile)
    return np.array(plain if turn is None else plain.transpose(turn))


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return 16-bit gray scaled to 8 bits: Pillow's own conversion clips instead. Of 16-bit RGB it keeps the upper byte, which is near enough."""
    if not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image).astype(np.uint32)
    return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))


def _opaque(image: Image.Image, where: object) -> Image.Image:
    """Return the picture without its alpha or palette. Raises AssetRefused (image_unsupported) if any pixel is transparent."""
    if image.has_transparency_data:
        image = image.convert("RGBA")
        least = int(np.asarray(image.getchannel("A")).min())
        if least < 255:
            raise AssetRefused("image_unsupported", where, f"transparent pixels (alpha down to {least})", "an opaque picture")
        return image.convert("RGB")
    return image.convert("RGB") if image.mode in ("1", "P") else image


def _in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Return the picture as RGB in sRGB. A profile that cannot be read, or is of another colour model, is passed over, as browsers do."""
    if profile:
        try:
            return _converted(image, profile)
        except (ImageCms.PyCMSError, OSError, ValueError):
            pass
    return image.convert("RGB")


def _converted(image: Image.Image, profile: bytes) -> Image.Image:
    found = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    to = ImageCms.createProfile("sRGB")
    flags = ImageCms.Flags.BLACKPOINTCOMPENSATION
    result = ImageCms.profileToProfile(image, found, to, ImageCms.Intent.RELATIVE_COLORIMETRIC, "RGB", flags=flags)
    if result is None:
        raise ValueError("no conversion")
    return result
