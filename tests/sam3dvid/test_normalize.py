"""An asset to one normalised mesh: numbers of the specification, and equality with a route that Blender has no part in."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from trimesh.transformations import compose_matrix, rotation_matrix, translation_matrix

import sam3dvid
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings
from tests.sam3dvid.meshfiles import FACES, RED, TETRA, canonical, edit_glb, glb_document, l_shape, load, volume, write_obj, write_picture, write_scene

pytest.importorskip("bpy", reason="Blender is not installed")

SRC = str(Path(sam3dvid.__file__).parent.parent)
KEEP = {"untextured": "keep"}


@pytest.fixture
def normalized(tmp_path):
    """Normalise files and return the record, vertices with Z up, triangles, and the mesh's path."""
    from sam3dvid.blender.normalize import normalize

    def make(sources, up_axis="file", **settings):
        out = tmp_path / "out" / "asset.glb"
        record = normalize([sources] if isinstance(sources, Path) else sources, up_axis, out, NormalizeSettings(**settings))
        return record, *canonical(out), out

    return make


def code_of(normalized, sources, *args, **settings):
    with pytest.raises(AssetRefused) as error:
        normalized(sources, *args, **settings)
    return error.value.code


def box_of(vertices):
    return np.array([vertices.min(axis=0), vertices.max(axis=0)])


def test_the_numbers_of_the_specification(tmp_path, normalized):
    box = trimesh.creation.box(bounds=[[1, 3, -4], [5, 4, -2]])  # with Z up: (1, 2, 3) to (5, 4, 4)
    box.visual = l_shape().visual
    box.visual.uv = np.zeros((len(box.vertices), 2))
    record, vertices, triangles, _ = normalized(write_scene(tmp_path / "a.glb", mesh=box))
    assert record["scale"] == 0.25 and record["offset"] == [-0.75, -0.75, -0.875]
    assert record["raw_bbox"] == [[1, 2, 3], [5, 4, 4]]
    assert box_of(vertices).tolist() == [[-0.5, -0.25, -0.125], [0.5, 0.25, 0.125]] and len(triangles) == 12


MIRROR = np.diag([-1.0, 1, 1, 1])
PLACED = {
    "moved": [translation_matrix([0, 3, 1])],
    "turned": [rotation_matrix(0.7, [1, 2, 3]), translation_matrix([4, 0, 0])],
    "scaled": [compose_matrix(scale=[1, 2, 0.5], angles=[0.1, 0.2, 0.3], translate=[1, 2, 3]), np.eye(4)],
    "mirrored": [np.eye(4), translation_matrix([6, 0, 0]) @ MIRROR @ rotation_matrix(0.4, [0, 1, 0])],
}


@pytest.mark.parametrize("name", PLACED)
def test_nodes_that_share_a_mesh_stand_where_trimesh_puts_them(tmp_path, normalized, name):
    path = write_scene(tmp_path / "a.glb", *PLACED[name])
    record, vertices, triangles, out = normalized(path)
    theirs, faces = canonical(path)
    placed = theirs * record["scale"] + record["offset"]
    assert len(triangles) == len(faces) == 24 * len(PLACED[name])
    assert np.allclose(box_of(vertices), box_of(placed), atol=1e-6)
    # every vertex, not only the box
    assert {tuple(v) for v in np.round(vertices, 4) + 0.0} == {tuple(v) for v in np.round(placed, 4) + 0.0}
    assert volume(vertices, triangles) == pytest.approx(
        abs(volume(placed, faces[: 24 * 1])) if len(PLACED[name]) == 1 else volume_of(PLACED[name], record), rel=1e-5
    )
    (node,) = glb_document(out)["nodes"]
    assert set(node) == {"mesh", "name"} and node["name"] == "asset"


def volume_of(placements, record):
    """Return the volume of an L (3 units) under each placement, all of it outwards."""
    return sum(3 * abs(np.linalg.det(matrix[:3, :3])) for matrix in placements) * record["scale"] ** 3


