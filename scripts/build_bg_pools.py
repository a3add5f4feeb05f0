"""Build the frozen pool of the photos below folders, such as SA-1B's; the photos stay where they are."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import SA1B_LICENSE
from sam3dvid.backgrounds.sa1b_pool import build_sa1b_pool
from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.backgrounds.tables import PHOTO_COLUMNS, photo_rows, read_photo_table
from sam3dvid.stage import books_of
from shardwork import command
from shardwork.errors import EXIT_OK, EXIT_SOME_FAILED
from shardwork.run import Options
from shardwork.tables import write_table

arguments = command.parser(__doc__)
arguments.add_argument("--photos", type=Path, nargs="+", required=True, metavar="DIR", help="folders of photos; an id is its file's stem")
arguments.add_argument("--out", type=Path, required=True, help="the pool's folder; the table, journal and verdicts go to OUT.books")
arguments.add_argument("--license", default=SA1B_LICENSE, help=f"their licence, an SPDX id (default: {SA1B_LICENSE}, research only)")
arguments.add_argument("--workers", type=command.whole(0), default=1, help="processes; 0 works in this one (default: 1)")
command.add_settings(arguments, PhotoSettings)


def main(args) -> int:
    settings = command.settings_from(args, PhotoSettings)
    books = books_of(args.out)
    table = books / "photos.csv"
    write_table(table, PHOTO_COLUMNS, photo_rows(args.photos, table, args.license))
    rows = build_sa1b_pool(read_photo_table(table), table, args.out, books, settings, Options(workers=args.workers))
    refused = [row for row in rows if row["status"] != "ok"]
    print(f"{args.out}: {len(rows) - len(refused)} photos, {len(refused)} refused")
    return EXIT_SOME_FAILED if refused else EXIT_OK


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
