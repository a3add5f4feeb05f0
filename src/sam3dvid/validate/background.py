"""T1, the background in a clip's meta.json: its camera, its size, and where the photo comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sam3dvid.validate.bounds import BACKGROUND_HFOV_DEG
from sam3dvid.validate.kinds import SHA256, TEXT, Float, Values
from sam3dvid.validate.schema import ID, pinhole
from shardwork.jsonio import Json

KEYS = ("image_id", "width", "height", "virtual_hfov_deg", "K_bg", "provenance")
PROVENANCE_KEYS = ("source", "license", "pool", "split_key", "sha256")
"""What the provenance of a background must hold at least; a pool adds its own."""
PATTERNS = {"sha256": SHA256, "source_sha256": SHA256}
TOLD_APART = {"image_id": "image", "split_key": "panorama or photo", "sha256": "picture with sha256", "source_sha256": "source with sha256"}
"""Key -> what its value names."""
PANORAMAS = "polyhaven"
"""The source whose pictures are views of a panorama, ph_<split_key>_v<k>; any other's is the photo itself, of the id split_key."""


@dataclass(frozen=True, slots=True)
class Background:
    """The photo behind a clip.

    width, height, K_bg : its size and (3, 3) intrinsics, K_bg None unless all of them are in order.
    keys : kind of name -> value, by which pictures are told apart.   source_url : "" where none is stated.
    """

    width: int = 0
    height: int = 0
    K_bg: Float | None = None
    keys: dict[str, str] = field(default_factory=dict)
    source_url: str = ""


def look_at_background(values: Values, value: Json, split: str) -> Background:
    """Return what is said of a background; faults are noted.   Source: format v0.1, 5, and its update of the backgrounds."""
    record = values.record("background", value, KEYS)
    image_id = values.text("background.image_id", record["image_id"], ID) if "image_id" in record else None
    width, height = (values.whole(f"background.{key}", record[key], 1, 1 << 20) if key in record else None for key in ("width", "height"))
    if "virtual_hfov_deg" in record:
        values.number("background.virtual_hfov_deg", record["virtual_hfov_deg"], BACKGROUND_HFOV_DEG, BACKGROUND_HFOV_DEG)
    K_bg = values.array("background.K_bg", record["K_bg"], (3, 3)) if "K_bg" in record else None
    said = _origin(values, record["provenance"], split, image_id) if "provenance" in record else {}
    if image_id is not None:
        said["image_id"] = image_id
    keys = {name: said[key] for key, name in TOLD_APART.items() if key in said}
    if not width or not height or K_bg is None:
        return Background(keys=keys, source_url=said.get("source_url", ""))
    wanted = pinhole(width, height, BACKGROUND_HFOV_DEG)
    values.near("background.K_bg", K_bg, wanted)
    return Background(width, height, wanted, keys, said.get("source_url", ""))


def _origin(values: Values, value: Json, split: str, image_id: str | None) -> dict[str, str]:
    """Return what the provenance says, by key; what is not in order is left out."""
    at = "background.provenance"
    record = values.record(at, value, PROVENANCE_KEYS, others=True)
    asked = [key for key in PROVENANCE_KEYS if key in record] + [key for key in ("source_sha256", "source_url") if record.get(key)]
    said = {key: text for key in asked if (text := values.text(f"{at}.{key}", record[key], PATTERNS.get(key, TEXT))) is not None}
    if "pool" in said:
        values.same(f"{at}.pool", said["pool"], split)
    if image_id is not None and "source" in said and "split_key" in said:
        key = said["split_key"]
        pattern, form = (rf"ph_{re.escape(key)}_v[0-9]+", f"ph_{key}_v and a number") if said["source"] == PANORAMAS else (re.escape(key), key)
        if not re.fullmatch(pattern, image_id):
            values.fault("background.image_id", image_id, f"{form}, as its split_key has it")
    return said
