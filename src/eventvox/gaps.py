"""Missing frames: what a decode shows of them, where they are, and the verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

CONSTANT_SHARE = Fraction(9, 10)
STEP_TOLERANCE_SECONDS = Fraction(1, 1000)
# Matroska rounds timestamps to 1 ms, so that a constant 24 frames per second has steps of 41 and 42.
JUMP_PERIODS = 3
MAX_STEPS = 4096
MAX_LISTED = 100


@dataclass(frozen=True, slots=True)
class Gap:
    """One place where frames are missing or damaged.

    kind : failure, corrupt, jump, missing or tail.   frame : int or None, frames decoded before it.   detail : for people.
    """

    kind: str
    frame: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Promise:
    """What the container says of the video stream.

    frames : int or None.   end : when its last frame ends, and `file_end`, when the last packet of any stream ends; seconds or None if unknown.
    """

    frames: int | None
    end: Fraction | None
    file_end: Fraction | None


class FrameTally:
    """What one sequential decode showed; its memory does not grow with the video."""

    def __init__(self, time_base: Fraction) -> None:
        self.time_base = time_base
        self.frames = self.failures = self.discarded = 0
        self.last_pts: int | None = None
        self.file_end = Fraction(0)
        self.decoder_refuses = False
        self._steps: Counter[int] = Counter()
        self._first_after: dict[int, int] = {}
        self._listed: list[Gap] = []
        self._pending: Gap | None = None

    def add_frame(self, pts: int | None, corrupt: bool) -> None:
        """Note one decoded frame."""
        if corrupt:
            self._list(Gap("corrupt", self.frames, f"frame {self.frames} is damaged"))
        if pts is not None:
            if self.last_pts is not None:
                self._add_step(pts - self.last_pts)
            self.last_pts = pts
        self.frames += 1

    def _add_step(self, step: int) -> None:
        if step not in self._steps and len(self._steps) >= MAX_STEPS:
            step = 0  # so many different steps are no constant rate, whatever they are
        self._steps[step] += 1
        self._first_after.setdefault(step, self.frames)

    def add_failure(self, error: str) -> None:
        """Note a packet that could not be decoded. It is a gap only once a later packet can be."""
        self.failures += 1
        if self._pending is None:
            self._pending = Gap("failure", self.frames, f"decoding fails at frame {self.frames} and goes on ({error})")

    def add_success(self) -> None:
        """Note a packet that was decoded; frames that a decoder still held at the end of the file do not count."""
        if self._pending is not None:
            self._list(self._pending)
            self._pending = None

    def _list(self, gap: Gap) -> None:
        if len(self._listed) < MAX_LISTED:
            self._listed.append(gap)

    @property
    def period(self) -> Fraction | None:
        """Return the usual step between two frames, seconds, or None where fewer than two frames have timestamps."""
        return None if not self._steps else self._middle_step() * self.time_base

    def _middle_step(self) -> int:
        seen, half = 0, self._steps.total() / 2
        for step in sorted(self._steps):
            seen += self._steps[step]
            if seen >= half:
                return step
        return 0

    @property
    def constant_rate(self) -> bool:
        """Return whether 90 % of the steps are equal within 1 ms."""
        if not self._steps:
            return True
        middle, reach = self._middle_step(), STEP_TOLERANCE_SECONDS / self.time_base
        equal = sum(count for step, count in self._steps.items() if abs(step - middle) <= reach)
        return middle > 0 and equal >= CONSTANT_SHARE * self._steps.total()

    def _jumps(self) -> list[Gap]:
        if not self.constant_rate or not self._steps:
            return []
        middle = self._middle_step()
        far = sorted((self._first_after[step], step) for step in self._steps if step > JUMP_PERIODS * middle)
        return [Gap("jump", frame, f"time jumps by {float(step * self.time_base):.3f} s before frame {frame}") for frame, step in far]

    def gaps(self, promise: Promise) -> tuple[Gap, ...]:
        """Return every gap, first ones first. Source: events spec D9."""
        found = self._listed + self._jumps() + _shortfall(self, promise)
        return tuple(sorted(found, key=lambda gap: (-1 if gap.frame is None else gap.frame, gap.kind)))


def _is_short(have: Fraction, want: Fraction, unit: Fraction) -> bool:
    """Return whether `have` lies below `want` by more than one unit and more than 1 %."""
    return have < want - max(unit, want / 100)


def _shortfall(tally: FrameTally, promise: Promise) -> list[Gap]:
    """Return the gap that the container's promises show: fewer frames than stated, or an end before the stated one."""
    period = tally.period or Fraction(0)
    frames = tally.frames
    if promise.frames is not None:
        if not _is_short(Fraction(frames + tally.discarded), Fraction(promise.frames), Fraction(1)):
            return []
        last = None if tally.last_pts is None else tally.last_pts * tally.time_base + period
        if last is None or promise.end is None or _is_short(last, promise.end, period):
            return [Gap("tail", frames, f"{promise.frames - frames} frames are missing at the end")]
        return [Gap("missing", None, f"{promise.frames - frames} frames are missing, none of them at the end")]
    if promise.file_end is not None and _is_short(tally.file_end, promise.file_end, period):
        return [Gap("tail", frames, f"the file ends at {float(tally.file_end):.3f} s of {float(promise.file_end):.3f} s")]
    return []


def verdict(gaps: tuple[Gap, ...]) -> str | None:
    """Return truncated if only the end is missing, decode_gap for anything inside, None without gaps."""
    if not gaps:
        return None
    return "truncated" if all(gap.kind == "tail" for gap in gaps) else "decode_gap"


def whole_prefix(gaps: tuple[Gap, ...]) -> int | None:
    """Return how many frames stand before the first gap, or None where nobody can say."""
    places = [gap.frame for gap in gaps]
    return None if None in places else min(place for place in places if place is not None)
