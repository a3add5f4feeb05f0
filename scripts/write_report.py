"""Write the report of one branch: how many items passed, and which did not and why."""

import sys
from pathlib import Path

import _branches
from reelmill.report import as_text, summarise
from shardwork import command
from shardwork.files import write_bytes
from shardwork.jsonio import write_json

arguments = command.parser(__doc__)
_branches.add_branch_flags(arguments)
arguments.add_argument("--json", type=Path, required=True, help="the report for machines")
arguments.add_argument("--text", type=Path, required=True, help="the report for people")


def main(args) -> int:
    branch = _branches.branch_from(args)
    summary = summarise(branch.name, branch.rows(), branch.ids)
    write_json(args.json, summary)
    write_bytes(args.text, as_text(summary).encode())
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
