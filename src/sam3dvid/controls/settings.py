"""The settings of render_clip_controls."""

from __future__ import annotations

from dataclasses import dataclass, field

from sam3dvid.codes import AssetRefused
from sam3dvid.settings import check_kinds, meta


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How control videos are written. Raises AssetRefused (bad_asset_setting)."""

    fps: int = field(default=16, metadata=meta("frames a second that the videos state: a clip has no rate of its own"))

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 1 <= self.fps <= 1000:
            raise AssetRefused("bad_asset_setting", "fps", repr(self.fps), "a number from 1 to 1000")
