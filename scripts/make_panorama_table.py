"""Make the table of the panoramas below a folder."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import CC0
from sam3dvid.backgrounds.tables import PANORAMA_COLUMNS, panorama_rows
from shardwork import command
from shardwork.tables import write_table

arguments = command.parser(__doc__)
arguments.add_argument("--panoramas", type=Path, required=True, help="the folder of JPEG, PNG, HDR and EXR panoramas")
arguments.add_argument("--out", type=Path, required=True, help="the table (CSV)")
arguments.add_argument("--license", default=CC0, help=f"their licence, an SPDX id (default: {CC0})")
arguments.add_argument("--source-url-prefix", default="", help="what stands before a slug in its source_url, such as https://polyhaven.com/a/")
arguments.add_argument("--authors", default="", help='their authors, joined by "; "')


def main(args) -> int:
    rows = panorama_rows(args.panoramas, args.out, args.license, args.source_url_prefix, args.authors)
    write_table(args.out, PANORAMA_COLUMNS, rows)
    print(f"{args.out}: {len(rows)} panoramas")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