def test_the_box_is_that_of_the_turned_boxes_not_of_the_vertices(tmp_path, normalized):
    tetra = trimesh.Trimesh(TETRA, np.array(FACES) - 1, process=False)
    tetra.visual = trimesh.visual.TextureVisuals(uv=np.zeros((4, 2)), material=l_shape().visual.material)
    turn = rotation_matrix(np.pi / 4, [0, 1, 0])
    record, vertices, _, _ = normalized(write_scene(tmp_path / "a.glb", turn, mesh=tetra))
    corners = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]) @ turn[:3, :3].T
    low, high = corners.min(axis=0), corners.max(axis=0)
    assert np.allclose(record["raw_bbox"], [[low[0], -high[2], low[1]], [high[0], -low[2], high[1]]], atol=1e-6)
    assert record["scale"] == pytest.approx(2**-0.5) and np.abs(vertices).max() <= 0.5


def test_two_instances_keep_all_their_vertices(tmp_path, normalized):
    alone = normalized(write_scene(tmp_path / "a.glb"))[0]
    record = normalized(write_scene(tmp_path / "b.glb", np.eye(4), translation_matrix([5, 0, 0])))[0]
    assert record["num_vertices"] == 2 * alone["num_vertices"] and record["num_parts"] == 2 and record["notes"] == ["instanced"]


def test_normals_of_a_mirrored_part_point_outwards(tmp_path, normalized):
    _, _, _, out = normalized(write_scene(tmp_path / "a.glb", MIRROR))
    mesh = load(out)
    stored = mesh.vertex_normals[mesh.faces].mean(axis=1)
    assert (np.einsum("ij,ij->i", stored, mesh.face_normals) > 0.99).all() and mesh.volume > 0


@pytest.mark.parametrize(("up_axis", "expected"), [("Z", (0, 0, 1)), ("Y", (0, 1, 0))])
def test_the_axis_that_the_table_names_points_up(tmp_path, normalized, up_axis, expected):
    tall = np.array(TETRA) * (1, 1, 1) + 0.0
    tall[TETRA.index(expected)] *= 5
    for suffix in ("obj", "ply", "stl"):
        if suffix == "obj":
            sources = write_obj(tmp_path, vertices=tall.tolist())
        else:
            sources = [tmp_path / f"a.{suffix}"]
            sources[0].write_bytes(trimesh.Trimesh(tall, np.array(FACES) - 1, process=False).export(file_type=suffix))
        _, vertices, triangles, _ = normalized(sources, up_axis, **KEEP)
        assert np.argmax(np.ptp(vertices, axis=0)) == 2, suffix
        assert vertices[np.argmax(vertices[:, 2])][2] == 0.5 and (vertices[:, 2] > 0.4).sum() < len(vertices) / 2, "the tip is above"
        assert volume(vertices, triangles) > 0


def test_a_glb_whose_vertices_have_z_up_keeps_its_frame(tmp_path, normalized):
    path = write_scene(tmp_path / "a.glb")
    record, vertices, triangles, _ = normalized(path, "Z")
    assert record["raw_bbox"] == [[0, 0, 0], [2, 2, 1]] and volume(vertices, triangles) > 0


