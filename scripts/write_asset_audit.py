"""Write the licences and sources of all assets that are used: a table (CSV) and an attribution text (Markdown)."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.assets.audit import COLUMNS, attribution_text, audit_rows
from sam3dvid.stage import ASSET_KEY, ASSET_STEPS, assets_place, read_asset_table
from shardwork import command
from shardwork.files import write_bytes
from shardwork.place import the_manifest
from shardwork.shards import split_rows
from shardwork.tables import write_table

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the asset table (CSV)")
arguments.add_argument("--stage", type=Path, required=True, help="the stage of voxelize_assets, results/RUN/voxels")
arguments.add_argument("--work-shards", type=command.whole(1), required=True, help="how many work shards the table is cut into")
arguments.add_argument(
    "--licenses", default="", metavar="IDS", help="SPDX ids that may be released, separated by blanks (default: all known that allow changes)"
)
arguments.add_argument("--csv", type=Path, required=True, help="the table to write")
arguments.add_argument("--text", type=Path, required=True, help="the text to write, such as ATTRIBUTION.md")


def main(args) -> int:
    table, place = read_asset_table(args.table), assets_place(args.stage, args.stage)
    shards = split_rows(table, ASSET_KEY, args.work_shards)
    rows = audit_rows(table, [row for shard in shards for row in the_manifest(place, ASSET_STEPS[1], shard)], args.licenses)
    write_bytes(args.text, attribution_text(rows).encode())
    write_table(args.csv, COLUMNS, rows)
    refused = sum(row["releasable"] == "no" for row in rows)
    print(f"write_asset_audit: {len(rows)} assets, {refused} of them not releasable", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
