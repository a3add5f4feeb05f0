"""Read the voxel files of one work shard whole and set aside those that break the format."""

import sys

import _src  # noqa: F401
from eventvox.stage import events_place
from eventvox.steps import validate_step, voxel_items
from shardwork import command, flags
from shardwork.run import run_guard

arguments = command.parser(__doc__)
arguments.add_argument("--frames-per-bin", type=command.whole(1), default=1, help="as the files were made with (default: 1)")
flags.add_shard_flags(arguments)


def main(args) -> int:
    step, place = validate_step(args.frames_per_bin), events_place(args.stage)
    run_guard(step, args.shard, lambda rows: voxel_items(rows, place), "voxelize_events", place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
