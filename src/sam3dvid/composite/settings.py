"""The settings of composite_clips: what a clip must show of every object in every frame."""

from __future__ import annotations

from dataclasses import dataclass, field

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import HEIGHT, WIDTH
from sam3dvid.settings import check_kinds, meta
from sam3dvid.validate.visibility import least_visible_px


@dataclass(frozen=True, slots=True)
class CompositeSettings:
    """What a clip must show, or it is refused. Raises AssetRefused (bad_asset_setting).   Source: seed 002, section 6."""

    min_visible_px: int = field(default=524, metadata=meta("an object shows at least so many pixels in every frame, of 512 x 512"))
    min_visible_frac: float = field(default=0.1, metadata=meta("and at least this part of its own area in the frame"))

    def __post_init__(self) -> None:
        check_kinds(self)
        least = least_visible_px(WIDTH, HEIGHT)
        if not least <= self.min_visible_px <= WIDTH * HEIGHT:
            raise AssetRefused("bad_asset_setting", "min_visible_px", repr(self.min_visible_px), f"a number from {least} to {WIDTH * HEIGHT}")
        if not 0 <= self.min_visible_frac <= 1:
            raise AssetRefused("bad_asset_setting", "min_visible_frac", repr(self.min_visible_frac), "a number from 0 to 1")

    def least_px(self, width: int, height: int) -> int:
        """Return the least pixels in frames of this size: they shrink with the frame's area, and are never fewer than the format asks for."""
        return max(least_visible_px(width, height), self.min_visible_px * width * height // (WIDTH * HEIGHT))
