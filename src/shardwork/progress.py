"""A progress bar that is lively on a terminal and calm in a log file."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

CALM_SECONDS = 30.0


class Progress:
    """Count finished items on stderr: tqdm's bar on a terminal, a whole line every half minute in a log. Use it as a context manager."""

    def __init__(self, total: int, title: str, unit: str = "item", stream: TextIO | None = None) -> None:
        self._total, self._title, self._unit = total, title, unit
        self._stream = stream or sys.stderr
        self._done, self._start, self._said = 0, time.monotonic(), time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self._total, desc=self._title, unit=self._unit, file=self._stream, dynamic_ncols=True)
        return self

    def step(self) -> None:
        """Count one finished item."""
        self._done += 1
        if self._bar is not None:
            self._bar.update()
        elif (now := time.monotonic()) - self._said >= CALM_SECONDS:
            self._said = now
            gone = now - self._start
            left = gone / self._done * (self._total - self._done)
            self.say(f"{self._title}: {self._done} of {self._total} {self._unit}s, {gone / 60:.1f} min gone, about {left / 60:.1f} to go")

    def say(self, text: str) -> None:
        """Print a line without spoiling the bar."""
        if self._bar is not None:
            self._bar.clear()
        print(text, file=self._stream, flush=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()
