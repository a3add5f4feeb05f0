"""Which further files an asset refers to: in OBJ with its libraries, in glTF and in FBX."""

from __future__ import annotations

import json
import struct

import pytest

from sam3dvid.assets.parts import Part, parts_of, without_options


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def obj_with(folder, library, *textures, name="model.obj", mtllib="mtllib model.mtl"):
    for texture in textures:
        touch(folder / texture)
    (folder / "model.mtl").write_text(library)
    path = folder / name
    path.write_text(f"{mtllib}\nv 0 0 0\n")
    return path


def names(parts, kind):
    return [(part.name, part.path.name if part.path else None) for part in parts if part.kind == kind]


def test_an_obj_has_its_library_first_then_its_textures_each_once(tmp_path):
    path = obj_with(tmp_path, "newmtl a\nmap_Kd t.png\nnewmtl b\nmap_Kd t.png\nmap_Bump n.png\n", "t.png", "n.png")
    found = [Part("model.mtl", tmp_path / "model.mtl", "material"), Part("t.png", tmp_path / "t.png", "texture"), Part("n.png", tmp_path / "n.png", "texture")]
    assert parts_of(path) == found


def test_a_texture_of_a_scanned_object_is_found_in_materials_textures(tmp_path):
    touch(tmp_path / "materials" / "textures" / "texture.png")
    (tmp_path / "meshes").mkdir()
    path = obj_with(tmp_path / "meshes", "map_Kd texture.png\n")
    (found,) = (part.path for part in parts_of(path) if part.kind == "texture")
    assert found is not None and found.resolve() == tmp_path / "materials" / "textures" / "texture.png"


def test_a_texture_beside_the_library_comes_before_one_in_materials_textures(tmp_path):
    touch(tmp_path / "materials" / "textures" / "texture.png")
    (tmp_path / "meshes").mkdir()
    path = obj_with(tmp_path / "meshes", "map_Kd texture.png\n", "texture.png")
    assert parts_of(path)[1].path == tmp_path / "meshes" / "texture.png"


def test_a_texture_that_is_not_there_has_no_path(tmp_path):
    assert parts_of(obj_with(tmp_path, "map_Kd gone.png\n"))[1] == Part("gone.png", None, "texture")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tex.png", "tex.png"),
        ("-o 1 1 1 tex.png", "tex.png"),
        ("-o 1 tex.png", "tex.png"),
        ("-s 1 1 1 -t .5 0 0 my tex.png", "my tex.png"),
        ("-blendu on -bm 0.3 tex.png", "tex.png"),
        ("-imfchan r -clamp on a b c.png", "a b c.png"),
        ('"my tex.png"', "my tex.png"),
        ("-tex.png", "-tex.png"),
        ("-type sphere sky.png", "sky.png"),
        ("1 2 3.png", "1 2 3.png"),
    ],
)
def test_the_options_of_a_map_are_no_part_of_its_name(text, name):
    assert without_options(text) == name


def test_a_texture_named_by_a_path_of_another_machine_is_looked_for_beside_the_library(tmp_path):
    path = obj_with(tmp_path, "map_Kd C:\\Users\\me\\t.png\nmap_Ks /home/me/s.png\n", "t.png", "s.png")
    assert names(parts_of(path), "texture") == [("C:\\Users\\me\\t.png", "t.png"), ("/home/me/s.png", "s.png")]


def test_a_windows_folder_is_read_as_a_folder(tmp_path):
    path = obj_with(tmp_path, "map_Kd maps\\t.png\n", "maps/t.png", "t.png")
    assert parts_of(path)[1].path == tmp_path / "maps" / "t.png"


def test_an_absolute_name_is_never_followed(tmp_path):
    secret = touch(tmp_path / "elsewhere" / "secret.png")
    folder = tmp_path / "asset"
    folder.mkdir()
    assert parts_of(obj_with(folder, f"map_Kd {secret}\n"))[1].path is None


