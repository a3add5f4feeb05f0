"""Folders of assets, in the layouts that sources have: Google Scanned Objects, their flat copies, or single files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.stage import MESH_SUFFIXES, SPLITS
from shardwork.errors import DataError
from shardwork.listing import split_of, walk_files

LAYOUTS = ("auto", "gso", "files")
SCAN = ("meshes", "model.obj")
"""Where a model of Google Scanned Objects has its mesh."""
COLLISION = "_col.obj"
"""What the name of a flat copy's collision mesh ends in: no asset."""
NAMELESS = frozenset(("model", "scene", "mesh"))
"""Names of files that say nothing: such an asset is named by its folder."""
OTHER_MESHES = frozenset(".3ds .abc .blend .dae .dxf .msh .off .step .stp .usd .usda .usdc .usdz .x3d .vrm".split())
"""Formats of meshes that are not read: they are named, so that nobody takes them for used."""
FETCHED = "fetched.jsonl"
"""What a download says of its files, in the folder that holds them."""


@dataclass(frozen=True, slots=True)
class FoundAsset:
    """An asset in a folder.   path : its main file.   root : the folder that was searched.   name : what it is called there.   scan : GSO's layouts."""

    path: Path
    root: Path
    name: str
    split: str
    scan: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a look into a folder gave.   others : meshes of formats that are not read.   fetched : lists that downloads left."""

    assets: tuple[FoundAsset, ...]
    others: tuple[Path, ...]
    fetched: tuple[Path, ...]


def find_assets(folder: Path, layout: str, split: str = "") -> Found:
    """Return the assets below a folder, sorted by path.

    layout : gso (name/meshes/model.obj, or a folder of name.obj, name.mtl, texture.png), files (every mesh is an asset), or auto: of gso is what
    is called meshes/model.obj, and nothing beside it.   split : of assets outside subfolders train/ and eval/; "" is eval for gso, else train.
    Raises DataError (bad_table) if the folder is missing or holds no asset.
    """
    if not folder.is_dir():
        raise DataError("bad_table", folder, "no such folder", "a folder of assets", "correct the path")
    paths = [path for path in walk_files(folder) if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    scans = {path for path in paths if layout == "gso" or (layout == "auto" and path.parts[-2:] == SCAN)}
    paths = _without_links_to_others(paths)
    names = {path: name for path in paths if (name := _scan_name(path) if path in scans else _file_name(path))}
    if not names:
        expected = "name/meshes/model.obj or name/name.obj" if layout == "gso" else "files named " + " ".join(MESH_SUFFIXES)
        raise DataError("bad_table", folder, "no assets", expected, "correct the path, or name another --layout")
    assets = tuple(_found(path, folder, name, split, path in scans) for path, name in names.items())
    # .msh, .xml and collision meshes belong to the simulators that flat copies are made for
    others = () if layout == "gso" else tuple(path for path in paths if path.suffix.lower() in OTHER_MESHES)
    return Found(assets, others, tuple(path for path in paths if path.name == FETCHED))


def _without_links_to_others(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without links to files that are among them: an asset bears its own name."""
    own = {path.resolve() for path in paths if not path.is_symlink()}
    return [path for path in paths if not (path.is_symlink() and path.resolve() in own)]


def _found(path: Path, folder: Path, name: str, split: str, scan: bool) -> FoundAsset:
    return FoundAsset(path, folder, name, split_of(path.relative_to(folder), SPLITS, split or ("eval" if scan else "train")), scan)


def _scan_name(path: Path) -> str:
    if path.suffix.lower() != ".obj" or path.name.endswith(COLLISION):
        return ""
    if path.parts[-2:] == SCAN:
        return path.parent.parent.name
    return _file_name(path)


def _file_name(path: Path) -> str:
    if path.suffix.lower() not in MESH_SUFFIXES:
        return ""
    return path.parent.name if path.stem in NAMELESS and path.parent.name else path.stem
