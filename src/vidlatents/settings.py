"""The settings of the steps, as their flags give them. Standard library alone."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shardwork.errors import DataError
from shardwork.jsonio import Json
from shardwork.settings import check_kinds
from vidlatents.buckets import FRAME_BUCKETS, LAYOUTS, TRAINER_FRAMES, Size
from vidlatents.models import ModelKind, kind_named
from vidlatents.records import MISSING_PROMPT, STARTS, RecordSettings
from vidlatents.tiling import LEAST_BUDGET_BYTES, Tiling, tiling_for

if TYPE_CHECKING:
    from vidlatents.plan import PlanSettings

HOWS = ("sample", "mode")
MODEL_HELP = "kind of the autoencoder: wan21, wan22-5b, or the figures of another as wan-z12-s8-t4-p1"
DTYPES = ("float32", "bfloat16", "float16")
TEXT_DTYPES = ("float32", "bfloat16")
"""Those that a sample's embedding may have."""
DEVICES = ("auto", "cpu", "gpu")
GIB = 1 << 30
SIZES = re.compile(r"([1-9][0-9]{0,5}x[1-9][0-9]{0,5}( [1-9][0-9]{0,5}x[1-9][0-9]{0,5})*)?")
NUMBERS = re.compile(r"[0-9]{1,6}( [0-9]{1,6})*")


def _meta(text: str, choices: tuple[str, ...] | None = None) -> dict[str, object]:
    return {"help": text, "choices": choices}


def _refuse(name: str, value: object, expected: str) -> DataError:
    return DataError("bad_argument", name, repr(value), expected, "correct the setting")


def check_sizes(name: str, text: str) -> None:
    """Raise DataError (bad_argument) unless a text is made of words such as 480x1920."""
    if not SIZES.fullmatch(text):
        raise _refuse(name, text, "words such as 480x1920 with single blanks between")


def sizes_of(text: str) -> tuple[Size, ...]:
    """Return the (height, width) of words such as 480x1920."""
    return tuple((int(one.partition("x")[0]), int(one.partition("x")[2])) for one in text.split())


def check_budget(name: str, gib: float) -> None:
    """Raise DataError (bad_argument) for a budget, in GiB, that no picture's tiles could keep to; 0 stands for none."""
    if not math.isfinite(gib) or (gib and gib * GIB < LEAST_BUDGET_BYTES):
        raise DataError("bad_argument", name, repr(gib), f"0, or {LEAST_BUDGET_BYTES / GIB:.3g} or more", "raise it: smaller tiles would be all overlap")


@dataclass(frozen=True, slots=True)
class SetSettings:
    """What samples are made of videos. Raises DataError (bad_argument)."""

    model: str = field(default="wan21", metadata=_meta(MODEL_HELP))
    layout: str = field(default="sections", metadata=_meta("windows of 33 frames, or the whole of 4n+1", LAYOUTS))
    start: str = field(default="first", metadata=_meta("first frame of a record's cut, or one drawn by seed and uttid", STARTS))
    seed: int = field(default=0, metadata=_meta("of what is drawn"))
    missing_prompt: str = field(default="error", metadata=_meta("what a sample without a prompt is", MISSING_PROMPT))
    sizes: str = field(default="480x1920", metadata=_meta("heights and widths that a full record may get, the nearest is taken"))
    own_sizes: str = field(default="", metadata=_meta("the same for this pipeline's own videos; none: their own size"))
    frame_buckets: str = field(default=" ".join(map(str, FRAME_BUCKETS)), metadata=_meta("numbers of frames that a sample may get"))

    def __post_init__(self) -> None:
        check_kinds(self, _refuse)
        kind_named(self.model)
        if self.seed < 0:
            raise _refuse("seed", self.seed, "0 or more")
        for name in ("sizes", "own_sizes"):
            check_sizes(name, getattr(self, name))
            for high, wide in sizes_of(getattr(self, name)):
                if high % self.kind.spatial or wide % self.kind.spatial:
                    raise DataError("E_MULTIPLE", name, f"{high}x{wide}", f"multiples of {self.kind.spatial} for {self.model}", "correct the size")
        if not self.sizes or not NUMBERS.fullmatch(self.frame_buckets) or not all(map(int, self.frame_buckets.split())):
            raise _refuse("sizes, frame_buckets", f"{self.sizes!r}, {self.frame_buckets!r}", "at least one size and one whole number above 0")

    @property
    def kind(self) -> ModelKind:
        """Return the kind of autoencoder."""
        return kind_named(self.model)

    @property
    def own(self) -> tuple[Size, ...]:
        """Return the sizes of this pipeline's own videos."""
        return sizes_of(self.own_sizes)

    def records(self, videos: Path, controls: Path) -> RecordSettings:
        """Return how records are read.   videos, controls : the folders that their names count from."""
        buckets = tuple(map(int, self.frame_buckets.split()))
        return RecordSettings(videos, controls, self.layout, self.kind.spatial, self.kind.temporal, self.missing_prompt, buckets, sizes_of(self.sizes))

    def plan(self, trainer: TrainerFlags | None = None) -> PlanSettings:
        """Return what a plan is made for, and reported for.   The seed is 0 where nothing is drawn: another one then plans no sample again."""
        from vidlatents.plan import PlanSettings  # loads numpy, which the launcher does without

        kind, trainer = self.kind, trainer or TrainerFlags()
        seed = self.seed if self.start == "drawn" else 0
        return PlanSettings(self.layout, kind.z, kind.spatial, kind.temporal, trainer.trainer_frames, sizes_of(trainer.trainer_sizes), self.start, seed)


