"""T1's look at edges: shifted alpha and premultiplied colours are told apart from honest renders."""

from __future__ import annotations

import numpy as np
import pytest

from sam3dvid.validate.edges import look_at_edges

SIDE, FINE = 128, 16


def disc(radius=30.0, colour=(200, 120, 40), shift=(0.0, 0.0)):
    """Return straight RGBA of a disc whose alpha is exact to a 16th of a pixel, shifted in x and y, and the mask of the unshifted one."""
    centre = SIDE / 2 + 0.25
    fine = (np.arange(SIDE * FINE) + 0.5) / FINE - 0.5
    inside = (fine[None] - centre - shift[0]) ** 2 + (fine[:, None] - centre - shift[1]) ** 2 <= radius**2
    alpha = inside.reshape(SIDE, FINE, SIDE, FINE).mean(axis=(1, 3))
    pixels = np.arange(SIDE)
    mask = ((pixels[None] - centre) ** 2 + (pixels[:, None] - centre) ** 2 <= radius**2).astype(np.uint8)
    rgba = np.zeros((SIDE, SIDE, 4), np.uint8)
    rgba[..., 3] = np.round(255 * alpha)
    rgba[rgba[..., 3] > 0, :3] = colour
    return rgba, mask


def said_of(rgba, mask):
    notes = []
    look_at_edges(rgba, mask, lambda *said: notes.append(said))
    return notes


def multiplied(rgba):
    spoilt = rgba.copy()
    spoilt[..., :3] = np.round(rgba[..., :3] * (rgba[..., 3:] / 255))
    return spoilt


@pytest.mark.parametrize("radius", [3.0, 12.9, 30.0, 55.5])
def test_an_honest_disc_is_in_order(radius):
    assert said_of(*disc(radius)) == []


@pytest.mark.parametrize("shift", [(0.5, 0.5), (-0.5, 0.0), (0.0, 0.5), (0.3, 0.0)])
def test_alpha_that_is_shifted_by_a_part_of_a_pixel_is_told_with_its_way(shift):
    ((found, expected, alike),) = said_of(*disc(shift=shift))
    x, y = (float(word) for word in found.split() if word[0] in "+-")
    assert alike == "shift" and (x, y) == pytest.approx(shift, abs=0.2) and expected == "at most 0.2 px"


def test_a_shift_of_a_tenth_of_a_pixel_is_in_order():
    assert said_of(*disc(shift=(0.1, 0.1))) == []


def test_an_object_at_the_edge_of_the_picture_is_in_order():
    rgba, mask = disc(30.0)
    assert said_of(rgba[50:], mask[50:]) == []


def test_colours_times_alpha_are_named_premultiplied():
    rgba, mask = disc()
    ((found, _, alike),) = said_of(multiplied(rgba), mask)
    assert alike == "premultiplied" and found.startswith("premultiplied: ")


def test_colours_of_a_dark_object_do_not_tell():
    rgba, mask = disc(colour=(12, 10, 8))
    assert said_of(multiplied(rgba), mask) == []


def test_a_rim_that_is_a_quarter_darker_is_in_order():
    rgba, mask = disc()
    rim = (rgba[..., 3] > 0) & (rgba[..., 3] < 255)
    rgba[rim, :3] = np.round(rgba[rim, :3] * 0.75)
    assert said_of(rgba, mask) == []


def test_an_empty_frame_is_in_order():
    assert said_of(np.zeros((SIDE, SIDE, 4), np.uint8), np.zeros((SIDE, SIDE), np.uint8)) == []