def test_vertex_colours_of_a_ply_come_out_as_colours_that_show(tmp_path, normalized):
    mesh = l_shape(None)
    mesh.visual.vertex_colors = np.tile([255, 0, 0, 255], (len(mesh.vertices), 1))
    (tmp_path / "a.ply").write_bytes(trimesh.exchange.ply.export_ply(mesh))
    record, _, _, out = normalized(tmp_path / "a.ply", "Z")
    (primitive,) = glb_document(out)["meshes"][0]["primitives"]
    assert "COLOR_0" in primitive["attributes"] and "material" in primitive and record["notes"] == ["vertex_colours"]
    document, data = glb_document(out), out.read_bytes()
    view = document["bufferViews"][document["accessors"][primitive["attributes"]["COLOR_0"]]["bufferView"]]
    start = len(data) - document["buffers"][0]["byteLength"] + view["byteOffset"]
    colours = np.frombuffer(data, np.float32, view["byteLength"] // 4, start).reshape(-1, 3)
    assert np.allclose(colours, [1, 0, 0]) and len(colours) == record["num_vertices"]


@pytest.mark.parametrize("slot", ["normalTexture", "occlusionTexture", "metallicRoughnessTexture", "baseColorTexture", "emissiveTexture"])
def test_a_picture_counts_as_colour_only_where_it_decides_what_is_seen(tmp_path, normalized, slot):
    def change(document):
        document["images"] = [{"uri": data_uri(write_picture(tmp_path / "t.png").read_bytes())}]
        document["textures"] = [{"source": 0}]
        (material,) = document["materials"]
        material.clear()
        room = material.setdefault("pbrMetallicRoughness", {}) if slot in ("metallicRoughnessTexture", "baseColorTexture") else material
        room[slot] = {"index": 0}
        if slot == "emissiveTexture":
            material["emissiveFactor"] = [1, 1, 1]

    path = edit_glb(write_scene(tmp_path / "a.glb"), change)
    if slot in ("baseColorTexture", "emissiveTexture"):
        assert "uncoloured" not in normalized(path)[0]["notes"]
    else:
        assert code_of(normalized, path) == "no_colour"


@pytest.mark.parametrize("illum", range(11))
def test_an_illumination_model_makes_neither_glass_nor_metal_of_an_opaque_obj(tmp_path, normalized, illum):
    mtl = f"newmtl m\nillum {illum}\nKd 0.8 0.1 0.1\nKa 0 0 0\nTf 1 1 1\nNi 1.0\n"  # as Maya writes it, with 4
    record, _, _, out = normalized(write_obj(tmp_path, mtl=mtl), "Z")
    assert record["notes"] == [] and glb_document(out)["materials"][0]["pbrMetallicRoughness"]["metallicFactor"] == 0


@pytest.mark.parametrize("grey", [255, 204, 190])
def test_a_grey_that_programs_fill_in_is_no_colour(tmp_path, normalized, grey):
    path = write_scene(tmp_path / "a.glb", mesh=l_shape((grey, grey, grey, 255)))
    assert code_of(normalized, path) == "no_colour"
    assert normalized(path, **KEEP)[0]["notes"] == ["uncoloured"]


@pytest.mark.parametrize("colour", [RED, (5, 5, 5, 255)])
def test_a_colour_that_someone_chose_is_one(tmp_path, normalized, colour):
    assert normalized(write_scene(tmp_path / "a.glb", mesh=l_shape(colour)))[0]["materials"] == 1


def test_a_mesh_without_any_material_is_no_colour(tmp_path, normalized):
    (tmp_path / "a.stl").write_bytes(trimesh.exchange.stl.export_stl(l_shape(None)))
    assert code_of(normalized, tmp_path / "a.stl", "Z") == "no_colour"


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_texture_keeps_its_bytes(tmp_path, normalized, suffix):
    sources = write_obj(tmp_path, mtl=f"newmtl m\nmap_Kd texture.{suffix}\n")
    texture = write_picture(tmp_path / f"texture.{suffix}", (32, 16))
    record, _, _, out = normalized([*sources, texture], "Z")
    assert texture.read_bytes() in out.read_bytes()
    assert record["textures"] == [{"name": "texture", "width": 32, "height": 16}]


@pytest.mark.parametrize("kind", ["gif", "ppm", "pcx"])
@pytest.mark.parametrize("place", ["linked", "embedded"])
def test_a_picture_that_blender_cannot_read_is_refused(tmp_path, normalized, kind, place):
    texture = write_picture(tmp_path / f"texture.{kind}")
    sources = [*write_obj(tmp_path, mtl=f"newmtl m\nmap_Kd texture.{kind}\n"), texture]
    if place == "embedded":

        def change(document):
            document["images"] = [{"uri": data_uri(texture.read_bytes())}]
            document["textures"] = [{"source": 0}]
            document["materials"][0]["pbrMetallicRoughness"] = {"baseColorTexture": {"index": 0}}

        sources = [edit_glb(write_scene(tmp_path / "a.glb"), change)]
    with pytest.raises(AssetRefused, match=r"Blender does not read.*unreadable_texture"):
        normalized(sources)


@pytest.mark.parametrize(("name", "mode", "compression"), [("t.tiff", "RGB", "zstd"), ("t.tiff", "RGB", "lzma"), ("t.sgi", "RGB", None), ("t.sgi", "L", None)])
def test_a_picture_that_blender_reads_as_another_one_is_refused(tmp_path, normalized, name, mode, compression):
    sources = write_obj(tmp_path, mtl=f"newmtl m\nmap_Kd {name}\n")
    Image.new("RGB", (8, 4), (200, 100, 60)).convert(mode).save(tmp_path / name, compression=compression)
    assert code_of(normalized, [*sources, tmp_path / name], "Z") == "unreadable_texture"


@pytest.mark.parametrize("name", ["t.bmp", "t.tga", "t.tiff", "t.jp2", "t.dds", "t.webp"])
def test_a_picture_of_another_format_that_blender_reads_comes_out_as_it_is(tmp_path, normalized, name):
    pixels = np.random.default_rng(0).integers(0, 255, (8, 16, 3), np.uint8)
    sources = write_obj(tmp_path, mtl=f"newmtl m\nmap_Kd {name}\n")
    Image.fromarray(pixels).save(tmp_path / name, lossless=True)
    out = normalized([*sources, tmp_path / name], "Z")[3]
    document, data = glb_document(out), out.read_bytes()
    view = document["bufferViews"][document["images"][0]["bufferView"]]
    start = len(data) - document["buffers"][0]["byteLength"] + view["byteOffset"]
    with Image.open(io.BytesIO(data[start : start + view["byteLength"]])) as picture:
        assert np.array_equal(np.asarray(picture.convert("RGB")), pixels)


def test_a_picture_that_the_exporter_loses_is_refused(tmp_path, normalized, monkeypatch):
    from sam3dvid.blender import normalize as module

    export = module.export  # type: ignore[attr-defined]

    def lossy(path):
        export(path)
        edit_glb(path, lambda document: document["materials"][0]["pbrMetallicRoughness"].pop("baseColorTexture"))

    monkeypatch.setattr(module, "export", lossy)
    sources = [*write_obj(tmp_path, mtl="newmtl m\nmap_Kd t.png\n"), write_picture(tmp_path / "t.png")]
    with pytest.raises(AssetRefused, match=r"material 'm' loses its picture as baseColorTexture.*unreadable_texture"):
        normalized(sources, "Z")


def test_a_name_with_blanks_is_found(tmp_path, normalized):
    sources = write_obj(tmp_path, mtl="newmtl m\nmap_Kd -s 1 1 1 my texture.png\n")
    assert normalized([*sources, write_picture(tmp_path / "my texture.png")], "Z")[0]["textures"][0]["name"] == "my texture"


@pytest.mark.parametrize(("points", "code"), [([(1, 1, 1)] * 4, "zero_extent"), ([(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)], "zero_extent")])
def test_triangles_without_any_area_are_no_extent(tmp_path, normalized, points, code):
    assert code_of(normalized, write_obj(tmp_path, vertices=points), "Z") == code


def hidden(name):
    """Return a change of a document that adds a part of which nothing can be seen, far away."""

    def change(document):
        node = {"mesh": 0, "translation": [50, 0, 0]}
        node["scale"] = {"point": [0, 0, 0], "line": [0, 3, 0], "speck": [1e-8, 1e-8, 1e-8]}[name]
        document["nodes"].append(node)
        document["scenes"][0]["nodes"].append(len(document["nodes"]) - 1)

    return change


@pytest.mark.parametrize("name", ["point", "line", "speck", "matrix"])
def test_a_part_without_an_area_does_not_enter_the_box(tmp_path, normalized, name):
    alone = normalized(write_scene(tmp_path / "a.glb"))
    if name == "matrix":
        path = write_scene(tmp_path / "b.glb", np.eye(4), translation_matrix([50, 0, 0]) @ np.diag([0, 0, 0, 1]))
    else:
        path = edit_glb(write_scene(tmp_path / "b.glb"), hidden(name))
    record, vertices, triangles, _ = normalized(path)
    assert record["raw_bbox"] == alone[0]["raw_bbox"] and record["notes"] == ["degenerate_parts"] and record["num_parts"] == 1
    assert np.array_equal(vertices, alone[1]) and np.array_equal(triangles, alone[2])


@pytest.mark.parametrize("far", [[(9, 0, 0), (9, 1, 0), (9, 3, 0)], [(9, 9, 9)] * 3, [(90, 1, 2), (91, 1.3, 2.6), (92, 1.6, 3.2)]])
def test_triangles_without_an_area_do_not_enter_the_box(tmp_path, normalized, far):
    record = normalized(write_obj(tmp_path, vertices=[*TETRA, *far], faces=[*FACES, (5, 6, 7)]), "Z")[0]
    assert record["raw_bbox"] == [[0, 0, 0], [1, 1, 1]] and (record["num_triangles"], record["notes"]) == (4, ["degenerate_parts"])


def test_colour_on_a_part_without_an_area_is_no_colour(tmp_path, normalized):
    def change(document):
        document["materials"].append({"pbrMetallicRoughness": {}})
        document["meshes"].append({"primitives": [{**document["meshes"][0]["primitives"][0], "material": 1}]})
        next(node for node in document["nodes"] if "mesh" in node)["scale"] = [0, 0, 0]
        document["nodes"].append({"mesh": 1})
        document["scenes"][0]["nodes"].append(len(document["nodes"]) - 1)

    assert code_of(normalized, edit_glb(write_scene(tmp_path / "a.glb"), change)) == "no_colour"


@pytest.mark.parametrize(("thickness", "code"), [(0, "flat_mesh"), (9e-7, "flat_mesh")])
def test_an_asset_without_thickness_is_flat(tmp_path, normalized, thickness, code):
    assert code_of(normalized, write_obj(tmp_path, vertices=[(x, y, z * thickness) for x, y, z in TETRA]), "Z") == code


def test_an_asset_of_little_thickness_is_not_flat(tmp_path, normalized):
    _, vertices, _, _ = normalized(write_obj(tmp_path, vertices=[(x, y, z * 1e-5) for x, y, z in TETRA]), "Z")
    assert np.ptp(vertices[:, 2]) == pytest.approx(1e-5, rel=1e-2)


def test_far_coordinates_keep_their_shape(tmp_path, normalized):
    near = normalized(write_obj(tmp_path), "Z")
    far = normalized(write_obj(tmp_path, vertices=[(x + 5e6, y - 3e6, z + 1e4) for x, y, z in TETRA]), "Y")
    assert np.allclose(np.sort(near[1], axis=0), np.sort(canonical_up(far[1]), axis=0), atol=1e-6)
    assert far[0]["raw_bbox"] == [[5e6, -1e4 - 1, -3e6], [5e6 + 1, -1e4, -3e6 + 1]] and far[0]["notes"] == ["far"]
    assert far[0]["offset"] == [-5e6 - 0.5, 1e4 + 0.5, 3e6 - 0.5]


@pytest.mark.parametrize("suffix", ["ply", "stl"])
def test_a_far_ply_or_stl_comes_out_as_the_near_one_does(tmp_path, normalized, suffix):
    sphere = trimesh.creation.icosphere(2, 0.5)
    placed = {"near": sphere.vertices, "far": sphere.vertices + [5e5, -4.5e6, 0]}
    found = {}
    for name, vertices in placed.items():
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "ply":
            head = ["ply", "format ascii 1.0", f"element vertex {len(vertices)}", *(f"property double {axis}" for axis in "xyz")]
            head += [f"element face {len(sphere.faces)}", "property list uchar int vertex_indices", "end_header"]
            path.write_text("\n".join([*head, *(" ".join(map(repr, v)) for v in vertices.tolist()), *(f"3 {a} {b} {c}" for a, b, c in sphere.faces), ""]))
        else:
            facets = ["facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {x!r} {y!r} {z!r}\n" for x, y, z in t) for t in vertices[sphere.faces].tolist()]
            path.write_text("solid x\n" + "".join(f"{facet}endloop\nendfacet\n" for facet in facets) + "endsolid x\n")
        found[name] = normalized(path, "Z", **KEEP)
    assert found["far"][0]["notes"] == ["far", "uncoloured"] and found["far"][0]["num_triangles"] == 320
    assert volume(*found["far"][1:3]) == pytest.approx(volume(*found["near"][1:3]), rel=1e-5)


