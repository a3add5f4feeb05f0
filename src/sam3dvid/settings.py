"""The settings of assets: one record a step, from which flags, config keys and their documentation are generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sam3dvid.codes import AssetRefused
from shardwork import settings as settings_of


def meta(text: str, choices: tuple[Any, ...] | None = None) -> dict[str, Any]:
    """Return what a field says of itself: its help, and the values it may have if they are few."""
    return {"help": text, "choices": choices}


def check_kinds(settings: Any) -> None:
    """Raise AssetRefused (bad_asset_setting) unless every value of a record is of its default's kind and one of its choices."""
    settings_of.check_kinds(settings, lambda name, value, expected: AssetRefused("bad_asset_setting", name, repr(value), expected))


@dataclass(frozen=True, slots=True)
class NormalizeSettings:
    """What decides a normalised mesh's bytes, or whether it is refused. Raises AssetRefused (bad_asset_setting)."""

    max_triangles: int = field(default=2_000_000, metadata=meta("refuse an asset with more triangles than this"))
    transparent: str = field(default="refuse", metadata=meta("materials that are not opaque: refuse the asset, or make them opaque", ("refuse", "opaque")))
    untextured: str = field(default="refuse", metadata=meta("assets without any colour of their own: refuse them, or keep them grey", ("refuse", "keep")))

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 1 <= self.max_triangles <= 100_000_000:
            raise AssetRefused("bad_asset_setting", "max_triangles", repr(self.max_triangles), "a number from 1 to 100000000")
