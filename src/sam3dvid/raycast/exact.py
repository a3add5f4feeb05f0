"""On which side of a line through two vertices a ray passes, decided exactly.

A ray from the origin along d passes the edge from a to b on the side that the sign of det(a, b, d) tells. In float64 alone that sign is wrong near the edge,
and two triangles that share the edge may both miss the ray: a hole. Here the sign is that of the exact value for the float64 numbers given, so that triangles
which share an edge agree, and none of the rays between them is lost. Source: J. R. Shewchuk, Adaptive Precision Floating-Point Arithmetic, 1997.

The exact way is for the few values that lie within their own rounding error (see `ROUNDING`). It is exact unless a product of three falls below 1e-290.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sam3dvid.raycast.compiled import compiled

ROUNDING = 16 * 2.0**-53
"""det(a, b, d), computed as d . (a x b), errs by less than this times the same sum with all its terms positive: by 6 x 2**-53 of it; so may the bound."""
_SPLITTER = 2.0**27 + 1


@compiled
def _product(a: Any, b: Any) -> Any:
    """Return a * b as a rounded value and its error: their sum is exact."""
    high = a * b
    c = _SPLITTER * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = _SPLITTER * b
    b_high = c - (c - b)
    b_low = b - b_high
    return high, a_low * b_low - (((high - a_high * b_high) - a_low * b_high) - a_high * b_low)


@compiled
def _grow(parts: Any, count: Any, value: Any) -> Any:
    """Add a value to a sum that is kept as parts which do not overlap, smallest first."""
    for i in range(count):
        total = value + parts[i]
        part = total - value
        parts[i] = (value - (total - part)) + (parts[i] - part)
        value = total
    parts[count] = value
    return count + 1


@compiled
def _add_product(parts: Any, count: Any, a: Any, b: Any, c: Any) -> Any:
    """Add a * b * c, exactly."""
    high, low = _product(a, b)
    first, first_error = _product(high, c)
    second, second_error = _product(low, c)
    for value in (second_error, second, first_error, first):
        count = _grow(parts, count, value)
    return count


@compiled
def exact_det(ax: Any, ay: Any, az: Any, bx: Any, by: Any, bz: Any, dx: Any, dy: Any, dz: Any) -> Any:
    """Return det(a, b, d) with its exact sign (0.0 only where it is 0) and few units in the last place of error."""
    parts = np.zeros(24)
    count = _add_product(parts, 0, ay, bz, dx)
    count = _add_product(parts, count, -az, by, dx)
    count = _add_product(parts, count, az, bx, dy)
    count = _add_product(parts, count, -ax, bz, dy)
    count = _add_product(parts, count, ax, by, dz)
    count = _add_product(parts, count, -ay, bx, dz)
    # the parts do not overlap, so the greatest has the sign of their sum, and rounding cannot change it
    total = 0.0
    for i in range(count):
        total += parts[i]
    return total


@compiled
def side(ax: Any, ay: Any, az: Any, bx: Any, by: Any, bz: Any, dx: Any, dy: Any, dz: Any) -> Any:
    """Return det(a, b, d) with its exact sign, by the short way wherever that is safe."""
    p, q, r, s, t, u = ay * bz, az * by, az * bx, ax * bz, ax * by, ay * bx
    value = dx * (p - q) + dy * (r - s) + dz * (t - u)
    size = abs(dx) * (abs(p) + abs(q)) + abs(dy) * (abs(r) + abs(s)) + abs(dz) * (abs(t) + abs(u))
    if abs(value) > ROUNDING * size:
        return value
    return exact_det(ax, ay, az, bx, by, bz, dx, dy, dz)
