"""The step plan_clips, as `shardwork` runs it: one clip each at a time, one file each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sam3dvid.backgrounds.pool import Pool
from sam3dvid.codes import AssetRefused
from sam3dvid.plan.catalogue import Asset, Meshes, assets_digest
from sam3dvid.plan.planfile import read_plan, scene_digest
from sam3dvid.plan.planner import Stock, plan_clip
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.stage import PLAN_STEP, PLAN_VERSION, plan_of, seed_of
from shardwork.digests import seal
from shardwork.files import write_bytes
from shardwork.jsonio import Json, dumps
from shardwork.place import Place
from shardwork.step import Fields, Item, Step


def stock_of(split: str, assets: Sequence[Asset], pool: Pool, dataset: Path) -> Stock:
    """Return what clips of a split are made of. Raises AssetRefused: no_backgrounds, bad_pool for a picture that is not there with its bytes."""
    rows = {"eval": pool.eval, "train": pool.train}[split]
    if not rows:
        raise AssetRefused("no_backgrounds", pool.folder, f"no picture in {split}", "at least one")
    for row in rows:
        if (size := _bytes_of(pool.picture(row))) != row["bytes"]:
            found = "no such file" if size is None else f"{size} bytes"
            raise AssetRefused("bad_pool", pool.picture(row), found, f"a file of {row['bytes']} bytes, as it was frozen")
    return Stock(split, tuple(assets), rows, Meshes(dataset, split))


def _bytes_of(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def plan_step(settings: PlanSettings, stock: Stock) -> Step:
    """Return the step that plans a clip."""
    return Step(PLAN_STEP, PLAN_VERSION, asdict(settings), partial(_plan, settings=settings, stock=stock), _adopt)


def plan_items(clip_ids: Sequence[str], split: str, assets: Sequence[Asset], pool: Pool, place: Place) -> list[Item]:
    """Return an item for every clip. Another asset or picture, or one fewer, makes all plans again: every draw counts through their sorted lists."""
    stock = {"assets": assets_digest(assets), "backgrounds": pool.selection["index"][f"{split}.jsonl"]}
    return [Item(clip_id, {"seed": seed_of(clip_id, split), "split": split, **stock}, (plan_of(place, clip_id, split),)) for clip_id in clip_ids]


def _plan(item: Item, settings: PlanSettings, stock: Stock) -> Fields:
    plan = plan_clip(item.id, stock, settings)
    write_bytes(item.outputs[0], (dumps(seal({**plan, "fingerprint": item.fingerprint})) + "\n").encode())
    return _fields(plan)


def _adopt(item: Item) -> Fields | None:
    """Return the fields of a published plan that is whole and was made for this very item."""
    try:
        plan = read_plan(item.outputs[0])
    except (AssetRefused, FileNotFoundError, IsADirectoryError):
        return None
    return _fields(plan) if plan.get("fingerprint") == item.fingerprint else None


def _fields(plan: dict[str, Json]) -> Fields:
    """Return what a manifest row says of a plan: what reports and later steps look up without opening it."""
    return {
        "split": plan["split"],
        "seed": plan["seed"],
        "num_objects": plan["num_objects"],
        "arc_span_deg": plan["trajectory"]["arc_span_deg"],
        "assets": [one["asset_id"] for one in plan["objects"]],
        "image_id": plan["background"]["image_id"],
        "attempt": plan["attempt"],
        "arc_retries": plan["arc_retries"],
        "rejected_by": dict(Counter(rejection["reason"] for rejection in plan["rejections"])),
        "scene": scene_digest(plan),
    }
