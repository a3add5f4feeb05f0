"""A plan's file, read back: apart from the planner, so that a renderer needs none of its packages."""

from __future__ import annotations

from pathlib import Path

from sam3dvid.codes import AssetRefused
from sam3dvid.stage import SPLITS
from shardwork.digests import digest_value, unseal
from shardwork.errors import DataError
from shardwork.jsonio import Json, read_json


def read_plan(path: Path) -> dict[str, Json]:
    """Return a plan. Raises AssetRefused (bad_plan) for one that is not whole, OSError for one that cannot be read."""
    try:
        plan = unseal(read_json(path))
    except DataError as error:
        raise AssetRefused("bad_plan", path, error.found, "a plan") from error
    if plan is None or plan.get("split") not in SPLITS:
        raise AssetRefused("bad_plan", path, "another form, or changed", "a plan as it was sealed")
    return dict(plan)


def scene_digest(plan: dict[str, Json]) -> str:
    """Return a digest of what a plan shows, its meshes included: of all but what it was drawn from. A plan drawn anew from more to the same end is equal."""
    return digest_value({key: value for key, value in plan.items() if key != "fingerprint"})


def read_scene(path: Path, scene: str) -> dict[str, Json] | None:
    """Return the plan of a file if it shows the scene of that digest, or None. Raises OSError for one that cannot be read."""
    try:
        plan = read_plan(path)
    except (AssetRefused, FileNotFoundError):
        return None
    return plan if scene_digest(plan) == scene else None
