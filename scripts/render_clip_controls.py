"""Render the control videos of one work shard: for each passing clip its depth and its masks as lossless videos, one picture for every frame."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.controls.controls_step import control_items, controls_step
from sam3dvid.controls.settings import ControlSettings
from sam3dvid.stage import CLIP_STEPS, SPLITS, clip_controls_place, clips_place
from shardwork import command, flags
from shardwork.place import the_manifest
from shardwork.run import run_guard

arguments = command.parser(__doc__)
arguments.add_argument("--clips", type=Path, required=True, help="the stage of the clips, results/RUN/clips")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, results/RUN/dataset")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the clips' split")
flags.add_shard_flags(arguments)
command.add_settings(arguments, ControlSettings)


def main(args) -> int:
    made, validated = CLIP_STEPS
    clips = clips_place(args.clips, args.dataset)
    place = clip_controls_place(args.stage, clips)

    def items_of(rows):
        return control_items(rows, the_manifest(clips, validated, args.shard), args.split, place, clips)

    run_guard(controls_step(command.settings_from(args, ControlSettings)), args.shard, items_of, made, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
