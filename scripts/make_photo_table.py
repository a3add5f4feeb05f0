"""Make the table of the photos below folders."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import SA1B_LICENSE
from sam3dvid.backgrounds.tables import PHOTO_COLUMNS, photo_rows
from shardwork import command
from shardwork.tables import write_table

arguments = command.parser(__doc__)
arguments.add_argument("--photos", type=Path, nargs="+", required=True, metavar="DIR", help="folders of photos; an id is its file's stem")
arguments.add_argument("--out", type=Path, required=True, help="the table (CSV)")
arguments.add_argument("--license", default=SA1B_LICENSE, help=f"their licence, an SPDX id (default: {SA1B_LICENSE}, research only)")


def main(args) -> int:
    rows = photo_rows(args.photos, args.out, args.license)
    write_table(args.out, PHOTO_COLUMNS, rows)
    print(f"{args.out}: {len(rows)} photos")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
