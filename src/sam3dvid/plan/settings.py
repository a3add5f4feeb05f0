"""The settings of plan_clips, and the bounds of those distributions that the format fixes."""

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
STRONGEST = 1000.0
"""Of lights: beyond it every picture is white."""


def bad_setting(name: str, found: object, expected: str) -> AssetRefused:
    """Return the error for a setting that cannot be used."""
    return AssetRefused("bad_asset_setting", name, repr(found), expected)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How clips are planned. Raises AssetRefused (bad_asset_setting).

    The released format knows only 32 frames of 512 x 512; other sizes are for tests. They keep the field of view, and the least number of pixels
    shrinks with the frame's area. The planned limits lie above those that the format guarantees, since a renderer and a ray caster differ by some pixels.
    """

    frames: int = field(default=32, metadata=meta("frames of a clip"))
    width: int = field(default=WIDTH, metadata=meta("pixels of a frame"))
    height: int = field(default=HEIGHT, metadata=meta("pixels of a frame; frames are square"))
    planned_visible_px: int = field(default=528, metadata=meta("pixels that every object shows in every frame, of 512 x 512"))
    planned_visible_frac: float = field(default=0.102, metadata=meta("and the part of its own area in the frame"))
    sun_strength_min: float = field(default=2.0, metadata=meta("least strength of the sun, as Blender's lights have it"))
    sun_strength_max: float = field(default=4.0, metadata=meta("greatest strength of the sun"))
    ambient_strength_min: float = field(default=0.2, metadata=meta("least strength of the even light from all sides"))
    ambient_strength_max: float = field(default=0.5, metadata=meta("greatest strength of the even light"))
    sun_angle_deg: float = field(default=2.0, metadata=meta("how wide the sun is, in degrees: the softness of shadows"))
    max_attempts: int = field(default=50, metadata=meta("after so many attempts a clip is given up"))
    max_position_tries: int = field(default=1000, metadata=meta("after so many draws of positions that overlap an attempt is given up"))
    max_arc_retries: int = field(default=100, metadata=meta("after so many further arcs that the background does not cover an attempt is given up"))

    def __post_init__(self) -> None:
        check_kinds(self)
        for name, low, high in (
            ("frames", 2, 1000),
            ("width", 16, 4096),
            ("height", self.width, self.width),
            ("planned_visible_px", 1, WIDTH * HEIGHT),
            ("planned_visible_frac", 0.0, 1.0),
            ("sun_strength_min", 0.0, STRONGEST),
            ("sun_strength_max", self.sun_strength_min, STRONGEST),
            ("ambient_strength_min", 0.0, STRONGEST),
            ("ambient_strength_max", self.ambient_strength_min, STRONGEST),
            ("sun_angle_deg", 0.0, 180.0),
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
        return self.planned_visible_px * self.width * self.height // (WIDTH * HEIGHT)
