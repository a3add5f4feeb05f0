"""T1, one asset: its mesh file, its voxels and its record."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sam3dvid.validate.dataset import Unreadable, parse_array, read_bytes, read_json
from sam3dvid.validate.kinds import Values
from sam3dvid.validate.layout import ASSET_FILES, look_at_names
from sam3dvid.validate.report import LAYOUT, Found
from shardwork.errors import DataError
from shardwork.jsonio import Json, loads

KEYS = ("source", "source_name", "license", "normalization", "num_voxels", "filter_scores")
NORMALIZATION_KEYS = ("scale", "offset", "raw_bbox")
GRID = (64, 64, 64)
OVERSHOOT = 1e-6
"""How far float32 may carry a vertex beyond the unit cube."""
TOUCH = 1e-5
"""How far the longest side of a scan may lie from 1."""
GLB_START = struct.Struct("<4sII")
TRIANGLES = 4
MOVES = {"translation": [0, 0, 0], "rotation": [0, 0, 0, 1], "scale": [1, 1, 1], "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]}
"""Transforms of a node, and the value that does nothing."""


@dataclass(frozen=True, slots=True)
class AssetFacts:
    """What other files are compared with.   source : as its record says, None if it does not.   mesh_sha256 : of its mesh, None if it cannot be read."""

    asset_id: str
    split: str
    source: str | None
    mesh_sha256: str | None


def look_at_asset(root: Path, split: str, asset_id: str) -> tuple[Found, AssetFacts]:
    """Return what is found in an asset's folder. Raises OSError."""
    found, folder = Found(), f"assets/{split}/{asset_id}"
    found.counts["assets"] += 1
    here = look_at_names(found, root, folder, ASSET_FILES)
    digests: dict[str, tuple[int, str]] = {}
    occupied = source = None
    if "mesh.glb" in here:
        data = read_bytes(root, f"{folder}/mesh.glb")
        digests["mesh"] = (len(data), hashlib.sha256(data).hexdigest())
        sides = _guard(found, f"{folder}/mesh.glb", _mesh_sides, data)
    else:
        sides = None
    if "voxels.npy" in here:
        data = read_bytes(root, f"{folder}/voxels.npy")
        digests["voxels"] = (len(data), hashlib.sha256(data).hexdigest())
        voxels = _guard(found, f"{folder}/voxels.npy", _voxels, data)
        occupied = None if voxels is None else int(np.count_nonzero(voxels))
        if occupied == 0:
            found.add(LAYOUT, f"{folder}/voxels.npy", "no voxel occupied", "the surface of a mesh")
    if "meta.json" in here:
        try:
            content = read_json(root, f"{folder}/meta.json")
        except Unreadable as error:
            found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)
        else:
            source = _look_at_record(Values(f"{folder}/meta.json", found), content, split, asset_id, digests, occupied)
    if sides is not None:
        _look_at_sides(found, f"{folder}/mesh.glb", sides, source)
    return found, AssetFacts(asset_id, split, source, digests["mesh"][1] if "mesh" in digests else None)


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


def _mesh_sides(data: bytes, where: str) -> tuple[list[float], list[float]]:
    """Return the least and greatest coordinates of a mesh, in glTF axes, as its file states them.

    Raises Unreadable unless it is one mesh as the format has it.
    """
    if len(data) < 20 or data[:4] != b"glTF":
        raise Unreadable(where, f"begins with {data[:4]!r}", "a GLB file")
    _, version, length = GLB_START.unpack_from(data)
    if version != 2 or length != len(data):
        raise Unreadable(where, f"version {version}, {len(data)} bytes where it says {length}", "a whole GLB file of version 2")
    size, kind = struct.unpack_from("<I4s", data, 12)
    if kind != b"JSON" or 20 + size > len(data):
        raise Unreadable(where, "no JSON part", "a whole GLB file")
    try:
        return _stated_sides(loads(data[20 : 20 + size], where), where)
    except DataError as error:
        raise Unreadable(where, error.found, "a glTF scene") from error
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise Unreadable(where, f"a scene of another form ({type(error).__name__}: {error})", "a glTF scene") from error


