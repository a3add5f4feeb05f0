"""Close one branch: clear what belongs to no row of the table, and fail if more items were refused than allowed."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.stage import CONTROLS_STEP, KEY, STEPS, controls_place, events_place, read_video_table
from reelmill.report import as_text
from shardwork import command
from shardwork.errors import EXIT_FAULT, DataError, print_error
from shardwork.files import retract, write_bytes
from shardwork.gate import LOOK_AGAIN, check_gate
from shardwork.jsonio import read_json
from shardwork.place import clear_temporary, retract_manifests, sweep
from shardwork.shards import shard_of, split_rows

arguments = command.parser(__doc__)
arguments.add_argument("--report", type=Path, required=True, help="the branch's report (JSON)")
arguments.add_argument("--table", type=Path, required=True, help="the branch's table")
arguments.add_argument("--stage", type=Path, required=True, help="the stage's folder, results/RUN/STAGE")
arguments.add_argument("--work-shards", type=command.whole(1), required=True, help="how many work shards the table is cut into")
arguments.add_argument("--controls", type=command.truth, default=False, help="whether control videos are made (default: false)")
arguments.add_argument("--controls-stage", type=Path, required=True, help="the folder of the control videos, results/RUN/controls/events")
arguments.add_argument("--max-quarantined", type=command.whole(0), default=0, help="how many refused items are accepted (default: 0)")
arguments.add_argument("--prune", type=command.truth, default=False, help="delete files set aside for ids that the table no longer has")
arguments.add_argument("--passed", type=Path, required=True, help="written when the branch passes")


def main(args) -> int:
    place = events_place(args.stage)
    summary = read_json(args.report)
    branch = summary["branch"]
    clear_temporary(args.report.parent, lambda name: name.startswith(f"{branch}."))
    for old in args.passed.parent.glob(f"{branch}.*passed"):
        retract(old)
    live = split_rows(read_video_table(args.table), KEY, args.work_shards)
    for path in sweep(place, STEPS, live, args.prune):
        print(f"{path.name}: no row of the table names it: set aside in {args.stage}/quarantine", file=sys.stderr)
    controls = controls_place(args.controls_stage, place)
    # switched off, none of them is asked for, and a trainer must not find them; switched on again, they come back without being made again
    swept = sweep(controls, (CONTROLS_STEP,), live, args.prune) if args.controls else sweep(controls, (), (), False)
    reason = "no row of the table names it" if args.controls else "controls are switched off"
    for path in swept:
        print(f"{path.name}: {reason}: set aside in {controls.quarantine}", file=sys.stderr)
    print(as_text(summary), end="", file=sys.stderr)
    try:
        check_gate(branch, summary, args.max_quarantined)
    except DataError as error:
        print_error(error)
        for shard in {shard_of(row["id"], args.work_shards) for row in summary["refused"] if row["code"] in LOOK_AGAIN}:
            retract_manifests(place, STEPS[0], shard)
        return EXIT_FAULT
    write_bytes(args.passed, as_text(summary).encode())
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