@dataclass(frozen=True, slots=True)
class TrainerFlags:
    """What is known of the trainer: only a report depends on it. Raises DataError (bad_argument)."""

    trainer_frames: int = field(default=TRAINER_FRAMES, metadata=_meta("files of fewer frames are reported as those that the trainer skips"))
    trainer_sizes: str = field(default="", metadata=_meta("sizes that the trainer reads; none: any"))

    def __post_init__(self) -> None:
        check_kinds(self, _refuse)
        check_sizes("trainer_sizes", self.trainer_sizes)


@dataclass(frozen=True, slots=True)
class EncodeFlags:
    """How frames become latents. Raises DataError (bad_argument)."""

    model: str = field(default="wan21", metadata=_meta(MODEL_HELP))
    layout: str = field(default="sections", metadata=_meta("windows of 33 frames, or the whole of 4n+1", LAYOUTS))
    how: str = field(default="sample", metadata=_meta("a value drawn from the autoencoder's distribution, or its mode", HOWS))
    seed: int = field(default=0, metadata=_meta("of what is drawn"))
    dtype: str = field(default="float32", metadata=_meta("of the autoencoder; the others are known to hurt", DTYPES))
    text_dtype: str = field(default="bfloat16", metadata=_meta("of the text encoder", TEXT_DTYPES))
    memory_gib: float = field(default=0.0, metadata=_meta("cut pictures into tiles that fit this; 0: whole pictures"))
    fallback_gib: float = field(default=0.0, metadata=_meta("where memory does not suffice, try once more with tiles for this; 0: the sample is refused"))

    def __post_init__(self) -> None:
        check_kinds(self, _refuse)
        kind_named(self.model)
        if self.seed < 0:
            raise _refuse("seed", self.seed, "0 or more")
        for name in ("memory_gib", "fallback_gib"):
            check_budget(name, getattr(self, name))

    def settings(self) -> dict[str, Json]:
        """Return what decides a file's bytes whatever the sample is.   seed : None where nothing is drawn."""
        held = {name: getattr(self, name) for name in ("model", "layout", "how", "dtype", "text_dtype")}
        return {**held, "seed": self.seed if self.how == "sample" else None}

    def tilings(self, height: int, width: int) -> tuple[Tiling | None, Tiling | None]:
        """Return the tiles of a bucket, and those that are tried where memory does not suffice."""
        kind = kind_named(self.model)
        first, second = (tiling_for(kind, height, width, round(gib * GIB)) if gib else None for gib in (self.memory_gib, self.fallback_gib))
        return first, second if second != first else None


@dataclass(frozen=True, slots=True)
class TextFlags:
    """How prompts become embeddings. Raises DataError (bad_argument)."""

    text_dtype: str = field(default="bfloat16", metadata=_meta("of the text encoder", TEXT_DTYPES))

    def __post_init__(self) -> None:
        check_kinds(self, _refuse)
