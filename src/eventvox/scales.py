"""Which videos belong to Medium and Small: a stable draw by id, and how many of each kind it gave."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from eventvox.manifest import ManifestRow
from eventvox.manifest_settings import TRUTHS, Condition, ManifestSettings
from shardwork.jsonio import Json

GROUPS = ("split", "duration_bucket", "class_label")
"""What a scale is counted by; a stratum is one value of each."""

RULE = (
    "A video is in a scale if it meets `require` and int(sha256(video_id)) / 2**256 < share. The draw looks at nothing else, so adding or removing "
    "videos never moves another one, and the smaller scale is a part of the larger. The hash spreads ids evenly over 0 to 1, whatever their split, "
    "duration or label: each stratum gets the share in expectation, not to the video; `strata` says what it got."
)


def is_drawn(video_id: str, share: float) -> bool:
    """Return whether a video belongs to a share of all ids. A larger share holds every id of a smaller one; no other id matters."""
    return int(hashlib.sha256(video_id.encode()).hexdigest(), 16) < Fraction(repr(share)) * 2**256


def meets(row: ManifestRow, conditions: Iterable[Condition]) -> bool:
    """Return whether a video meets every condition."""
    holds = {*row.flags, *(name for name in TRUTHS if getattr(row, name))}
    return all((condition.name in holds) is condition.wanted for condition in conditions)


def draw_scales(rows: Sequence[ManifestRow], settings: ManifestSettings) -> dict[str, list[ManifestRow]]:
    """Return the videos of large, medium and small, each in the order of `rows`."""
    pool = [row for row in rows if meets(row, settings.conditions)]
    shares = {"medium": settings.medium_share, "small": settings.small_share}
    return {"large": list(rows), **{name: [row for row in pool if is_drawn(row.video_id, share)] for name, share in shares.items()}}


def count_scales(scales: Mapping[str, Sequence[ManifestRow]], settings: ManifestSettings) -> Json:
    """Return how many videos of each split, bucket and label each scale has, and how many of each stratum; eligible are those that meet `require`."""
    eligible = [row for row in scales["large"] if meets(row, settings.conditions)]
    kinds = {"large": scales["large"], "eligible": eligible, **{name: scales[name] for name in ("medium", "small")}}
    strata = {name: Counter(tuple(getattr(row, group) for group in GROUPS) for row in rows) for name, rows in kinds.items()}
    return {
        "rule": RULE,
        "require": settings.require.split(),
        "shares": {"medium": settings.medium_share, "small": settings.small_share},
        "scales": {name: {"videos": len(rows), **{group: _counts(rows, group) for group in GROUPS}} for name, rows in kinds.items()},
        "strata": [{**dict(zip(GROUPS, stratum, strict=True)), **{name: strata[name][stratum] for name in kinds}} for stratum in sorted(strata["large"])],
    }


def _counts(rows: Sequence[ManifestRow], group: str) -> dict[str, int]:
    return dict(sorted(Counter(getattr(row, group) for row in rows).items()))
