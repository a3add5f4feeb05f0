"""Views of panoramas: the numbers of the specification, an independent sampler, the seam."""

from __future__ import annotations

import numpy as np
import pytest

from sam3dvid.backgrounds.projection import directions_px, prefilter, view


@pytest.mark.parametrize(("yaw", "expected"), [(0, 4095.5), (90, 6143.5), (180, 8191.5)])
def test_the_middle_of_a_view_looks_along_its_yaw(yaw, expected):
    x, y = directions_px(8192, 4096, yaw, 2049, 1025, 130.0)  # odd sizes have a pixel in their middle
    assert x[0, 1024] == pytest.approx(expected, abs=1e-9) and y[512, 1024] == pytest.approx(2047.5, abs=1e-9)


def test_the_outer_edges_of_a_view_lie_where_the_specification_says():
    x, y = directions_px(8192, 4096, 0, 2048, 1024, 130.0)
    left = 2 * x[0, 0] - 2616.389  # a step of half a pixel beyond u = 0 ends at u = -.5: bounded by the step itself
    assert x[0, 0] == pytest.approx(2616.389, abs=abs(x[0, 1] - x[0, 0])) and left < x[0, 1]
    assert y[0, 1023] == pytest.approx(978.058, abs=abs(y[1, 1023] - y[0, 1023]))


def panorama(width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (width // 2, width, 3), np.uint8)


def reference(picture, yaw_deg, width, height, hfov_deg):
    """Sample by unit vectors in float64, one pixel at a time."""
    tall, wide, _ = picture.shape
    g = (width / 2) / np.tan(np.radians(hfov_deg / 2))
    out = np.empty((height, width, 3))
    turn = np.radians(yaw_deg)
    for v in range(height):
        for u in range(width):
            a, b, c = (u - (width - 1) / 2) / g, (v - (height - 1) / 2) / g, 1.0
            a, c = a * np.cos(turn) + c * np.sin(turn), c * np.cos(turn) - a * np.sin(turn)
            a, b, c = np.array([a, b, c]) / np.sqrt(a * a + b * b + c * c)
            x = (np.arctan2(a, c) + np.pi) / (2 * np.pi) * wide - 0.5
            y = (np.pi / 2 + np.arcsin(b)) / np.pi * tall - 0.5
            i, j = int(np.floor(x)), int(np.floor(y))
            p, q = x - i, y - j

            def corner(dj, di, i=i, j=j):
                return picture[min(max(j + dj, 0), tall - 1), (i + di) % wide].astype(float)

            out[v, u] = (1 - q) * ((1 - p) * corner(0, 0) + p * corner(0, 1)) + q * ((1 - p) * corner(1, 0) + p * corner(1, 1))
    return out


@pytest.mark.parametrize("yaw", [0.0, 90.0, 180.0, 77.0])
def test_a_view_equals_an_independent_sampler(yaw):
    picture = panorama(88)  # small enough not to be averaged first
    assert np.abs(view(picture, yaw, 64, 32) - reference(picture, yaw, 64, 32, 130.0)).max() <= 0.51


def test_a_panorama_turned_by_a_quarter_gives_the_next_view():
    picture = panorama(1024, 1)
    turned = np.roll(picture, -256, axis=1)
    assert np.abs(view(picture, 180, 256, 128).astype(int) - view(turned, 90, 256, 128)).max() <= 1


def test_a_smooth_panorama_is_seen_as_its_formula_says_across_the_seam():
    wide = 8192
    lon = (np.arange(wide) + 0.5) / wide * 2 * np.pi - np.pi
    row = 127.5 + 100 * np.cos(lon)
    picture = np.repeat(np.repeat(row[None, :, None], wide // 2, 0), 3, 2).round().astype(np.uint8)
    seen = view(picture, 180, 512, 256)[128, :, 0]
    angle = np.arctan((np.arange(512) - 255.5) / (256 / np.tan(np.radians(65)))) + np.pi
    assert np.abs(seen - (127.5 + 100 * np.cos(angle))).max() <= 1.01


def test_the_prefilter_makes_3000_pixels_of_8192_and_leaves_smaller_ones():
    assert prefilter(np.zeros((4096, 8192, 3), np.uint8)).shape == (1500, 3000, 3)
    assert prefilter(np.zeros((512, 1024, 3), np.uint8)).shape == (512, 1024, 3)


def test_stripes_finer_than_a_view_become_their_mean():
    picture = np.zeros((4096, 8192, 3), np.uint8)
    picture[:, ::2] = 200
    seen = view(picture, 0, 2048, 64)
    # a mean of 2.73 pixels holds at most 1.73 bright ones: 127 of 200
    assert np.abs(seen.astype(int) - 100).max() <= 28, "without the prefilter it swings from 0 to 200"
