"""Voxelise the normalised meshes of one work shard and write each asset's folder: mesh, voxels, meta.json."""

import sys
from dataclasses import replace
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.assets.voxelize_step import voxel_items, voxelize_step
from sam3dvid.stage import ASSET_KEY, ASSET_STEPS, assets_place, normalized_place, read_asset_table
from shardwork import command, flags
from shardwork.run import run_guard
from shardwork.shards import rows_of

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the asset table (CSV)")
arguments.add_argument("--normalized", type=Path, required=True, help="the stage of normalize_assets, results/RUN/assets")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, results/RUN/dataset")
flags.add_shard_flags(arguments)


def main(args) -> int:
    before = normalized_place(args.normalized)
    place = replace(assets_place(args.stage, args.dataset), before=before)
    table = rows_of(read_asset_table(args.table), ASSET_KEY, args.shard)
    run_guard(voxelize_step(), args.shard, lambda rows: voxel_items(rows, table, place, before), ASSET_STEPS[0], place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
