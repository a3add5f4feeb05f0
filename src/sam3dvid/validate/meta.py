"""T1, meta.json of a clip: exact keys and kinds, and the values that the format fixes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.validate.background import Background, look_at_background
from sam3dvid.validate.bounds import LIGHT, MOST_ARC_RETRIES, MOST_ATTEMPTS, MOST_CLIPS, MOST_OBJECTS, SEED_BASES, TRAJECTORY
from sam3dvid.validate.kinds import Float, Values
from sam3dvid.validate.schema import Size, rigid
from shardwork.jsonio import Json

KEYS = (
    *TRAJECTORY,
    *"clip_id split seed attempt num_objects arc_direction scene_center light background reference_T_cw visibility".split(),
    *"render timing git_commit generator_version arc_retries rejections".split(),
)
OPTIONAL_KEYS = ("blender_version",)
LIGHT_KEYS, LIGHT_OPTIONAL = ("sun_direction", "sun_strength", "ambient_strength"), ("sun_angle_deg",)
VISIBILITY_KEYS = ("visible_px", "amodal_px", "visible_frac")
HOST_KEYS = ("timing", "render")
"""Where meta.json may name what is the host's own."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What meta.json says, as far as it is in order: what is not is None or left out.

    numbers : the trajectory, by name.   direction : +1 or -1.   reference : reference_T_cw, (4, 4).   visibility : name -> (F, N).
    """

    seed: int | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    direction: int | None = None
    scene_center: Float | None = None
    reference: Float | None = None
    background: Background | None = None
    visibility: dict[str, NDArray[Any]] | None = None


def look_at_meta(values: Values, content: Json, split: str, clip_id: str, num_objects: int | None, size: Size | None) -> Meta:
    """Return what meta.json says; faults are noted.   num_objects, size : what objects.json and cameras.json say, None if they cannot be used."""
    record = values.record("", content, KEYS, OPTIONAL_KEYS)
    for key, wanted in (("clip_id", clip_id), ("split", split)):
        if key in record:
            values.same(key, record[key], wanted)
    if "num_objects" in record and (stated := values.whole("num_objects", record["num_objects"], 1, MOST_OBJECTS)) and num_objects and stated != num_objects:
        values.fault("num_objects", stated, f"{num_objects}, as objects.json lists")
    numbers = {key: number for key, bounds in TRAJECTORY.items() if key in record and (number := values.number(key, record[key], *bounds)) is not None}
    direction = values.whole("arc_direction", record["arc_direction"], -1, 1) if "arc_direction" in record else None
    if direction == 0:
        values.fault("arc_direction", 0, "+1 or -1")
    center = values.array("scene_center", record["scene_center"], (3,)) if "scene_center" in record else None
    reference = values.array("reference_T_cw", record["reference_T_cw"], (4, 4)) if "reference_T_cw" in record else None
    if reference is not None and not rigid(values, "reference_T_cw", reference):
        reference = None
    _look_at_provenance(values, record)
    if "light" in record:
        _look_at_light(values, record["light"])
    return Meta(
        seed=_seed(values, record["seed"], split, int(clip_id)) if "seed" in record else None,
        numbers=numbers,
        direction=direction or None,
        scene_center=center,
        reference=reference,
        background=look_at_background(values, record["background"], split) if "background" in record else None,
        visibility=_visibility(values, record["visibility"], num_objects, size) if "visibility" in record else None,
    )


def _seed(values: Values, value: Json, split: str, number: int) -> int | None:
    seed, wanted = values.whole("seed", value), SEED_BASES[split] + number
    if number >= MOST_CLIPS:
        values.fault("clip_id", f"{number:08d}", f"ids below {MOST_CLIPS:08d}, so that no seed is another split's")
    elif seed is not None and seed != wanted:
        values.fault("seed", seed, f"{wanted}, which is {SEED_BASES[split]} and the clip's number")
    return seed


def _look_at_light(values: Values, value: Json) -> None:
    record = values.record("light", value, LIGHT_KEYS, LIGHT_OPTIONAL)
    sun = values.array("light.sun_direction", record["sun_direction"], (3,)) if "sun_direction" in record else None
    if sun is not None:
        values.near("light.sun_direction (its length)", float(np.linalg.norm(sun)), 1.0)
        if sun[2] < 0:
            values.fault("light.sun_direction", f"a sun below the horizon (z {sun[2]:g})", "z of 0 or more")
    for key, bounds in LIGHT.items():
        if key in record:
            values.number(f"light.{key}", record[key], *bounds)


def _look_at_provenance(values: Values, record: dict[str, Json]) -> None:
    """Note faults of the keys that training ignores: how a clip came about."""
    for key in ("git_commit", "generator_version", "blender_version"):
        if key in record:
            values.text(key, record[key])
    for key in ("render", "timing"):
        if key in record:
            values.record(key, record[key], (), others=True)
    if "arc_retries" in record:
        values.whole("arc_retries", record["arc_retries"], 0, MOST_ARC_RETRIES)
    attempt = values.whole("attempt", record["attempt"], 0, MOST_ATTEMPTS - 1) if "attempt" in record else None
    rejections = values.listed("rejections", record["rejections"]) if "rejections" in record else None
    rejected = []
    for index, entry in enumerate(rejections or []):
        one = values.record(f"rejections[{index}]", entry, ("attempt", "reason"), others=True)
        if "reason" in one:
            values.text(f"rejections[{index}].reason", one["reason"])
        rejected.append(values.whole(f"rejections[{index}].attempt", one["attempt"]) if "attempt" in one else None)
    if attempt is not None and rejections is not None and None not in rejected and (len(rejected) != attempt or rejected != list(range(attempt))):
        values.fault("rejections", f"of attempts {rejected}", f"one for each of the {attempt} attempts before attempt {attempt}")
    values.relative(record, beside=HOST_KEYS)


def _visibility(values: Values, value: Json, num_objects: int | None, size: Size | None) -> dict[str, NDArray[Any]] | None:
    record = values.record("visibility", value, VISIBILITY_KEYS)
    if not num_objects or size is None or not set(VISIBILITY_KEYS) <= record.keys():
        return None
    shape = (size.frames, num_objects)
    said = {
        "visible_px": values.wholes("visibility.visible_px", record["visible_px"], shape),
        "amodal_px": values.wholes("visibility.amodal_px", record["amodal_px"], shape),
        "visible_frac": values.array("visibility.visible_frac", record["visible_frac"], shape),
    }
    fraction = said["visible_frac"]
    if fraction is not None and not ((fraction >= 0) & (fraction <= 1)).all():
        values.fault("visibility.visible_frac", f"numbers from {fraction.min():g} to {fraction.max():g}", "numbers from 0 to 1")
        return None
    return {key: array for key, array in said.items() if array is not None} if all(array is not None for array in said.values()) else None