def _stated_sides(scene: Json, where: str) -> tuple[list[float], list[float]]:
    nodes = [node for node in scene["nodes"] if "mesh" in node]
    if len(nodes) != 1 or len(scene["meshes"]) != 1:
        raise Unreadable(where, f"{len(nodes)} mesh nodes of {len(scene['meshes'])} meshes", "one mesh object")
    if moved := [key for node in scene["nodes"] for key, nothing in MOVES.items() if key in node and node[key] != nothing]:
        raise Unreadable(where, f"a node with a {moved[0]}", "an identity transform")
    parts = scene["meshes"][nodes[0]["mesh"]]["primitives"]
    if any(part.get("mode", TRIANGLES) != TRIANGLES for part in parts):
        raise Unreadable(where, "parts that are no triangles", "triangles")
    corners = [scene["accessors"][part["attributes"]["POSITION"]] for part in parts]
    least, greatest = np.min([one["min"] for one in corners], axis=0), np.max([one["max"] for one in corners], axis=0)
    if least.shape != (3,) or greatest.shape != (3,) or not np.isfinite([least, greatest]).all():
        raise ValueError("bounds that are no points")
    return least.tolist(), greatest.tolist()


def _look_at_sides(found: Found, where: str, sides: tuple[list[float], list[float]], source: str | None) -> None:
    least, greatest = sides
    if max(map(abs, (*least, *greatest))) > 0.5 + OVERSHOOT:
        found.add(LAYOUT, where, f"vertices from {least} to {greatest}", "vertices within -0.5 and 0.5")
    longest = max(high - low for low, high in zip(least, greatest, strict=True))
    if source == "gso" and abs(longest - 1) > TOUCH:
        found.add(LAYOUT, where, f"a longest side of {longest:g}", "1: the mesh of a scan touches both faces along its longest axis")


def _look_at_record(values: Values, content: Json, split: str, asset_id: str, digests: dict[str, tuple[int, str]], occupied: int | None) -> str | None:
    """Return the source that an asset's record names.   digests : file -> (bytes, sha256).   occupied : its number of voxels, None if they cannot be read."""
    record = values.record("", content, KEYS, others=True)
    for key, wanted in (("asset_id", asset_id), ("split", split)):
        if key in record:
            values.same(key, record[key], wanted)
    source = values.text("source", record["source"]) if "source" in record else None
    for key in ("source_name", "license"):
        if key in record:
            values.text(key, record[key])
    if "num_voxels" in record and (stated := values.whole("num_voxels", record["num_voxels"], 1)) is not None and occupied not in (None, stated):
        values.fault("num_voxels", stated, f"{occupied}, as voxels.npy has it")
    if "filter_scores" in record:
        scores = values.record("filter_scores", record["filter_scores"], (), others=True)
        for name, score in scores.items():
            values.number(f"filter_scores.{name}", score)
    if "normalization" in record:
        _look_at_normalization(values, record["normalization"])
    for key, (size, sha256) in digests.items():
        if key in record:
            stated_of = values.record(key, record[key], ("bytes", "sha256"))
            for name, wanted_value in (("bytes", size), ("sha256", sha256)):
                if name in stated_of:
                    values.same(f"{key}.{name}", stated_of[name], wanted_value)
    values.relative(record)
    return source


def _look_at_normalization(values: Values, value: Json) -> None:
    """Look at how the source was brought to the unit cube: scale = 1 / longest side, offset = -scale (min + max) / 2."""
    record = values.record("normalization", value, NORMALIZATION_KEYS)
    if not set(NORMALIZATION_KEYS) <= record.keys():
        return
    scale = values.number("normalization.scale", record["scale"], 1e-300)
    offset = values.array("normalization.offset", record["offset"], (3,))
    box = values.array("normalization.raw_bbox", record["raw_bbox"], (2, 3))
    if scale is None or offset is None or box is None:
        return
    longest = float((box[1] - box[0]).max())
    if (box[1] < box[0]).any() or longest <= 0:
        values.fault("normalization.raw_bbox", box.tolist(), "[least, greatest] of a box with an extent")
    elif abs(scale * longest - 1) > 1e-6:
        values.fault("normalization.scale", repr(scale), f"{1 / longest:.12g}, one over the longest side of raw_bbox")
    elif (off := np.abs(offset + scale * (box[0] + box[1]) / 2)).max() > 1e-6 * max(1.0, float(np.abs(offset).max())):
        values.fault("normalization.offset", offset.tolist(), f"-scale (min + max) / 2 of raw_bbox, off by {off.max():.3g}")
