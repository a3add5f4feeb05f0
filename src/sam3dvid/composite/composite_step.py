"""The step composite_clips, as `shardwork` runs it: a plan, its render and its photo become a clip's folder in the dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2

from sam3dvid.backgrounds.images import Rgb, read_photo
from sam3dvid.backgrounds.pool import picture_problem
from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.codes import HINTS, AssetRefused
from sam3dvid.composite.clip import Made, composite_clip, write_clip
from sam3dvid.composite.origin import Origin
from sam3dvid.composite.rendered import Rendered, read_render
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.plan.planfile import read_scene
from sam3dvid.stage import CLIP_STEPS, COMPOSITE_VERSION, PLAN_STEP, RENDER_STEP, clip_of, plan_of, render_of
from shardwork.digests import sha256_file
from shardwork.errors import DataError, Fault
from shardwork.files import atomic_folder
from shardwork.journal import name_of
from shardwork.jsonio import Json, read_json
from shardwork.place import Place
from shardwork.step import Fields, Item, Step, upstream

META = "meta.json"
ANY_PHOTO = PhotoSettings(max_pixels=1_000_000_000, min_width=1, min_height=1, max_aspect=4.0, min_aspect=0.01)
"""No limit that a pool would not set: its pictures were looked at when it was frozen."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What clips are made of beside their renders.

    plans : the place of the plans.   pool : the folder of the backgrounds.   origin : what meta.json says of the generator.
    """

    plans: Place
    pool: Path
    origin: Origin


def composite_step(settings: CompositeSettings, stock: Stock) -> Step:
    """Return the step that makes a clip. The generator's commit is no part of its fingerprint: a commit alone makes no clip again."""
    said = {**asdict(settings), "generator_version": stock.origin.generator_version}
    run_item, adopt = partial(_composite, settings=settings, stock=stock), partial(_adopt, settings=settings, stock=stock)
    return Step(CLIP_STEPS[0], COMPOSITE_VERSION, said, run_item, adopt, guards=True)


def composite_items(rendered: Sequence[Fields], planned: Sequence[Fields], split: str, renders: Place, place: Place) -> list[Item]:
    """Return an item for every row of a shard manifest of render_clips; what the earlier steps refused comes with its verdict.

    rendered, planned : rows of render_clips and plan_clips.   renders, place : where renders and finished clips are.
    Raises Fault (manifest_mismatch) unless both have a row for the same clips, and every rendered one is planned.
    """
    about, items = {row["id"]: row for row in planned}, []
    if about.keys() != {row["id"] for row in rendered}:
        raise Fault("manifest_mismatch", RENDER_STEP, f"{len(rendered)} rows", f"one for each of the {len(planned)} of {PLAN_STEP}", "run the workflow again")
    for row in rendered:
        clip_id = row["id"]
        outputs = (clip_of(place.home or place.stage, clip_id, split),)
        if row["status"] == "ok":
            render = render_of(renders, clip_id, split)
            inputs = {"split": split, "scene": about[clip_id]["scene"], "render": _digest(row, render, renders)}
            items.append(Item(clip_id, inputs, outputs, watched=(render,)))
        else:
            items.append(Item(clip_id, None, outputs, verdict=upstream(row, RENDER_STEP)))
    return items


def _digest(row: Fields, path: Path, place: Place) -> str:
    """Return the digest of a published file or folder, as the manifest of its step has it."""
    name = name_of(path, place.stage)
    if name not in row.get("files", {}):
        raise Fault("manifest_mismatch", row["id"], f"no {name} in its row", "the file that the step published", "run the workflow again")
    return str(row["files"][name]["digest"])


def _composite(item: Item, settings: CompositeSettings, stock: Stock) -> Fields:
    (folder,) = item.outputs
    rendered = read_render(item.watched[0])
    plan = _plan(item, stock.plans)
    made = _made(plan, rendered, settings, stock, stock.origin.git_commit)
    with atomic_folder(folder) as temp:
        write_clip(made, rendered, temp)
    return _fields(plan, made)


def _adopt(item: Item, settings: CompositeSettings, stock: Stock) -> Fields | None:
    """Return the fields of a folder that holds, to the byte, what this step would write: nothing in it is taken on trust."""
    (folder,) = item.outputs
    if not folder.is_dir():
        return None
    rendered = read_render(item.watched[0])
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    plan = _plan(item, stock.plans)
    if not _linked(rendered, folder) or (meta := _meta(folder / META)) is None:
        return None
    try:
        made = _made(plan, rendered, settings, stock, str(meta.get("git_commit")))
    except AssetRefused:
        return None
    if names != {*rendered.files, *made.written} or any((folder / name).read_bytes() != data for name, data in made.written.items()):
        return None
    return _fields(plan, made)


def _made(plan: dict[str, Json], rendered: Rendered, settings: CompositeSettings, stock: Stock, git_commit: str) -> Made:
    cv2.setNumThreads(1)  # a job has a process for each clip at work; threads of their own would change no byte, and get into each other's way
    return composite_clip(plan, rendered, _photo(plan, stock.pool), settings, replace(stock.origin, git_commit=git_commit))


def _linked(rendered: Rendered, folder: Path) -> bool:
    return all((folder / name).is_file() and sha256_file(folder / name) == digest for name, digest in rendered.files.items())


def _meta(path: Path) -> dict[str, Any] | None:
    """Return what a meta.json says, or None if it is no such file."""
    try:
        found = read_json(path) if path.is_file() else None
    except DataError:
        return None
    return found if isinstance(found, dict) else None


def _plan(item: Item, plans: Place) -> dict[str, Json]:
    """Return a clip's plan. Raises Fault (bad_plan) unless it is the one that was rendered."""
    path, scene = plan_of(plans, item.id, item.inputs["split"]), item.inputs["scene"]
    plan = read_scene(path, scene)
    if plan is None:
        raise Fault("bad_plan", path.name, "another plan, or none", f"that of {scene}, as it was planned", HINTS["bad_plan"])
    return plan


def _photo(plan: dict[str, Json], pool: Path) -> Rgb:
    """Return a clip's background: (PH, PW, 3) uint8. Raises Fault (bad_pool) unless it is the picture that was planned with: no clip is to blame."""
    about = plan["background"]
    row = about["provenance"]
    path = pool / row["file"]
    problem = picture_problem(path, row)
    if problem is None:
        photo = read_photo(path, ANY_PHOTO)
        if photo.shape[:2] == (about["height"], about["width"]):
            return photo
        problem = f"{photo.shape[1]} x {photo.shape[0]} pixels"
    expected = f"{row['bytes']} bytes, sha256 {row['sha256']}, {about['width']} x {about['height']} pixels"
    raise Fault("bad_pool", about["image_id"], problem, expected, HINTS["bad_pool"])


def _fields(plan: dict[str, Json], made: Made) -> Fields:
    """Return what a manifest row says of a clip: what the dataset's manifest, reports and later steps look up without opening it."""
    seen = made.meta["visibility"]
    return {
        "split": plan["split"],
        "seed": plan["seed"],
        "num_objects": plan["num_objects"],
        "arc_span_deg": plan["trajectory"]["arc_span_deg"],
        "assets": [one["asset_id"] for one in plan["objects"]],
        "image_id": plan["background"]["image_id"],
        "frames": len(plan["cameras"]["frames"]),
        "least_visible_px": min(map(min, seen["visible_px"])),
        "least_visible_frac": min(map(min, seen["visible_frac"])),
    }
