"""Faults of a clip's pictures and depth."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.sam3dvid.datasets import SCALES
from tests.sam3dvid.spoiled import (
    ONE,
    T1,
    THREE,
    Fault,
    data,
    depth,
    flip,
    inside,
    picture,
    pixel,
)


def two_arrays(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        array = archive.read("depth.npy")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("depth.npy", array)
        archive.writestr("other.npy", array)
    return out.getvalue()


def sixteen_bits(root: Path) -> None:
    Image.fromarray(np.zeros((64, 64), np.uint16)).save(root / ONE / "mask_visible/001.png")


def dated(root: Path) -> None:
    """Save a picture as renderers do: with the date beside it."""
    path, info = root / THREE / "rgba_fg/001.png", PngInfo()
    info.add_text("Date", "2026/10/28 12:00:00")
    with Image.open(path) as image:
        image.copy().save(path, pnginfo=info)


def clear_colour(root: Path) -> None:
    path = root / THREE / "rgb/001.png"
    with Image.open(path) as image:
        image.copy().save(path, transparency=(1, 2, 3))


def chunk(kind: bytes, payload: bytes = b"", before: bytes = b"IDAT") -> Callable[[bytes], bytes]:
    """Return what puts one more chunk into a PNG file, before the first of a kind."""

    def change(content: bytes) -> bytes:
        at = content.index(before) - 4
        made = struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))
        return content[:at] + made + content[at:]

    return change


def parted(content: bytes) -> bytes:
    """Return a PNG file whose header comes twice."""
    return content[:33] + content[8:33] + content[33:]


def commented(content: bytes) -> bytes:
    return content[:-2] + b"\5\0hello"


def soft(value: int) -> Callable[[np.ndarray], None]:
    """Return what gives every pixel without alpha a gray of this alpha."""

    def change(pixels: np.ndarray) -> None:
        pixels[pixels[..., 3] == 0] = (9, 9, 9, value)

    return change


def bare_inside(pixels: np.ndarray) -> None:
    """Take one pixel away whose neighbours all are solid."""
    solid = pixels[..., 3] == 255
    inner = np.logical_and.reduce([np.roll(solid, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    pixels[tuple(np.argwhere(inner)[0])] = 0


def linear_blend(root: Path) -> None:
    """Let the background shine through borders as if light, not colour, were mixed."""
    rgba = np.array(Image.open(root / THREE / "rgba_fg/001.png"))
    picture(f"{THREE}/rgb/001.png", lambda old: np.where(rgba[..., 3:] == 64, 255, old).astype(np.uint8))(root)


def dark_border(root: Path) -> None:
    """Let a bright border be darker in rgb than its own part of it."""
    edge = np.array(Image.open(root / THREE / "rgba_fg/001.png"))[..., 3:] == 64
    picture(f"{THREE}/rgb/001.png", lambda old: np.where(edge, 0, old).astype(np.uint8))(root)


CENTRE_DEPTH = 3.9
"""Of the one object of clip ONE in every frame: the cameras look at its centre, which is so far away."""

PICTURES = [
    Fault("mask value above N", picture(f"{THREE}/mask_visible/001.png", pixel(4)), T1, f"{THREE}/mask_visible/001.png: the value 4, expected 0 to 3"),
    Fault("gray amodal", picture(f"{THREE}/mask_amodal/obj1/001.png", pixel(128)), T1, "mask_amodal/obj1/001.png: the value 128, expected 0 and 255"),
    Fault("amodal of ones", picture(f"{ONE}/mask_amodal/obj1/000.png", lambda old: old // 255), T1, "mask_amodal/obj1/000.png: the value 1,"),
    Fault(
        "visible outside amodal",
        picture(f"{THREE}/mask_amodal/obj1/002.png", lambda old: np.zeros_like(old)),
        T1,
        "visible pixels of object 1 outside its silhouette",
    ),
    Fault(
        "rgb with alpha", picture(f"{THREE}/rgb/000.png", lambda old: np.dstack([old, old[..., :1]])), T1, "rgb/000.png: 8 bits of RGBA, expected 8 bits of RGB"
    ),
    Fault("gray rgb", picture(f"{THREE}/rgb/001.png", lambda old: old[..., 0]), T1, "rgb/001.png: 8 bits of gray"),
    Fault("16-bit mask", sixteen_bits, T1, "mask_visible/001.png: 16 bits of gray"),
    Fault("other size", picture(f"{THREE}/rgba_fg/001.png", lambda old: old[:63]), T1, "rgba_fg/001.png: 64 x 63 pixels, expected 64 x 64"),
    Fault("cut picture", data(f"{THREE}/rgb/001.png", lambda old: old[:-40]), T1, "rgb/001.png: cut short"),
    Fault("flipped bit", data(f"{THREE}/rgb/002.png", flip(60)), T1, "rgb/002.png: a wrong checksum of its part b'IDAT'"),
    Fault("bytes behind a picture", data(f"{THREE}/rgb/002.png", lambda old: old + b"x"), T1, "rgb/002.png: 1 bytes after its end"),
    Fault("date in a picture", dated, T1, "rgba_fg/001.png: a part b'tEXt' beside the pixels"),
    Fault("transparent colour", clear_colour, T1, "rgb/001.png: a part b'tRNS' beside the pixels"),
    Fault("resolution of a picture", data(f"{THREE}/rgb/001.png", chunk(b"pHYs", bytes(9))), T1, "rgb/001.png: a part b'pHYs' beside the pixels"),
    Fault("colour profile", data(f"{THREE}/rgb/001.png", chunk(b"gAMA", bytes(4))), T1, "rgb/001.png: a part b'gAMA' beside the pixels"),
    Fault("private part with a path", data(f"{THREE}/rgb/001.png", chunk(b"paTh", b"/home/me")), T1, "rgb/001.png: a part b'paTh' beside the pixels"),
    Fault("two headers", data(f"{THREE}/rgb/001.png", parted), T1, "rgb/001.png: the parts b'IHDR', b'IHDR', b'IDAT'"),
    Fault(
        "empty pixels behind a second header", data(f"{THREE}/rgb/001.png", chunk(b"IHDR", bytes(13), b"IEND")), T1, "rgb/001.png: the parts b'IHDR', b'IDAT'"
    ),
    Fault("hole within an object", picture(f"{THREE}/rgba_fg/001.png", bare_inside), T1, "rgba_fg/001.png: 1 pixels inside objects without alpha"),
    Fault("no foreground", picture(f"{THREE}/rgba_fg/001.png", np.zeros_like), T1, "pixels inside objects without alpha"),
    Fault("foreground everywhere", picture(f"{THREE}/rgba_fg/001.png", soft(255)), T1, "solid pixels away from every object"),
    Fault("haze everywhere", picture(f"{THREE}/rgba_fg/001.png", soft(3)), T1, "pixels away from every object, of"),
    Fault("white borders", linear_blend, T1, "rgb/001.png: "),
    Fault("dark borders", dark_border, T1, "pixels of borders in a colour that no background makes"),
    Fault("empty picture", data(f"{THREE}/rgba_fg/002.png", lambda _: b""), T1, "rgba_fg/002.png: begins with b''"),
    Fault("colour without alpha", picture(f"{THREE}/rgba_fg/000.png", pixel((9, 9, 9, 0))), T1, "rgba_fg/000.png: 1 pixels with a colour but without alpha"),
    Fault("premultiplied twice", picture(f"{ONE}/rgb/001.png", lambda old: (old * 0.8).astype(np.uint8)), T1, "rgb/001.png: "),
    Fault("depth of float64", depth(f"{THREE}/depth/001.npz", lambda old: old.astype(np.float64)), T1, "depth/001.npz: an array of"),
    Fault(
        "depth of float16",
        depth(f"{THREE}/depth/001.npz", lambda old: old.astype(np.float16)),
        T1,
        "depth/001.npz: float16 of shape (64, 64), expected float32",
    ),
    Fault("depth under another key", depth(f"{THREE}/depth/001.npz", lambda old: None, "z"), T1, "depth/001.npz: the arrays z.npy, expected one array"),
    Fault("two arrays", data(f"{THREE}/depth/001.npz", two_arrays), T1, "depth/001.npz: the arrays depth.npy, other.npy"),
    Fault("depth of 0 as background", depth(f"{THREE}/depth/002.npz", lambda old: np.nan_to_num(old)), T1, "pixels of the background with a depth"),
    Fault("infinite background", depth(f"{THREE}/depth/002.npz", pixel(np.inf)), T1, "1 pixels of the background with a depth"),
    Fault("hole in the depth", depth(f"{THREE}/depth/002.npz", inside(np.nan)), T1, "1 pixels of objects without depth"),
    Fault("negative depth", depth(f"{THREE}/depth/002.npz", inside(-2.0)), T1, "1 depths such as -2.0"),
    Fault("depth along the ray", depth(f"{THREE}/depth/002.npz", lambda old: old * 1.2), T1, "depth/002.npz: depths of object 1 from"),
    Fault("depth beyond the object", depth(f"{ONE}/depth/002.npz", inside(CENTRE_DEPTH + 1.1 * SCALES[0])), T1, "depth/002.npz: depths of object 1 from"),
    Fault("depth before the object", depth(f"{ONE}/depth/002.npz", inside(CENTRE_DEPTH - 1.1 * SCALES[0])), T1, "depth/002.npz: depths of object 1 from"),
    Fault("depth in another unit", depth(f"{ONE}/depth/002.npz", lambda old: old / 1000), T1, "depth/002.npz: depths of object 1 from 0.00"),
    Fault("bytes before a depth", data(f"{THREE}/depth/002.npz", lambda old: b"junk" + old), T1, "depth/002.npz: 4 bytes beside the array"),
    Fault("comment of a depth", data(f"{THREE}/depth/002.npz", commented), T1, "depth/002.npz: 5 bytes beside the array"),
    Fault("cut depth", data(f"{THREE}/depth/003.npz", lambda old: old[:-30]), T1, "depth/003.npz: cannot be read"),
    Fault(
        "flipped bit of a depth", data(f"{THREE}/depth/003.npz", lambda old: old[:200] + bytes([old[200] ^ 1]) + old[201:]), T1, "depth/003.npz: cannot be read"
    ),
    Fault("depth in Fortran order", depth(f"{THREE}/depth/003.npz", lambda old: np.asfortranarray(old)), T1, "depth/003.npz: Fortran order"),
]
