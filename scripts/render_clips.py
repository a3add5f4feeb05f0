"""Render the planned clips of one work shard in Blender: foreground, masks and depth, with a verdict for every clip."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.render.render_step import check_device, render_items, render_step
from sam3dvid.render.settings import RenderHost, RenderSettings
from sam3dvid.stage import PLAN_STEP, SPLITS, plans_place, renders_place
from shardwork import command, flags
from shardwork.run import run_guard

arguments = command.parser(__doc__)
arguments.add_argument("--plans", type=Path, required=True, help="the stage of plan_clips, results/RUN/plans")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, which holds the finished assets")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the clips' split")
flags.add_shard_flags(arguments)
command.add_settings(arguments, RenderSettings)
command.add_settings(arguments, RenderHost)


def main(args) -> int:
    settings, host = command.settings_from(args, RenderSettings), command.settings_from(args, RenderHost)
    plans = plans_place(args.plans)
    place = renders_place(args.stage, plans)
    check_device(host)
    step = render_step(settings, host, args.dataset)
    run_guard(step, args.shard, lambda rows: render_items(rows, args.split, place, plans, args.dataset), PLAN_STEP, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
