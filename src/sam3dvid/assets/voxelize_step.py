"""The step that finishes assets, as `shardwork` runs it: a normalised mesh becomes a folder of mesh, voxels and meta.json."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sam3dvid.assets.filters import scores_of
from sam3dvid.assets.licenses import UNKNOWN
from sam3dvid.codes import AssetRefused
from sam3dvid.stage import ASSET_KEY, ASSET_STEPS, VOXELIZE_VERSION, asset_of, mesh_of
from shardwork import __version__
from shardwork.digests import sha256_file
from shardwork.errors import Fault
from shardwork.files import atomic_folder, link_or_copy
from shardwork.ids import is_id
from shardwork.jsonio import Json, dumps_pretty, loads
from shardwork.place import Place
from shardwork.step import Fields, Item, Step, upstream
from shardwork.tables import Row

MESH, VOXELS, META = "mesh.glb", "voxels.npy", "meta.json"
"""The files of an asset's folder."""
NO_FILE = "none: no such file"


def voxelize_step() -> Step:
    """Return the step that writes an asset's folder from its normalised mesh."""
    return Step(ASSET_STEPS[1], VOXELIZE_VERSION, {}, _voxelize, _adopt, guards=True)


def voxel_items(rows: Sequence[Fields], table: Sequence[Row], place: Place, before: Place) -> list[Item]:
    """Return an item for every row of a shard manifest of normalize_assets; what that step refused comes with its verdict.

    table : rows of the asset table, at least those of the shard.   place, before : where finished assets and normalised meshes are.
    Raises Fault (manifest_mismatch) for an asset that is not in the table.
    """
    described = {row[ASSET_KEY]: row for row in table}
    items = []
    for row in rows:
        name = row["id"]
        if name not in described:
            raise Fault("manifest_mismatch", name, "a row of the shard manifest", "an asset of the table", "run the workflow again")
        split = described[name]["split"]
        outputs = (asset_of(place.home or place.stage, name, split),) if is_id(name) else ()
        if row["status"] == "ok":
            items.append(Item(name, facts_of(described[name], row), outputs, watched=mesh_of(before, name, split)[:1]))
        else:
            items.append(Item(name, None, outputs, verdict=upstream(row, ASSET_STEPS[0])))
    return items


def facts_of(row: Row, record: Fields) -> dict[str, Json]:
    """Return what meta.json says of an asset before its voxels are known.   row : of the table.   record : of its normalisation."""
    files = [{"bytes": int(row["bytes"]), "name": Path(row["path"]).name}]
    files += [{"bytes": size, "name": Path(name).name} for name, size, _ in loads(row["parts"] or "[]")]
    copied = ("source", "source_url", "author", "attribution")
    return {
        **{name: row.get(name, "") for name in copied},
        "asset_id": row[ASSET_KEY],
        "blender_version": record["blender_version"],
        "filter_scores": scores_of(row),
        "generator_version": __version__,
        "license": row["license"] or UNKNOWN,
        "mesh": {"bytes": record["mesh_bytes"], "sha256": record["mesh_sha256"]},
        "normalization": {"offset": record["offset"], "raw_bbox": record["raw_bbox"], "scale": record["scale"]},
        "notes": record["notes"],
        "num_triangles": record["num_triangles"],
        "num_vertices": record["num_vertices"],
        "source_files": files,
        "source_name": row["source_name"] or row[ASSET_KEY],
        "split": row["split"],
        "textures": record["textures"],
        "up_axis": row["up_axis"],
    }


def npy_bytes(grid: object) -> bytes:
    """Return a grid as np.save writes it, with a header of version 1.0.   grid : (64, 64, 64) bool."""
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(grid), allow_pickle=False)
    return buffer.getvalue()


def _made(item: Item, mesh: Path) -> tuple[dict[str, bytes], Fields]:
    """Return the bytes of voxels.npy and meta.json for a mesh, and the item's fields."""
    from sam3dvid.assets.mesh import check_canonical, read_canonical  # loads numba and trimesh, which the other steps do not need
    from sam3dvid.assets.voxels import voxelize

    vertices, triangles = read_canonical(mesh)
    check_canonical(vertices, f"{item.id}: {mesh.name}")
    grid = voxelize(vertices, triangles)
    voxels = npy_bytes(grid)
    facts = item.inputs
    about = {"bytes": len(voxels), "sha256": hashlib.sha256(voxels).hexdigest()}
    meta = dumps_pretty({**facts, "num_voxels": int(grid.sum()), "voxels": about}).encode()
    fields = {
        "license": facts["license"],
        "mesh_sha256": facts["mesh"]["sha256"],
        "num_triangles": facts["num_triangles"],
        "num_vertices": facts["num_vertices"],
        "num_voxels": int(grid.sum()),
        "source": facts["source"],
        "source_name": facts["source_name"],
        "split": facts["split"],
        "voxels_sha256": about["sha256"],
    }
    return {VOXELS: voxels, META: meta}, fields


def _voxelize(item: Item) -> Fields:
    (mesh,), (folder,) = item.watched, item.outputs
    _check_digest(item, mesh)
    files, fields = _made(item, mesh)
    with atomic_folder(folder) as temp:
        link_or_copy(mesh, temp / MESH)
        for name, data in files.items():
            (temp / name).write_bytes(data)
    return fields


def _check_digest(item: Item, mesh: Path) -> None:
    """Raise Fault (fault_stale) unless the normalised mesh is what its step wrote."""
    found = sha256_file(mesh) if mesh.is_file() else NO_FILE
    if found != item.inputs["mesh"]["sha256"]:
        expected = f"{item.inputs['mesh']['sha256']} as written"
        raise Fault("fault_stale", mesh.name, f"sha256 {found}", expected, "it changed on the disk: run again, it is made anew")


def _adopt(item: Item) -> Fields | None:
    """Return the fields of a folder that holds, to the byte, what this step would write: nothing in it is taken on trust."""
    (folder,) = item.outputs
    if not folder.is_dir() or sorted(path.name for path in folder.iterdir()) != sorted((MESH, VOXELS, META)):
        return None
    if sha256_file(folder / MESH) != item.inputs["mesh"]["sha256"]:
        return None
    try:
        files, fields = _made(item, folder / MESH)
    except AssetRefused:
        return None
    return fields if all((folder / name).read_bytes() == data for name, data in files.items()) else None
