"""Make the table of assets in folders, or bring an existing one up to date."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.assets.facts import Scores, fetched_facts
from sam3dvid.assets.folders import LAYOUTS, find_assets
from sam3dvid.assets.licenses import UNKNOWN
from sam3dvid.assets.table import COLUMNS, Defaults, Joined, asset_rows
from sam3dvid.stage import ASSET_COLUMNS, ASSET_KEY, SPLITS
from shardwork import command
from shardwork.errors import DataError
from shardwork.ids import is_id, suggest_id
from shardwork.listing import is_gone
from shardwork.tables import read_table, write_table

arguments = command.parser(__doc__)
arguments.add_argument("--assets", type=Path, required=True, nargs="+", metavar="DIR", help="folders; subfolders train/ and eval/ name the split")
arguments.add_argument("--layout", choices=LAYOUTS, default="auto", help="gso: Google Scanned Objects, as published or flat; files: every mesh is an asset")
arguments.add_argument(
    "--source", default="", metavar="WORD", help="gso, objaverse or another word (default: as downloads say, gso for their layout, else local)"
)
arguments.add_argument("--license", default="", metavar="ID", help="licence of assets that state none, as SPDX id (default: CC-BY-4.0 for gso, else unknown)")
arguments.add_argument("--up-axis", choices=("Y", "Z"), default="", help="for formats that do not state it: OBJ, PLY, STL (default: Z for gso's layouts)")
arguments.add_argument("--split", choices=SPLITS, default="", help="the split of assets outside such subfolders (default: eval for gso's layouts, else train)")
arguments.add_argument(
    "--metadata", type=Path, nargs="+", metavar="CSV", help="scores in TRELLIS-500K's form: sha256, file_identifier, aesthetic_score, license"
)
arguments.add_argument("--only", nargs="+", metavar="NAME", help="take only the assets of these names or ids")
arguments.add_argument("--out", type=Path, required=True, help="the table (CSV); an existing one is renewed and keeps its ids and what its rows say")
arguments.add_argument("--ids", choices=("name", "path"), default="name", help="what a new asset is named by (default: its folder's or file's name)")
arguments.add_argument("--fix-ids", action="store_true", help="write a usable id for every asset whose name is none")
arguments.add_argument("--remove-gone", action="store_true", help="take out rows whose file is no longer there; otherwise they stay")


def choose(assets, names):
    """Return the assets of these names, all if there are none. Raises DataError (bad_argument) for a name that none has."""
    if lacking := sorted(set(names or ()) - {asset.name for asset in assets}):
        raise DataError("bad_argument", "--only", f"no asset is called {lacking[0]!r}", "names of assets in the folders", "correct the name")
    return [asset for asset in assets if not names or asset.name in names]


def with_ids(rows, fix):
    """Return the rows with usable ids where that is asked for."""
    return sorted(
        ({**row, ASSET_KEY: row[ASSET_KEY] if is_id(row[ASSET_KEY]) or not fix else suggest_id(row[ASSET_KEY])} for row in rows), key=lambda r: r[ASSET_KEY]
    )


def main(args) -> int:
    known = read_table(args.out, ASSET_KEY, ASSET_COLUMNS[1:]) if args.out.exists() else []
    scores = Scores(args.metadata) if args.metadata else None
    found = [find_assets(folder, args.layout, args.split) for folder in args.assets]
    joined = Joined(fetched_facts(path for one in found for path in one.fetched), scores)
    assets = choose([asset for one in found for asset in one.assets], args.only)
    rows = asset_rows(assets, args.out, known, Defaults(args.source, args.license, args.up_axis, args.ids), joined)
    gone = [row for row in rows if is_gone(row, args.out)]
    if args.remove_gone:
        rows = [row for row in rows if not is_gone(row, args.out)]
    odd = [row for row in rows if not is_id(row[ASSET_KEY])]
    rows = with_ids(rows, args.fix_ids)
    extra = [name for name in (known[0] if known else {}) if name not in COLUMNS]
    write_table(args.out, (*COLUMNS, *extra), [{**dict.fromkeys(extra, ""), **row} for row in rows])

    before, after = {row[ASSET_KEY]: row for row in known}, {row[ASSET_KEY]: row for row in rows}
    facts = ("bytes", "mtime_ns", "parts")
    changed = sum(any(row[name] != before[key][name] for name in facts) for key, row in after.items() if key in before)
    print(f"{args.out}: {len(rows)} assets: {len(after.keys() - before)} new, {changed} changed, {len(gone)} gone")
    if gone:
        print("rows whose file is gone " + ("are taken out" if args.remove_gone else f"stay, such as {gone[0][ASSET_KEY]}: --remove-gone takes them out"))
    if unknown := [row for row in rows if row["license"] == UNKNOWN]:
        print(f"{len(unknown)} assets have no known licence, such as {unknown[0][ASSET_KEY]}: write it into the table, or give --license")
    if scores:
        print(f"{sum(bool(row['scores']) for row in rows)} assets have scores")
    if others := [path for one in found for path in one.others]:
        print(f"{len(others)} meshes of formats that are not read are left out, such as {others[0].name}")
    if odd:
        what = "got usable ids" if args.fix_ids else "have no usable id and will be quarantined (bad_id): --fix-ids gives them one, or edit the table"
        print(f"{len(odd)} assets {what}, such as {odd[0]['path']} -> {suggest_id(odd[0][ASSET_KEY])}")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
