"""Turn the videos of one work shard into event voxel files (HDF5), with a verdict for every video."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.settings import VoxelSettings
from eventvox.stage import KEY, events_place, read_video_table
from eventvox.steps import video_items, voxelize_step
from shardwork import command, flags
from shardwork.run import run_shard
from shardwork.shards import rows_of

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the video table (CSV)")
flags.add_shard_flags(arguments)
command.add_settings(arguments, VoxelSettings)


def main(args) -> int:
    step, place = voxelize_step(command.settings_from(args, VoxelSettings)), events_place(args.stage)
    items = video_items(rows_of(read_video_table(args.table), KEY, args.shard), args.table, place)
    run_shard(step, args.shard, items, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
