"""Draw some plans of a split as one picture: each from above, with its predicted masks."""

import sys
from pathlib import Path

from PIL import Image

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.plan.catalogue import Meshes, read_assets
from sam3dvid.plan.picture import draw_plan, read_photo, stack
from sam3dvid.plan.planfile import read_plan
from sam3dvid.stage import SPLITS, is_clip_id, plan_of, plans_place
from shardwork import command
from shardwork.errors import DataError
from shardwork.files import atomic_path

arguments = command.parser(__doc__)
arguments.add_argument("--stage", type=Path, required=True, help="the folder of the plans, results/RUN/plans")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, which holds the finished assets")
arguments.add_argument("--pool", type=Path, help="the folder of the pool of backgrounds (default: a plain background)")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the split that was planned")
arguments.add_argument("--count", type=command.whole(1), default=6, help="draw so many plans, the first (default: 6)")
arguments.add_argument("--clip", action="append", default=[], help="draw this clip; may be given again (default: the first)")
arguments.add_argument("--out", type=Path, required=True, help="the PNG to write")


def main(args) -> int:
    place = plans_place(args.stage)
    paths = [plan_of(place, clip_id, args.split) for clip_id in args.clip]
    paths = paths or sorted(path for path in (args.stage / args.split).glob("*.json") if is_clip_id(path.stem))[: args.count]
    if not paths:
        raise DataError("missing_file", args.stage / args.split, "no plans", "at least one", "run plan_clips first")
    pool = read_pool(args.pool) if args.pool else None
    assets = {asset.asset_id: asset for asset in read_assets(args.dataset, args.split)}
    shape_of = Meshes(args.dataset, args.split)
    panels = []
    for path in paths:
        plan = read_plan(path)
        photo = read_photo(pool.folder / plan["background"]["provenance"]["file"]) if pool else None
        panels.append(draw_plan(plan, [shape_of(assets[one["asset_id"]]).caster for one in plan["objects"]], photo))
    with atomic_path(args.out) as temp:
        Image.fromarray(stack(panels)).save(temp, "png")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
