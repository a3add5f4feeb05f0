"""T1, one asset: its mesh file, its voxels and its record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sam3dvid.validate.dataset import Unreadable, parse_array, read_bytes, read_json
from sam3dvid.validate.glb import Mesh, read_mesh
from sam3dvid.validate.kinds import Float, Values
from sam3dvid.validate.layout import ASSET_FILES, look_at_names
from sam3dvid.validate.report import LAYOUT, Found
from sam3dvid.validate.schema import WORD
from sam3dvid.validate.surface import wrong_voxels
from shardwork.jsonio import Json

FILES = {"mesh": "mesh.glb", "voxels": "voxels.npy"}
"""Key of meta.json that holds bytes and sha256 -> the file that they are of."""
KEYS = ("source", "source_name", "license", "normalization", "num_voxels", "filter_scores", *FILES)
SCANS = "gso"
"""The source whose meshes are one part each."""
NORMALIZATION_KEYS = ("scale", "offset", "raw_bbox")
GRID = (64, 64, 64)
OVERSHOOT = 1e-6
"""How far float32 may carry a vertex beyond the unit cube."""
TOUCH = 1e-5
"""How far a face of the mesh may lie from where it must be: float32 keeps 6e-8."""
ROUNDING = 1e-15
"""The same for what is far from its source's origin, of the offset."""


@dataclass(frozen=True, slots=True)
class AssetFacts:
    """What other files are compared with.

    source, source_name, source_url : as its record says, None where it does not.   sha256 : of its mesh and voxels, as far as they are there.
    """

    asset_id: str
    split: str
    source: str | None
    source_name: str | None
    source_url: str | None
    sha256: dict[str, str]


@dataclass(frozen=True, slots=True)
class Normalization:
    """How a source was brought to the unit cube.   offset : (3,), in scaled units.   raw_bbox : (2, 3), least and greatest, Z up."""

    scale: float
    offset: Float
    raw_bbox: Float


@dataclass(frozen=True, slots=True)
class Said:
    """What an asset's record says, None where it is not in order."""

    source: str | None = None
    source_name: str | None = None
    source_url: str | None = None
    normalization: Normalization | None = None


def look_at_asset(root: Path, split: str, asset_id: str) -> tuple[Found, AssetFacts]:
    """Return what is found in an asset's folder. Raises OSError."""
    found, folder = Found(), f"assets/{split}/{asset_id}"
    found.counts["assets"] += 1
    here = look_at_names(found, root, folder, ASSET_FILES)
    digests: dict[str, tuple[int, str]] = {}
    read = {"mesh": read_mesh, "voxels": _voxels}
    held: dict[str, Any] = {}
    for key, file in FILES.items():
        if file in here:
            data = read_bytes(root, f"{folder}/{file}")
            digests[key] = (len(data), hashlib.sha256(data).hexdigest())
            held[key] = _guard(found, f"{folder}/{file}", read[key], data)
    mesh, voxels = held.get("mesh"), held.get("voxels")
    occupied = None if voxels is None else int(np.count_nonzero(voxels))
    if occupied == 0:
        found.add(LAYOUT, f"{folder}/voxels.npy", "no voxel occupied", "the surface of a mesh")
    elif voxels is not None and mesh is not None:
        _look_at_voxels(found, f"{folder}/voxels.npy", voxels, mesh)
    said = Said()
    if "meta.json" in here:
        try:
            content = read_json(root, f"{folder}/meta.json")
        except Unreadable as error:
            found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)
        else:
            values = Values(f"{folder}/meta.json", found)
            said = _look_at_record(values, content, split, asset_id, digests, occupied)
            if mesh is not None and said.normalization is not None:
                _look_at_raw_box(values, mesh, said.source, said.normalization)
    if mesh is not None:
        _look_at_box(found, f"{folder}/mesh.glb", mesh, said.source)
    sums = {key: sha256 for key, (_, sha256) in digests.items()}
    return found, AssetFacts(asset_id, split, said.source, said.source_name, said.source_url, sums)


def _guard(found: Found, where: str, read: Any, data: bytes) -> Any:
    try:
        return read(data, where)
    except Unreadable as error:
        found.add(LAYOUT, where, error.problem.found, error.problem.expected)
        return None


def _voxels(data: bytes, where: str) -> Any:
    voxels = parse_array(data, where, np.dtype(np.bool_), GRID)
    if int(voxels.view(np.uint8).max()) > 1:
        raise Unreadable(where, f"a byte {int(voxels.view(np.uint8).max())} as a truth value", "0 and 1 alone")
    return voxels


