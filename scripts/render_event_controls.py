"""Render the control videos of one work shard: for each passing video its events as lossless pictures, one for every frame."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.stage import STEPS, controls_place, events_place
from eventvox.steps import control_items, controls_step
from shardwork import command, flags
from shardwork.place import the_manifest
from shardwork.run import run_guard

arguments = command.parser(__doc__)
arguments.add_argument("--events", type=Path, required=True, help="the events stage's folder, results/RUN/events")
flags.add_shard_flags(arguments)


def main(args) -> int:
    made, validated = STEPS
    events = events_place(args.events)
    place = controls_place(args.stage, events)

    def items_of(rows):
        return control_items(rows, the_manifest(events, validated, args.shard), place, events)

    run_guard(controls_step(), args.shard, items_of, made, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
