"""Pack the passing event files of one split into tar shards."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.release import pack_split
from eventvox.stage import SPLITS
from shardwork import command
from shardwork.pack import PackOptions

arguments = command.parser(__doc__)
arguments.add_argument("--release", type=Path, required=True, help="the release's folder, results/RUN/events_release, with its manifests")
arguments.add_argument("--stage", type=Path, required=True, help="the folder of the event files, results/RUN/events")
arguments.add_argument("--split", choices=SPLITS, required=True, help="which split")
arguments.add_argument("--members-per-shard", type=command.whole(1), default=15, help="videos in each tar but the last (default: 15)")
arguments.add_argument("--workers", type=command.whole(0), default=1, help="processes; 0 works in this one (default: 1)")
arguments.add_argument("--replan", action="store_true", help="take the place of another plan's shards: make again those that differ, remove the rest")
arguments.add_argument("--verify", choices=("fast", "full"), default="fast", help="how finished shards are looked at: size, or sha256 too")


def main(args) -> int:
    options = PackOptions(workers=args.workers, replan=args.replan, full=args.verify == "full")
    pack_split(args.release, args.stage, args.split, args.members_per_shard, options)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
