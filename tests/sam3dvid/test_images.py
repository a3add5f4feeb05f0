"""Photos: each kind of file has its pixels or its verdict."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

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


P3_D50 = np.array([[0.51512, 0.29198, 0.15710], [0.24120, 0.69225, 0.06657], [-0.00105, 0.04189, 0.78407]])
"""Linear Display P3 -> XYZ of D50, as its profiles hold it. Source: Apple's Display P3 profile."""
SRGB_D50 = np.array([[0.4360747, 0.3850649, 0.1430804], [0.2225045, 0.7168786, 0.0606169], [0.0139322, 0.0971045, 0.7141733]])
"""Linear sRGB -> XYZ of D50. Source: brucelindbloom.com, RGB/XYZ matrices, Bradford-adapted."""
GAMMA = 461 / 256


def profile_of(matrix, gamma):
    """Return an ICC profile (version 2) of three primaries and a power: its header and nine tags, written out."""

    def fixed(*values):
        return struct.pack(f">{len(values)}i", *(round(value * 65536) for value in values))

    curve = struct.pack(">4s4xIHxx", b"curv", 1, round(gamma * 256))
    tags = {
        b"desc": struct.pack(">4s4xI5s", b"desc", 5, b"test\0") + bytes(78),
        b"cprt": struct.pack(">4s4x5s", b"text", b"none\0"),
        b"wtpt": b"XYZ \0\0\0\0" + fixed(0.9642, 1.0, 0.8249),
        **{name: b"XYZ \0\0\0\0" + fixed(*column) for name, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), matrix.T, strict=True)},
        **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve),
    }
    at, index, body = 128 + 4 + 12 * len(tags), b"", b""
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        index += struct.pack(">4sII", name, at + len(body), len(data))
        body += data
    header = struct.pack(">I4sI4s4s4s12s4s28x", at + len(body), b"none", 0x02100000, b"mntr", b"RGB ", b"XYZ ", bytes(12), b"acsp") + fixed(0.9642, 1.0, 0.8249)
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + index + body


COLOURS = [(128, 128, 128), (200, 120, 40), (60, 90, 160), (20, 140, 90), (250, 245, 240), (90, 40, 70)]


def test_a_picture_with_a_profile_is_converted_to_srgb(tmp_path):
    picture = Image.new("RGB", (60, 60))
    for column, colour in enumerate(COLOURS):
        picture.paste(colour, (10 * column, 0, 10 * column + 10, 60))
    seen = read_photo(saved(tmp_path, picture, "a.png", icc_profile=profile_of(P3_D50, GAMMA)), ANY_SIZE)
    linear = np.clip((np.array(COLOURS) / 255) ** GAMMA @ (np.linalg.inv(SRGB_D50) @ P3_D50).T, 0, 1)
    expected = 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    assert np.abs(seen[30, 5::10] - expected).max() <= 1.5
    assert np.abs(expected - np.array(COLOURS)).max() > 15, "the profile matters"


def test_an_srgb_profile_changes_nothing(tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert np.abs(read_photo(saved(tmp_path, Image.fromarray(SCENE), "a.png", icc_profile=profile), ANY_SIZE).astype(int) - SCENE).max() <= 1


@pytest.mark.parametrize("profile", [b"no profile", ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()])
def test_a_profile_that_does_not_fit_the_picture_is_passed_over(tmp_path, profile):
    assert np.array_equal(read_photo(saved(tmp_path, Image.fromarray(SCENE), "a.png", icc_profile=profile), ANY_SIZE), SCENE)


def test_a_gray_picture_with_a_profile_of_colours_stays_gray(tmp_path):
    gray = Image.fromarray(SCENE[..., 0])
    seen = read_photo(saved(tmp_path, gray, "a.png", icc_profile=profile_of(P3_D50, GAMMA)), ANY_SIZE)
    assert (seen == seen[..., :1]).all()
