"""The settings of background pools: one record a kind, from which flags, config keys and their documentation are generated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import BACKGROUND_HFOV_DEG
from sam3dvid.settings import check_kinds, meta

SALT = "reelmill-bg-v1"
_FRACTION = "share of the pictures that goes to eval, by a hash of the id"
_SALT = "enters the hash that decides order and split; another salt is another pool"


def _check(settings: Any, ranges: dict[str, tuple[float, float]]) -> None:
    check_kinds(settings)
    for name, (low, high) in ranges.items():
        value = getattr(settings, name)
        if not (math.isfinite(value) and low <= value <= high):
            raise AssetRefused("bad_asset_setting", name, repr(value), f"a number from {low} to {high}")


@dataclass(frozen=True, slots=True)
class PanoramaSettings:
    """What decides the views of panoramas, and which pool they belong to. Raises AssetRefused (bad_asset_setting)."""

    views: int = field(default=4, metadata=meta("views of each panorama, at equal steps of yaw from 0"))
    width: int = field(default=2048, metadata=meta("pixels of a view"))
    height: int = field(default=1024, metadata=meta("pixels of a view"))
    hfov_deg: float = field(default=BACKGROUND_HFOV_DEG, metadata=meta("horizontal field of view; the compositor knows only 130", (BACKGROUND_HFOV_DEG,)))
    quality: int = field(default=95, metadata=meta("JPEG quality of a view; chroma is never reduced"))
    eval_fraction: float = field(default=0.1, metadata=meta(_FRACTION))
    salt: str = field(default=SALT, metadata=meta(_SALT))
    limit: int = field(default=0, metadata=meta("take so many panoramas, the first in the order of the hash; 0 takes all"))

    def __post_init__(self) -> None:
        _check(
            self, {"views": (1, 36), "width": (512, 16384), "height": (256, 16384), "quality": (1, 100), "eval_fraction": (0.0, 1.0), "limit": (0, 10_000_000)}
        )

    def yaw_deg(self, index: int) -> float:
        """Return the yaw of a view, in degrees to the right of the panorama's middle."""
        return 360.0 * index / self.views


@dataclass(frozen=True, slots=True)
class PhotoSettings:
    """Which photos can be backgrounds, and which pool they belong to. Raises AssetRefused (bad_asset_setting).

    The reason for the limits: a photo is spread over 130 degrees, a frame sees 50 of them. In the middle of a frame one photo pixel covers
    2354 / width frame pixels, 4.6 at a width of 512. Cover needs height: of the arcs there are, a photo twice as wide as high covers 98 %,
    2.5 times as wide 72 %, 4 times as wide 2 %.
    """

    eval_fraction: float = field(default=0.1, metadata=meta(_FRACTION))
    salt: str = field(default=SALT, metadata=meta(_SALT))
    max_pixels: int = field(default=100_000_000, metadata=meta("refuse a photo with more pixels than this, before it is decoded"))
    min_width: int = field(default=512, metadata=meta("refuse a narrower photo: less than a fifth of its width fills a frame"))
    min_height: int = field(default=256, metadata=meta("refuse a lower photo"))
    max_aspect: float = field(default=2.5, metadata=meta("refuse a photo wider than this many times its height: it seldom covers all frames"))
    min_aspect: float = field(default=0.333, metadata=meta("refuse a photo narrower than this many times its height"))

    def __post_init__(self) -> None:
        _check(
            self,
            {
                "eval_fraction": (0.0, 1.0),
                "max_pixels": (1, 1_000_000_000),
                "min_width": (1, 32766),
                "min_height": (1, 32766),
                "max_aspect": (1.0, 4.0),
                "min_aspect": (0.01, 1.0),
            },
        )
