"""The finished assets of a split, as they stand in the dataset's folder, and their meshes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.assets.mesh import read_canonical
from sam3dvid.codes import AssetRefused
from sam3dvid.plan.settings import MOST_OBJECTS
from sam3dvid.raycast import Caster
from sam3dvid.stage import ASSET_STEPS, asset_of, assets_place
from shardwork.digests import digest_value, sha256_file
from shardwork.errors import DataError, Fault
from shardwork.ids import is_id
from shardwork.jsonio import read_json
from shardwork.place import read_manifest

KEPT_MESHES = 8
"""Meshes that a process keeps at hand: two clips' worth, so that memory stays flat and a small dataset is read once."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A finished asset.   source : gso, objaverse or another word.   mesh_sha256 : of its mesh.glb."""

    asset_id: str
    source: str
    mesh_sha256: str


def read_assets(dataset: Path, split: str, voxels: Path | None = None) -> tuple[Asset, ...]:
    """Return the finished assets of a split, sorted by id, from their meta.json.

    voxels : results/<run>/voxels, whose manifests name them: a folder that is gone must not pass for an asset that never was. None takes the folders.
    Raises AssetRefused: bad_asset for a folder that is not what voxelize_assets writes, too_few_assets unless four different ones can be drawn.
    """
    folder = dataset / "assets" / split
    if voxels is not None:
        ids = _passed(voxels, dataset, split)
    else:
        ids = sorted(path.name for path in folder.iterdir() if is_id(path.name)) if folder.is_dir() else []
    if len(ids) < MOST_OBJECTS:
        raise AssetRefused("too_few_assets", folder, f"{len(ids)} finished assets", f"at least {MOST_OBJECTS}, since those of a clip are distinct")
    return tuple(_read_asset(asset_of(dataset, asset_id, split)) for asset_id in ids)


def _passed(voxels: Path, dataset: Path, split: str) -> list[str]:
    """Return the ids of the assets of a split whose verdict is ok."""
    rows = [row for path in assets_place(voxels, dataset).manifests(ASSET_STEPS[-1], "*") for row in read_manifest(path)]
    return sorted({row["id"] for row in rows if row["status"] == "ok" and row["split"] == split})


def _read_asset(folder: Path) -> Asset:
    path = folder / "meta.json"
    try:
        meta = read_json(path)
        source, mesh_sha256 = meta["source"], meta["mesh"]["sha256"]
    except FileNotFoundError as error:
        raise AssetRefused("bad_asset", path, "no such file", "an asset's record") from error
    except (DataError, KeyError, TypeError) as error:
        raise AssetRefused("bad_asset", path, f"{type(error).__name__}: {error}", "an asset's record") from error
    for key, value in (("source", source), ("mesh.sha256", mesh_sha256)):
        if not isinstance(value, str) or not value:
            raise AssetRefused("bad_asset", path, f"{key} {value!r}", "text")
    if meta.get("asset_id", folder.name) != folder.name:
        raise AssetRefused("bad_asset", path, f"asset_id {meta['asset_id']!r}", f"{folder.name!r}, as its folder is named")
    return Asset(folder.name, source, mesh_sha256)


def assets_digest(assets: Sequence[Asset]) -> str:
    """Return a digest of which assets there are, in which order, and of the bytes of their meshes."""
    return digest_value([[asset.asset_id, asset.source, asset.mesh_sha256] for asset in assets])


class Meshes:
    """Casters of the assets of a split; the last few are kept.   dataset : its folder."""

    def __init__(self, dataset: Path, split: str) -> None:
        self.dataset, self.split = dataset, split
        self.kept: OrderedDict[str, Caster] = OrderedDict()

    def __call__(self, asset: Asset) -> Caster:
        """Return what casts rays at an asset's mesh, in the canonical frame. Raises Fault (fault_stale) if the file is not the one that its record names."""
        shape = self.kept.pop(asset.asset_id, None) or self._read(asset)
        self.kept[asset.asset_id] = shape
        if len(self.kept) > KEPT_MESHES:
            self.kept.popitem(last=False)
        return shape

    def _read(self, asset: Asset) -> Caster:
        path = asset_of(self.dataset, asset.asset_id, self.split) / "mesh.glb"
        where = f"{asset.asset_id}/{path.name}"
        digest = sha256_file(path) if path.is_file() else "none: no such file"
        if digest != asset.mesh_sha256:
            hint = "it changed on the disk: run the workflow with verify: full, it is made anew"
            raise Fault("fault_stale", where, f"sha256 {digest}", f"{asset.mesh_sha256}, as its meta.json says", hint)
        return Caster(*read_canonical(path))
