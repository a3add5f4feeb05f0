"""A look into an asset's files before Blender opens them: what Blender would hide is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sam3dvid.assets.found import Found
from sam3dvid.assets.gltf_check import check_gltf
from sam3dvid.assets.obj import check_obj
from sam3dvid.assets.scans import check_fbx, check_ply, check_stl
from sam3dvid.assets.textures import Parts
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings

CHECKS = {".glb": check_gltf, ".gltf": check_gltf, ".obj": check_obj, ".ply": check_ply, ".stl": check_stl, ".fbx": check_fbx}


def inspect(sources: Sequence[Path], settings: NormalizeSettings, scratch: Path) -> Found:
    """Return what an asset's files hold, and the file that Blender shall open.

    sources : the main file, then all others that belong to the asset.   scratch : an empty folder for a plain copy; it may go after the import.
    Raises AssetRefused: empty_mesh, points_only, lines_only, zero_extent, not_finite, unreadable_mesh, format_unsupported, missing_part,
    missing_texture, unreadable_texture, transparent_material, too_many_triangles.   Raises OSError where the machine is at fault.
    """
    check = CHECKS.get(sources[0].suffix.lower())
    if check is None:
        raise AssetRefused("format_unsupported", sources[0].name, f"a file that ends in {sources[0].suffix!r}", ", ".join(sorted(CHECKS)))
    return check(Parts(sources), settings, scratch)
