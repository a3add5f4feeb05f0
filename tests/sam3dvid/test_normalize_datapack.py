"""Real and awkward meshes: the verdict on each, and the same box and triangles as trimesh reads."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sam3dvid.assets.parts import parts_of
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings
from tests.sam3dvid.meshfiles import canonical, load

pytest.importorskip("bpy", reason="Blender is not installed")

BOOK = "Eat_to_Live_The_Amazing_NutrientRich_Program_for_Fast_and_Sustained_Weight_Loss_Revised_Edition_Book"
REFUSED = {
    "awkward/empty_nodes.glb": "empty_mesh",
    "awkward/flat_zero_thickness.glb": "flat_mesh",
    "awkward/huge_far_coordinates.glb": "no_colour",
    "awkward/inverted_normals.glb": "no_colour",
    "awkward/missing_files/model.obj": "missing_texture",
    "awkward/nan_vertex.obj": "not_finite",
    "awkward/nancolor.obj": "not_finite",
    "awkward/non_manifold_edge.obj": "no_colour",
    "awkward/not_convex.obj": "no_colour",
    "awkward/notenoughindices.obj": "unreadable_mesh",
    "awkward/plane_tri.ply": "flat_mesh",
    "awkward/points_bin.ply": "points_only",
    "awkward/quads_ngons.obj": "no_colour",
    "awkward/single_point_mesh.obj": "zero_extent",
    "awkward/tiny_1e-6.obj": "no_colour",
    "awkward/truncated.glb": "unreadable_mesh",
    "awkward/zero_area_faces.obj": "flat_mesh",
    "awkward/zero_bytes.glb": "empty_mesh",
    "glb/AlphaBlendModeTest.glb": "transparent_material",
    "glb/ShapeCollection.glb": "no_colour",
    "glb/apple_baked.glb": "no_colour",
    "glb/blue_plastic_bottle.glb": "no_colour",
    "glb/nested.glb": "no_colour",
    "gltf_instances/spheres_scaled_instances.gltf": "no_colour",
    "gltf_meshopt/BoxMeshopt.glb": "format_unsupported",
    "gso/ACE_Coffee_Mug_Kristen_16_oz_cup/meshes/model.obj": "missing_texture",
    f"gso/{BOOK}/meshes/model.obj": "missing_texture",
    "ply/trellis_T.ply": "no_colour",
}

# triangles, parts, textures (name, width), notes
HANDLED = {
    "awkward/rgb_cube_with_primitives.gltf": (12, 1, [], []),
    "awkward/rotated_parts_multi_node.glb": (6392, 7, [("Image_0", 1024)], ["mirrored", "uncoloured_parts"]),
    "glb/BoxVertexColors.glb": (12, 1, [], ["vertex_colours"]),
    "glb/CesiumMan.glb": (4672, 1, [("Image_0", 1024)], ["animated", "skinned"]),
    "glb/CesiumMilkTruck.glb": (3624, 3, [("Image_0", 2048)], ["animated", "instanced"]),
    "glb/chr_knight.glb": (1460, 1, [("Image_0", 256)], ["vertex_colours"]),
    "gltf_draco/BoxDraco.gltf": (12, 1, [], []),
    "gso/Threshold_Bead_Cereal_Bowl_White/meshes/model.obj": (14030, 1, [("texture", 4096)], []),
    "gso_libero/akita_black_bowl/akita_black_bowl.obj": (42522, 1, [("texture", 1024)], []),
    "gso_libero/chefmate_8_frypan/chefmate_8_frypan.obj": (9320, 1, [("texture", 1024)], []),
    "gso_libero/glazed_rim_porcelain_ramekin/glazed_rim_porcelain_ramekin.obj": (16274, 1, [("texture", 1024)], []),
    "obj/cow/cow.obj": (5856, 1, [("cow_texture", 1024)], []),
    "ycb/YcbBanana/textured_simple_reoriented.obj": (15728, 1, [("texture_map", 4096)], []),
}

# Those whose only fault is that they have no colour, or let light through, have a shape to be kept.
SHAPES = sorted({name for name, code in REFUSED.items() if code in ("no_colour", "transparent_material")} | set(HANDLED))


@pytest.fixture(scope="session")
def objects():
    """Return the folder of real meshes, or skip."""
    root = os.environ.get("REELMILL_DATAPACK")
    if not root:
        pytest.skip("REELMILL_DATAPACK is not set: no real meshes")
    return Path(root) / "objects"


def normalize(objects, name, out, **settings):
    from sam3dvid.blender import normalize as module

    path = objects / name
    sources = [path, *(part.path for part in parts_of(path) if part.path)]
    return module.normalize(sources, up_axis(name), out, NormalizeSettings(**settings))


def up_axis(name):
    return "file" if name.endswith(("glb", "gltf")) else "Z" if name.startswith("gso") else "Y"


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_asset_has_its_verdict_and_leaves_nothing(objects, tmp_path, name):
    with pytest.raises(AssetRefused) as error:
        normalize(objects, name, tmp_path / "out" / "a.glb")
    assert error.value.code == REFUSED[name] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", HANDLED)
def test_a_good_asset_has_its_parts_textures_and_notes(objects, tmp_path, name):
    record = normalize(objects, name, tmp_path / "a.glb")
    textures = [(each["name"], each["width"]) for each in record["textures"]]
    assert (record["num_triangles"], record["num_parts"], textures, record["notes"]) == HANDLED[name]


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "gltf_draco/BoxDraco.gltf"])  # trimesh needs a package for Draco
def test_box_triangles_and_side_are_those_that_trimesh_reads(objects, tmp_path, name):
    record = normalize(objects, name, tmp_path / "a.glb", untextured="keep", transparent="opaque")
    theirs, faces = canonical(objects / name)
    if up_axis(name) == "Z":
        theirs = np.asarray(load(objects / name).vertices)
    used = np.unique(faces)
    placed = theirs[used] * record["scale"] + record["offset"]
    ours, triangles = canonical(tmp_path / "a.glb")
    assert np.allclose([ours.min(axis=0), ours.max(axis=0)], [placed.min(axis=0), placed.max(axis=0)], atol=1e-5)
    # a face that names a vertex twice is none
    assert len(triangles) == sum(len(set(face)) == 3 for face in faces.tolist())
    a, b, c = (theirs[faces[:, k]] * record["scale"] + record["offset"] for k in range(3))
    d, e, f = (ours[triangles[:, k]] for k in range(3))
    expected, found = (np.einsum("ij,ij->i", p, np.cross(q, r)).sum() / 6 for p, q, r in ((a, b, c), (d, e, f)))
    assert found == pytest.approx(expected, abs=1e-5), "it is inside out, or mirrored"


def test_every_mesh_of_the_folder_has_a_line_here(objects):
    there = {str(path.relative_to(objects)) for path in objects.rglob("*") if path.suffix in (".glb", ".gltf", ".obj", ".ply", ".stl", ".fbx")}
    assert there == REFUSED.keys() | HANDLED.keys()


def test_an_assets_longest_side_is_one_unless_its_parts_are_turned(objects, tmp_path):
    record = normalize(objects, "gso_libero/chefmate_8_frypan/chefmate_8_frypan.obj", tmp_path / "a.glb")
    vertices, _ = canonical(tmp_path / "a.glb")
    assert np.ptp(vertices, axis=0).max() == pytest.approx(1, abs=1e-6) and record["raw_bbox"][0][2] == pytest.approx(-0.000101)
    normalize(objects, "awkward/rotated_parts_multi_node.glb", tmp_path / "b.glb")
    assert 0.98 < np.ptp(canonical(tmp_path / "b.glb")[0], axis=0).max() < 1