def _look_at_box(found: Found, where: str, mesh: Mesh, source: str | None) -> None:
    """Note a mesh that is not in the unit cube, and a scan that does not touch both faces along its longest axis."""
    least, greatest = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    if max(np.abs(least).max(), np.abs(greatest).max()) > 0.5 + OVERSHOOT:
        found.add(LAYOUT, where, f"vertices from {least.tolist()} to {greatest.tolist()}", "vertices within -0.5 and 0.5")
    sides = greatest - least
    axis = int(sides.argmax())
    if source == SCANS and abs(sides[axis] - 1) > TOUCH:
        found.add(LAYOUT, where, f"a longest side of {sides[axis]:g}", "1: the mesh of a scan touches both faces along its longest axis")
    elif source == SCANS and abs(least[axis] + greatest[axis]) > TOUCH:
        found.add(LAYOUT, where, f"a longest side from {least[axis]:g} to {greatest[axis]:g}", "-0.5 to 0.5: the mesh of a scan touches both faces")


def _look_at_raw_box(values: Values, mesh: Mesh, source: str | None, normal: Normalization) -> None:
    """Note a mesh that is not in the box of its source, as the normalization moves it.

    Both have Z up. A scan fills the box. Any other source may be of parts that are turned, whose own boxes, turned with them, reach further than they do.
    Source: format v0.1, 3.3.
    """
    box = normal.scale * normal.raw_bbox + normal.offset
    least, greatest = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    beyond = np.maximum(box[0] - least, greatest - box[1])
    off = np.abs(beyond).max() if source == SCANS else beyond.max()
    if off > TOUCH + ROUNDING * np.abs(normal.offset).max():
        said = f"a box from {np.round(box[0], 6).tolist()} to {np.round(box[1], 6).tolist()} in the canonical frame"
        values.fault("normalization.raw_bbox", said, f"{np.round(least, 6).tolist()} to {np.round(greatest, 6).tolist()}, as mesh.glb has it")


def _look_at_voxels(found: Found, where: str, voxels: Any, mesh: Mesh) -> None:
    missing, stray = wrong_voxels(voxels, mesh)
    if missing or stray:
        said = f"{missing} voxels empty where the surface is, {stray} occupied where it is not"
        found.add(LAYOUT, where, said, "the voxels that the surface of mesh.glb touches")


def _look_at_record(values: Values, content: Json, split: str, asset_id: str, digests: dict[str, tuple[int, str]], occupied: int | None) -> Said:
    """Return what an asset's record says.   digests : file -> (bytes, sha256).   occupied : its number of voxels, None if they cannot be read."""
    record = values.record("", content, KEYS, others=True)
    for key, wanted in (("asset_id", asset_id), ("split", split)):
        if key in record:
            values.same(key, record[key], wanted)
    source = values.text("source", record["source"], WORD) if "source" in record else None
    named = {key: values.text(key, record[key]) for key in ("source_name", "license") if key in record}
    url = values.text("source_url", record["source_url"]) if record.get("source_url") else None
    if "num_voxels" in record and (stated := values.whole("num_voxels", record["num_voxels"], 1)) is not None and occupied not in (None, stated):
        values.fault("num_voxels", stated, f"{occupied}, as voxels.npy has it")
    if "filter_scores" in record:
        scores = values.record("filter_scores", record["filter_scores"], (), others=True)
        for name, score in scores.items():
            values.number(f"filter_scores.{name}", score)
    for key in FILES:
        if key in record:
            stated_of = values.record(key, record[key], ("bytes", "sha256"))
            for name, wanted_value in zip(("bytes", "sha256"), digests.get(key, ()), strict=False):
                if name in stated_of:
                    values.same(f"{key}.{name}", stated_of[name], wanted_value)
    values.relative(record)
    normal = _look_at_normalization(values, record["normalization"]) if "normalization" in record else None
    return Said(source, named.get("source_name"), url, normal)


def _look_at_normalization(values: Values, value: Json) -> Normalization | None:
    """Return how the source was brought to the unit cube: scale = 1 / longest side, offset = -scale (min + max) / 2."""
    record = values.record("normalization", value, NORMALIZATION_KEYS)
    if not set(NORMALIZATION_KEYS) <= record.keys():
        return None
    scale = values.number("normalization.scale", record["scale"], 1e-300)
    offset = values.array("normalization.offset", record["offset"], (3,))
    box = values.array("normalization.raw_bbox", record["raw_bbox"], (2, 3))
    if scale is None or offset is None or box is None:
        return None
    longest = float((box[1] - box[0]).max())
    if (box[1] < box[0]).any() or longest <= 0:
        values.fault("normalization.raw_bbox", box.tolist(), "[least, greatest] of a box with an extent")
    elif abs(scale * longest - 1) > 1e-6:
        values.fault("normalization.scale", repr(scale), f"{1 / longest:.12g}, one over the longest side of raw_bbox")
    elif (off := np.abs(offset + scale * (box[0] + box[1]) / 2)).max() > 1e-6 * max(1.0, float(np.abs(offset).max())):
        values.fault("normalization.offset", offset.tolist(), f"-scale (min + max) / 2 of raw_bbox, off by {off.max():.3g}")
    else:
        return Normalization(scale, offset, box)
    return None
