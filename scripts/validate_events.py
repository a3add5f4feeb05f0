"""Read the voxel files of one work shard whole and set aside those that break the format."""

import sys

import _src  # noqa: F401
from eventvox.stage import events_place
from eventvox.steps import validate_step, voxel_items
from shardwork import command, flags
from shardwork.run import Shard, run_shard

arguments = command.parser(__doc__)
arguments.add_argument("--frames-per-bin", type=int, default=1, help="as the files were made with (default: 1)")
flags.add_shard_flags(arguments, by_hash=False)


def main(args) -> int:
    place = events_place(args.stage)
    items = voxel_items(place.manifest("voxelize_events", args.shard), place)
    # files of removed ids are voxelize_events' to sweep: this step owns none
    shard = Shard(args.shard, items, lambda item_id: False)
    run_shard(validate_step(args.frames_per_bin), shard, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
