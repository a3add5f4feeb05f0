"""Write the report of one branch: how many items passed, and which did not and why."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.stage import CONTROLS_STEP, KEY, STEPS, controls_place, events_place, read_video_table
from reelmill.report import as_text, summarise
from shardwork import command
from shardwork.files import write_bytes
from shardwork.jsonio import write_json
from shardwork.place import the_manifest
from shardwork.shards import split_rows

arguments = command.parser(__doc__)
arguments.add_argument("--branch", choices=("events",), required=True, help="which branch")
arguments.add_argument("--table", type=Path, required=True, help="the branch's table")
arguments.add_argument("--stage", type=Path, required=True, help="the stage's folder, results/RUN/STAGE")
arguments.add_argument("--work-shards", type=command.whole(1), required=True, help="how many work shards the table is cut into")
arguments.add_argument("--controls", type=command.truth, default=False, help="whether control videos are made (default: false)")
arguments.add_argument("--controls-stage", type=Path, required=True, help="the folder of the control videos, results/RUN/controls/events")
arguments.add_argument("--json", type=Path, required=True, help="the report for machines")
arguments.add_argument("--text", type=Path, required=True, help="the report for people")


def main(args) -> int:
    shards = split_rows(read_video_table(args.table), KEY, args.work_shards)
    place = events_place(args.stage)
    stages = [(place, step) for step in STEPS]
    if args.controls:
        stages.append((controls_place(args.controls_stage, place), CONTROLS_STEP))
    steps = [(step, [row for shard in shards for row in the_manifest(where, step, shard)]) for where, step in stages]
    summary = summarise(args.branch, steps, [row[KEY] for rows in shards.values() for row in rows])
    write_json(args.json, summary)
    write_bytes(args.text, as_text(summary).encode())
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
