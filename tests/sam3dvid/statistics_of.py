"""Statistics with a known error: how far a sample of a given size may lie from a law before it is the wrong one.

Tests draw from a fixed set of seeds, so none is flaky: the chance named here is the one with which a right program would have failed once and for all.
"""

from __future__ import annotations

import math

import numpy as np

CHANCE = 1e-4
CHI_SQUARE = {3: 21.11, 5: 25.74, 19: 50.80}
"""Degrees of freedom -> what chi-square exceeds with that chance."""


def farthest_from_uniform(values, low=0.0, high=1.0) -> float:
    """Return the Kolmogorov-Smirnov distance of a sample from the uniform law, in units of what exceeds 1 with the chance above."""
    points = np.sort((np.asarray(values, float) - low) / (high - low))
    assert points[0] >= 0 and points[-1] <= 1
    steps = np.arange(len(points) + 1) / len(points)
    distance = max((steps[1:] - points).max(), (points - steps[:-1]).max())
    return float(distance * math.sqrt(len(points)) / math.sqrt(-math.log(CHANCE / 2) / 2))


def chi_square(counts, chances) -> float:
    """Return how far counts lie from what these chances let expect."""
    counts, expected = np.asarray(counts, float), np.asarray(chances, float) * np.sum(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def off(found: float, chance: float, count: int) -> float:
    """Return how many standard deviations a share of `count` trials lies from its chance."""
    return abs(found - chance) / math.sqrt(chance * (1 - chance) / count)
