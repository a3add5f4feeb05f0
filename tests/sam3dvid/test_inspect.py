"""What Blender would hide is refused by name before Blender opens a file."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import trimesh
from PIL import Image

from sam3dvid.assets.inspect import inspect
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings
from tests.sam3dvid.meshfiles import FACES, TETRA, edit_glb, l_shape, load, write_obj, write_picture, write_scene

TEXTURED = "newmtl m\nmap_Kd texture.png\n"


@pytest.fixture
def look(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return lambda sources, **settings: inspect(sources, NormalizeSettings(**settings), scratch)


def code_of(look, sources, **settings):
    with pytest.raises(AssetRefused) as error:
        look(sources, **settings)
    assert error.value.where == sources[0].name
    return error.value.code


def glb(tmp_path, change=None):
    path = write_scene(tmp_path / "a.glb")
    return [edit_glb(path, change) if change else path]


@pytest.mark.parametrize("suffix", [".glb", ".gltf", ".obj", ".ply", ".stl", ".fbx"])
def test_a_file_of_zero_bytes_is_an_empty_mesh(tmp_path, look, suffix):
    (tmp_path / f"a{suffix}").write_bytes(b"")
    assert code_of(look, [tmp_path / f"a{suffix}"]) == "empty_mesh"


@pytest.mark.parametrize("suffix", [".glb", ".gltf", ".ply", ".stl", ".fbx"])
def test_an_error_page_is_an_unreadable_mesh(tmp_path, look, suffix):
    (tmp_path / f"a{suffix}").write_bytes(b"<html>404</html>" * 20)
    assert code_of(look, [tmp_path / f"a{suffix}"]) == "unreadable_mesh"


def test_a_format_without_a_reader_is_unsupported(tmp_path, look):
    (tmp_path / "a.dae").write_bytes(b"x")
    assert code_of(look, [tmp_path / "a.dae"]) == "format_unsupported"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_cut_glb_is_unreadable(tmp_path, look, share):
    (path,) = glb(tmp_path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert code_of(look, [path]) == "unreadable_mesh"


def test_an_extension_that_no_reader_knows_is_named(tmp_path, look):
    sources = glb(tmp_path, lambda d: d.update(extensionsUsed=["EXT_meshopt_compression"], extensionsRequired=["EXT_meshopt_compression"]))
    with pytest.raises(AssetRefused, match=r"EXT_meshopt_compression.*format_unsupported"):
        look(sources)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vertex_that_is_not_finite_is_refused(tmp_path, look, value):
    mesh = l_shape()
    path = write_scene(tmp_path / "a.glb", mesh=mesh)
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<3f", 2, 1, 1))
    data[at : at + 4] = struct.pack("<f", value)
    path.write_bytes(data)
    assert code_of(look, [path]) == "not_finite"


@pytest.mark.parametrize("word", ["nan", "NaN", "inf", "-Infinity", "1e999"])
def test_a_vertex_of_an_obj_that_is_not_finite_is_refused(tmp_path, look, word):
    assert code_of(look, write_obj(tmp_path, vertices=[(word, 0, 0), *TETRA[1:]])) == "not_finite"


def test_a_vertex_of_a_ply_that_is_not_finite_is_refused(tmp_path, look):
    mesh = l_shape(None)
    mesh.vertices[3, 1] = np.nan
    (tmp_path / "a.ply").write_bytes(trimesh.exchange.ply.export_ply(mesh))
    assert code_of(look, [tmp_path / "a.ply"]) == "not_finite"


def test_more_triangles_than_the_limit_are_refused_and_the_limit_itself_is_not(tmp_path, look):
    placed = [np.eye(4), trimesh.transformations.translation_matrix([5, 0, 0])]
    path = write_scene(tmp_path / "a.glb", *placed)
    assert look([path], max_triangles=48).triangles == (48, 48)
    assert code_of(look, [path], max_triangles=47) == "too_many_triangles"


@pytest.mark.parametrize(("mode", "code"), [(0, "points_only"), (1, "lines_only"), (3, "lines_only")])
def test_primitives_without_triangles_are_named(tmp_path, look, mode, code):
    assert code_of(look, glb(tmp_path, lambda d: d["meshes"][0]["primitives"][0].update(mode=mode))) == code


@pytest.mark.parametrize(("lines", "code"), [("p 1", "points_only"), ("l 1 2", "lines_only")])
def test_an_obj_without_faces_is_named(tmp_path, look, lines, code):
    assert code_of(look, write_obj(tmp_path, faces=[], extra=lines)) == code


@pytest.mark.parametrize("face", [("1", "2", "9"), ("1", "2", "-9"), ("1", "2", "0"), ("1/9", "2/1", "3/1"), ("1", "2"), ("1", "x", "3")])
def test_a_face_that_blender_would_skip_is_refused(tmp_path, look, face):
    assert code_of(look, write_obj(tmp_path, faces=[*FACES, face])) == "unreadable_mesh"


def test_an_index_out_of_range_is_refused(tmp_path, look):
    def shorten(document):
        primitive = document["meshes"][0]["primitives"][0]
        for index in primitive["attributes"].values():
            document["accessors"][index]["count"] = 3

    assert code_of(look, glb(tmp_path, shorten)) == "unreadable_mesh"


def test_negative_numbers_count_back_from_their_line(tmp_path, look):
    found = look(write_obj(tmp_path, faces=[*FACES, ("-4", "-3", "-2")]))
    assert b"f 1 2 3\n" in found.path.read_bytes() and found.triangles == (5, 5)


def test_a_quad_that_names_a_corner_twice_is_a_triangle(tmp_path, look):
    assert look(write_obj(tmp_path, faces=[*FACES, ("1", "2", "3", "3"), ("1", "2", "2")])).triangles == (5, 5)


def test_a_missing_material_library_is_a_missing_part(tmp_path, look):
    obj, mtl = write_obj(tmp_path)
    mtl.unlink()
    assert code_of(look, [obj]) == "missing_part"


def test_a_missing_buffer_is_a_missing_part(tmp_path, look):
    document = {"asset": {"version": "2.0"}, "buffers": [{"uri": "b.bin", "byteLength": 4}]}
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    assert code_of(look, [tmp_path / "a.gltf"]) == "missing_part"


def test_a_missing_texture_is_named(tmp_path, look):
    with pytest.raises(AssetRefused, match=r"texture\.png.*missing_texture"):
        look(write_obj(tmp_path, mtl=TEXTURED))


def test_a_texture_that_the_row_does_not_name_is_a_missing_part(tmp_path, look):
    sources = write_obj(tmp_path, mtl=TEXTURED)
    write_picture(tmp_path / "texture.png")
    with pytest.raises(AssetRefused, match=r"texture\.png is not among.*missing_part"):
        look(sources)


def test_a_texture_of_google_scanned_objects_is_found_in_their_folder(tmp_path, look):
    sources = write_obj(tmp_path / "meshes", mtl=TEXTURED)
    texture = write_picture(tmp_path / "materials" / "textures" / "texture.png")
    found = look([*sources, texture])
    assert len(found.digests) == 1 and (found.path.parent / "map0" / "texture.png").resolve() == texture.resolve()


@pytest.mark.parametrize("keep", [0, 40, 90])
def test_a_cut_texture_is_unreadable(tmp_path, look, keep):
    sources = write_obj(tmp_path, mtl=TEXTURED)
    texture = tmp_path / "texture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(texture)
    data = texture.read_bytes()
    texture.write_bytes(data[: len(data) * keep // 100])
    assert code_of(look, [*sources, texture]) == "unreadable_texture"


def test_a_missing_texture_of_a_material_that_no_face_has_does_not_matter(tmp_path, look):
    assert look(write_obj(tmp_path, mtl="newmtl m\nKd 1 0 0\nnewmtl other\nmap_Kd gone.png\n")).triangles == (4, 4)


@pytest.mark.parametrize("line", ["d 0.5", "Tr 0.5", "map_d t.png", "d -halo 0.2"])
def test_an_obj_that_is_not_opaque_is_refused_or_made_so(tmp_path, look, line):
    sources = write_obj(tmp_path, mtl=f"newmtl m\nKd 1 0 0\n{line}\n")
    assert code_of(look, sources) == "transparent_material"
    found = look(sources, transparent="opaque")
    assert found.notes == {"forced_opaque"} and line not in (found.path.parent / "asset.mtl").read_text()


@pytest.mark.parametrize("line", ["d 1.0", "Tr 0", "d 1\nTr 1", "d 1.000000"])
def test_an_obj_that_says_it_is_opaque_is(tmp_path, look, line):
    assert look(write_obj(tmp_path, mtl=f"newmtl m\nKd 1 0 0\n{line}\n")).notes == set()


@pytest.mark.parametrize("change", [{"alphaMode": "BLEND"}, {"alphaMode": "MASK"}, {"extensions": {"KHR_materials_transmission": {"transmissionFactor": 0.1}}}])
def test_a_gltf_material_that_is_not_opaque_is_refused(tmp_path, look, change):
    sources = glb(tmp_path, lambda d: d["materials"][0].update(change))
    assert code_of(look, sources) == "transparent_material"
    assert look(sources, transparent="opaque").notes == {"forced_opaque"}


SEE_THROUGH = {"transmission": "transmissionFactor", "volume": "thicknessFactor", "diffuse_transmission": "diffuseTransmissionFactor"}


@pytest.mark.parametrize("factor", [None, 0, 0.5])
@pytest.mark.parametrize("name", SEE_THROUGH)
def test_an_extension_lets_light_through_only_where_its_factor_is_above_zero(tmp_path, look, name, factor):
    extension = {} if factor is None else {SEE_THROUGH[name]: factor}
    sources = glb(tmp_path, lambda d: d["materials"][0].update(extensions={f"KHR_materials_{name}": extension}))
    if factor:
        assert code_of(look, sources) == "transparent_material"
    else:
        assert look(sources).notes == set()


def test_a_picture_that_is_emitted_at_zero_strength_is_no_colour(tmp_path, look):
    sources = glb(tmp_path, lambda d: d["materials"][0].update(emissiveTexture={"index": 0}))
    assert code_of(look, sources) == "no_colour"


def with_matrix(tmp_path, matrix):
    def place(document):
        node = next(node for node in document["nodes"] if "mesh" in node)
        node["matrix"] = np.asarray(matrix, float).T.ravel().tolist()

    return glb(tmp_path, place)


@pytest.mark.parametrize("change", [((0, 1), 0.8), ((2, 0), 1e-3), ((1, 1), 0.0), ((3, 0), 0.1), ((3, 3), 2.0)])
def test_a_node_whose_matrix_blender_would_take_apart_wrongly_is_refused(tmp_path, look, change):
    matrix = np.eye(4)
    matrix[change[0]] = change[1]
    assert code_of(look, with_matrix(tmp_path, matrix)) == "unreadable_mesh"


@pytest.mark.parametrize("scale", [(1, 2, 0.5), (-1, 1, 1), (1e-6, 1e6, 1), (0, 0, 0)])
def test_a_node_whose_matrix_turns_and_scales_is_taken(tmp_path, look, scale):
    matrix = trimesh.transformations.rotation_matrix(0.7, [1, 2, 3]) @ np.diag([*scale, 1])
    assert look(with_matrix(tmp_path, np.float32(matrix))).triangles == (24, 24)


def test_a_node_that_is_its_own_ancestor_is_refused(tmp_path, look):
    assert code_of(look, glb(tmp_path, lambda d: d["nodes"][0].update(children=[0]))) == "unreadable_mesh"


@pytest.mark.parametrize("change", [{"nodes": 7}, {"accessors": []}, {"meshes": [{}]}, {"bufferViews": [{"buffer": 0, "byteLength": 1 << 40}] * 9}])
def test_a_document_of_another_structure_is_refused(tmp_path, look, change):
    assert code_of(look, glb(tmp_path, lambda d: d.update(change))) == "unreadable_mesh"


def test_an_stl_that_is_shorter_than_it_states_is_unreadable(tmp_path, look):
    data = trimesh.exchange.stl.export_stl(l_shape(None))
    (tmp_path / "a.stl").write_bytes(data[:-10])
    assert code_of(look, [tmp_path / "a.stl"]) == "unreadable_mesh"


def text_stl(vertices=TETRA, faces=FACES):
    lines = ["solid some thing"]
    for face in faces:
        corners = ["vertex " + " ".join(repr(float(x)) for x in vertices[corner - 1]) for corner in face]
        lines += ["facet normal 0 0 0", "outer loop", *corners, "endloop", "endfacet"]
    return "\n".join([*lines, "endsolid some thing", ""])


STATED = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def corners_of_stl(path):
    """Return the (T, 3, 3) corners of a binary STL that is as long as it states."""
    data = path.read_bytes()
    assert len(data) == 84 + 50 * struct.unpack_from("<I", data, 80)[0]
    return np.frombuffer(data, STATED, offset=84)["corners"]


EXPECTED = np.array([[TETRA[corner - 1] for corner in face] for face in FACES])


@pytest.mark.parametrize("change", [str, str.upper, lambda text: text.replace("\n", "\r\n"), lambda text: "  " + text.replace("\n", "\r")])
def test_an_stl_that_is_text_is_given_to_blender_as_plain_binary(tmp_path, look, change):
    (tmp_path / "a.stl").write_bytes(change(text_stl()).encode())
    found = look([tmp_path / "a.stl"])
    assert np.array_equal(corners_of_stl(found.path), EXPECTED) and found.triangles == (4, 4)


@pytest.mark.parametrize("header", [b"", b"solid of a program that writes binary"])
def test_bytes_behind_the_last_triangle_of_an_stl_are_left_out(tmp_path, look, header):
    data = trimesh.exchange.stl.export_stl(trimesh.Trimesh(TETRA, np.array(FACES) - 1, process=False))
    (tmp_path / "a.stl").write_bytes(header.ljust(80, b"\0") + data[80:] + b"xx")
    assert np.array_equal(corners_of_stl(look([tmp_path / "a.stl"]).path), EXPECTED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], r"ends without endsolid, after 2 facets.*unreadable_mesh"),
        (lambda text: text.replace("vertex 0.0 0.0 0.0\n", "", 1), r"unreadable_mesh"),
        (lambda text: text.replace("vertex 0.0 0.0 0.0\n", "vertex 0.0 zero 0.0\n", 1), r"unreadable_mesh"),
        (lambda text: "solid x\nendsolid x\n", r"text without a facet.*empty_mesh"),
    ],
)
@pytest.mark.filterwarnings("ignore:string or file could not be read:DeprecationWarning")
def test_a_damaged_text_stl_is_named_for_what_it_lacks(tmp_path, look, change, message):
    (tmp_path / "a.stl").write_text(change(text_stl()))
    with pytest.raises(AssetRefused, match=message):
        look([tmp_path / "a.stl"])


def ply(path, faces, *, vertices=TETRA, kind="double", colours=()):
    """Write a text PLY whose faces count from 0."""
    lines = ["ply", "format ascii 1.0", f"element vertex {len(vertices)}", *(f"property {kind} {axis}" for axis in "xyz")]
    lines += [f"property uchar {name}" for name in ("red", "green", "blue") if colours]
    lines += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header"]
    lines += [" ".join(map(repr, map(float, vertex))) + "".join(f" {each}" for each in colours) for vertex in vertices]
    path.write_text("\n".join([*lines, *(" ".join(map(str, [len(face), *face])) for face in faces), ""]))
    return path


@pytest.mark.parametrize(
    ("more", "least", "most"),
    [([], 4, 4), ([(0, 1, 2)], 4, 5), ([(0, 0, 1)], 4, 5), ([(0, 1, 2, 3)], 6, 6), ([(0, 1, 4, 4)], 5, 6), ([(1, 2, 3, 4, 0), (0, 1, 2, 3, 4)], 7, 10)],
)
def test_the_triangles_of_a_ply_are_counted_but_for_those_that_stand_twice(tmp_path, look, more, least, most):
    faces = [tuple(corner - 1 for corner in face) for face in FACES]
    found = look([ply(tmp_path / "a.ply", faces + more, vertices=[*TETRA, (1, 1, 1)])])
    assert found.triangles == (least, most)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_a_ply_far_from_the_origin_is_brought_near_in_full_precision(tmp_path, look, kind):
    faces = [(0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3)]
    far = [(x * 0.3 + 5e6, y * 0.3 - 3e6, z * 0.3) for x, y, z in TETRA]
    found = look([ply(tmp_path / "a.ply", faces, vertices=far, kind=kind, colours=(255, 51, 0))])
    near = load(found.path)
    assert found.origin == pytest.approx((5e6 + 0.15, -3e6 + 0.15, 0.15), abs=1e-8)
    assert np.allclose(near.vertices, np.array(TETRA) * 0.3 - 0.15, atol=1e-8) and near.visual.vertex_colors[0].tolist() == [255, 51, 0, 255]
    assert b"property uchar red" in found.path.read_bytes()


def test_an_stl_far_from_the_origin_is_brought_near_in_full_precision(tmp_path, look):
    (tmp_path / "a.stl").write_text(text_stl([(x * 0.3 + 5e6, y * 0.3 - 3e6, z * 0.3) for x, y, z in TETRA]))
    found = look([tmp_path / "a.stl"])
    assert np.allclose(corners_of_stl(found.path), EXPECTED * 0.3 - 0.15, atol=1e-8)


def test_a_text_fbx_is_unsupported(tmp_path, look):
    (tmp_path / "a.fbx").write_text("; FBX 7.3.0 project file\nFBXHeaderExtension:  {\n")
    assert code_of(look, [tmp_path / "a.fbx"]) == "format_unsupported"


def test_coordinates_far_from_the_origin_are_brought_near_in_full_precision(tmp_path, look):
    far = [(x + 5e6, y - 3e6, z) for x, y, z in TETRA]
    found = look(write_obj(tmp_path, vertices=far))
    assert found.origin == (5000000.5, -2999999.5, 0.5) and b"\nv -0.5 -0.5 -0.5\n" in found.path.read_bytes()


def test_a_material_whose_name_holds_a_number_sign_keeps_its_colour(tmp_path, look):
    sources = write_obj(tmp_path / "a", mtl="newmtl Material #25\nKd 1 0 0\n")
    sources[0].write_text(sources[0].read_text().replace("usemtl m", "usemtl Material #25"))
    found = look(sources)
    assert "usemtl Material #25\n" in found.path.read_text()
    assert found.path.with_suffix(".mtl").read_text() == "newmtl Material #25\nKd 1 0 0\n"


def test_a_material_that_no_library_defines_is_a_missing_part_or_kept_grey(tmp_path, look):
    sources = write_obj(tmp_path, mtl="newmtl other\nKd 1 0 0\n")
    with pytest.raises(AssetRefused, match=r"no material 'm' in 1 libraries.*missing_part"):
        look(sources)
    assert look(sources, untextured="keep").triangles == (4, 4)


@pytest.mark.parametrize(("colour", "code"), [((), "missing_part"), ((0.9, 0.1, 0.1), None)])
def test_a_material_name_without_a_library_is_no_fault_where_the_vertices_have_colours(tmp_path, look, colour, code):
    obj, mtl = write_obj(tmp_path, vertices=[(*vertex, *colour) for vertex in TETRA])
    mtl.unlink()
    obj.write_text(obj.read_text().replace("mtllib model.mtl", ""))
    if code:
        assert code_of(look, [obj]) == code
    else:
        assert look([obj]).triangles == (4, 4)


@pytest.mark.parametrize("line", ["d", "Tr", "d -halo", "d half"])
def test_an_opacity_that_is_no_number_is_an_unreadable_mesh(tmp_path, look, line):
    assert code_of(look, write_obj(tmp_path / "a", mtl=f"newmtl m\n{line}\n")) == "unreadable_mesh"


@pytest.mark.parametrize("more", [b"", b"\x01", b"\x01\x02\x03"])
def test_an_fbx_that_is_cut_within_its_version_is_unreadable(tmp_path, look, more):
    (tmp_path / "a.fbx").write_bytes(b"Kaydara FBX Binary  \x00\x1a\x00" + more)
    assert code_of(look, [tmp_path / "a.fbx"]) == "unreadable_mesh"


def test_a_buffer_whose_name_no_file_can_have_is_a_missing_part(tmp_path, look):
    (tmp_path / "a.gltf").write_text(json.dumps({"asset": {"version": "2.0"}, "buffers": [{"uri": "b" * 300, "byteLength": 4}]}))
    assert code_of(look, [tmp_path / "a.gltf"]) == "missing_part"
