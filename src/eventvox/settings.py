"""The settings of voxelization: one record, from which flags, config keys and their documentation are generated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from eventvox.codes import HINTS
from shardwork.errors import DataError
from shardwork.settings import check_kinds

CODEC_LEVELS = {"auto": range(0), "rle": range(0), "isal": range(4), "zlib-ng": range(1, 10), "libdeflate": range(1, 13), "zlib": range(10)}
"""Codec name -> the levels it takes; none for `auto` and `rle`."""
CODECS_TEXT = ", ".join(f"{name}:{levels[0]} to {name}:{levels[-1]}" if levels else name for name, levels in CODEC_LEVELS.items())
"""The codecs there are, for errors and documentation."""

LOWEST_THRESHOLD, HIGHEST_THRESHOLD, LOWEST_EPS, HIGHEST_FRAMES_PER_BIN = 0.001, 10.0, 1e-9, 1000
# With these bounds every difference of two table entries fits int32: ln(1 + 1e9) / 0.001 * 65536 < 2**31, and so does a bin of 1000 slices.


ROTATIONS = ("display", "stored")


@dataclass(frozen=True, slots=True)
class Codec:
    """How chunks are compressed: the name of a codec and its level."""

    name: str
    level: int


def bad_setting(name: str, found: object, expected: str) -> DataError:
    """Return the error for a setting that cannot be used."""
    return DataError("bad_setting", name, repr(found), expected, HINTS["bad_setting"])


def parse_codec(text: str) -> Codec:
    """Return the codec that `name:level`, or a name without levels, means. Raises DataError (bad_setting)."""
    name, colon, level = text.partition(":") if isinstance(text, str) else ("", "", "")
    levels = CODEC_LEVELS.get(name)
    if levels is not None and (level in map(str, levels) if levels else not colon):
        return Codec(name, int(level or 0))
    raise bad_setting("codec", text, CODECS_TEXT)


def _meta(text: str, choices: tuple[Any, ...] | None = None) -> dict[str, Any]:
    return {"help": text, "choices": choices}


@dataclass(frozen=True, slots=True)
class VoxelSettings:
    """How frames become event voxels. Raises DataError (bad_setting) for a value that is out of range or of the wrong kind."""

    num_bins: int = field(default=5, metadata=_meta("bins in a voxel; the format knows only 5", (5,)))
    frames_per_bin: int = field(default=1, metadata=_meta("slices summed into one bin; 1 in format v1.0"))
    interpolate_bins: bool = field(default=False, metadata=_meta("share each slice between its two nearest bins; false in format v1.0"))
    intensity: str = field(
        default="power",
        metadata=_meta("power: ln(eps + (v/255)^gamma); linlog: v2e's, v ln(20)/20 up to 20 and ln v above; linear: v/255", ("power", "linlog", "linear")),
    )
    gamma: float = field(default=2.2, metadata=_meta("exponent of intensity power"))
    eps: float = field(default=1e-3, metadata=_meta("added before the logarithm of intensity power"))
    threshold_pos: float = field(default=0.2, metadata=_meta("rise of intensity that makes one positive event"))
    threshold_neg: float = field(default=0.2, metadata=_meta("fall of intensity that makes one negative event"))
    reference: str = field(
        default="carried", metadata=_meta("carried: what is left below a threshold stays for the next frame; adjacent: it is dropped", ("carried", "adjacent"))
    )
    gap_policy: str = field(
        default="strict",
        metadata=_meta("a video with missing frames: strict refuses it; prefix keeps the frames before the gap; skip bridges it", ("strict", "prefix", "skip")),
    )
    rotation: str = field(default="display", metadata=_meta("display: turn frames as a player shows them; stored: leave them", ROTATIONS))
    allow_empty: bool = field(default=False, metadata=_meta("write a file without voxels for a video of one frame instead of refusing it"))
    codec: str = field(default="auto", metadata=_meta(f"compression of the events, all of them zlib streams: {CODECS_TEXT}"))
    max_file_gib: float = field(default=0.0, metadata=_meta("refuse a video whose event file grows beyond this many GiB; 0 means no limit"))

    def __post_init__(self) -> None:
        check_kinds(self, bad_setting)
        for name, low, high in (
            ("frames_per_bin", 1, HIGHEST_FRAMES_PER_BIN),
            ("gamma", 0.01, 100.0),
            ("eps", LOWEST_EPS, 1.0),
            ("threshold_pos", LOWEST_THRESHOLD, HIGHEST_THRESHOLD),
            ("threshold_neg", LOWEST_THRESHOLD, HIGHEST_THRESHOLD),
            ("max_file_gib", 0.0, math.inf),
        ):
            value = getattr(self, name)
            if not (low <= value <= high and math.isfinite(value)):
                raise bad_setting(name, value, f"a number from {low} to {high}" if math.isfinite(high) else f"a finite number from {low}")
        parse_codec(self.codec)

    @property
    def slices_per_voxel(self) -> int:
        """Return how many slices a full voxel holds."""
        return self.num_bins * self.frames_per_bin