def test_a_ply_of_which_blender_loses_a_triangle_is_refused(tmp_path, normalized):
    faces = ["3 0 2 1", "3 0 1 3", "3 1 2 3", "4 2 0 3 3"]  # Blender drops a quad that names a corner twice
    head = ["ply", "format ascii 1.0", "element vertex 4", *(f"property float {axis}" for axis in "xyz"), "element face 4"]
    path = tmp_path / "a.ply"
    path.write_text("\n".join([*head, "property list uchar int vertex_indices", "end_header", *(f"{x} {y} {z}" for x, y, z in TETRA), *faces, ""]))
    with pytest.raises(AssetRefused, match=r"Blender reads 3 triangles, expected 4 to 5.*unreadable_mesh"):
        normalized(path, "Z", **KEEP)


def canonical_up(vertices):
    """Return vertices turned back from the frame that Y up gave them."""
    return np.c_[vertices[:, 0], vertices[:, 2], -vertices[:, 1]]


def test_loose_points_and_lines_do_not_enter_the_box(tmp_path, normalized):
    record = normalized(write_obj(tmp_path, vertices=[*TETRA, (9, 9, 9)], extra="l 1 5\np 5"), "Z")[0]
    assert record["raw_bbox"] == [[0, 0, 0], [1, 1, 1]]


