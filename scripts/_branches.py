"""The branches that have a report and a gate: for each, the flags that describe it and how they become a `shardwork.branch.Branch`."""

from pathlib import Path

import _latents
import _src  # noqa: F401
from eventvox.stage import events_branch
from sam3dvid import stage as clip_stage
from sam3dvid.assets.filters import AssetFilter, select
from shardwork import command
from shardwork.errors import DataError
from vidlatents.stage import latents_branch, latents_place, plans_place


def add_branch_flags(arguments) -> None:
    """Add --branch and what describes each branch."""
    arguments.add_argument("--branch", choices=tuple(BRANCHES), required=True, help="which branch")
    arguments.add_argument("--table", type=Path, help="the branch's table (all but clips)")
    arguments.add_argument("--stage", type=Path, required=True, help="the stage's folder, results/RUN/STAGE")
    arguments.add_argument("--work-shards", type=command.whole(1), default=1, help="how many work shards the table is cut into (default: 1)")
    arguments.add_argument("--controls", type=command.truth, default=False, help="events, clips: whether control videos are made (default: false)")
    arguments.add_argument("--controls-stage", type=Path, help="events, clips: the folder of the control videos, results/RUN/controls/BRANCH")
    arguments.add_argument("--voxels", type=Path, help="assets: the folder of voxelize_assets, results/RUN/voxels")
    arguments.add_argument("--dataset", type=Path, help="assets, clips: the dataset's folder")
    arguments.add_argument("--renders", type=Path, help="clips: the folder of render_clips, results/RUN/renders")
    arguments.add_argument("--finished", type=Path, help="clips: the folder of composite_clips and validate_clips, results/RUN/clips")
    arguments.add_argument("--pool", type=Path, help="polyhaven, sa1b: the pool's folder")
    arguments.add_argument("--salt", default="", help="polyhaven: the salt of the order")
    arguments.add_argument("--limit", type=command.whole(0), default=0, help="polyhaven: how many panoramas the pool takes")
    arguments.add_argument("--split", choices=clip_stage.SPLITS, help="clips: their split")
    arguments.add_argument("--clips", type=command.whole(1), help="clips: how many")
    arguments.add_argument("--clips-per-shard", type=command.whole(1), help="clips: how many in a row make a work shard")
    arguments.add_argument("--first", type=command.whole(0), default=0, help="clips: number of the first clip (default: 0)")
    command.add_settings(arguments, AssetFilter)
    arguments.add_argument("--folder", type=Path, help="latents: their folder, results/RUN/latents/MODEL-LAYOUT")
    arguments.add_argument("--plans", type=Path, help="latents: the stage of plan_latents, results/RUN/latents_plans/MODEL-LAYOUT")
    _latents.add_set_flags(arguments)


def _events(args):
    return events_branch(args.table, args.stage, args.work_shards, args.controls, args.controls_stage)


def _assets(args):
    rows, _ = select(clip_stage.read_asset_table(args.table), command.settings_from(args, AssetFilter))
    return clip_stage.assets_branch(rows, args.stage, args.voxels, args.dataset, args.work_shards)


def _polyhaven(args):
    rows = clip_stage.first_panoramas(clip_stage.read_pool_table("polyhaven", args.table), args.salt, args.limit)
    return clip_stage.pool_branch("polyhaven", rows, args.stage, args.pool)


def _sa1b(args):
    return clip_stage.pool_branch("sa1b", clip_stage.read_pool_table("sa1b", args.table), args.stage, args.pool)


def _clips(args):
    places = clip_stage.clip_places(args.stage, args.renders, args.finished, args.dataset, args.controls_stage)
    return clip_stage.clips_branch(places, args.clips, args.clips_per_shard, args.first, args.controls)


def _latents_of(args):
    rows = _latents.set_rows(args)
    place = latents_place(args.stage, args.folder, frozenset(row["id"] for row in rows if row["source"] != "records"))
    return latents_branch(args.layout, _latents.shards_of(rows, args.work_shards), plans_place(args.plans), place)


BRANCHES = {
    "events": _events,
    "assets": _assets,
    "polyhaven": _polyhaven,
    "sa1b": _sa1b,
    "clips": _clips,
    "latents_sections": _latents_of,
    "latents_whole": _latents_of,
}
NEEDED = {
    "events": ("table",),
    "assets": ("table", "voxels", "dataset"),
    "polyhaven": ("table", "pool"),
    "sa1b": ("table", "pool"),
    "clips": ("split", "clips", "clips_per_shard"),
    "latents_sections": ("plans", "folder"),
    "latents_whole": ("plans", "folder"),
}


def branch_from(args):
    """Return the branch that the flags describe. Raises DataError (bad_argument) if one is missing."""
    if missing := ["--" + name.replace("_", "-") for name in NEEDED[args.branch] if getattr(args, name) is None]:
        raise DataError("bad_argument", f"--branch={args.branch}", f"no {', '.join(missing)}", "all flags of the branch", "see --help")
    return BRANCHES[args.branch](args)
