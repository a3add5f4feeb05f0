"""A panorama file (JPEG, PNG, Radiance HDR, OpenEXR) -> sRGB pixels of the full sphere, or a verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sam3dvid.backgrounds.images import Rgb, open_picture, stored_size, to_rgb
from sam3dvid.codes import AssetRefused

MAX_PIXELS = 400_000_000
"""The largest panoramas there are: 24576 x 12288."""
MIN_WIDTH = 1024
"""A view of 2048 pixels shows a third of the panorama: from a narrower one it would be enlarged more than six times."""
MIDDLE_GRAY = 0.18
"""The luminance that the median pixel of an HDR panorama is exposed to. Source: defaults, "Clips"."""
LUMINANCE = np.array([0.2126, 0.7152, 0.0722], np.float32)
"""Weights of linear R, G, B (BT.709)."""

SUFFIXES = (".jpg", ".jpeg", ".png", ".hdr", ".exr")
_EXR_MAGIC, _HDR_MAGIC = b"\x76\x2f\x31\x01", b"#?"
_HDR_SIZE = re.compile(rb"\n-Y +([0-9]+) +\+X +([0-9]+)\n")
BLOCK_ROWS = 256

Linear = NDArray[np.float32]
Pixels = TypeVar("Pixels", NDArray[np.uint8], NDArray[np.float32])


def read_panorama(path: Path, where: object = None) -> Rgb:
    """Return an equirectangular panorama as it is seen: upright, row 0 is straight up, the middle column is yaw 0.

    where : what a verdict calls the file (default: its name).   Returns (EH, 2 EH, 3) uint8, RGB, sRGB. JPEG and PNG are taken as tone-mapped already;
    HDR and EXR, linear BT.709, are scaled so that their median luminance is 0.18, cut off at 1 and encoded. Negative values count as 0, infinite ones as white.
    Raises AssetRefused: not_equirectangular, unreadable_image, image_too_small, image_too_large, image_unsupported, too_dark; OSError where the
    machine is at fault.
    """
    return read_reduced(path, MAX_PIXELS, where)[0]


def read_reduced(path: Path, most_width: int, where: object = None) -> tuple[Rgb, int]:
    """Return a panorama as `read_panorama` does, averaged down to `most_width` pixels where it is wider, and the width that its file has.

    HDR and EXR are exposed by all of their pixels and cut off, then averaged in linear light, and encoded last. So a cell has the light of the pixels that
    it stands for as they are seen: encoded first, a cell half black and half white would be 128 in place of 188; averaged before the cut, one pixel of the sun
    would make a white block of its cell. JPEG and PNG, whose tones are given, are averaged as they are.
    """
    name = path.name if where is None else where
    with open(path, "rb") as file:
        head = file.read(4096)
    if head.startswith(_EXR_MAGIC):
        return _exposed(_read_exr(path, name), LUMINANCE, most_width, name)
    if head.startswith(_HDR_MAGIC):
        picture, width = _exposed(_read_hdr(path, head, name), LUMINANCE[::-1], most_width, name)
        return np.ascontiguousarray(picture[..., ::-1]), width
    with open_picture(path, MAX_PIXELS, name) as image:
        width, height = stored_size(image)
        _check_size(width, height, name)
        return reduced(to_rgb(image, name), most_width), width


def reduced(panorama: Pixels, most_width: int) -> Pixels:
    """Return a panorama averaged by area to `most_width` x `most_width` / 2 pixels, or as it is if it is no wider. (H, 2 H, 3), uint8 or float32."""
    import cv2

    if panorama.shape[1] <= most_width:
        return panorama
    return cast(Pixels, cv2.resize(panorama, (most_width, most_width // 2), interpolation=cv2.INTER_AREA))


def _check_size(width: int, height: int, where: object) -> None:
    found = f"{width} x {height} pixels"
    if width != 2 * height:
        raise AssetRefused("not_equirectangular", where, found, "a width of twice the height")
    if width * height > MAX_PIXELS:
        raise AssetRefused("image_too_large", where, found, f"at most {MAX_PIXELS} pixels")
    if width < MIN_WIDTH:
        raise AssetRefused("image_too_small", where, found, f"a width of {MIN_WIDTH} or more")


def _read_hdr(path: Path, head: bytes, where: object) -> Linear:
    """Return the linear pixels of a Radiance file: (H, W, 3) float32, blue first."""
    import cv2

    if (size := _HDR_SIZE.search(head)) is None:
        raise AssetRefused("unreadable_image", where, "no line such as -Y 512 +X 1024", "a Radiance picture whose first row is the top")
    _check_size(int(size[2]), int(size[1]), where)
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.dtype != np.float32:
        raise AssetRefused("unreadable_image", where, "its pixels cannot be read", "a whole Radiance picture")
    return cast(Linear, pixels)


def _read_exr(path: Path, where: object) -> Linear:
    """Return the linear pixels of an OpenEXR file, chromaticities as BT.709: (H, W, 3) float32, RGB."""
    import OpenEXR  # opencv's wheel is built without it

    try:
        with OpenEXR.File(str(path), header_only=True) as file:
            data, display = (np.array(file.header()[name]) for name in ("dataWindow", "displayWindow"))
        width, height = (data[1] - data[0] + 1).tolist()
        _check_size(width, height, where)
        if not np.array_equal(data, display):
            raise AssetRefused("not_equirectangular", where, "a data window that is not the display window", "the whole sphere")
        with OpenEXR.File(str(path)) as file:
            channels = {name: channel.pixels for name, channel in file.channels().items()}
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise AssetRefused("unreadable_image", where, "its pixels cannot be read", "a whole OpenEXR picture") from error
    return _rgb_channels(channels, where)


def _rgb_channels(channels: dict[str, NDArray[np.float32]], where: object) -> Linear:
    """Return R, G, B of an OpenEXR file's channels, ours to overwrite; OpenEXR keys those that belong together by their joined names."""
    if "RGB" in channels:
        pixels = channels["RGB"]
    elif "RGBA" in channels:
        pixels, alpha = channels["RGBA"][..., :3], channels["RGBA"][..., 3]
        if alpha.min() < 1:
            raise AssetRefused("image_unsupported", where, f"transparent pixels (alpha down to {alpha.min()})", "an opaque picture")
    elif "Y" in channels:
        pixels = np.repeat(channels["Y"][..., None], 3, axis=2)
    else:
        raise AssetRefused("image_unsupported", where, f"channels {', '.join(sorted(channels))}", "R, G, B")
    if pixels.dtype not in (np.float16, np.float32):
        raise AssetRefused("image_unsupported", where, f"channels of {pixels.dtype}", "half or float")
    return np.require(pixels, np.float32, ("C", "W"))