def test_a_camera_a_light_and_another_scene_do_not_enter(tmp_path, normalized):
    path = write_scene(tmp_path / "a.glb")

    def add(document):
        document["cameras"] = [{"type": "perspective", "perspective": {"yfov": 1, "znear": 0.1}}]
        document["nodes"] += [{"camera": 0, "translation": [50, 0, 0]}, {"mesh": 0, "translation": [0, 90, 0]}]
        document["scenes"][0]["nodes"].append(len(document["nodes"]) - 2)
        document["scenes"].append({"nodes": [len(document["nodes"]) - 1]})

    record = normalized(edit_glb(path, add))[0]
    assert record["raw_bbox"] == [[0, -1, 0], [2, 0, 2]] and record["num_parts"] == 1


def test_an_animation_does_not_move_anything(tmp_path, normalized):
    path = write_scene(tmp_path / "a.glb")

    def animate(document):
        channel = {"sampler": 0, "target": {"node": len(document["nodes"]) - 1, "path": "translation"}}
        document["animations"] = [{"channels": [channel], "samplers": [{"input": 0, "output": 0}]}]

    record = normalized(edit_glb(path, animate))[0]
    assert record["notes"] == ["animated"] and record["raw_bbox"] == [[0, -1, 0], [2, 0, 2]]


