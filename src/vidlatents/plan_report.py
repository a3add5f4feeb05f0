"""What a whole folder's plan says before anything is encoded: frames, refusals, what the trainer ignores, and the cost by bucket."""

from __future__ import annotations

from collections.abc import Sequence

from shardwork.jsonio import Json
from shardwork.step import Fields
from vidlatents.cost import cost_of
from vidlatents.plan import PlanSettings, report
from vidlatents.plan_step import planned
from vidlatents.released import config_for
from vidlatents.settings import EncodeFlags


def cost_by_bucket(rows: Sequence[Fields], flags: EncodeFlags, where: str) -> dict[str, Json]:
    """Return what `cost.cost_of` says of planned samples, and of which configuration; {} where there are none, and {"unknown": why} where it is not known.

    rows : of plan_latents.   where : the autoencoder.   Loads torch and diffusers, and no weights.
    """
    good = planned(rows)
    if not good:
        return {}
    if (found := config_for(where, flags.model)) is None:
        return {"unknown": f"no configuration of {where} is here, and none of {flags.model} was released"}
    config, whose = found
    return {**cost_of(good, config, flags.dtype, lambda height, width: flags.tilings(height, width)[0]), "config": whose}


def whole_report(rows: Sequence[Fields], shards: Sequence[str], settings: PlanSettings, cost: dict[str, Json]) -> str:
    """Return the plan of a folder for people, one fact a line.

    rows : of plan_latents, of all its work shards, whose names are `shards`.   cost : as of `cost_by_bucket`.
    """
    here = [row for row in rows if not row.get("elsewhere")]
    passed = len(rows) - len(here)
    return report(here, settings, len(shards), cost) + (f"{passed} samples belong to the folder of the other layout\n" if passed else "")
