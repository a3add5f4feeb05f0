"""Elementary functions against decimal arithmetic of 50 digits."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest

from sam3dvid.elementary import cbrt, sin_cos_deg, tan_deg

getcontext().prec = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937511")
ANGLES = np.random.default_rng(5).uniform(-450, 450, 500).tolist()


def sine(degrees):
    """Return the sine of a float of degrees as a decimal number, by its series around 0."""
    x = (Decimal(degrees) % 360) * PI / 180
    total = term = x
    for k in range(1, 40):
        term *= -x * x / ((2 * k) * (2 * k + 1))
        total += term
    return total


def places(value, exact):
    """Return by how many units in the last place a float is off."""
    return abs(Decimal(float(value)) - exact) / Decimal(math.ulp(float(exact)))


@pytest.mark.parametrize("degrees", [0.0, 1e-9, 44.999999, 45.000001, 89.99999, 135.5, 359.999, *ANGLES[:20]])
def test_sine_and_cosine_are_right_to_two_places(degrees):
    sines, cosines = sin_cos_deg(degrees)
    assert places(sines, sine(degrees)) <= 2 if degrees else sines == 0
    exact = sine(Decimal(degrees) + 90)
    assert places(cosines, exact) <= 2


def test_sines_and_cosines_of_many_angles_keep_shape_and_the_circle():
    sines, cosines = sin_cos_deg(np.reshape(ANGLES, (20, 25)))
    assert sines.shape == cosines.shape == (20, 25)
    assert np.abs(sines**2 + cosines**2 - 1).max() < 5e-16
    assert all(places(value, sine(angle)) <= 2 for value, angle in zip(sines.ravel(), ANGLES, strict=True))


def test_multiples_of_90_degrees_are_exact_without_negative_zeros():
    sines, cosines = sin_cos_deg([-180, -90, 0, 90, 180, 270, 360])
    assert str(sines.tolist()) == "[0.0, -1.0, 0.0, 1.0, 0.0, -1.0, 0.0]"
    assert str(cosines.tolist()) == "[-1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 1.0]"


@pytest.mark.parametrize("degrees", [25.0, 65.0])
def test_tangents_of_the_fields_of_view_are_right_to_a_place(degrees):
    assert places(tan_deg(degrees), sine(degrees) / sine(Decimal(degrees) + 90)) <= 1


@pytest.mark.parametrize("value", [1.0, 2.0, 3.0, 4.0, 8.0, 0.1, 0.999, 1e-17, 2.0**-53, 5e-324, 1e300, *np.random.default_rng(6).random(40).tolist()])
def test_cube_roots_are_right_to_three_places(value):
    exact = Decimal(value) ** (Decimal(1) / 3)
    assert places(cbrt(value), exact) <= 3


def test_cube_roots_of_cubes_of_whole_numbers_are_whole():
    assert [cbrt(n**3) for n in range(6)] == [0, 1, 2, 3, 4, 5]
