"""What a clip's folder holds: composited pictures, and JSON files with exactly the keys of the format."""

from __future__ import annotations

import json
import subprocess

import cv2
import numpy as np
import pytest
from PIL import Image

from sam3dvid.codes import AssetRefused
from sam3dvid.composite.clip import composite_clip
from sam3dvid.composite.origin import read_origin
from sam3dvid.composite.rendered import read_render
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.validate.visibility import least_visible_px
from shardwork.errors import Fault
from tests.sam3dvid.renders import Renders, finish

CLIP = "00000002"  # of three objects, one of which hides a part of another
RELEASE = CompositeSettings()
META_KEYS = (
    "clip_id split seed attempt num_objects arc_span_deg arc_direction start_azimuth_deg start_elevation_deg elevation_drift_deg orbit_radius scene_center "
    "hfov_deg light background reference_T_cw visibility render timing git_commit generator_version arc_retries rejections"
)
"""Source: seed 002, section 5."""


@pytest.fixture(scope="module")
def renders(tmp_path_factory):
    world = Renders(tmp_path_factory.mktemp("renders"))
    world.plan([CLIP])
    world.render()
    return world


@pytest.fixture
def folder(renders, tmp_path):
    """A copy of the render, to spoil."""
    copy = tmp_path / CLIP
    subprocess.run(["cp", "-r", str(renders.folder_of(CLIP)), str(copy)], check=True)
    return copy


def photo_of(renders, plan):
    with Image.open(renders.pool / plan["background"]["provenance"]["file"]) as image:
        return np.asarray(image.convert("RGB"))


def make(renders, folder, settings=RELEASE):
    plan = renders.read_plan(CLIP)
    return composite_clip(plan, read_render(folder), photo_of(renders, plan), settings, read_origin())


def pixels_of(data):
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)[..., ::-1]


def spoil(folder, name, change):
    """Change the pixels of a rendered file as if it had been rendered so."""
    with Image.open(folder / name) as image:
        pixels = np.array(image)
    change(pixels)
    Image.fromarray(pixels).save(folder / name)
    finish(folder)