def test_a_library_whose_name_holds_blanks_is_one_library(tmp_path):
    touch(tmp_path / "my model.mtl")
    path = obj_with(tmp_path, "", mtllib="mtllib my model.mtl")
    assert names(parts_of(path), "material")[0] == ("my model.mtl", "my model.mtl")


def test_a_line_may_name_two_libraries(tmp_path):
    touch(tmp_path / "a.mtl")
    path = obj_with(tmp_path, "", mtllib="mtllib a.mtl b.mtl")
    assert names(parts_of(path), "material")[:2] == [("a.mtl", "a.mtl"), ("b.mtl", None)]


def test_a_library_of_the_objs_own_name_counts_though_no_line_names_it(tmp_path):
    path = obj_with(tmp_path, "map_Kd t.png\n", "t.png", mtllib="# none")
    assert names(parts_of(path), "material") == [("model.mtl", "model.mtl")]


def test_carriage_returns_and_continued_lines_are_read(tmp_path):
    (tmp_path / "model.mtl").write_bytes(b"newmtl a\r\nmap_Kd \\\r\n t.png\r\n")
    touch(tmp_path / "t.png")
    (tmp_path / "model.obj").write_bytes(b"mtllib \\\r\nmodel.mtl\r\nv 0 0 0\r\n")
    assert names(parts_of(tmp_path / "model.obj"), "texture") == [("t.png", "t.png")]


GLTF = {"buffers": [{"uri": "b.bin"}, {"byteLength": 4}], "images": [{"uri": "my%20t.png"}, {"uri": "data:image/png;base64,AA"}, {"uri": "https://host/x.png"}]}


def test_a_gltf_has_its_buffers_and_images_without_embedded_ones(tmp_path):
    touch(tmp_path / "b.bin")
    touch(tmp_path / "my t.png")
    (tmp_path / "a.gltf").write_text(json.dumps(GLTF))
    assert [(part.name, part.path and part.path.name, part.kind) for part in parts_of(tmp_path / "a.gltf")] == [
        ("b.bin", "b.bin", "buffer"),
        ("my%20t.png", "my t.png", "texture"),
        ("https://host/x.png", None, "texture"),
    ]


def test_a_glb_may_refer_to_files_too(tmp_path):
    text = json.dumps(GLTF).encode()
    text += b" " * (-len(text) % 4)
    (tmp_path / "a.glb").write_bytes(struct.pack("<4sIII4s", b"glTF", 2, 20 + len(text), len(text), b"JSON") + text)
    assert [part.name for part in parts_of(tmp_path / "a.glb")] == ["b.bin", "my%20t.png", "https://host/x.png"]


@pytest.mark.parametrize(
    ("name", "data"), [("a.glb", b""), ("a.glb", b"glTF\2\0\0\0"), ("a.gltf", b"{"), ("a.gltf", b"[1]"), ("a.gltf", b"\xff\xfe"), ("a.ply", b"ply")]
)
def test_a_file_that_cannot_be_understood_refers_to_nothing(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert parts_of(tmp_path / name) == []


def test_an_fbx_has_the_textures_that_are_there(tmp_path):
    touch(tmp_path / "t.png")
    entries = [b"\x10RelativeFilenameS" + struct.pack("<I", len(name)) + name for name in (b"..\\maps\\t.png", b"embedded.png")]
    (tmp_path / "a.fbx").write_bytes(b"Kaydara FBX Binary  \x00" + b"".join(entries))
    assert names(parts_of(tmp_path / "a.fbx"), "texture") == [("..\\maps\\t.png", "t.png")]


@pytest.mark.parametrize("uri", ["x" * 300, "http://[x/a.png", "a\0b", "/etc/passwd"])
def test_a_name_that_no_file_beside_it_can_have_has_no_path(tmp_path, uri):
    (tmp_path / "a.gltf").write_text(json.dumps({"images": [{"uri": uri}]}))
    assert [(part.name, part.path) for part in parts_of(tmp_path / "a.gltf")] == [(uri, None)]
