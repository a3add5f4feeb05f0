"""Write the checksum file of the release's tar shards, as `sha256sum -c` reads it."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.release import write_checksums
from shardwork import command

arguments = command.parser(__doc__)
arguments.add_argument("--release", type=Path, required=True, help="the release's folder, results/RUN/events_release")


def main(args) -> int:
    print(f"checksum_events: {write_checksums(args.release)} shards", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
