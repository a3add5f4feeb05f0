"""The steps of the events stage, as `shardwork` runs them: one video each at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path

from eventvox.codes import VideoRefused
from eventvox.controls import write_control
from eventvox.settings import VoxelSettings
from eventvox.stage import CONTROLS_STEP, CONTROLS_VERSION, KEY, STEPS, VALIDATE_VERSION, VOXELIZE_VERSION, controls_of, outputs_of
from eventvox.validate import validate_file
from shardwork.digests import both_digests, seal, unseal, xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.ids import is_id
from shardwork.jsonio import read_json, write_json
from shardwork.place import Place
from shardwork.step import Fields, Item, Source, Step, upstream
from shardwork.tables import Row

NO_FILE = "none: no such file"


def voxelize_step(settings: VoxelSettings) -> Step:
    """Return the step that turns a video into a voxel file and its sidecar."""
    return Step("voxelize_events", VOXELIZE_VERSION, asdict(settings), partial(_voxelize, settings=settings), _adopt)


def video_items(rows: Sequence[Row], table: Path, place: Place) -> list[Item]:
    """Return an item for every row of a video table."""
    return [
        Item(
            id=row[KEY],
            inputs={"split": row["split"]},
            outputs=outputs_of(place, row[KEY], row["split"]) if is_id(row[KEY]) else (),
            sources=(Source.from_row(row, table),),
        )
        for row in rows
    ]


def _voxelize(item: Item, settings: VoxelSettings) -> Fields:
    from eventvox.voxelize import voxelize_video  # loads numba, which the other steps do not need

    (video,) = item.sources
    voxel_file, sidecar = item.outputs
    try:
        record = asdict(voxelize_video(video.path, voxel_file, item.id, settings))
    except VideoRefused as error:
        error.where = video.name  # as the table writes it: a row must not change when the project is moved
        raise
    source = {"bytes": video.bytes, "mtime_ns": video.mtime_ns, "name": video.path.name}
    noted = {"fingerprint": item.fingerprint, "record": record, "settings": asdict(settings), "source": source, "video_id": item.id}
    write_json(sidecar, seal(noted))
    return {**record, **item.inputs}


def _adopt(item: Item) -> Fields | None:
    """Return the fields of a published file that is, to the byte, what its sidecar says of this very item."""
    made, sidecar = item.outputs
    if not (made.is_file() and sidecar.is_file()):
        return None
    try:
        noted = unseal(read_json(sidecar))
    except DataError:
        return None
    if noted is None or noted["fingerprint"] != item.fingerprint or noted["record"].get("file_xxh3") != xxh3_file(made):
        return None
    return {**noted["record"], **item.inputs}


def validate_step(frames_per_bin: int) -> Step:
    """Return the step that reads every voxel file whole and sets aside those that break the format."""
    run_item = partial(_validate, frames_per_bin=frames_per_bin)
    return Step("validate_events", VALIDATE_VERSION, {"frames_per_bin": frames_per_bin}, run_item, guards=True)


def voxel_items(rows: Sequence[Fields], place: Place) -> list[Item]:
    """Return an item for every row of a shard manifest of voxelize_events; what that step refused comes with its verdict."""
    items = []
    for row in rows:
        if row["status"] == "ok":
            watched, _ = outputs_of(place, row["id"], row["split"])
            inputs = {"split": row["split"], "digest": row["file_xxh3"]}
            items.append(Item(row["id"], inputs, watched=(watched,)))
        else:
            items.append(Item(row["id"], None, verdict=upstream(row, "voxelize_events")))
    return items


def _validate(item: Item, frames_per_bin: int) -> Fields:
    (path,) = item.watched
    digest, sha256 = both_digests(path) if path.is_file() else (NO_FILE, "")
    _check_digest(item, digest)
    if problems := validate_file(path, frames_per_bin=frames_per_bin):
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise DataError("invalid_hdf5", path.name, f"{problems[0]}{more}", "the EventActivityNet format", "see python -m eventvox validate")
    return {"split": item.inputs["split"], "sha256": sha256}  # for the release: this is the last step that reads every byte in parallel


def _check_digest(item: Item, digest: str) -> None:
    """Raise Fault (fault_stale) unless the watched file has the digest that was noted when it was written."""
    if digest != item.inputs["digest"]:
        where, found, expected = item.watched[0].name, f"xxh3 {digest}", f"{item.inputs['digest']} as written"
        raise Fault("fault_stale", where, found, expected, "it changed on the disk: run again, it is made anew")


def controls_step() -> Step:
    """Return the step that renders the control video of a voxel file, and its sidecar."""
    return Step(CONTROLS_STEP, CONTROLS_VERSION, {}, _render, _adopt, guards=True)


def control_items(made: Sequence[Fields], validated: Sequence[Fields], place: Place, events: Place) -> list[Item]:
    """Return an item for every row of a shard manifest of validate_events; what the earlier steps refused comes with its verdict.

    made, validated : rows of voxelize_events and validate_events.   place, events : where control videos and voxel files are.
    Raises Fault (manifest_mismatch) unless both have a row for the same videos.
    """
    records, items = {row["id"]: row for row in made}, []
    if records.keys() != {row["id"] for row in validated}:
        raise Fault("manifest_mismatch", STEPS[1], f"{len(validated)} rows", f"one for each of the {len(made)} of {STEPS[0]}", "run the workflow again")
    for row in validated:
        if row["status"] == "ok":
            record = records[row["id"]]
            inputs = {"digest": record["file_xxh3"], "fps_den": record["fps_den"], "fps_num": record["fps_num"]}
            watched, _ = outputs_of(events, row["id"], row["split"])
            items.append(Item(row["id"], inputs, controls_of(place, row["id"]), watched=(watched,)))
        else:
            items.append(Item(row["id"], None, controls_of(place, row["id"]) if is_id(row["id"]) else (), verdict=upstream(row, STEPS[1])))
    return items


def _render(item: Item) -> Fields:
    (path,), (out, sidecar) = item.watched, item.outputs
    _check_digest(item, xxh3_file(path) if path.is_file() else NO_FILE)
    record = asdict(write_control(path, out, Fraction(item.inputs["fps_num"], item.inputs["fps_den"])))
    write_json(sidecar, seal({"fingerprint": item.fingerprint, "inputs": item.inputs, "record": record, "video_id": item.id}))
    return {**record, **item.inputs}
