"""A frame's arrays as files, against numbers worked out by hand."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sam3dvid.render.encode import depth_bytes, png_bytes, srgb8, straight_rgba8


def pixel(*values):
    return straight_rgba8(np.array([[values]], np.float32))[0, 0].tolist()


@pytest.mark.parametrize(("linear", "code"), [(0.0, 0), (0.2, 124), (0.5, 188), (0.8, 231), (1.0, 255), (-0.5, 0), (7.0, 255), (0.0001, 0), (0.00016, 1)])
def test_linear_light_has_its_srgb_code(linear, code):
    # 0.2: 255 * (1.055 * 0.2**(1/2.4) - 0.055) = 123.55;  0.00016 * 12.92 * 255 = 0.527
    assert srgb8(np.array([linear])).tolist() == [code]


@given(st.floats(0, 1))
def test_codes_are_the_formula_rounded_half_up(value):
    exact = 255 * (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055)
    assert abs(int(srgb8(np.array([value]))[0]) - exact) <= 0.5 + 1e-4


def test_colour_is_divided_by_alpha_before_it_is_encoded():
    # 0.4 / 0.5 = 0.8 is 231, and alpha 0.5 is 127.5, rounded up
    assert pixel(0.4, 0.25, 0.0, 0.5) == [231, 188, 0, 128]


def test_a_pixel_whose_alpha_rounds_to_0_has_no_colour():
    assert pixel(0.001, 0.001, 0.001, 0.00195) == [0, 0, 0, 0]


def test_colours_and_alpha_beyond_1_are_cut():
    assert pixel(3.0, 0.8, 0.2, 1.0) == [255, 231, 124, 255] and pixel(0.8, 0.8, 0.8, 1.0001) == [231, 231, 231, 255]


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 4)])
@pytest.mark.parametrize("level", [0, 4, 9])
def test_a_picture_comes_back_as_it_was(shape, level):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    with Image.open(io.BytesIO(png_bytes(pixels, level))) as image:
        assert np.array_equal(np.asarray(image), pixels) and image.info == {}


def test_depth_comes_back_as_it_was_with_its_gaps():
    depth = np.random.default_rng(0).uniform(1, 5, (6, 4)).astype(np.float32)
    depth[1:3] = np.nan
    found = np.load(io.BytesIO(depth_bytes(depth, 4)))
    assert found.files == ["depth"] and found["depth"].dtype == np.float32 and np.array_equal(found["depth"], depth, equal_nan=True)


def test_a_depth_file_has_the_earliest_date_that_a_zip_can_have():
    (member,) = zipfile.ZipFile(io.BytesIO(depth_bytes(np.ones((2, 2), np.float32), 4))).infolist()
    assert member.date_time == (1980, 1, 1, 0, 0, 0)
