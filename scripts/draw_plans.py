"""Draw some plans of a split as one picture: each from above, with its predicted masks."""

import sys
from itertools import islice
from pathlib import Path

from PIL import Image

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.codes import AssetRefused
from sam3dvid.plan.catalogue import Meshes, read_assets
from sam3dvid.plan.picture import draw_plan, draw_text, read_photo, stack
from sam3dvid.plan.planfile import read_plan
from sam3dvid.stage import PLAN_STEP, SPLITS, clip_shards, plan_of, plans_place
from shardwork import command
from shardwork.errors import DataError
from shardwork.files import atomic_path, check_apart
from shardwork.place import the_manifest

SHOWN = 6

arguments = command.parser(__doc__)
arguments.add_argument("--stage", type=Path, required=True, help="the folder of the plans, results/RUN/plans")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, which holds the finished assets")
arguments.add_argument("--pool", type=Path, help="the folder of the pool of backgrounds (default: a plain background)")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the split that was planned")
arguments.add_argument("--clip", action="append", default=[], help="draw this clip; may be given again (default: the first six that have a plan)")
arguments.add_argument("--clips", type=command.whole(1), default=1, help="how many clips there are")
arguments.add_argument("--first", type=command.whole(0), default=0, help="number of the first clip (default: 0)")
arguments.add_argument("--clips-per-shard", type=command.whole(1), default=1, help="how many in a row make a work shard")
arguments.add_argument("--out", type=Path, required=True, help="the PNG to write")


def main(args) -> int:
    place = plans_place(args.stage)
    clip_ids = args.clip or list(islice(_planned(place, args.clips, args.clips_per_shard, args.first), SHOWN))
    pool = read_pool(args.pool) if args.pool else None
    assets = {asset.asset_id: asset for asset in read_assets(args.dataset, args.split)}
    shape_of = Meshes(args.dataset, args.split)
    panels = []
    for clip_id in clip_ids:
        path = plan_of(place, clip_id, args.split)
        if not path.is_file():
            raise DataError("bad_argument", "--clip", f"{clip_id!r}: no plan {path}", "a clip that has a plan, by its 8 digits", "see the folder of the plans")
        check_apart(args.out, [path])
        plan = read_plan(path)
        if unknown := {one["asset_id"] for one in plan["objects"]} - assets.keys():
            raise AssetRefused("bad_plan", clip_id, f"asset {min(unknown)}, which is not there", "finished assets of the split")
        photo = read_photo(pool.folder / plan["background"]["provenance"]["file"]) if pool else None
        panels.append(draw_plan(plan, [shape_of(assets[one["asset_id"]]) for one in plan["objects"]], photo))
    with atomic_path(args.out) as temp:
        Image.fromarray(stack(panels) if panels else draw_text("no clip has a plan: the report says why")).save(temp, "png")
    return 0


def _planned(place, clips, clips_per_shard, first):
    """Yield the ids of the clips whose verdict is ok: what else lies in the folder may be of an earlier run."""
    for shard in clip_shards(clips, clips_per_shard, first):
        yield from (row["id"] for row in the_manifest(place, PLAN_STEP, shard) if row["status"] == "ok")


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
