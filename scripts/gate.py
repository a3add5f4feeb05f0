"""Close one branch: clear what belongs to no row of the table, and fail if more items were refused than allowed."""

import sys
from pathlib import Path

import _branches
from reelmill.report import as_text
from sam3dvid.stage import is_frozen
from shardwork import command
from shardwork.errors import EXIT_FAULT, DataError, Fault, print_error
from shardwork.files import retract, write_bytes
from shardwork.gate import LOOK_AGAIN, check_gate
from shardwork.jsonio import read_json
from shardwork.place import clear_temporary

arguments = command.parser(__doc__)
_branches.add_branch_flags(arguments)
arguments.add_argument("--report", type=Path, required=True, help="the branch's report (JSON)")
arguments.add_argument("--max-quarantined", type=command.whole(0), default=0, help="how many refused items are accepted (default: 0)")
arguments.add_argument("--prune", type=command.truth, default=False, help="delete files set aside for ids that the table no longer has")
arguments.add_argument("--passed", type=Path, required=True, help="written when the branch passes")


def main(args) -> int:
    branch = _branches.branch_from(args)
    summary = read_json(args.report)
    clear_temporary(args.report.parent, lambda name: name.startswith(f"{branch.name}."))
    for old in args.passed.parent.glob(f"{branch.name}.*passed"):
        retract(old)
    for path, what in branch.sweep(args.prune):
        print(f"{path.name}: {what}", file=sys.stderr)
    print(as_text(summary), end="", file=sys.stderr)
    try:
        check_gate(branch.name, summary, args.max_quarantined)
    except DataError as error:
        print_error(error)
        branch.look_again([row["id"] for row in summary["refused"] if row["code"] in LOOK_AGAIN])
        return EXIT_FAULT
    if args.pool and not is_frozen(args.pool):  # it was built when fewer refused pictures were allowed
        branch.look_again(branch.ids)
        print_error(Fault("fault_stale", args.pool, "a pool that is not frozen", "one that is", "run the same command again"))
        return EXIT_FAULT
    write_bytes(args.passed, as_text(summary).encode())
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
