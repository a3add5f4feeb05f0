"""The step render_clip_controls, as `shardwork` runs it: a finished clip gets a depth video, a mask video and their sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from sam3dvid.composite.validate_step import check_digest, digest_of
from sam3dvid.controls.pictures import Depth, Rgb, depth_picture, depth_range, mask_picture
from sam3dvid.controls.settings import ControlSettings
from sam3dvid.stage import CLIP_CONTROLS, CLIP_CONTROLS_STEP, CLIP_CONTROLS_VERSION, CLIP_STEPS, clip_controls_of, clip_of
from sam3dvid.validate.dataset import read_depth, read_json
from sam3dvid.validate.png import read_png
from shardwork.digests import seal, unseal, xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.ffv1 import versions, write_video
from shardwork.jsonio import read_json as read_sidecar
from shardwork.jsonio import write_json
from shardwork.place import Place
from shardwork.step import Fields, Item, Step, upstream


def controls_step(settings: ControlSettings) -> Step:
    """Return the step that renders the control videos of a clip."""
    return Step(CLIP_CONTROLS_STEP, CLIP_CONTROLS_VERSION, asdict(settings), partial(_render, settings=settings), _adopt, guards=True)


def control_items(made: Sequence[Fields], validated: Sequence[Fields], split: str, place: Place, clips: Place) -> list[Item]:
    """Return an item for every row of a shard manifest of validate_clips; what the earlier steps refused comes with its verdict.

    made, validated : rows of composite_clips and validate_clips.   place, clips : where control videos and clips are.
    Raises Fault (manifest_mismatch) unless both have a row for the same clips.
    """
    records, items = {row["id"]: row for row in made}, []
    if records.keys() != {row["id"] for row in validated}:
        found = f"{len(validated)} rows"
        raise Fault("manifest_mismatch", CLIP_STEPS[1], found, f"one for each of the {len(made)} of {CLIP_STEPS[0]}", "run the workflow again")
    for row in validated:
        outputs = clip_controls_of(place, row["id"], split)
        if row["status"] == "ok":
            folder = clip_of(clips.home or clips.stage, row["id"], split)
            items.append(Item(row["id"], {"digest": digest_of(records[row["id"]], folder, clips), "split": split}, outputs, watched=(folder,)))
        else:
            items.append(Item(row["id"], None, outputs, verdict=upstream(row, CLIP_STEPS[1])))
    return items


def _render(item: Item, settings: ControlSettings) -> Fields:
    (folder,), (*videos, sidecar) = item.watched, item.outputs
    check_digest(folder, item.inputs["digest"])
    cameras = read_json(folder, "cameras.json")
    frames, width, height = len(cameras["frames"]), cameras["width"], cameras["height"]
    near, far = depth_range(_depths(folder, frames, width, height))
    pictures: dict[str, Iterator[Rgb]] = {
        "depth": (depth_picture(depth, near, far) for depth in _depths(folder, frames, width, height)),
        "mask": (mask_picture(read_png(folder, f"mask_visible/{t:03d}.png", "L", width, height)) for t in range(frames)),
    }
    seen = {kind: asdict(write_video(out, pictures[kind], height, width, Fraction(settings.fps))) for kind, out in zip(CLIP_CONTROLS, videos, strict=True)}
    said = {**versions(), "sam3dvid": str(CLIP_CONTROLS_VERSION)}
    record = {"frames": frames, "height": height, "width": width, "near": near, "far": far, "fps": settings.fps, "videos": seen, "versions": said}
    write_json(sidecar, seal({"clip_id": item.id, "fingerprint": item.fingerprint, "inputs": item.inputs, "record": record}))
    return {**record, **item.inputs}


def _depths(folder: Path, frames: int, width: int, height: int) -> Iterator[Depth]:
    for t in range(frames):
        yield read_depth(folder, f"depth/{t:03d}.npz", width, height).astype(np.float32, copy=False)


def _adopt(item: Item) -> Fields | None:
    """Return the fields of published videos that are, to the byte, what their sidecar says of this very item."""
    *videos, sidecar = item.outputs
    if not all(path.is_file() for path in item.outputs):
        return None
    try:
        noted = unseal(read_sidecar(sidecar))
    except DataError:
        return None
    if noted is None or noted.get("fingerprint") != item.fingerprint:
        return None
    said = noted["record"]["videos"]
    whole = all(xxh3_file(path) == said[kind]["file_xxh3"] for kind, path in zip(CLIP_CONTROLS, videos, strict=True))
    return {**noted["record"], **item.inputs} if whole else None
