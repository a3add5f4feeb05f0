"""Pictures of normalised assets: the right side from the right azimuth, in colours that nothing has graded."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from PIL import Image

from sam3dvid.assets.contact import write_sheet

pytest.importorskip("bpy", reason="Blender is not installed")


def cube(path):
    """Write a unit cube, canonical in glTF's axes, with a red face towards +X, green +Y, blue -X and yellow -Y (Z up)."""
    colours = {
        (1, 0, 0): (200, 0, 0),
        (0, 1, 0): (0, 200, 0),
        (-1, 0, 0): (0, 0, 200),
        (0, -1, 0): (200, 200, 0),
        (0, 0, 1): (40, 40, 40),
        (0, 0, -1): (0, 0, 0),
    }
    scene = trimesh.Scene()
    box = trimesh.creation.box((1, 1, 1))
    for normal, colour in colours.items():
        gltf = (normal[0], normal[2], -normal[1])
        faces = box.faces[(box.face_normals @ gltf) > 0.9]
        part = trimesh.Trimesh(box.vertices, faces, process=False)
        material = trimesh.visual.material.PBRMaterial(baseColorFactor=(*colour, 255), metallicFactor=0.0, roughnessFactor=1.0)
        part.visual = trimesh.visual.TextureVisuals(uv=np.zeros((8, 2)), material=material)
        scene.add_geometry(part)
    path.write_bytes(scene.export(file_type="glb"))
    return path


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    from sam3dvid.blender.sheet import render_sides

    return render_sides(cube(tmp_path_factory.mktemp("cube") / "cube.glb"), 48)


def test_four_views_stand_side_by_side(sides):
    assert sides.shape == (48, 192, 3) and sides.dtype == np.uint8


@pytest.mark.parametrize(("view", "channels"), [(0, {0}), (1, {1}), (2, {2}), (3, {0, 1})])
def test_each_view_shows_the_side_that_its_azimuth_names(sides, view, channels):
    pixel = sides[26:30, 48 * view + 22 : 48 * view + 26].mean(axis=(0, 1))
    assert {k for k in range(3) if pixel[k] > pixel.max() / 2} == channels


def test_the_background_is_the_gray_that_was_set(sides):
    # linear 0.18 is 118 in sRGB; AgX, Blender's default, gives another
    assert np.abs(sides[0, :, :].astype(int) - 118).max() <= 1


def test_nothing_is_left_in_blender(sides):
    from sam3dvid.blender import session

    assert sum(session.counts().values()) == 1, "the one scene"


def test_the_pixels_do_not_depend_on_the_threads(tmp_path, sides):
    from sam3dvid.blender.sheet import render_sides

    assert np.array_equal(render_sides(cube(tmp_path / "cube.glb"), 48, threads=2), sides)


def test_two_assets_stand_side_by_side_each_below_its_id(tmp_path):
    write_sheet(tmp_path / "s.png", [(name, np.full((16, 64, 3), level, np.uint8)) for name, level in (("a", 10), ("b", 20), ("c", 30))])
    with Image.open(tmp_path / "s.png") as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == (2 * (16 + 14), 2 * 64, 3)
    assert [sheet[y, x, 0] for y in (29, 59) for x in (63, 64)] == [10, 20, 30, 255]


def test_a_sheet_of_no_assets_is_a_picture_too(tmp_path):
    write_sheet(tmp_path / "s.png", [])
    with Image.open(tmp_path / "s.png") as sheet:
        assert len(np.unique(np.asarray(sheet))) > 2, "words"
