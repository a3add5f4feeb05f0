"""Samples: what is encoded, and the name of the file it becomes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shardwork.jsonio import Json

NAME = re.compile(r"(?s)(.+)_([1-9][0-9]*)_([1-9][0-9]*)_([1-9][0-9]*)\.pt")


@dataclass(frozen=True)
class Sample:
    """One RGB and control pair at bucket size.

    num_frame, height, width : int, the bucket.   prompt : raw.   cut : frames, end exclusive.   crop : (x0, x1, y0, y1) pixels.   source : its record.
    """

    uttid: str
    video: Path
    control: Path
    prompt: str
    bucket_key: str
    num_frame: int
    height: int
    width: int
    cut: tuple[int, int] | None
    crop: tuple[int, int, int, int] | None
    source: dict[str, Json]


def name_of(sample: Sample) -> str:
    """Return the name of a sample's file."""
    return f"{sample.uttid}_{sample.num_frame}_{sample.height}_{sample.width}.pt"


def parse_name(name: str) -> tuple[str, int, int, int] | None:
    """Return (uttid, num_frame, height, width) of a file's name, read from the right, or None if it is not a sample's."""
    found = NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2]), int(found[3]), int(found[4]))
