"""Normalise the assets of one work shard with Blender, with a verdict for every asset."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.assets.filters import AssetFilter, select
from sam3dvid.assets.normalize_step import asset_items, normalize_step
from sam3dvid.settings import NormalizeSettings
from sam3dvid.stage import ASSET_KEY, normalized_place, read_asset_table
from shardwork import command, flags
from shardwork.run import run_shard
from shardwork.shards import rows_of

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the asset table (CSV)")
flags.add_shard_flags(arguments)
command.add_settings(arguments, AssetFilter)
command.add_settings(arguments, NormalizeSettings)


def main(args) -> int:
    step, place = normalize_step(command.settings_from(args, NormalizeSettings)), normalized_place(args.stage)
    rows, _ = select(read_asset_table(args.table), command.settings_from(args, AssetFilter))
    items = asset_items(rows_of(rows, ASSET_KEY, args.shard), args.table, place)
    run_shard(step, args.shard, items, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
