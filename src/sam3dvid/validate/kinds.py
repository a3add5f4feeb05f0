"""The kinds of values in a JSON file: each look returns the value, or notes by its place what it is and returns None."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sam3dvid.validate.report import LAYOUT, Found
from shardwork.errors import DataError
from shardwork.jsonio import Json, dumps

Float = NDArray[np.float64]
SHOWN = 60
LARGEST = 1e15
"""No number of the format is anywhere near; squares and products of larger ones could overflow."""
EXACT = 1e-9
"""How far a stored number may lie from what it must be: far above float64's rounding, far below anything that is seen."""
TEXT = r".*\S.*"
"""Anything but blanks."""
SHA256 = r"[0-9a-f]{64}"
ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]|file:|~/")
UPWARDS = re.compile(r"(^|[/\\])\.\.([/\\]|$)")
NAMES = ("author", "authors", "attribution", "source_name", "textures")
"""Keys whose texts are what people call things: "/u/name" is an author, "../wood" a picture's name in its source."""
PLACE = re.compile(r"/(home|root|tmp|Users|Volumes|mnt|media|data|scratch|var|opt|srv|usr|work|private)/|[A-Za-z]:\\|file:|~/", re.IGNORECASE)
"""What no name begins with, but paths of real machines."""


def shown(value: Json) -> str:
    """Return a value as JSON, cut where it is long."""
    try:
        text = dumps(value)
    except DataError:
        text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


@dataclass(frozen=True, slots=True)
class Values:
    """One JSON file under judgement.   file : its path in the dataset.   found : where faults are noted."""

    file: str
    found: Found

    def fault(self, at: str, found: object, expected: object, alike: str = "") -> None:
        """Note a fault of T1 at a place of the file."""
        self.found.add(LAYOUT, f"{self.file}: {at}" if at else self.file, found, expected, alike and f"{self.file}: {alike}")

    def record(self, at: str, value: Json, keys: Collection[str], optional: Collection[str] = (), others: bool = False) -> dict[str, Json]:
        """Return a value if it is an object, else an empty one. Missing keys are noted, and keys beyond the optional ones unless `others` are allowed."""
        if not isinstance(value, dict):
            self.fault(at, shown(value), f"an object with {', '.join(sorted(keys))}")
            return {}
        for key in sorted(set(keys) - value.keys()):
            self.fault(at, f"no key {key!r}", f"the keys {', '.join(sorted(keys))}")
        for key in () if others else sorted(value.keys() - set(keys) - set(optional)):
            self.fault(at, f"an extra key {key!r}", f"only the keys {', '.join(sorted((*keys, *optional)))}")
        return value

    def number(self, at: str, value: Json, low: float = -math.inf, high: float = math.inf) -> float | None:
        """Return a finite number within bounds, as a float."""
        number = _finite(value)
        if number is None or not low <= number <= high:
            self.fault(at, shown(value), _bounds("a finite number", low, high))
            return None
        return number

    def whole(self, at: str, value: Json, low: float = 0, high: float = math.inf) -> int | None:
        """Return an integer within bounds."""
        if type(value) is not int or not low <= value <= high:
            self.fault(at, shown(value), _bounds("a whole number", low, high))
            return None
        return value

    def text(self, at: str, value: Json, pattern: str = TEXT) -> str | None:
        """Return text that matches a pattern; the default asks for anything but blanks."""
        if not isinstance(value, str) or re.fullmatch(pattern, value, re.DOTALL) is None:
            self.fault(at, shown(value), "text" if pattern == TEXT else f"text of the form {pattern}")
            return None
        return value

    def listed(self, at: str, value: Json) -> list[Json] | None:
        """Return a list."""
        if not isinstance(value, list):
            self.fault(at, shown(value), "a list")
            return None
        return value

    def array(self, at: str, value: Json, shape: tuple[int, ...], alike: str = "") -> Float | None:
        """Return nested lists of finite numbers of this shape: float64."""
        flat: list[float] = []
        if not _flatten(value, shape, flat):
            self.fault(at, shown(value), f"finite numbers of shape {shape}", alike)
            return None
        return np.array(flat, np.float64).reshape(shape)

    def wholes(self, at: str, value: Json, shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        """Return nested lists of integers from 0 to 2^31 of this shape: int64."""
        array = self.array(at, value, shape)
        if array is None:
            return None
        if not all(type(one) is int and 0 <= one <= 1 << 31 for row in cast(Any, value) for one in row):
            self.fault(at, "numbers that are not whole or below 0", f"whole numbers of shape {shape}")
            return None
        return array.astype(np.int64)

    def same(self, at: str, value: Json, wanted: Json) -> bool:
        """Return whether a value is what it must be, to the kind: 1, 1.0 and true are three things."""
        if type(value) is type(wanted) and value == wanted:
            return True
        self.fault(at, shown(value), shown(wanted))
        return False

    def near(self, at: str, value: Float | float | None, wanted: Float | float, tolerance: float = EXACT) -> bool:
        """Return whether a number or an array is what it must be; one that lies further from it than rounding carries it is noted, None is not."""
        if value is not None and (off := float(np.abs(np.asarray(value) - wanted).max())) > tolerance:
            self.fault(at, f"{shown(np.asarray(value).tolist())}, off by {off:.3g}", f"{shown(np.asarray(wanted).tolist())} to {tolerance:g}")
            return False
        return value is not None

    def rotation(self, at: str, R: Float, alike: str = "") -> bool:
        """Return whether a (3, 3) matrix turns and does nothing else."""
        off = float(np.abs(R @ R.T - np.eye(3)).max())
        turned = float(np.linalg.det(R))
        if not (off <= EXACT and abs(turned - 1) <= EXACT):
            self.fault(at, f"a determinant of {turned:.12g}, R R^T off by {off:.3g}", f"a rotation to {EXACT:g}", alike)
            return False
        return True

    def relative(self, value: Json, at: str = "", beside: Collection[str] = (), name: bool = False) -> None:
        """Note every text and key that is an absolute path or leads upwards, anywhere in a value but under the keys `beside`.

        name : whether texts are names, which may begin as paths do: then only those that are paths of real machines.
        """
        if isinstance(value, str):
            if (PLACE if name else ABSOLUTE).match(value):
                self.fault(at, f"the absolute path {shown(value)}", "paths relative to the dataset")
            elif UPWARDS.search(value) and not name:
                self.fault(at, f"the path {shown(value)}", "paths within the dataset, without ..")
        elif isinstance(value, dict):
            for key, one in value.items():
                if key not in beside:
                    self.relative(key, f"{at} (a key)" if at else "a key")
                    self.relative(one, f"{at}.{key}" if at else key, beside, name or key in NAMES)
        elif isinstance(value, list):
            for index, one in enumerate(value):
                self.relative(one, f"{at}[{index}]", beside, name)


def _finite(value: Json) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST else None


def _flatten(value: Json, shape: tuple[int, ...], flat: list[float]) -> bool:
    if not shape:
        number = _finite(value)
        flat.append(0.0 if number is None else number)
        return number is not None
    return isinstance(value, list) and len(value) == shape[0] and all(_flatten(one, shape[1:], flat) for one in value)


def _bounds(kind: str, low: float, high: float) -> str:
    match (math.isfinite(low), math.isfinite(high)):
        case (True, True):
            return f"{kind} from {low:g} to {high:g}"
        case (True, False):
            return f"{kind} of {low:g} or more"
        case _:
            return kind
