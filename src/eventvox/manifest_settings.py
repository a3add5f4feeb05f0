"""The settings of manifests and scales: one record, from which flags are generated. Standard library alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any

from eventvox.annotations import ACTION_FLAGS, CAPTION_FLAGS
from eventvox.codes import HINTS
from eventvox.keywords import KEYWORDS
from shardwork.errors import DataError

RIGHTS = "Not stated by whoever made this dataset: ask them before you pass it on."

VIDEO_FLAGS: dict[str, str] = {
    "annotated_duration_mismatch": "the annotations state a duration that differs from duration_seconds by more than 1 s and 1 %",
    "clipped": "voxel values were beyond int16 and are saturated",
    "decode_errors": "the decoder reported errors",
    "duration_mismatch": "duration_seconds differs from frames / fps by more than one frame and 1 %",
    "fps_not_opencv": "OpenCV stated no frame rate: fps is the container's",
    "gaps": "frames are missing or damaged, and the settings kept the video",
    "no_container_duration": "the container states no duration: duration_seconds is frames / fps",
    "rotated": "the container asks a player to turn the picture",
    "variable_rate": "the time between frames is not constant: fps is an average",
}
FLAGS: dict[str, str] = dict(sorted({**VIDEO_FLAGS, **CAPTION_FLAGS, **ACTION_FLAGS}.items()))
"""Every flag that a manifest may show, and what it means. A flag is no verdict: the video is part of the release."""
TRUTHS = ("dark_first_frame", "event_friendly")
"""Columns of truth that `require` may name beside the flags."""


def _meta(text: str) -> dict[str, Any]:
    return {"help": text}


@dataclass(frozen=True, slots=True)
class ManifestSettings:
    """How a release describes its videos and draws its scales. Raises DataError (bad_setting) for a value that cannot be used."""

    title: str = field(default="Event voxels", metadata=_meta("what the dataset is called"))
    version: str = field(default="1.0", metadata=_meta("version of the dataset"))
    rights: str = field(default=RIGHTS, metadata=_meta("who holds which rights, for LICENSE_NOTES.md"))
    short_below_seconds: float = field(default=60.0, metadata=_meta("videos shorter than this are short"))
    long_from_seconds: float = field(default=150.0, metadata=_meta("videos of at least this length are long, those between medium"))
    keywords: str = field(default=KEYWORDS, metadata=_meta("words of which one must stand in a caption to make a video event-friendly"))
    dark_below: float = field(default=0.4, metadata=_meta("a first frame whose mean is below this is dark"))
    medium_share: float = field(default=0.3, metadata=_meta("share of the eligible videos that is drawn for Medium"))
    small_share: float = field(default=0.1, metadata=_meta("share of the eligible videos that is drawn for Small"))
    require: str = field(
        default="event_friendly not_dark_first_frame",
        metadata=_meta("what makes a video eligible: event_friendly, dark_first_frame or flags, each with not_ before it to exclude"),
    )

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(entry.default, float) and not (isinstance(value, int | float) and 0 <= value < float("inf")):
                raise _refused(entry.name, value, "a number, 0 or more")
            if isinstance(entry.default, str) and not isinstance(value, str):
                raise _refused(entry.name, value, "text")
        if self.short_below_seconds > self.long_from_seconds:
            raise _refused("short_below_seconds", self.short_below_seconds, f"at most long_from_seconds, {self.long_from_seconds}")
        if not self.small_share <= self.medium_share <= 1:
            found = f"small {self.small_share}, medium {self.medium_share}"
            raise _refused("scales", found, "small <= medium <= 1, so that Small is a part of Medium")
        for word in self.words:
            if not re.fullmatch("[a-z]+", word):
                raise _refused("keywords", word, "words of the letters a to z, in their base form")
        for condition in self.conditions:
            if condition.name not in (*FLAGS, *TRUTHS):
                raise _refused("require", condition.name, f"{', '.join(TRUTHS)} or a flag: {', '.join(FLAGS)}; not_ before it excludes")

    @property
    def words(self) -> tuple[str, ...]:
        """Return the keywords one by one."""
        return tuple(self.keywords.split())

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return what a video must meet to be drawn."""
        return tuple(_condition(word) for word in self.require.split())

    def bucket(self, duration_seconds: float) -> str:
        """Return short, medium or long."""
        if duration_seconds < self.short_below_seconds:
            return "short"
        return "medium" if duration_seconds < self.long_from_seconds else "long"


@dataclass(frozen=True, slots=True)
class Condition:
    """One demand on a video: that a flag or a column of truth is set (wanted) or is not."""

    name: str
    wanted: bool


def _condition(word: str) -> Condition:
    name = word.removeprefix("not_")
    return Condition(name, wanted=name == word)


def _refused(name: str, found: object, expected: str) -> DataError:
    return DataError("bad_setting", name, repr(found), expected, HINTS["bad_setting"])
