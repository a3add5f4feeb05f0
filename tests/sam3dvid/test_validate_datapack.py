"""Real meshes, as the product normalises and voxelises them, against what T1 asks of a mesh and its voxels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sam3dvid.assets.mesh import read_canonical
from sam3dvid.assets.parts import parts_of
from sam3dvid.assets.voxels import voxelize
from sam3dvid.settings import NormalizeSettings
from sam3dvid.validate.glb import read_mesh
from sam3dvid.validate.surface import wrong_voxels

pytest.importorskip("bpy", reason="Blender is not installed")


@pytest.fixture(scope="session")
def objects():
    """Return the folder of real meshes, or skip."""
    root = os.environ.get("REELMILL_DATAPACK")
    if not root:
        pytest.skip("REELMILL_DATAPACK is not set: no real meshes")
    return Path(root) / "objects"


@pytest.mark.parametrize(
    ("name", "is_scan"), [("gso_libero/chefmate_8_frypan/chefmate_8_frypan.obj", True), ("awkward/rotated_parts_multi_node.glb", False)], ids=["scan", "turned"]
)
def test_a_real_mesh_is_read_as_trimesh_reads_it_and_its_voxels_are_in_order(objects, tmp_path, name, is_scan):
    from sam3dvid.blender.normalize import normalize

    main = objects / name
    files = [main, *(part.path for part in parts_of(main) if part.path is not None and part.path != main)]
    record = normalize(files, "Z" if is_scan else "file", tmp_path / "mesh.glb", NormalizeSettings())
    mesh = read_mesh((tmp_path / "mesh.glb").read_bytes(), "mesh.glb")
    vertices, triangles = read_canonical(tmp_path / "mesh.glb")
    # trimesh puts the parts in the order of their names
    assert sorted(mesh.vertices[mesh.triangles].tolist()) == sorted(vertices[triangles].tolist())
    assert wrong_voxels(voxelize(vertices, triangles), mesh) == (0, 0)
    missing, stray = wrong_voxels(voxelize(vertices, triangles)[::-1], mesh)
    assert missing > 500 and stray > 500
    box = record["scale"] * np.array(record["raw_bbox"]) + record["offset"]
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    assert (low > box[0] - 1e-5).all() and (high < box[1] + 1e-5).all()
    assert np.allclose([low, high], box, rtol=0, atol=1e-5) == is_scan
