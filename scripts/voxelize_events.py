"""Turn the videos of one work shard into event voxel files (HDF5), with a verdict for every video."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.settings import VoxelSettings
from eventvox.stage import KEY, events_place, read_video_table
from eventvox.steps import video_items, voxelize_step
from shardwork import command, flags
from shardwork.run import run_shard
from shardwork.shards import split_rows

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the video table (CSV)")
flags.add_shard_flags(arguments)
command.add_settings(arguments, VoxelSettings)


def main(args) -> int:
    place = events_place(args.stage)
    rows = split_rows(read_video_table(args.table), KEY, args.work_shards).get(args.shard, [])
    shard = flags.hashed_shard(args, video_items(rows, args.table, place))
    run_shard(voxelize_step(command.settings_from(args, VoxelSettings)), shard, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
