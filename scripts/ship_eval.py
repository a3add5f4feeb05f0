"""Pack the finished clips of one split with their assets, manifest and configuration into one tar, with its sha256 beside it."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.export.settings import add_release_flags, release_settings
from sam3dvid.export.ship import ship_split
from sam3dvid.stage import SPLITS
from shardwork import command

arguments = command.parser(__doc__)
add_release_flags(arguments)
arguments.add_argument("--split", choices=SPLITS, default="eval", help="which split (default: eval)")
arguments.add_argument("--out", type=Path, required=True, help="the tar to write; FILE.tar.sha256 is written last")


def main(args) -> int:
    shipped = ship_split(args.dataset, args.split, args.out, release_settings(args))
    told = f"{len(shipped.refused)} of them may not be released, {len(shipped.left_out)} left out"
    print(f"ship_eval: {shipped.clips} clips, {shipped.assets} assets, {shipped.written.size_bytes} bytes; {told}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
