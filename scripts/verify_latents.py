"""Verify the finished files of one work shard: whole, as written, and samples of their names; what is none is set aside."""

import sys
from pathlib import Path

import _src  # noqa: F401
from shardwork import command, flags
from shardwork.run import run_guard
from vidlatents.buckets import LAYOUTS
from vidlatents.stage import ENCODE_STEP, latents_place
from vidlatents.verify import LEVELS
from vidlatents.verify_step import verify_items, verify_step

arguments = command.parser(__doc__)
arguments.add_argument("--folder", type=Path, required=True, help="the folder of the latents, results/RUN/latents/MODEL-LAYOUT")
arguments.add_argument("--model", required=True, help="what they are of")
arguments.add_argument("--layout", choices=LAYOUTS, required=True, help="how they are laid out")
arguments.add_argument("--level", choices=LEVELS, default="sha256", help="how far to look (default: sha256, all of it)")
flags.add_shard_flags(arguments)


def main(args) -> int:
    place = latents_place(args.stage, args.folder)
    step = verify_step(args.level, args.model, args.layout)
    run_guard(step, args.shard, lambda rows: verify_items(rows, place), ENCODE_STEP, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
