"""The fields of one record, each read as the kind that it must be. Standard library alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from shardwork.jsonio import Json
from vidlatents.buckets import LARGEST
from vidlatents.codes import SampleRefused

Numbers = tuple[int, ...]


@dataclass(slots=True)
class RecordFields:
    """The fields of a record, each read as the kind that it must be. None where a field is absent or null."""

    record: dict[str, Json]
    where: str
    uttid: str = ""

    def refuse(self, code: str, found: str, expected: str) -> SampleRefused:
        """Return the record's refusal, with its uttid and path as far as they are known."""
        said, path = (value if isinstance(value, str) else "" for value in (self.record.get("uttid"), self.record.get("path")))
        return SampleRefused(code, self.where, found, expected, uttid=self.uttid or said, path=path)

    def need(self, value: Json, name: str) -> Json:
        """Return a value that must be there. Raises SampleRefused (E_FIELD)."""
        if value is None:
            raise self.refuse("E_FIELD", f"{name} is missing", "the fields of either form of a record")
        return value

    def check_text(self, name: str, value: Json) -> str:
        """Return a value that must be text. Raises SampleRefused (E_TYPE)."""
        if not isinstance(value, str):
            raise self.refuse("E_TYPE", f"{name} is {_shown(value)}", "text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.refuse("E_TYPE", f"{name} holds half a surrogate pair", "text that UTF-8 can hold") from None
        return value

    def text(self, name: str) -> str | None:
        """Return a text. Raises SampleRefused (E_TYPE)."""
        value = self.record.get(name)
        if value is None or (name == "uttid" and isinstance(value, str)):
            return value  # a uttid has a code of its own
        return self.check_text(name, value)

    def whole(self, name: str, least: int) -> int | None:
        """Return a whole number. Raises SampleRefused (E_TYPE; E_FIELD below `least`)."""
        value = self.record.get(name)
        return None if value is None else self._number(name, value, least)

    def _number(self, name: str, value: Json, least: int) -> int:
        if type(value) is not int:
            raise self.refuse("E_TYPE", f"{name} is {_shown(value)}", "a whole number")
        if not least <= value <= LARGEST:
            raise self.refuse("E_FIELD", f"{name} is {_shown(value)}", f"{least} to {LARGEST}")
        return value

    def span(self, name: str, length: int) -> Numbers | None:
        """Return whole numbers, pairs of (first, end), each first below its end. Raises SampleRefused (E_TYPE, E_FIELD)."""
        value = self.record.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            raise self.refuse("E_TYPE", f"{name} is {_shown(value)}", f"a list of {length} whole numbers")
        numbers = tuple(self._number(name, one, 0) for one in value)
        if any(first >= end for first, end in zip(numbers[::2], numbers[1::2], strict=True)):
            raise self.refuse("E_FIELD", f"{name} is {_shown(value)}", "each first below its end")
        return numbers

    def path(self, name: str) -> str | None:
        """Return a path that stays below its folder. Raises SampleRefused (E_TYPE, E_FIELD)."""
        if (text := self.text(name)) is None:
            return None
        path = PurePosixPath(text)
        if not path.name or path.is_absolute() or ".." in path.parts or "\0" in text:
            raise self.refuse("E_FIELD", f"{name} is {_shown(text)}", "a path below the folder of videos")
        return text

    def resolution(self) -> tuple[int, int]:
        """Return (height, width) of `resolution`. Raises SampleRefused (E_TYPE, E_FIELD)."""
        value = self.need(self.record.get("resolution"), "crop or resolution")
        if not isinstance(value, dict) or not {"height", "width"} <= value.keys():
            raise self.refuse("E_TYPE", f"resolution is {_shown(value)}", "an object with height and width")
        return self._number("resolution.height", value["height"], 1), self._number("resolution.width", value["width"], 1)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
