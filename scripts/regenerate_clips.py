"""Make clips of a dataset again from their seeds, in another folder, to compare them: python -m sam3dvid.validate DATASET --suite T4 --again OUT/dataset."""

import sys
from dataclasses import fields, replace
from pathlib import Path

import yaml

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.composite.composite_step import Stock, composite_items, composite_step
from sam3dvid.composite.origin import read_origin
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.plan.catalogue import read_assets
from sam3dvid.plan.plan_step import plan_items, plan_step, stock_of
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.render.render_step import check_device, render_items, render_step
from sam3dvid.render.settings import RenderHost, RenderSettings
from sam3dvid.stage import CONFIG, PLAN_STEP, RENDER_STEP, SPLITS, clip_of, clip_places, is_clip_id
from shardwork import command
from shardwork.errors import DataError
from shardwork.place import the_manifest
from shardwork.run import Options, run_guard, run_shard

SHARD = "0000-of-0001"

arguments = command.parser(__doc__)
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, with its config.yaml")
arguments.add_argument("--pool", type=Path, required=True, help="the folder of the pool of backgrounds that the clips were planned with")
arguments.add_argument("--split", choices=SPLITS, required=True, help="the clips' split")
arguments.add_argument("--clip", action="append", required=True, help="id of a clip; may be given again")
arguments.add_argument("--out", type=Path, required=True, help="a new folder: the clips come to OUT/dataset")
command.add_settings(arguments, RenderHost)


def main(args) -> int:
    if bad := next((clip for clip in args.clip if not is_clip_id(clip) or not clip_of(args.dataset, clip, args.split).is_dir()), None):
        raise DataError("bad_argument", "--clip", f"no clip {bad!r} in {args.split} of {args.dataset}", "ids of 8 digits", "see the folders under clips/")
    if args.dataset.resolve() in args.out.resolve().parents:
        raise DataError("bad_argument", "--out", f"{args.out} lies in the dataset", "a folder outside", "name another")
    if args.out.exists():
        raise DataError("bad_argument", "--out", f"{args.out} is there", "a new folder", "name another, or remove it")
    book = args.dataset / CONFIG
    try:
        said = dict(yaml.safe_load(book.read_text())["clips"])
    except (FileNotFoundError, yaml.YAMLError, TypeError, ValueError, KeyError):
        raise DataError(
            "bad_argument", "--dataset", f"no section clips in {book}", "a dataset of clips that the workflow has finished", "name another"
        ) from None
    plan_settings = _settings(PlanSettings, {**said, "width": said["size"], "height": said["size"]})
    host = command.settings_from(args, RenderHost)
    check_device(host)
    places = clip_places(args.out / "plans", args.out / "renders", args.out / "clips", args.out / "dataset", args.out / "controls")
    plans, renders, options = places.plans, places.renders, Options(workers=1)
    assets, pool = read_assets(args.dataset, args.split), read_pool(args.pool)
    step = plan_step(plan_settings, stock_of(args.split, assets, pool, args.dataset))
    run_shard(step, SHARD, plan_items(args.clip, args.split, assets, pool, plans), plans, options)
    render = render_step(_settings(RenderSettings, said["render"]), host, args.dataset)
    run_guard(render, SHARD, lambda rows: render_items(rows, args.split, renders, plans, args.dataset), PLAN_STEP, renders, options)
    place = replace(places.clips, before=renders)

    def items_of(rows):
        return composite_items(rows, the_manifest(plans, PLAN_STEP, SHARD), args.split, renders, place)

    rows = run_guard(composite_step(CompositeSettings(), Stock(plans, args.pool, read_origin())), SHARD, items_of, RENDER_STEP, place, options)
    refused = [row for row in rows if row["status"] != "ok"]
    for row in refused:
        print(f"{row['id']}: {row['code']}", file=sys.stderr)
    return 3 if refused else 0


def _settings(kind, said):
    """Return the settings of a kind, as far as a configuration says them."""
    return kind(**{field.name: said[field.name] for field in fields(kind) if field.name in said})


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
