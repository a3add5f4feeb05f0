"""Panoramas: exposure, the three families of files, and a verdict for each damaged one."""

from __future__ import annotations

import cv2
import numpy as np
import OpenEXR
import pytest
from PIL import Image

from sam3dvid.backgrounds.panorama import read_panorama, read_reduced, srgb_bytes
from sam3dvid.codes import AssetRefused

TALL, WIDE = 512, 1024
GRAY = 118
"""0.18 of linear light as an sRGB byte: 255 (1.055 * 0.18 ** (1 / 2.4) - 0.055) = 117.6."""


def scene(seed=0):
    """Return a scene in linear light, (TALL, WIDE, 3) float32, whose numbers are exact in half floats."""
    return np.random.default_rng(seed).lognormal(0, 1, (TALL, WIDE, 3)).astype(np.float16).astype(np.float32)


def write_exr(path, pixels, name="RGB", **header):
    said = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage, **header}
    OpenEXR.File(said, {name: pixels}).write(str(path))
    return path


def write_hdr(path, pixels):
    assert cv2.imwrite(str(path), np.ascontiguousarray(pixels[..., ::-1]))
    return path


def encoded(linear):
    """Return what a panorama of this light looks like, in float64: the definition, one line at a time."""
    linear = np.clip(linear.astype(np.float64), 0, None)
    luminance = 0.2126 * linear[..., 0] + 0.7152 * linear[..., 1] + 0.0722 * linear[..., 2]
    light = np.clip(linear * 0.18 / np.median(luminance), 0, 1)
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def code_of(path):
    with pytest.raises(AssetRefused) as error:
        read_panorama(path)
    return error.value.code


