"""The settings of plan_clips, and the bounds of its distributions, which are the format's and no configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import HEIGHT, WIDTH
from sam3dvid.settings import check_kinds, meta

NUM_OBJECTS_CHANCES = (0.30, 0.30, 0.25, 0.15)
"""Chance of 1, 2, 3 and 4 objects."""
MOST_OBJECTS = len(NUM_OBJECTS_CHANCES)
SCALE = (0.4, 1.0)
DISTANCE_FACTOR = (1.0, 1.4)
"""Times radius / tan(25 deg): at 1 the sphere around the objects touches the frame's edges (nearly: tan, not sin)."""
AZIMUTH_DEG = (0.0, 360.0)
ELEVATION_DEG = (10.0, 45.0)
SPAN_DEG = (10.0, 70.0)
DRIFT_DEG = (-10.0, 10.0)
SUN_STRENGTH = (2.0, 4.0)
AMBIENT_STRENGTH = (0.2, 0.5)
SUN_ANGLE_DEG = 2.0


def bad_setting(name: str, found: object, expected: str) -> AssetRefused:
    """Return the error for a setting that cannot be used."""
    return AssetRefused("bad_asset_setting", name, repr(found), expected)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How clips are planned. Raises AssetRefused (bad_asset_setting).

    The released format knows only 32 frames of 512 x 512; other sizes are for tests. They keep the field of view, and the least numbers of pixels
    shrink with the frame's area. The planned limits lie above the guaranteed ones, since a renderer and a ray caster differ by some pixels.
    """

    frames: int = field(default=32, metadata=meta("frames of a clip"))
    width: int = field(default=WIDTH, metadata=meta("pixels of a frame"))
    height: int = field(default=HEIGHT, metadata=meta("pixels of a frame; frames are square"))
    min_visible_px: int = field(default=524, metadata=meta("an object shows at least so many pixels in every frame, of 512 x 512"))
    min_visible_frac: float = field(default=0.1, metadata=meta("and at least this part of its own area in the frame"))
    planned_visible_px: int = field(default=528, metadata=meta("what a plan must show, of 512 x 512: min_visible_px and a margin for the renderer"))
    planned_visible_frac: float = field(default=0.102, metadata=meta("what a plan must show: min_visible_frac and a margin for the renderer"))
    max_attempts: int = field(default=50, metadata=meta("after so many attempts a clip is given up"))
    max_position_tries: int = field(default=1000, metadata=meta("after so many draws of positions that overlap an attempt is given up"))
    max_arc_retries: int = field(default=100, metadata=meta("after so many further arcs that the background does not cover an attempt is given up"))

    def __post_init__(self) -> None:
        check_kinds(self)
        for name, low, high in (
            ("frames", 2, 1000),
            ("width", 16, 4096),
            ("height", self.width, self.width),
            ("min_visible_px", 1, WIDTH * HEIGHT),
            ("min_visible_frac", 0.0, 1.0),
            ("planned_visible_px", self.min_visible_px, WIDTH * HEIGHT),
            ("planned_visible_frac", self.min_visible_frac, 1.0),
            ("max_attempts", 1, 10_000),
            ("max_position_tries", 1, 1_000_000),
            ("max_arc_retries", 0, 10_000),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise bad_setting(name, value, f"a number from {low} to {high}" if low < high else f"{low}")

    @property
    def planned_px(self) -> int:
        """Return the pixels that a plan must show of every object in frames of this size."""
        return self._scaled(self.planned_visible_px)

    @property
    def least_px(self) -> int:
        """Return the pixels that a clip must show of every object in frames of this size."""
        return self._scaled(self.min_visible_px)

    def _scaled(self, pixels: int) -> int:
        return pixels * self.width * self.height // (WIDTH * HEIGHT)
