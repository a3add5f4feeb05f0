"""Photos: each kind of file has its pixels or its verdict."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from sam3dvid.backgrounds.images import read_photo
from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.codes import AssetRefused

ANY_SIZE = PhotoSettings(min_width=1, min_height=1)
RNG = np.random.default_rng(0)
SCENE = RNG.integers(0, 256, (40, 60, 3), np.uint8)


def saved(tmp_path, picture, name, **options):
    path = tmp_path / name
    picture.save(path, **options)
    return path


def code_of(path, settings=ANY_SIZE):
    with pytest.raises(AssetRefused) as error:
        read_photo(path, settings)
    return error.value.code


def test_a_png_gives_its_own_pixels(tmp_path):
    assert np.array_equal(read_photo(saved(tmp_path, Image.fromarray(SCENE), "a.png"), ANY_SIZE), SCENE)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_orientation_is_ignored(tmp_path, orientation, suffix):
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(read_photo(saved(tmp_path, Image.fromarray(SCENE), f"a.{suffix}", exif=exif), ANY_SIZE), SCENE)


def test_16_bit_gray_is_scaled_not_clipped(tmp_path):
    values = np.array([[0, 257, 32896, 65535]], np.uint16)
    path = saved(tmp_path, Image.fromarray(values), "a.png")
    assert read_photo(path, PhotoSettings(min_width=1, min_height=1, max_aspect=4.0))[0, :, 0].tolist() == [0, 1, 128, 255]


def test_opaque_alpha_is_dropped_and_any_transparency_refused(tmp_path):
    rgba = np.dstack([SCENE, np.full(SCENE.shape[:2], 255, np.uint8)])
    assert np.array_equal(read_photo(saved(tmp_path, Image.fromarray(rgba), "a.png"), ANY_SIZE), SCENE)
    rgba[3, 4, 3] = 254
    assert code_of(saved(tmp_path, Image.fromarray(rgba), "b.png")) == "image_unsupported"


def test_gray_and_palette_become_rgb(tmp_path):
    gray = SCENE[..., 0]
    assert np.array_equal(read_photo(saved(tmp_path, Image.fromarray(gray), "a.png"), ANY_SIZE), np.repeat(gray[..., None], 3, 2))
    palette = Image.fromarray(SCENE).quantize(16)
    assert np.array_equal(read_photo(saved(tmp_path, palette, "p.png"), ANY_SIZE), np.asarray(palette.convert("RGB")))


@pytest.mark.parametrize("options", [{"format": "JPEG"}, {"format": "JPEG", "progressive": True}, {"format": "PNG"}, {"format": "WEBP", "lossless": True}])
def test_a_cut_picture_is_refused_wherever_it_is_cut(tmp_path, options):
    buffer = io.BytesIO()
    Image.fromarray(SCENE).save(buffer, **options)
    data, path = buffer.getvalue(), tmp_path / "a"
    path.write_bytes(data)
    whole = read_photo(path, ANY_SIZE)
    for end in [*range(0, len(data) - 12, 97), len(data) - 13]:
        path.write_bytes(data[:end])
        try:
            pixels = read_photo(path, ANY_SIZE)
        except AssetRefused as error:
            assert error.code == "unreadable_image"
        else:
            assert np.array_equal(pixels, whole)


def test_a_jpeg_whose_tail_is_zeros_is_refused(tmp_path):
    path = saved(tmp_path, Image.fromarray(SCENE), "a.jpg")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) // 2))
    assert code_of(path) == "unreadable_image"


def test_a_huge_picture_is_refused_before_it_is_decoded(tmp_path):
    path = saved(tmp_path, Image.new("1", (4000, 3000)), "a.png")
    path.write_bytes(path.read_bytes()[:60])  # nothing of it could be decoded
    assert code_of(path, PhotoSettings(max_pixels=1_000_000)) == "image_too_large"


def test_a_moving_picture_is_refused(tmp_path):
    frames = [Image.fromarray(SCENE), Image.fromarray(SCENE[::-1].copy())]
    assert code_of(saved(tmp_path, frames[0], "a.webp", save_all=True, append_images=frames[1:])) == "image_unsupported"


REFUSED = {
    "panorama_strip_1500x120.jpg": "image_shape",
    "tiny_7x5.png": "image_too_small",
    "cmyk.jpg": "image_too_small",
    "truncated.jpg": "unreadable_image",
    "zero_bytes.jpg": "unreadable_image",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_awkward_photo_has_its_verdict(datapack, name):
    assert code_of(datapack / "photos" / "awkward" / name, PhotoSettings()) == REFUSED[name]


@pytest.mark.parametrize(("name", "shape"), [("exif_orientation_6.jpg", (231, 308)), ("color_exif.jpg", (300, 400)), ("ultra-hdr.jpg", (2160, 3840))])
def test_a_real_photo_has_the_size_that_its_file_stores(datapack, name, shape):
    assert read_photo(datapack / "photos" / "awkward" / name, ANY_SIZE).shape[:2] == shape


def test_a_real_cmyk_photo_has_the_colours_of_its_rgb_original(datapack):
    folder = datapack / "photos"
    ours, original = read_photo(folder / "awkward" / "cmyk.jpg", ANY_SIZE), read_photo(folder / "truck.jpg")
    assert np.abs(ours.mean((0, 1)) - original.mean((0, 1))).max() < 2
