"""A body that trickles is a stalled one: no single read is late, and yet it would never end."""

from __future__ import annotations

import time
from collections.abc import Callable


class Slow(Exception):
    """A body stays below the least rate."""


class SpeedGuard:
    """Counts bytes and raises Slow after each stretch of time in which too few came.

    bytes_per_second : the least rate.   seconds : how long a stretch is.   clock : returns seconds, for tests.
    """

    def __init__(self, bytes_per_second: float, seconds: float, clock: Callable[[], float] | None = None) -> None:
        self._rate, self._seconds, self._clock = bytes_per_second, seconds, clock or time.monotonic
        self._since, self._bytes = self._clock(), 0

    def count(self, size: int) -> None:
        """Note `size` further bytes. Raises Slow."""
        self._bytes += size
        gone = self._clock() - self._since
        if gone < self._seconds:
            return
        if self._bytes < self._rate * gone:
            raise Slow(f"{self._bytes} bytes in {gone:.0f} seconds")
        self._since, self._bytes = self._since + gone, 0