def test_an_fbx_of_blenders_own_gives_the_mesh_back(tmp_path, normalized):
    import bpy

    from sam3dvid.blender import session

    session.start()
    with session.silence():
        bpy.ops.import_scene.gltf(filepath=str(write_scene(tmp_path / "a.glb", np.eye(4), translation_matrix([0, 0, 4]) @ MIRROR)))
        bpy.ops.export_scene.fbx(filepath=str(tmp_path / "a.fbx"))
    session.clear()
    ours, theirs = normalized(tmp_path / "a.fbx"), normalized(tmp_path / "a.glb")
    assert np.allclose(box_of(ours[1]), box_of(theirs[1]), atol=1e-5) and ours[0]["num_triangles"] == 48
    assert ours[0]["notes"] == theirs[0]["notes"] == ["instanced", "mirrored"]
    assert volume(*ours[1:3]) == pytest.approx(volume(*theirs[1:3]), rel=1e-4)


@pytest.mark.parametrize("where", ["beside", "embedded", "gone"])
def test_a_texture_of_an_fbx_is_found_or_missed(tmp_path, normalized, where):
    import bpy

    from sam3dvid.blender import session

    texture = write_picture(tmp_path / "texture.png", (32, 16))
    session.start()
    with session.silence():
        bpy.ops.wm.obj_import(filepath=str(write_obj(tmp_path, mtl="newmtl m\nmap_Kd texture.png\n")[0]))
        bpy.ops.export_scene.fbx(filepath=str(tmp_path / "a.fbx"), path_mode="COPY" if where == "embedded" else "RELATIVE", embed_textures=where == "embedded")
    session.clear()
    if where != "beside":
        texture.unlink()
    if where == "gone":
        assert code_of(normalized, tmp_path / "a.fbx") == "missing_texture"
    else:
        record = normalized([tmp_path / "a.fbx", *([texture] if where == "beside" else [])])[0]
        assert [(each["width"], each["height"]) for each in record["textures"]] == [(32, 16)]
    if where == "beside":
        assert code_of(normalized, tmp_path / "a.fbx") == "missing_part"


def test_a_morph_target_is_baked_at_the_weight_that_the_file_states(tmp_path, normalized):
    path = write_scene(tmp_path / "a.glb")

    def morph(document):
        primitive = document["meshes"][0]["primitives"][0]
        primitive["targets"] = [{"POSITION": primitive["attributes"]["POSITION"]}]  # at weight w every vertex moves to (1 + w) of itself
        document["meshes"][0]["weights"] = [0.5]

    record = normalized(edit_glb(path, morph))[0]
    assert record["raw_bbox"] == [[0, -1.5, 0], [3, 0, 3]] and record["notes"] == ["morphed"]


