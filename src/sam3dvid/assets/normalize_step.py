"""The step that normalises assets, as `shardwork` runs it: one asset each at a time, many in one Blender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sam3dvid.codes import HINTS, AssetRefused
from sam3dvid.settings import NormalizeSettings
from sam3dvid.stage import ASSET_KEY, ASSET_STEPS, NORMALIZE_VERSION, mesh_of, sources_of
from shardwork.digests import seal, sha256_file, unseal
from shardwork.errors import DataError
from shardwork.ids import is_id
from shardwork.jsonio import read_json, write_json
from shardwork.place import Place
from shardwork.step import Fields, Hazard, Item, Step
from shardwork.tables import Row

ITEM_SECONDS = 900.0
"""An asset of 2 million triangles takes a minute or two; what takes longer than this never ends, or is of no use."""
ITEMS_PER_BLENDER = 500
"""A guard alone: Blender's memory grows by some KB an asset."""


def normalize_step(settings: NormalizeSettings) -> Step:
    """Return the step that turns an asset's files into a normalised mesh and its sidecar."""
    hazard = Hazard("blender_crashed", "time_limit", ITEM_SECONDS, ITEMS_PER_BLENDER, HINTS)
    return Step(ASSET_STEPS[0], NORMALIZE_VERSION, asdict(settings), partial(_normalize, settings=settings), _adopt, hazard=hazard)


def asset_items(rows: Sequence[Row], table: Path, place: Place) -> list[Item]:
    """Return an item for every row of an asset table. Raises DataError (bad_table)."""
    return [
        Item(
            id=row[ASSET_KEY],
            inputs={"split": row["split"], "up_axis": row["up_axis"]},
            outputs=mesh_of(place, row[ASSET_KEY], row["split"]) if is_id(row[ASSET_KEY]) else (),
            sources=sources_of(row, table),
        )
        for row in rows
    ]


def _normalize(item: Item, settings: NormalizeSettings) -> Fields:
    from sam3dvid.blender.normalize import normalize  # loads Blender, which the other steps do not need

    main = item.sources[0]
    mesh, sidecar = item.outputs
    try:
        record = normalize([source.path for source in item.sources], item.inputs["up_axis"], mesh, settings)
    except AssetRefused as error:
        error.where = main.name  # as the table writes it: a row must not change when the project is moved
        raise
    files = [{"bytes": source.bytes, "mtime_ns": source.mtime_ns, "name": source.path.name} for source in item.sources]
    noted = {"asset_id": item.id, "fingerprint": item.fingerprint, "inputs": item.inputs, "record": record, "settings": asdict(settings), "sources": files}
    write_json(sidecar, seal(noted))
    return {**record, **item.inputs}


def _adopt(item: Item) -> Fields | None:
    """Return the fields of a published mesh that is, to the byte, what its sidecar says of this very item."""
    mesh, sidecar = item.outputs
    if not (mesh.is_file() and sidecar.is_file()):
        return None
    try:
        noted = unseal(read_json(sidecar))
    except DataError:
        return None
    if noted is None or noted["fingerprint"] != item.fingerprint or noted["record"].get("mesh_sha256") != sha256_file(mesh):
        return None
    return {**noted["record"], **item.inputs}
