"""Read the finished clips of one work shard whole and set aside those that break the dataset's format."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.composite.validate_step import clip_items, validate_step
from sam3dvid.stage import CLIP_STEPS, SPLITS, clips_place
from shardwork import command, flags
from shardwork.run import run_guard

arguments = command.parser(__doc__)
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, results/RUN/dataset")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the clips' split")
arguments.add_argument("--any-size", type=command.truth, default=False, help="allow other sizes than 32 frames of 512 x 512, for tests (default: false)")
flags.add_shard_flags(arguments)


def main(args) -> int:
    place = clips_place(args.stage, args.dataset)
    step = validate_step(args.dataset, args.any_size)
    run_guard(step, args.shard, lambda rows: clip_items(rows, place, args.split), CLIP_STEPS[0], place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