def test_a_skinned_mesh_stands_as_its_joints_do_and_brings_no_bone_shape(tmp_path, normalized):
    path = write_scene(tmp_path / "a.glb")

    def skin(document):
        total = document["accessors"][document["meshes"][0]["primitives"][0]["attributes"]["POSITION"]]["count"]
        # all weight on joint 0, which stands at (0, 0, 7) although it was bound at the origin
        document["buffers"].append({"uri": data_uri(bytes(4 * total) + np.tile(np.array([1, 0, 0, 0], np.float32), total).tobytes()), "byteLength": 20 * total})
        document["bufferViews"] += [{"buffer": 1, "byteLength": 4 * total}, {"buffer": 1, "byteOffset": 4 * total, "byteLength": 16 * total}]
        views = len(document["bufferViews"])
        document["accessors"] += [{"bufferView": views - 2, "componentType": 5121, "count": total, "type": "VEC4"}]
        document["accessors"] += [{"bufferView": views - 1, "componentType": 5126, "count": total, "type": "VEC4"}]
        numbers = len(document["accessors"])
        document["meshes"][0]["primitives"][0]["attributes"] |= {"JOINTS_0": numbers - 2, "WEIGHTS_0": numbers - 1}
        document["nodes"].append({"name": "joint", "translation": [0, 0, 7]})
        document["scenes"][0]["nodes"].append(len(document["nodes"]) - 1)
        document["skins"] = [{"joints": [len(document["nodes"]) - 1]}]
        next(node for node in document["nodes"] if "mesh" in node)["skin"] = 0

    record = normalized(edit_glb(path, skin))[0]
    assert np.allclose(record["raw_bbox"], [[0, -8, 0], [2, -7, 2]], atol=1e-5) and record["notes"] == ["skinned"]


def data_uri(data):
    return "data:application/octet-stream;base64," + base64.b64encode(data).decode()


def test_a_refused_asset_leaves_the_old_mesh_and_nothing_else(tmp_path, normalized):
    out = normalized(write_scene(tmp_path / "a.glb"))[3]
    before = out.read_bytes()
    assert code_of(normalized, write_scene(tmp_path / "b.glb", mesh=l_shape((255, 255, 255, 255)))) == "no_colour"
    assert out.read_bytes() == before and [path.name for path in out.parent.iterdir()] == ["asset.glb"]


def test_the_record_says_what_the_file_is_and_no_path(tmp_path, normalized):
    record, _, _, out = normalized(write_scene(tmp_path / "a.glb"))
    data = out.read_bytes()
    assert (record["mesh_bytes"], record["mesh_sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert str(tmp_path) not in json.dumps(record) and str(tmp_path).encode() not in data


PROGRAM = """
import sys; from pathlib import Path
from sam3dvid.blender.normalize import normalize; from sam3dvid.settings import NormalizeSettings
for _ in range(int(sys.argv[3])): record = normalize([Path(sys.argv[1])], "file", Path(sys.argv[2]), NormalizeSettings())
print(record["mesh_sha256"])
"""


def test_two_processes_give_the_same_bytes_and_print_nothing(tmp_path):
    path = write_scene(tmp_path / "a.glb", np.eye(4), translation_matrix([3, 1, 0]) @ MIRROR)
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, path, tmp_path / "o.glb", str(count)], env={"PYTHONPATH": SRC}, capture_output=True, text=True, check=True
        )
        for count in (1, 2)
    ]
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout) == 65 and runs[0].stderr == runs[1].stderr == ""


MEMORY = """
import sys; from pathlib import Path
from sam3dvid.blender import session; from sam3dvid.blender.normalize import normalize; from sam3dvid.settings import NormalizeSettings
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
paths = [Path(name) for name in sys.argv[2:]]
seen, counts = [], set()
for index in range(28):
    normalize(paths, "Z", Path(sys.argv[1]), NormalizeSettings())
    seen.append(resident()); counts.add(tuple(session.counts().items()))
print((seen[-1] - seen[7]) / 20, len(counts))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_grows_by_less_than_a_megabyte_for_each_asset(tmp_path):
    sphere = trimesh.creation.icosphere(4)
    vertices, faces = sphere.vertices.tolist(), (sphere.faces + 1).tolist()
    sources = [*write_obj(tmp_path, vertices=vertices, faces=faces, mtl="newmtl m\nmap_Kd t.png\n"), write_picture(tmp_path / "t.png", (1024, 1024))]
    done = subprocess.run([sys.executable, "-c", MEMORY, tmp_path / "o.glb", *sources], env={"PYTHONPATH": SRC}, capture_output=True, text=True, check=True)
    growth, kinds = done.stdout.split()
    assert float(growth) < 1e6 and kinds == "1", "as much data is left after every asset"
