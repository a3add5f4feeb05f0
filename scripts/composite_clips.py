"""Composite the rendered clips of one work shard over their photos and write each clip's folder into the dataset."""

import sys
from dataclasses import replace
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.composite.composite_step import Stock, composite_items, composite_step
from sam3dvid.composite.origin import read_origin
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.stage import PLAN_STEP, RENDER_STEP, SPLITS, clips_place, plans_place, renders_place
from shardwork import command, flags
from shardwork.place import the_manifest
from shardwork.run import run_guard

arguments = command.parser(__doc__)
arguments.add_argument("--plans", type=Path, required=True, help="the stage of plan_clips, results/RUN/plans")
arguments.add_argument("--renders", type=Path, required=True, help="the stage of render_clips, results/RUN/renders")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, results/RUN/dataset")
arguments.add_argument("--pool", type=Path, required=True, help="the folder of the pool of backgrounds that the clips were planned with")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the clips' split")
flags.add_shard_flags(arguments)
command.add_settings(arguments, CompositeSettings)


def main(args) -> int:
    plans = plans_place(args.plans)
    renders = renders_place(args.renders, plans)
    place = replace(clips_place(args.stage, args.dataset), before=renders)

    def items_of(rows):
        return composite_items(rows, the_manifest(plans, PLAN_STEP, args.shard), args.split, renders, place)

    step = composite_step(command.settings_from(args, CompositeSettings), Stock(plans, args.pool, read_origin()))
    run_guard(step, args.shard, items_of, RENDER_STEP, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
