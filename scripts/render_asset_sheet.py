"""Render finished assets from four sides to one contact sheet (PNG), to be looked at."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.assets.filters import AssetFilter, select
from sam3dvid.stage import ASSET_KEY, ASSET_STEPS, asset_of, assets_place, read_asset_table
from shardwork import command
from shardwork.place import the_manifest
from shardwork.shards import split_rows

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the asset table (CSV)")
arguments.add_argument("--work-shards", type=command.whole(1), required=True, help="how many work shards the table is cut into")
arguments.add_argument("--stage", type=Path, required=True, help="the folder of voxelize_assets, results/RUN/voxels")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder")
arguments.add_argument("--out", type=Path, required=True, help="the sheet (PNG)")
arguments.add_argument("--limit", type=command.whole(1), default=24, help="show at most so many, the first ones by id (default: 24)")
arguments.add_argument("--size", type=command.whole(16), default=192, help="pixels of one view (default: 192)")
arguments.add_argument("--threads", type=command.whole(1), default=1, help="threads that render (default: 1)")
command.add_settings(arguments, AssetFilter)


def main(args) -> int:
    from sam3dvid.assets.contact import write_sheet
    from sam3dvid.blender.sheet import render_sides

    rows, _ = select(read_asset_table(args.table), command.settings_from(args, AssetFilter))
    place, (_, step) = assets_place(args.stage, args.dataset), ASSET_STEPS
    made = [row for shard in split_rows(rows, ASSET_KEY, args.work_shards) for row in the_manifest(place, step, shard)]
    passed = sorted((row["id"], row["split"]) for row in made if row["status"] == "ok")
    shown = passed[: args.limit]
    meshes = [(asset_id, asset_of(args.dataset, asset_id, split) / "mesh.glb") for asset_id, split in shown]
    write_sheet(args.out, [(asset_id, render_sides(mesh, args.size, args.threads)) for asset_id, mesh in meshes])
    more = f" of {len(passed)}" if len(passed) > len(shown) else ""
    print(f"{args.out}: {len(shown)}{more} assets", file=sys.stderr)
    return 0


if __name__ == "__main__":
    code = command.run(main, arguments)
    if "bpy" in sys.modules:
        from sam3dvid.blender.session import leave

        leave(code)
    sys.exit(code)
