"""Sines, cosines and cube roots that are the same bits on every processor: sums, products, quotients and square roots alone, one value each.

The C library chooses its sine by what the processor has, and numpy its own, so their last bits differ from one machine to the next. Here every step is
one that IEEE 754 rounds in one way. Errors stay below three units in the last place.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]

SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9))
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(1, 10))
"""Taylor coefficients behind the first: up to 45 degrees the first one left out is below 1e-18."""
RADIANS = math.pi / 180


def _series(coefficients: tuple[float, ...], square: Float) -> Float:
    total = np.zeros_like(square)
    for coefficient in reversed(coefficients):
        total = (total + coefficient) * square
    return total


def sin_cos_deg(degrees: ArrayLike) -> tuple[Float, Float]:
    """Return sine and cosine of angles in degrees: shape kept, float64; exact at multiples of 90."""
    angle = np.asarray(degrees, np.float64)
    quarter = np.rint(angle / 90)
    # exact: the difference is a multiple of the angle's last place, and small
    x = (angle - 90 * quarter) * RADIANS
    square = x * x
    sine, cosine = x + x * _series(SINE, square), 1 + _series(COSINE, square)
    turned = quarter - 4 * np.floor(quarter / 4)
    swapped = (turned == 1) | (turned == 3)
    sines, cosines = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    # adding 0 takes away negative zeros
    return np.where(turned >= 2, -sines, sines) + 0.0, np.where((turned == 1) | (turned == 2), -cosines, cosines) + 0.0


def tan_deg(degrees: float) -> float:
    """Return the tangent of an angle in degrees."""
    sine, cosine = sin_cos_deg(degrees)
    return float(sine / cosine)


def cbrt(values: ArrayLike) -> Float:
    """Return the cube roots of numbers of 0 or more: shape kept, float64."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    shift = exponent % 3
    scaled = np.ldexp(mantissa, shift - 3)  # from 1/16 to 1/2
    root = 0.3 + scaled
    for _ in range(6):
        root = root - (root - scaled / (root * root)) / 3
    return np.where(mantissa == 0, 0.0, np.ldexp(root, (exponent - shift) // 3 + 1))
