"""Build, or find unchanged, the frozen pool of the photos of a table."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.sa1b_pool import build_sa1b_pool
from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.backgrounds.tables import read_photo_table
from shardwork import command, flags

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the table (CSV)")
arguments.add_argument("--pool", type=Path, required=True, help="the pool's folder")
arguments.add_argument("--stage", type=Path, required=True, help="the folder of journal, manifest and quarantine, outside the pool")
arguments.add_argument("--key", default="by-hand", help="part of the manifest's name: a digest of what the pool is made for")
arguments.add_argument("--workers", type=command.whole(0), default=1, help="processes; 0 works in this one (default: 1)")
arguments.add_argument("--redo", type=command.whole(0), default=0, help="raise it to look at everything again (default: 0)")
arguments.add_argument("--verify", choices=("fast", "full"), default="fast", help="how finished files are looked at: size and time, or digests too")
command.add_settings(arguments, PhotoSettings)


def main(args) -> int:
    settings = command.settings_from(args, PhotoSettings)
    build_sa1b_pool(read_photo_table(args.table), args.table, args.pool, args.stage, settings, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
