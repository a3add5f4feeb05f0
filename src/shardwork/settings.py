"""Records of settings: what the libraries' settings share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from shardwork.errors import DataError


def check_kinds(settings: Any, refuse: Callable[[str, object, str], DataError]) -> None:
    """Raise unless every value of a record is of its default's kind and one of its choices; whole numbers become floats where a float stands.

    settings : a frozen dataclass whose fields have defaults, and metadata with `choices` or None.   refuse : name, value, expected -> the error.
    """
    for entry in fields(settings):
        value, kind = getattr(settings, entry.name), type(entry.default)
        if kind is float and type(value) is int:
            value = float(value)
            object.__setattr__(settings, entry.name, value)
        if type(value) is not kind:
            raise refuse(entry.name, value, f"a value of kind {kind.__name__}")
        choices = entry.metadata.get("choices")
        if choices is not None and value not in choices:
            raise refuse(entry.name, value, "one of " + ", ".join(map(str, choices)))