def _exposed(linear: Linear, weights: Linear, most_width: int, where: object) -> tuple[Rgb, int]:
    """Return linear pixels as sRGB, exposed by their median luminance and averaged down, and their width. An 8K panorama fills 400 MB: worked on in place.

    linear : (H, W, 3) float32; overwritten.   weights : (3,) float32, of its channels in the luminance.
    """
    width = linear.shape[1]
    np.maximum(linear, np.float32(0), out=linear)  # keeps NaN
    median = _median(linear, weights, where)
    scale = MIDDLE_GRAY / median if median > 0 else np.inf
    if not np.isfinite(scale) or scale == 0 or scale > np.finfo(np.float32).max:
        raise AssetRefused("too_dark", where, f"median luminance {median}", "light on at least half of the sphere")
    with np.errstate(over="ignore"):  # cut off at 1 next
        np.multiply(linear, np.float32(scale), out=linear)
    np.minimum(linear, np.float32(1), out=linear)
    small = reduced(linear, most_width)
    picture = np.empty(small.shape, np.uint8)
    for top in range(0, len(small), BLOCK_ROWS):
        picture[top : top + BLOCK_ROWS] = srgb_bytes(small[top : top + BLOCK_ROWS])
    return picture, width


def _median(linear: Linear, weights: Linear, where: object) -> float:
    """Return the median luminance of all pixels: their number is even (2 H x H), so the mean of the two in the middle.

    Raises AssetRefused (unreadable_image) for NaN.
    """
    import cv2

    luminance = cv2.transform(linear, weights[None, :]).reshape(-1)
    if unknown := int(np.isnan(luminance).sum()):
        raise AssetRefused("unreadable_image", where, f"{unknown} pixels that are NaN", "numbers")
    half = luminance.size // 2
    luminance.partition(half)
    return (float(luminance[half]) + float(luminance[:half].max())) / 2


def srgb_bytes(linear: NDArray[np.float32]) -> Rgb:
    """Return linear light as sRGB bytes: cut off at 1, encoded (IEC 61966-2-1), rounded to nearest.

    linear : float32, any shape, 0 or more.   Returns uint8 of that shape.
    """
    light = np.minimum(linear, np.float32(1))
    power = np.float32(1.055) * np.power(light, np.float32(1 / 2.4)) - np.float32(0.055)
    encoded = np.where(light <= np.float32(0.0031308), np.float32(12.92) * light, power)
    rounded: Rgb = (encoded * np.float32(255) + np.float32(0.5)).astype(np.uint8)
    return rounded
