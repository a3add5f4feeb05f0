"""Build, or find unchanged, the frozen pool of the photos of a table."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.sa1b_pool import build_sa1b_pool
from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.backgrounds.sheet import write_sheet
from sam3dvid.backgrounds.tables import read_photo_table
from shardwork import command, flags

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the table (CSV)")
arguments.add_argument("--pool", type=Path, required=True, help="the pool's folder")
arguments.add_argument("--stage", type=Path, required=True, help="the folder of journal, manifest and quarantine, outside the pool")
flags.add_run_flags(arguments)
arguments.add_argument("--max-refused", type=command.whole(0), help="freeze no pool while more pictures than this are refused (default: freeze it)")
arguments.add_argument("--sheet", type=Path, help="also a contact sheet of the pool (PNG), to be looked at")
command.add_settings(arguments, PhotoSettings)


def main(args) -> int:
    settings = command.settings_from(args, PhotoSettings)
    build_sa1b_pool(read_photo_table(args.table), args.table, args.pool, args.stage, settings, flags.options_from(args), args.max_refused)
    if args.sheet:
        write_sheet(args.sheet, args.pool)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
