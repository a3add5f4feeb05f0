"""Plan the clips of one work shard: objects, poses, cameras, light and background, with a verdict for every clip."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.plan.catalogue import read_assets
from sam3dvid.plan.plan_step import plan_items, plan_step, stock_of
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.stage import SPLITS, clips_of, plans_place
from shardwork import command, flags
from shardwork.run import run_shard

arguments = command.parser(__doc__)
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, which holds the finished assets")
arguments.add_argument("--voxels", type=Path, help="the folder of voxelize_assets' verdicts, results/RUN/voxels (default: every folder there is an asset)")
arguments.add_argument("--pool", type=Path, required=True, help="the folder of a frozen pool of backgrounds")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the split that is planned")
arguments.add_argument("--clips", type=command.whole(1), required=True, help="how many clips there are")
arguments.add_argument("--first", type=command.whole(0), default=0, help="number of the first clip (default: 0)")
arguments.add_argument("--clips-per-shard", type=command.whole(1), required=True, help="how many clips in a row make a work shard")
flags.add_shard_flags(arguments)
command.add_settings(arguments, PlanSettings)


def main(args) -> int:
    settings, place = command.settings_from(args, PlanSettings), plans_place(args.stage)
    clip_ids = clips_of(args.shard, args.clips, args.clips_per_shard, args.first)
    assets, pool = read_assets(args.dataset, args.split, args.voxels), read_pool(args.pool)
    stock = stock_of(args.split, assets, pool, args.dataset)
    items = plan_items(clip_ids, args.split, assets, pool, place)
    run_shard(plan_step(settings, stock), args.shard, items, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