@pytest.mark.parametrize("brightness", [1e-4, 1.0, 3000.0])
def test_the_median_luminance_becomes_middle_gray_however_bright_a_panorama_is(tmp_path, brightness):
    pixels = np.full((TALL, WIDE, 3), brightness, np.float32)
    pixels[: TALL // 4] *= 1000
    pixels[-TALL // 4 + 1 :] /= 1000
    seen = read_panorama(write_exr(tmp_path / "a.exr", pixels))
    assert (seen[TALL // 2] == GRAY).all() and (seen[0] == 255).all()


def test_luminance_weighs_the_channels_as_bt_709_does(tmp_path):
    green = np.zeros((TALL, WIDE, 3), np.float32)
    green[..., 1] = 5
    seen = read_panorama(write_exr(tmp_path / "a.exr", green))
    light = 0.18 / 0.7152
    assert (seen == [0, round(255 * (1.055 * light ** (1 / 2.4) - 0.055)), 0]).all()


def test_an_exr_has_the_values_of_the_definition(tmp_path):
    pixels = scene()
    assert np.abs(read_panorama(write_exr(tmp_path / "a.exr", pixels)) - encoded(pixels)).max() <= 0.501


def test_half_and_float_channels_give_the_same_bytes(tmp_path):
    pixels = scene()
    one, other = write_exr(tmp_path / "a.exr", pixels), write_exr(tmp_path / "b.exr", pixels.astype(np.float16))
    assert np.array_equal(read_panorama(one), read_panorama(other))


def test_hdr_and_exr_of_one_scene_agree_within_the_steps_of_hdr(tmp_path):
    pixels = np.exp(np.random.default_rng(0).normal(0, 0.5, (TALL, WIDE, 1)).astype(np.float32)) * np.array([1.0, 0.8, 0.7], np.float32)
    exr, hdr = read_panorama(write_exr(tmp_path / "a.exr", pixels)), read_panorama(write_hdr(tmp_path / "a.hdr", pixels))
    difference = np.abs(exr.astype(int) - hdr)
    # a channel of 8 bits below a shared power of two is off by up to 1/128, which is less than 1.5 of 255 once encoded
    assert difference.max() <= 2 and difference.mean() < 0.6


def test_red_stays_red_in_every_format(tmp_path):
    red = np.zeros((TALL, WIDE, 3), np.float32)
    red[..., 0] = 1
    Image.fromarray((red * 255).astype(np.uint8)).save(tmp_path / "a.png")
    for path in (write_exr(tmp_path / "a.exr", red), write_hdr(tmp_path / "a.hdr", red), tmp_path / "a.png"):
        seen = read_panorama(path)
        assert (seen[..., 0] > 200).all() and not seen[..., 1:].any()


def test_the_top_row_of_a_file_is_straight_up_in_every_format(tmp_path):
    pixels = np.full((TALL, WIDE, 3), 0.1, np.float32)
    pixels[:8] = 50
    Image.fromarray((np.minimum(pixels, 1) * 255).astype(np.uint8)).save(tmp_path / "a.png")
    for path in (write_exr(tmp_path / "a.exr", pixels), write_hdr(tmp_path / "a.hdr", pixels), tmp_path / "a.png"):
        seen = read_panorama(path)
        assert (seen[:8] == 255).all() and (seen[8:] < 200).all()


def test_tone_mapped_pictures_are_taken_as_they_are(tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (TALL, WIDE, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(read_panorama(tmp_path / "a.png"), pixels)


def test_light_is_averaged_before_it_is_encoded(tmp_path):
    stripes = np.full((TALL, WIDE, 3), 0.18, np.float32)
    stripes[: TALL // 8, ::2], stripes[: TALL // 8, 1::2] = 1, 0
    picture, width = read_reduced(write_exr(tmp_path / "a.exr", stripes), WIDE // 2)
    assert width == WIDE and picture.shape == (TALL // 2, WIDE // 2, 3)
    assert (picture[0] == 188).all(), "half the light of white: 255 (1.055 * 0.5 ** (1 / 2.4) - 0.055) = 187.5"
    assert (picture[-1] == GRAY).all()


def test_one_pixel_of_sun_fills_only_its_share_of_a_cell(tmp_path):
    pixels = np.full((TALL, WIDE, 3), 0.18, np.float32)
    pixels[100, 200] = 60_000
    picture, _ = read_reduced(write_exr(tmp_path / "a.exr", pixels), WIDE // 2)
    light = (1 + 3 * 0.18) / 4
    assert (picture[50, 100] == round(255 * (1.055 * light ** (1 / 2.4) - 0.055))).all() and (picture[50, 101] == GRAY).all()


def test_the_exposure_is_that_of_all_pixels_not_of_the_averaged_ones(tmp_path):
    pixels = np.full((TALL, WIDE, 3), 0.02, np.float32)
    pixels[:, ::3] = 1.0  # a third is bright: the median is 0.02, that of cells of two pixels is 0.51
    picture, _ = read_reduced(write_exr(tmp_path / "a.exr", pixels), WIDE // 2)
    whole = read_panorama(tmp_path / "a.exr")
    assert (whole[:, 1] == GRAY).all() and (picture.reshape(-1, 3).min(0) == GRAY).all()


def test_a_narrower_panorama_is_not_reduced(tmp_path):
    path = write_exr(tmp_path / "a.exr", scene())
    assert np.array_equal(read_reduced(path, 3000)[0], read_panorama(path))


@pytest.mark.parametrize("write", [write_exr, write_hdr])
def test_reading_twice_gives_the_same_bytes(tmp_path, write):
    path = write(tmp_path / f"a.{write.__name__[-3:]}", scene())
    assert np.array_equal(read_panorama(path), read_panorama(path))


def test_nan_is_refused(tmp_path):
    pixels = scene()
    pixels[7, 9, 1] = np.nan
    assert code_of(write_exr(tmp_path / "a.exr", pixels)) == "unreadable_image"


def test_infinite_light_is_white_and_moves_no_other_pixel(tmp_path):
    pixels = scene()
    plain = read_panorama(write_exr(tmp_path / "a.exr", pixels))
    brightest = np.unravel_index(pixels.sum(-1).argmax(), pixels.shape[:2])
    pixels[brightest] = np.inf
    plain[brightest] = 255
    assert np.array_equal(read_panorama(write_exr(tmp_path / "b.exr", pixels)), plain)


def test_negative_light_counts_as_none(tmp_path):
    pixels = scene()
    pixels[::5, ::5, 2] = 0
    plain = read_panorama(write_exr(tmp_path / "a.exr", pixels))
    pixels[::5, ::5, 2] = -3
    assert np.array_equal(read_panorama(write_exr(tmp_path / "b.exr", pixels)), plain)


def test_an_exr_of_one_channel_is_gray(tmp_path):
    light = scene()[..., 1].copy()
    seen = read_panorama(write_exr(tmp_path / "a.exr", light, "Y"))
    assert np.array_equal(seen[..., 0], seen[..., 2]) and np.abs(seen - encoded(np.repeat(light[..., None], 3, 2))).max() <= 0.501


def test_an_opaque_alpha_is_dropped_and_any_transparency_refused(tmp_path):
    rgba = np.concatenate([scene(), np.ones((TALL, WIDE, 1), np.float32)], -1)
    plain = read_panorama(write_exr(tmp_path / "a.exr", rgba[..., :3].copy()))
    assert np.array_equal(read_panorama(write_exr(tmp_path / "b.exr", rgba, "RGBA")), plain)
    rgba[5, 5, 3] = 0.5
    assert code_of(write_exr(tmp_path / "c.exr", rgba, "RGBA")) == "image_unsupported"


def test_an_exr_without_colour_is_refused(tmp_path):
    assert code_of(write_exr(tmp_path / "a.exr", scene()[..., 0].copy(), "depth")) == "image_unsupported"


def test_an_exr_of_whole_numbers_is_refused(tmp_path):
    assert code_of(write_exr(tmp_path / "a.exr", np.ones((TALL, WIDE, 3), np.uint32))) == "image_unsupported"


def test_an_exr_that_shows_a_part_of_the_sphere_is_refused(tmp_path):
    window = (np.array([0, 0], np.int32), np.array([2 * WIDE - 1, 2 * TALL - 1], np.int32))
    assert code_of(write_exr(tmp_path / "a.exr", scene(), displayWindow=window)) == "not_equirectangular"


@pytest.mark.parametrize("name", ["a.exr", "a.hdr", "a.png", "a.jpg"])
def test_a_picture_not_twice_as_wide_as_high_is_refused(tmp_path, name):
    pixels, path = np.full((TALL, WIDE + 2, 3), 0.5, np.float32), tmp_path / name
    if name.endswith("exr"):
        write_exr(path, pixels)
    elif name.endswith("hdr"):
        write_hdr(path, pixels)
    else:
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    assert code_of(path) == "not_equirectangular"


@pytest.mark.parametrize("name", ["a.exr", "a.hdr", "a.png", "a.jpg"])
@pytest.mark.parametrize("part", [0.02, 0.5, 0.99])
def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path, name, part):
    path = tmp_path / name
    if name.endswith("exr"):
        write_exr(path, scene())
    elif name.endswith("hdr"):
        write_hdr(path, scene())
    else:
        Image.fromarray(np.minimum(scene() * 90, 255).astype(np.uint8)).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    assert code_of(path) == "unreadable_image"


@pytest.mark.parametrize("data", [b"", b"no picture", b"\x76\x2f\x31\x01", b"#?RADIANCE\n", b"#?RADIANCE\n\n-Y 512 +X 1024\n"])
def test_what_is_no_picture_is_refused(tmp_path, data):
    (tmp_path / "a.hdr").write_bytes(data)
    assert code_of(tmp_path / "a.hdr") == "unreadable_image"


@pytest.mark.parametrize("write", [write_exr, write_hdr])
def test_a_panorama_that_is_black_over_half_of_its_sphere_is_refused(tmp_path, write):
    pixels = scene()
    pixels[: TALL // 2 + 1] = 0
    assert code_of(write(tmp_path / f"a.{write.__name__[-3:]}", pixels)) == "too_dark"


def test_a_panorama_too_narrow_for_its_views_is_refused(tmp_path):
    assert code_of(write_exr(tmp_path / "a.exr", scene()[:256, :512].copy())) == "image_too_small"


def test_a_missing_panorama_is_a_fault_of_the_machine(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_panorama(tmp_path / "a.exr")


def test_srgb_bytes_are_rounded_and_cut_off_at_white():
    light = np.array([0, 0.0031308, 0.18, 0.214041, 0.5, 1, 7, np.inf], np.float32)
    assert srgb_bytes(light).tolist() == [0, 10, 118, 127, 188, 255, 255, 255]  # 0.214041 encodes to 0.5, which is 127.4999


@pytest.mark.parametrize("name", ["adams_place_bridge", "forest_slope", "potsdamer_platz", "st_fagans_interior"])
def test_a_real_hdr_is_exposed_near_its_tone_mapped_picture_and_lies_as_it_does(datapack, name):
    ours = read_panorama(datapack / "panoramas" / "polyhaven_1k" / f"{name}_1k.hdr")
    theirs = np.asarray(Image.open(datapack / "panoramas" / "tonemapped_jpg" / f"{name}.jpg").convert("RGB").resize((64, 32), Image.Resampling.BOX), float)
    small = np.asarray(Image.fromarray(ours).resize((64, 32), Image.Resampling.BOX), float)

    def alike(one):
        return np.corrcoef(one.ravel(), theirs.ravel())[0, 1]

    others = (small[::-1], small[:, ::-1], np.roll(small, 16, 1), small[..., ::-1])
    assert alike(small) > 0.8 and all(alike(other) < alike(small) for other in others)


def test_a_real_panorama_not_2_to_1_is_refused(datapack):
    assert code_of(datapack / "panoramas" / "awkward" / "sample_not_2to1.hdr") == "not_equirectangular"


@pytest.mark.parametrize("name", ["city", "courtyard", "forest", "interior", "sunset"])
def test_a_real_exr_has_its_median_at_middle_gray(datapack, name):
    seen = read_panorama(datapack / "panoramas" / "blender_world" / f"{name}.exr").astype(float) / 255
    light = np.where(seen <= 0.04045, seen / 12.92, ((seen + 0.055) / 1.055) ** 2.4)
    assert np.median(light @ [0.2126, 0.7152, 0.0722]) == pytest.approx(0.18, abs=0.01)