def sampled(photo, back, size, n, shift):
    """Return a photo's part of a frame, n x n bicubic samples a pixel.   back : frame pixel to photo pixel.   shift : of the frame's pixel centres, in px."""
    grid = (np.arange(size * n) + 0.5) / n - 0.5 + shift
    u, v = np.meshgrid(grid, grid)
    x, y, z = np.einsum("ij,jhw->ihw", back, np.stack([u, v, np.ones_like(u)]))
    fine = cv2.remap(photo, (x / z).astype(np.float32), (y / z).astype(np.float32), cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return fine.reshape(size, n, size, n, 3).astype(float).mean(axis=(1, 3))


@pytest.mark.parametrize(("shift", "agrees"), [(0.0, True), (0.5, False)])
def test_rgb_is_the_saved_foreground_over_the_photo_turned_by_the_homography_of_the_format(renders, shift, agrees):
    """Up to 1.5 steps: roundings, and what fewer samples than 4 x 4 a pixel are off by. Half a pixel aside it is more."""
    plan = renders.read_plan(CLIP)
    made, photo = make(renders, renders.folder_of(CLIP)), photo_of(renders, plan)
    for t, frame in enumerate(plan["cameras"]["frames"]):
        R_ref, R_cw = (np.array(pose)[:3, :3] for pose in (plan["reference_T_cw"], frame["T_cw"]))
        back = np.array(plan["background"]["K_bg"]) @ R_ref @ R_cw.T @ np.linalg.inv(np.array(plan["cameras"]["K"]))
        with Image.open(renders.folder_of(CLIP) / f"rgba_fg/{t:03d}.png") as image:
            rgba = np.asarray(image).astype(float)
        a, rgb = rgba[..., 3:] / 255, pixels_of(made.written[f"rgb/{t:03d}.png"])
        off = np.abs(rgb - (rgba[..., :3] * a + sampled(photo, back, 64, 4, shift) * (1 - a))).max()
        assert bool(off < 1.5) is agrees, off


def test_rgb_is_exact_to_half_a_step_over_the_warped_background(renders):
    from sam3dvid.backgrounds.warp import homography, warp

    plan, made = renders.read_plan(CLIP), make(renders, renders.folder_of(CLIP))
    K, K_bg, R_ref = (np.array(one) for one in (plan["cameras"]["K"], plan["background"]["K_bg"], plan["reference_T_cw"]))
    for t, frame in enumerate(plan["cameras"]["frames"]):
        bg = warp(photo_of(renders, plan), homography(np.array(frame["T_cw"])[:3, :3], R_ref[:3, :3], K, K_bg), 64, 64).astype(float)
        with Image.open(renders.folder_of(CLIP) / f"rgba_fg/{t:03d}.png") as image:
            rgba = np.asarray(image).astype(float)
        a = rgba[..., 3:] / 255
        assert np.abs(pixels_of(made.written[f"rgb/{t:03d}.png"]) - (rgba[..., :3] * a + bg * (1 - a))).max() <= 0.5


def test_meta_has_the_keys_of_the_format_and_the_version_of_blender(renders):
    meta = json.loads(make(renders, renders.folder_of(CLIP)).written["meta.json"])
    assert set(meta) == {*META_KEYS.split(), "blender_version"}


def test_visibility_is_counted_from_the_rendered_masks_and_not_the_plans(renders, folder):
    with Image.open(folder / "mask_visible/001.png") as image:
        row, column = (int(where[0]) for where in np.nonzero(np.asarray(image) == 2))

    def lose(mask):
        mask[row, column] = 0

    spoil(folder, "mask_visible/001.png", lose)
    plan, seen = renders.read_plan(CLIP), make(renders, folder).meta["visibility"]
    assert seen["visible_px"][1][1] == plan["visibility"]["visible_px"][1][1] - 1
    assert seen["visible_frac"][1][1] == seen["visible_px"][1][1] / seen["amodal_px"][1][1]
    assert seen["amodal_px"] == plan["visibility"]["amodal_px"]


def test_provenance_of_the_background_is_the_pools_without_its_path(renders):
    background = make(renders, renders.folder_of(CLIP)).meta["background"]
    planned = renders.read_plan(CLIP)["background"]
    assert background["provenance"] == {key: value for key, value in planned["provenance"].items() if key != "file"}
    assert {key: background[key] for key in background if key != "provenance"} == {key: planned[key] for key in planned if key != "provenance"}


def test_objects_and_cameras_are_the_plans_to_the_last_bit(renders):
    made, plan = make(renders, renders.folder_of(CLIP)), renders.read_plan(CLIP)
    assert (json.loads(made.written["objects.json"]), json.loads(made.written["cameras.json"])) == (plan["objects"], plan["cameras"])


def test_what_depends_on_the_host_stands_under_timing_alone(renders, folder):
    before = make(renders, folder).meta
    finish(folder, timing={"device": "OPTIX", "seconds": 3.5})
    after = make(renders, folder).meta
    assert after["timing"] == {"device": "OPTIX", "seconds": 3.5}
    assert {key: after[key] for key in after if key != "timing"} == {key: before[key] for key in before if key != "timing"}


def test_equal_inputs_give_equal_bytes(renders):
    assert make(renders, renders.folder_of(CLIP)).written == make(renders, renders.folder_of(CLIP)).written


def keep(pixels, number, count):
    """Leave so many pixels of an object in a mask."""
    mine = np.argwhere(pixels == number)
    for row, column in mine[count:]:
        pixels[row, column] = 0


@pytest.mark.parametrize(("left", "refused"), [(8, False), (7, True)])
def test_a_render_that_shows_fewer_pixels_than_the_format_asks_for_is_refused(renders, folder, left, refused):
    """524 of 512 x 512 are 8 of 64 x 64."""
    spoil(folder, "mask_visible/002.png", lambda mask: keep(mask, 1, left))
    loose = CompositeSettings(min_visible_frac=0.0)
    if not refused:
        assert make(renders, folder, loose).meta["visibility"]["visible_px"][2][0] == left
        return
    with pytest.raises(AssetRefused, match=r"object 1 shows 7 of its \d+ px in frame 2") as error:
        make(renders, folder, loose)
    assert error.value.code == "render_disagrees"


@pytest.mark.parametrize(("visible", "refused"), [(10, False), (9, True)])
def test_a_render_that_hides_more_than_nine_tenths_of_an_object_is_refused(renders, folder, visible, refused):
    def hundred(whole):
        whole[:] = 0
        whole.ravel()[:100] = 255

    spoil(folder, "mask_amodal/obj1/003.png", hundred)
    spoil(folder, "mask_visible/003.png", lambda mask: keep(mask, 1, visible))
    if not refused:
        assert make(renders, folder).meta["visibility"]["visible_frac"][3][0] == 0.1
        return
    with pytest.raises(AssetRefused, match=r"object 1 shows 9 of its 100 px in frame 3") as error:
        make(renders, folder)
    assert error.value.code == "render_disagrees"


def test_an_object_without_a_silhouette_is_refused_and_not_a_division_by_zero(renders, folder):
    spoil(folder, "mask_amodal/obj2/000.png", lambda whole: whole.fill(0))
    with pytest.raises(AssetRefused, match="render_disagrees"):
        make(renders, folder)


@pytest.mark.parametrize("name", ["rgba_fg/001.png", "mask_visible/000.png", "mask_amodal/obj3/003.png", "depth/002.npz"])
@pytest.mark.parametrize("kind", ["flipped", "missing"])
def test_a_file_that_changed_since_it_was_rendered_is_a_fault_that_names_it(renders, folder, name, kind):
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).unlink() if kind == "missing" else (folder / name).write_bytes(data)
    with pytest.raises(Fault, match=name) as fault:
        make(renders, folder)
    assert fault.value.code == "fault_stale"


