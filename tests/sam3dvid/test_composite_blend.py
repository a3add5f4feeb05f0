"""Foreground over background, against exact fractions; and what a PNG file holds."""

from __future__ import annotations

import io
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sam3dvid.composite.blend import over, png_bytes, png_pixels

LEVELS = st.integers(0, 255)


def one(fg, alpha, bg):
    return over(np.array([[[*fg, alpha]]], np.uint8), np.array([[bg]], np.uint8))[0, 0].tolist()


def chunks(data):
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8]
        at += 12 + length


def test_the_specified_pixel_is_blended_as_stored_and_not_in_linear_light():
    assert one((200, 120, 40), 128, (20, 220, 250)) == [110, 170, 145]


def test_every_alpha_over_every_pair_of_levels_rounds_the_exact_fraction():
    alpha, bg = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
    for fg in range(256):
        rgba = np.stack([np.full_like(alpha, fg)] * 3 + [alpha], axis=2).astype(np.uint8)
        found = over(rgba, np.repeat(bg[..., None], 3, axis=2).astype(np.uint8))[..., 0].astype(np.int64)
        # twice as fine as a step of 1 / 255: |255 found - exact numerator| is under a half of 255 everywhere
        assert (2 * np.abs(255 * found - (fg * alpha + bg * (255 - alpha))) < 255).all()


@given(fg=LEVELS, alpha=LEVELS, bg=LEVELS)
def test_a_pixel_is_the_exact_fraction_rounded_half_up(fg, alpha, bg):
    exact = Fraction(fg * alpha + bg * (255 - alpha), 255)
    assert one((fg, 0, 255), alpha, (bg, 0, 255)) == [math.floor(exact + Fraction(1, 2)), 0, 255]


@pytest.mark.parametrize("fg", [(0, 0, 0), (255, 1, 254)])
def test_background_is_untouched_where_alpha_is_0_whatever_colour_stands_there(fg):
    assert one(fg, 0, (7, 200, 93)) == [7, 200, 93]


def test_foreground_hides_the_background_where_alpha_is_255():
    assert one((7, 200, 93), 255, (255, 255, 255)) == [7, 200, 93]


def test_neither_picture_is_changed():
    rng = np.random.default_rng(0)
    rgba, back = rng.integers(0, 256, (8, 8, 4), np.uint8), rng.integers(0, 256, (8, 8, 3), np.uint8)
    before = rgba.copy(), back.copy()
    over(rgba, back)
    assert np.array_equal(rgba, before[0]) and np.array_equal(back, before[1])


def test_a_png_holds_its_header_its_pixels_and_its_end_alone():
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 3), np.uint8)
    assert set(chunks(png_bytes(noise))) == {b"IHDR", b"IDAT", b"IEND"}


@pytest.mark.parametrize("kind", ["noise", "flat", "ramp"])
def test_another_reader_gets_every_pixel_of_a_png_back(kind):
    ramp = np.add.outer(np.arange(90), np.arange(70))[..., None] + [0, 40, 90]
    noise = np.random.default_rng(1).integers(0, 256, (90, 70, 3))
    pixels = {"noise": noise, "flat": np.full((90, 70, 3), 77), "ramp": ramp % 256}[kind].astype(np.uint8)
    with Image.open(io.BytesIO(png_bytes(pixels))) as image:
        assert image.mode == "RGB" and np.array_equal(np.asarray(image), pixels)


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGBA", 4)])
def test_pixels_of_another_writers_png_are_read_as_they_are(mode, channels):
    pixels = np.random.default_rng(2).integers(0, 256, (20, 30, 4), np.uint8)
    shown = pixels[..., 0] if channels == 1 else pixels
    file = io.BytesIO()
    Image.fromarray(shown).save(file, "png")
    assert np.array_equal(png_pixels(file.getvalue(), channels), shown)


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_png_of_other_channels_is_no_foreground(mode):
    file = io.BytesIO()
    Image.new(mode, (4, 4)).save(file, "png")
    with pytest.raises(ValueError, match="4 channels"):
        png_pixels(file.getvalue(), 4)
