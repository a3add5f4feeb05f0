"""The step render_clips, as `shardwork` runs it: one clip each at a time, one folder each, many in one Blender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sam3dvid.codes import HINTS, AssetRefused, stale
from sam3dvid.plan.planfile import read_scene
from sam3dvid.render.settings import RenderHost, RenderSettings
from sam3dvid.stage import PLAN_STEP, RENDER_RECORD, RENDER_STEP, RENDER_VERSION, asset_of, plan_of, render_of
from shardwork.digests import digest_value, seal, sha256_file, unseal
from shardwork.errors import DataError, Fault
from shardwork.files import atomic_folder
from shardwork.ids import is_id
from shardwork.jsonio import Json, dumps_pretty, read_json
from shardwork.place import Place
from shardwork.pool import run_tasks
from shardwork.step import Fields, Hazard, Item, Step, upstream

NO_FILE = "none: no such file"


def render_step(settings: RenderSettings, host: RenderHost, dataset: Path) -> Step:
    """Return the step that renders a clip.   dataset : the folder that holds the finished assets."""
    hazard = Hazard("blender_crashed", "time_limit", host.clip_seconds, host.clips_per_blender, HINTS)
    run_item = partial(_render, settings=settings, host=host, dataset=dataset)
    return Step(RENDER_STEP, RENDER_VERSION, asdict(settings), run_item, _adopt, hazard=hazard)


def render_items(rows: Sequence[Fields], split: str, place: Place, plans: Place, dataset: Path) -> list[Item]:
    """Return an item for every row of a shard manifest of plan_clips; a clip without a plan comes with its verdict.

    place, plans : where renders and plans are.   What the plan shows decides all, its assets' meshes too: it names their digests.
    """
    items = []
    for row in rows:
        outputs = (render_of(place, row["id"], split),) if is_id(row["id"]) else ()
        if row["status"] == "ok":
            watched = (plan_of(plans, row["id"], split), *(asset_of(dataset, asset_id, split) / "mesh.glb" for asset_id in row["assets"]))
            items.append(Item(row["id"], {"scene": row["scene"], "split": split}, outputs, watched=watched))
        else:
            items.append(Item(row["id"], None, outputs, verdict=upstream(row, PLAN_STEP)))
    return items


def check_device(host: RenderHost) -> None:
    """Raise Fault (no_gpu) if a GPU is asked for and there is none: before any clip starts, and in a process of its own, since this one needs no Blender."""
    if host.device == "gpu":
        for _, found in run_tasks(_find, ["gpu"], 1, str):
            if isinstance(found, DataError):
                raise found


def _find(wanted: str) -> DataError | None:
    try:
        from sam3dvid.blender.clip_device import find_device

        find_device(wanted)
    except Fault as fault:
        return fault
    return None


def _render(item: Item, settings: RenderSettings, host: RenderHost, dataset: Path) -> Fields:
    from sam3dvid.blender.clip import render_clip  # loads Blender, which the other steps do not need

    path, (folder,) = item.watched[0], item.outputs
    plan = read_scene(path, scene := item.inputs["scene"])
    if plan is None:
        raise stale(path.name, "another plan, or none", f"that of {scene}, as it was planned")
    meshes = _meshes(plan, dataset)
    try:
        with atomic_folder(folder) as temp:
            record, timing = render_clip(plan, meshes, temp, settings, host)
            noted = {
                "clip_id": item.id,
                "fingerprint": item.fingerprint,
                "inputs": item.inputs,
                "record": record,
                "settings": asdict(settings),
                "timing": timing,
            }
            (temp / RENDER_RECORD).write_bytes(dumps_pretty(seal(noted)).encode())
    except AssetRefused as error:
        error.where = f"{item.id}: {error.where}"
        raise
    return _fields(noted)


def _meshes(plan: dict[str, Json], dataset: Path) -> list[Path]:
    """Return the mesh of each object, in the plan's order. Raises Fault (bad_asset) unless they are what was planned with."""
    meshes = []
    for entry in plan["objects"]:
        mesh = asset_of(dataset, entry["asset_id"], plan["split"]) / "mesh.glb"
        found = sha256_file(mesh) if mesh.is_file() else NO_FILE
        if found != (expected := plan["meshes"][entry["asset_id"]]):
            raise Fault("bad_asset", f"{entry['asset_id']}/{mesh.name}", f"sha256 {found}", f"{expected}, as it was planned with", HINTS["bad_asset"])
        meshes.append(mesh)
    return meshes


def _fields(noted: dict[str, Json]) -> Fields:
    """Return what a manifest row says of a rendered clip.   pictures : one digest of all its files but the record, which holds times."""
    record = noted["record"]
    frames = len(record["visible_px"])
    return {
        "blender_version": record["blender_version"],
        "frames": frames,
        "num_objects": len(record["visible_px"][0]),
        "pictures": digest_value(record["files"]),
        "split": noted["inputs"]["split"],
    }


def _adopt(item: Item) -> Fields | None:
    """Return the fields of a published folder that holds, to the byte, what its record says of this very item, and nothing else."""
    (folder,) = item.outputs
    try:
        noted = unseal(read_json(folder / RENDER_RECORD))
    except (DataError, FileNotFoundError, NotADirectoryError):
        return None
    if noted is None or noted.get("fingerprint") != item.fingerprint:
        return None
    files = noted["record"]["files"]
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    if there != {RENDER_RECORD, *files} or any(sha256_file(folder / name) != digest for name, digest in files.items()):
        return None
    return _fields(noted)