@pytest.mark.parametrize("data", [b"", b"{}\n", None])
def test_a_render_without_a_whole_record_is_a_fault(folder, data):
    (folder / "render.json").unlink() if data is None else (folder / "render.json").write_bytes(data)
    with pytest.raises(Fault, match=r"render\.json.*\[fault_stale\]"):
        read_render(folder)


def test_a_render_that_lacks_a_frame_is_no_clip(renders, folder):
    (folder / "depth/003.npz").unlink()
    finish(folder)
    with pytest.raises(ValueError, match="rendered files"):
        make(renders, folder)


def test_least_pixels_at_the_release_size_are_524():
    assert (CompositeSettings().least_px(512, 512), CompositeSettings().least_px(256, 256)) == (524, 131)


@pytest.mark.parametrize("size", [64, 67, 256, 512, 1024])
def test_least_pixels_are_those_that_the_validator_asks_for_at_every_size(size):
    assert CompositeSettings().least_px(size, size) == least_visible_px(size, size)


def test_least_pixels_at_1024_are_2097():
    assert CompositeSettings().least_px(1024, 1024) == 1024 * 1024 // 500 == 2097


def test_more_pixels_than_the_format_asks_for_shrink_with_the_frame():
    assert CompositeSettings(min_visible_px=1000).least_px(256, 256) == 250


@pytest.mark.parametrize(("name", "value"), [("min_visible_px", 523), ("min_visible_px", 524.5), ("min_visible_frac", 1.5), ("min_visible_frac", float("nan"))])
def test_a_setting_out_of_range_is_refused(name, value):
    with pytest.raises(AssetRefused, match="bad_asset_setting"):
        CompositeSettings(**{name: value})


def test_commit_of_code_in_no_repository_is_unknown(tmp_path):
    assert read_origin(tmp_path).git_commit == "unknown"


def test_commit_of_changed_code_says_so(tmp_path):
    def git(*words):
        return subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one")
    git("tag", "v1")
    commit = git("rev-parse", "HEAD")
    assert read_origin(tmp_path).git_commit == commit
    (tmp_path / "a").write_text("2")
    assert read_origin(tmp_path).git_commit == f"{commit}-dirty"
