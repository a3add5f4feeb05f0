"""voxels_<split>.npz: the voxels of the assets that a split uses, packed to bits. Source: seed 002, 9.3."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.codes import AssetRefused
from sam3dvid.export_reader import NO_ARCHIVE, array_of
from sam3dvid.stage import asset_of
from shardwork.errors import Problem
from shardwork.files import atomic_path

SIDE = 64
PACKED_BYTES = SIDE**3 // 8
NPY_BYTES = 128 + SIDE**3
"""Size of a voxels.npy: a header and one byte a voxel."""
MADE = (1980, 1, 1, 0, 0, 0)
"""The date of a zip's member: the earliest that there is."""
UNIX, READABLE = 3, 0o644 << 16


def voxels_path(dataset: Path, split: str, asset_id: str) -> Path:
    """Return where an asset's voxels are."""
    return asset_of(dataset, asset_id, split) / "voxels.npy"


def check_voxels(path: Path) -> None:
    """Raise AssetRefused (bad_asset) for voxels that are not there or of another size. Nothing is read."""
    if not path.is_file():
        raise AssetRefused("bad_asset", path, "no such file", "an asset's voxels")
    if (size := path.stat().st_size) != NPY_BYTES:
        raise AssetRefused("bad_asset", path, f"{size} bytes", f"{NPY_BYTES}, which bool ({SIDE}, {SIDE}, {SIDE}) takes")


def packed_voxels(path: Path) -> NDArray[np.uint8]:
    """Return an asset's voxels as bits: uint8 (32768,), the grid flattened in C order, the first voxel in the highest bit.

    So voxel (1, 2, 3) is byte 528, value 16.   Raises AssetRefused (bad_asset) for anything but bool (64, 64, 64).
    """
    try:
        grid: Any = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    except FileNotFoundError as error:
        raise AssetRefused("bad_asset", path, "no such file", "an asset's voxels") from error
    except (ValueError, EOFError) as error:  # all of it is in memory
        raise AssetRefused("bad_asset", path, f"cannot be read ({error})", "an NPY file") from error
    if not isinstance(grid, np.ndarray) or grid.dtype != np.bool_ or grid.shape != (SIDE, SIDE, SIDE):
        found = f"{grid.dtype} of shape {grid.shape}" if isinstance(grid, np.ndarray) else "no array"
        raise AssetRefused("bad_asset", path, found, f"bool of shape ({SIDE}, {SIDE}, {SIDE})")
    return np.packbits(np.ascontiguousarray(grid).reshape(-1), bitorder="big")


def write_voxels(final: Path, dataset: Path, split: str, asset_ids: Iterable[str]) -> None:
    """Write the packed voxels of assets atomically, sorted by id. Equal voxels give equal bytes: stored, without dates. Memory holds one asset.

    Not by np.savez, which takes ids for names of its own arguments.
    """
    with atomic_path(final) as temp, zipfile.ZipFile(temp, "w", zipfile.ZIP_STORED) as archive:
        for asset_id in sorted(asset_ids):
            member = zipfile.ZipInfo(f"{asset_id}.npy", MADE)
            member.create_system, member.external_attr = UNIX, READABLE
            buffer = io.BytesIO()
            layout: Any = np.lib.format
            layout.write_array(buffer, packed_voxels(voxels_path(dataset, split, asset_id)), version=(1, 0), allow_pickle=False)
            archive.writestr(member, buffer.getvalue())


def read_packed(path: Path) -> tuple[dict[str, NDArray[np.uint8]] | None, list[Problem]]:
    """Return the packed voxels of a file by asset id, in its order, and what is wrong with it; None where it cannot be read at all."""
    problems, packed = [], {}
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            for asset_id in archive.files:
                bits = array_of(archive, asset_id)
                if bits.dtype != np.uint8 or bits.shape != (PACKED_BYTES,):
                    problems.append(Problem(f"{path.name}: {asset_id}", f"{bits.dtype} of shape {bits.shape}", f"uint8 of shape ({PACKED_BYTES},)"))
                else:
                    packed[asset_id] = bits
    except (*NO_ARCHIVE, OSError) as error:  # all of it is in memory
        return None, [*problems, Problem(path.name, f"cannot be read ({error})", "an NPZ file")]
    return packed, problems
