"""A small clip through Blender: against the ray caster, against itself rendered otherwise, and what is refused."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from sam3dvid.blender import clip as clips
from sam3dvid.blender import clip_camera, clip_device, session
from sam3dvid.blender.clip import render_clip
from sam3dvid.blender.clip_scene import POSE_TOLERANCE, add_light
from sam3dvid.codes import AssetRefused
from sam3dvid.conventions import frame_K, pose_in_camera
from sam3dvid.raycast import Caster, frame_truth
from sam3dvid.render.settings import RenderHost, RenderSettings
from shardwork.errors import Fault
from tests.sam3dvid import render_cases as cases
from tests.sam3dvid.render_cases import HOST, QUICK, render_here

SHAPES = {"l_shape": cases.l_shape, "egg": cases.egg}


@pytest.fixture(scope="session")
def rendered(tmp_path_factory):
    """The clips, rendered once in a process of their own with two threads."""
    folder = tmp_path_factory.mktemp("rendered")
    cases.render_apart(folder, 2, "pair", "glow", "slab")
    return folder


@pytest.fixture(scope="session")
def truth():
    """What the ray caster sees in each frame of the pair."""
    plan = cases.pair()
    casters = [Caster((mesh := SHAPES[one["asset_id"]]()).vertices, mesh.faces) for one in plan["objects"]]
    R, t, s = (np.array([one[name] for one in plan["objects"]]) for name in ("R_wo", "t_wo", "s_wo"))
    frames = []
    for frame in plan["cameras"]["frames"]:
        R_co, t_co, s_co = pose_in_camera(frame["T_cw"], R, t, s)
        frames.append(frame_truth(casters, R_co, t_co, s_co[:, 0], plan["cameras"]["K"], cases.SIZE, cases.SIZE))
    return frames


def picture(folder, name):
    return np.asarray(Image.open(folder / name))


def depth_of(folder, t):
    return np.load(folder / f"depth/{t:03d}.npz")["depth"]


def mismatch(found, true):
    """Return the wrong pixels for each inner boundary pixel of the truth: one of its own with a neighbour that is not, or beyond the edge."""
    padded = np.pad(true, 1)
    inner = true & ~(padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:])
    return (found ^ true).sum() / inner.sum()


@pytest.mark.parametrize("t", range(cases.FRAMES))
def test_visible_masks_are_the_ray_casters(rendered, truth, t):
    mask = picture(rendered / "pair", f"mask_visible/{t:03d}.png")
    assert max(mismatch(mask == k, truth[t].mask == k) for k in (1, 2)) <= 0.05


@pytest.mark.parametrize("t", range(cases.FRAMES))
def test_amodal_masks_are_the_ray_casters(rendered, truth, t):
    found = [picture(rendered / "pair", f"mask_amodal/obj{k}/{t:03d}.png") for k in (1, 2)]
    assert set(np.unique(found)) == {0, 255}
    assert max(mismatch(mask > 0, whole) for mask, whole in zip(found, truth[t].amodal, strict=True)) <= 0.05


def test_the_second_object_is_partly_hidden_in_every_frame(rendered):
    for t in range(cases.FRAMES):
        visible, whole = picture(rendered / "pair", f"mask_visible/{t:03d}.png") == 2, picture(rendered / "pair", f"mask_amodal/obj2/{t:03d}.png") > 0
        assert 0 < visible.sum() < whole.sum() and not (visible & ~whole).any()


@pytest.mark.parametrize("t", range(cases.FRAMES))
def test_depth_is_the_ray_casters_z(rendered, truth, t):
    # a release's bound is 5e-5 s; these pixels are 8 times as wide, and a ray misses a pixel's centre by 0.0005 of it
    found, true = depth_of(rendered / "pair", t), truth[t].depth
    for one in cases.pair()["objects"]:
        both = (truth[t].mask == one["k"]) & np.isfinite(found)
        assert np.median(np.abs(found - true)[both]) <= 8 * 5e-5 * one["s_wo"][0]


def test_rays_run_through_the_pixels_centres_to_a_thousandth_of_a_pixel(rendered):
    """On a slanted plane depth tells where a ray runs."""
    plan, depth = cases.slab(), depth_of(rendered / "slab", 0).astype(np.float64)
    (one,), (frame,) = plan["objects"], plan["cameras"]["frames"]
    mesh, K = cases.flat(), np.array(plan["cameras"]["K"])
    R_co, t_co, s_co = pose_in_camera(frame["T_cw"], *(np.array([one[name]]) for name in ("R_wo", "t_wo", "s_wo")))

    def cast(u, v):
        moved = K - np.array([[0, 0, u], [0, 0, v], [0, 0, 0]])
        return frame_truth([Caster(mesh.vertices, mesh.faces)], R_co, t_co, s_co[:, 0], moved, cases.SIZE, cases.SIZE).depth

    slopes = np.stack([cast(0.5, 0) - cast(-0.5, 0), cast(0, 0.5) - cast(0, -0.5)])
    off = depth - cast(0, 0)
    # the one face that most pixels show: its depth changes evenly
    face = np.isfinite(off) & np.isfinite(slopes).all(axis=0) & (np.abs(slopes - np.nanmedian(slopes, axis=(1, 2), keepdims=True)) < 0.02).all(axis=0)
    missed = np.linalg.lstsq(slopes[:, face].T, off[face], rcond=None)[0]
    assert face.sum() > 200 and np.abs(missed).max() < 1e-3


def test_depth_is_finite_exactly_where_a_mask_is(rendered):
    for t in range(cases.FRAMES):
        depth = depth_of(rendered / "pair", t)
        assert depth.dtype == np.float32 and np.array_equal(np.isfinite(depth), picture(rendered / "pair", f"mask_visible/{t:03d}.png") > 0)


def test_the_record_counts_what_the_masks_show(rendered):
    record = cases.read_record(rendered, "pair")
    for t in range(cases.FRAMES):
        mask = picture(rendered / "pair", f"mask_visible/{t:03d}.png")
        assert record["visible_px"][t] == [(mask == k).sum() for k in (1, 2)]
        assert record["amodal_px"][t] == [(picture(rendered / "pair", f"mask_amodal/obj{k}/{t:03d}.png") > 0).sum() for k in (1, 2)]


def test_no_colour_stands_where_alpha_is_0(rendered):
    for t in range(cases.FRAMES):
        rgba = picture(rendered / "pair", f"rgba_fg/{t:03d}.png")
        assert rgba.shape == (64, 64, 4) and not rgba[rgba[..., 3] == 0].any() and ((rgba[..., 3] > 0) & (rgba[..., 3] < 255)).any()


def test_alpha_is_full_inside_the_masks_and_ends_a_pixel_beyond(rendered):
    for t in range(cases.FRAMES):
        solid = picture(rendered / "pair", f"mask_visible/{t:03d}.png") > 0
        wide = np.pad(solid, 2)
        near = np.logical_or.reduce([wide[i : i + 64, j : j + 64] for i in range(5) for j in range(5)])
        deep = np.logical_and.reduce([wide[i : i + 64, j : j + 64] for i in range(5) for j in range(5)])
        alpha = picture(rendered / "pair", f"rgba_fg/{t:03d}.png")[..., 3]
        assert (alpha[deep] == 255).all() and not alpha[~near].any()


def test_linear_light_of_8_tenths_is_231(rendered):
    rgba = picture(rendered / "glow", "rgba_fg/000.png")
    assert np.abs(rgba[32, 32].astype(int) - [231, 123, 123, 255]).max() <= 1


def test_edges_have_the_colour_of_the_middle(rendered):
    rgba = picture(rendered / "glow", "rgba_fg/000.png").astype(int)
    edge = (rgba[..., 3] >= 16) & (rgba[..., 3] < 255)
    assert edge.sum() > 20 and np.abs(rgba[edge][:, :3] - rgba[32, 32, :3]).max() <= 2


def test_pictures_hold_pixels_alone(rendered):
    for name, data in cases.files_of(rendered / "pair").items():
        if name.endswith(".png"):
            kinds, at = [], 8
            while at < len(data):
                (length,) = struct.unpack_from(">I", data, at)
                kinds.append(data[at + 4 : at + 8])
                at += 12 + length
            assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}


def test_a_depth_file_holds_one_array_without_a_date(rendered):
    for name, data in cases.files_of(rendered / "pair").items():
        if name.endswith(".npz"):
            (member,) = zipfile.ZipFile(io.BytesIO(data)).infolist()
            assert (member.filename, member.date_time) == ("depth.npy", (1980, 1, 1, 0, 0, 0))


def test_the_record_names_the_digest_of_every_file(rendered):
    import hashlib

    files = cases.files_of(rendered / "pair")
    assert cases.read_record(rendered, "pair")["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert len(files) == cases.FRAMES * (3 + 2)


def test_another_process_order_and_number_of_threads_give_the_same_bytes(rendered, tmp_path):
    cases.render_apart(tmp_path, 1, "glow", "pair")
    for name in ("pair", "glow"):
        assert cases.files_of(tmp_path / name) == cases.files_of(rendered / name)
        assert cases.read_record(tmp_path, name) == cases.read_record(rendered, name)


def test_amodal_masks_are_those_of_rendering_every_pixel_alone(rendered, tmp_path, monkeypatch):
    monkeypatch.setattr(clips, "hidden_pixels", lambda k, seen, mask, depth: np.ones(mask.shape, bool))
    record, _, _ = render_here(tmp_path)
    expected = cases.read_record(rendered, "pair")["files"]
    assert {name: digest for name, digest in record["files"].items() if "amodal" in name} == {name: expected[name] for name in expected if "amodal" in name}


def test_masks_and_depth_within_a_box_are_those_of_the_whole_frame(rendered, tmp_path, monkeypatch):
    monkeypatch.setattr(clips, "around", lambda boxes: (0, cases.SIZE, 0, cases.SIZE))
    record, _, _ = render_here(tmp_path)
    expected = cases.read_record(rendered, "pair")["files"]
    assert {name: record["files"][name] for name in expected if "rgba" not in name} == {name: expected[name] for name in expected if "rgba" not in name}


@pytest.mark.parametrize("size", [67, 100])
def test_boxes_fall_on_whole_pixels_of_frames_of_any_size(tmp_path, monkeypatch, size):
    plan = cases.pair()
    plan["cameras"] |= {"width": size, "height": size, "K": frame_K(size, size).tolist(), "frames": plan["cameras"]["frames"][:1]}
    boxed, _, _ = render_here(tmp_path / "boxed", plan)
    monkeypatch.setattr(clips, "around", lambda boxes: (0, size, 0, size))
    whole, _, _ = render_here(tmp_path / "whole", plan)
    assert boxed["visible_px"] == whole["visible_px"] and min(whole["visible_px"][0]) > 50
    assert {name: digest for name, digest in boxed["files"].items() if "rgba" not in name} == {n: d for n, d in whole["files"].items() if "rgba" not in n}


def test_an_object_out_of_the_picture_leaves_empty_files(tmp_path):
    plan = cases.clip([("egg", np.eye(3), (0.0, 50.0, 0.0), 1.0)], cases.SUNNY, frames=1)
    record, _, out = render_here(tmp_path, plan)
    assert record["amodal_px"] == [[0]] and not picture(out, "rgba_fg/000.png").any() and np.isnan(depth_of(out, 0)).all()


def test_the_record_says_how_far_blenders_pose_is_from_the_plans(rendered):
    # float32 cannot hold these rotations
    assert 0 < cases.read_record(rendered, "pair")["read_back"]["pose"] <= POSE_TOLERANCE


def test_the_sun_shines_from_its_direction(tmp_path):
    import bpy

    session.start()
    direction = np.array([0.3, -0.9, 0.1]) / np.linalg.norm([0.3, -0.9, 0.1])
    scene = bpy.data.scenes.new("lit")
    add_light(scene, {**cases.SUNNY, "sun_direction": direction.tolist()})
    scene.view_layers[0].update()
    (sun,) = scene.objects
    found = np.array(sun.matrix_world)[:3, 2]
    bpy.data.scenes.remove(scene)
    session.clear()
    assert np.abs(found - direction).max() < 1e-6


def test_the_side_towards_the_sun_is_the_bright_one(tmp_path):
    light = {**cases.SUNNY, "sun_direction": [0.0, 1.0, 0.0], "ambient_strength": 0.0}
    _, _, out = render_here(tmp_path, cases.clip([("egg", np.eye(3), (0.0, 0.0, 0.0), 1.0)], light, frames=1), RenderSettings(samples=4))
    rgba = picture(out, "rgba_fg/000.png").astype(int)
    # the first camera stands near +X and looks along -X: +Y is to its right
    assert rgba[32, 34:38, :3].sum() > 2 * rgba[32, 26:30, :3].sum()


def test_nothing_of_a_clip_stays_in_blender(tmp_path):
    session.start()
    session.clear()
    before = session.counts()
    render_here(tmp_path)
    assert session.counts() == before


def test_nothing_of_a_clip_that_fails_stays_in_blender(tmp_path, monkeypatch):
    session.start()
    session.clear()
    before = session.counts()
    monkeypatch.setattr(clips, "depth_bytes", None)
    with pytest.raises(TypeError):
        render_here(tmp_path)
    assert session.counts() == before


def spoil_shift(monkeypatch):
    make = clip_camera.make_camera

    def shifted(*args):
        camera = make(*args)
        camera.data.shift_x = 0.5 / cases.SIZE
        return camera

    monkeypatch.setattr(clips, "make_camera", shifted)


def spoil_place(monkeypatch):
    place = clip_camera.place_camera
    monkeypatch.setattr(clips, "place_camera", lambda camera, T_cw: place(camera, T_cw + np.array([[0, 0, 0, 2e-4]] + [[0] * 4] * 3)))


def spoil_focal(monkeypatch):
    monkeypatch.setattr(clip_camera, "SENSOR_WIDTH", 36.0)
    make = clip_camera.make_camera

    def longer(*args):
        camera = make(*args)
        camera.data.lens *= 1.00001
        return camera

    monkeypatch.setattr(clips, "make_camera", longer)


@pytest.mark.parametrize(("spoil", "what"), [(spoil_shift, "K"), (spoil_focal, "K"), (spoil_place, "T_cw")])
def test_a_camera_that_is_not_the_plans_ends_the_clip(tmp_path, monkeypatch, spoil, what):
    spoil(monkeypatch)
    with pytest.raises(Fault, match=f"frame 0: {what}: Blender's differs by") as error:
        render_here(tmp_path)
    assert error.value.code == "fault_bug"


def test_a_gpu_that_is_not_there_is_a_fault(monkeypatch):
    monkeypatch.setattr(clip_device, "_switch_on", lambda kind: None)
    with pytest.raises(Fault) as error:
        clip_device.find_device("gpu")
    assert error.value.code == "no_gpu"


def test_auto_without_a_gpu_takes_the_processor_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(clip_device, "_switch_on", lambda kind: None)
    _, timing, _ = render_here(tmp_path, cases.glow(), host=RenderHost(device="auto"))
    assert timing["device"] == {"kind": "CPU", "names": []}


@pytest.mark.parametrize("material", [{"alphaMode": "BLEND"}, {"alphaMode": "MASK"}])
def test_a_material_that_is_not_opaque_is_refused(tmp_path, material):
    plan = cases.glow()
    cases.write_glb(tmp_path / "glowing.glb", cases.egg(), **material)
    with pytest.raises(AssetRefused) as error:
        render_clip(plan, [tmp_path / "glowing.glb"], tmp_path, QUICK, HOST)
    assert (error.value.code, error.value.where) == ("transparent_material", "glowing")


def test_a_mesh_of_two_objects_is_refused(tmp_path):
    import trimesh

    (tmp_path / "glowing.glb").write_bytes(trimesh.Scene([cases.egg(), cases.l_shape()]).export(file_type="glb"))
    with pytest.raises(AssetRefused) as error:
        render_clip(cases.glow(), [tmp_path / "glowing.glb"], tmp_path, QUICK, HOST)
    assert error.value.code == "bad_asset"
