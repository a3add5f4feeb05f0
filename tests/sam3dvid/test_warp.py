"""The homography of a background, its cover, and its pixels. Source: synthetic spec, section 1."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from sam3dvid.backgrounds.warp import covers, homography, reduction, warp
from sam3dvid.conventions import FOCAL_PX, K, K_bg

CENTRE_X, CENTRE_Y = 1023.5, 511.5


def camera(azimuth_deg, elevation_deg):
    """Return R_cw of a level camera that looks at the origin."""
    a, e = np.radians([azimuth_deg, elevation_deg])
    ahead = -np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.cross(ahead, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(ahead, right), ahead])


def test_the_focal_length_is_that_of_the_specification():
    assert pytest.approx(548.993771650447, abs=1e-11) == FOCAL_PX
    assert K_bg(2048, 1024)[0, 0] == pytest.approx(477.499, abs=5e-4) and K_bg(2048, 1024)[0, 2] == CENTRE_X


def test_a_camera_at_3_0_0_has_the_rotation_of_the_specification():
    assert np.allclose(camera(0, 0), [[0, 1, 0], [0, 0, -1], [-1, 0, 0]])


def test_the_photo_centre_lands_in_the_frame_centre_at_the_reference_camera():
    R = camera(20, 30)
    point = homography(R, R, K(), K_bg(2048, 1024)) @ [CENTRE_X, CENTRE_Y, 1]
    assert point[:2] / point[2] == pytest.approx([255.5, 255.5], abs=1e-9)


def arcs(count, seed):
    """Yield the rotations of arcs drawn as seed 002 section 7 says, each with its reference."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        azimuth, elevation, span, drift = rng.uniform(0, 360), rng.uniform(10, 45), rng.uniform(10, 70) * rng.choice([-1, 1]), rng.uniform(-10, 10)
        u = (1 - np.cos(np.pi * np.arange(32) / 31)) / 2
        yield [camera(azimuth + span * x, elevation + drift * x) for x in u], camera(azimuth + span / 2, elevation + drift / 2)


def cover(width, height, count, seed=7):
    intrinsics = K_bg(width, height)
    whole = [all(covers(homography(R, ref, K(), intrinsics), width, height) for R in frames) for frames, ref in arcs(count, seed)]
    return np.mean(whole)


def test_views_of_2048_by_1024_cover_98_of_a_hundred_arcs():
    assert cover(2048, 1024, 500) == pytest.approx(0.9805, abs=0.02)  # three times the spread of 500 draws


@pytest.mark.parametrize(("width", "height"), [(1500, 1000), (1600, 1200), (1000, 1500)])
def test_photos_of_usual_shape_cover_every_arc(width, height):
    assert cover(width, height, 150) == 1


def test_the_corners_decide_to_the_last_pixel():
    shift = np.array([[1, 0, 0.0], [0, 1, 0], [0, 0, 1]])
    assert covers(shift, 512, 512, 512, 512)
    assert not covers(shift, 511, 512, 512, 512)


def test_a_photo_behind_the_camera_covers_nothing():
    R = camera(0, 20)
    assert not covers(homography(camera(180, 20), R, K(), K_bg(2048, 1024)), 2048, 1024)


def smooth(height, width):
    y, x = np.mgrid[:height, :width]
    return np.stack([127 + 100 * np.sin(x / 150), 127 + 100 * np.cos(y / 110), 127 + 100 * np.sin((x + y) / 170)], -1).round().astype(np.uint8)


def test_a_smooth_photo_comes_out_as_opencvs_plain_warp_gives_it():
    photo = smooth(1024, 2048)
    H = homography(camera(20, 25), camera(0, 22), K(), K_bg(2048, 1024))
    assert np.abs(warp(photo, H).astype(int) - cv2.warpPerspective(photo, H, (512, 512))).max() <= 2


def test_fine_stripes_at_the_edge_of_a_photo_are_averaged():
    photo = np.zeros((1024, 2048, 3), np.uint8)
    photo[:, ::2] = 200
    H = homography(camera(33, 22), camera(0, 22), K(), K_bg(2048, 1024))
    plain = cv2.warpPerspective(photo, H, (512, 512))
    ours = warp(photo, H)
    ratios = [ours[:, columns].std() / plain[:, columns].std() for columns in (slice(0, 32), slice(-32, None))]
    assert reduction(H) > 2 and min(ratios) < 1 / 2, "on the side where the photo is reduced"


def seen(back, u, v):
    """Return the photo pixels (2, n) that frame pixels see."""
    x, y, z = back @ np.stack([u, v, np.ones_like(u)])
    return np.stack([x / z, y / z])


def test_no_pixel_is_reduced_more_than_reduction_says():
    for frames, ref in arcs(20, 3):
        H = homography(frames[0], ref, K(), K_bg(2048, 1024))
        back, most = np.linalg.inv(H), reduction(H)
        u, v = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 511, 9), np.linspace(0, 511, 9)))
        steps = np.array([[1e-4, 0], [-1e-4, 0], [0, 1e-4], [0, -1e-4]])
        right, left, low, high = (seen(back, u + du, v + dv) for du, dv in steps)
        jacobian = np.stack([(right - left) / 2e-4, (low - high) / 2e-4], -1).transpose(1, 0, 2)
        assert np.linalg.norm(jacobian, 2, axis=(1, 2)).max() <= most * 1.0001


def test_a_frame_that_is_not_covered_is_refused():
    H = homography(camera(90, 22), camera(0, 22), K(), K_bg(2048, 1024))
    with pytest.raises(ValueError, match="cover"):
        warp(np.zeros((1024, 2048, 3), np.uint8), H)


def average_of(scene, H, n=8):
    """Return the mean of n x n samples of a scene for each frame pixel, H from scene pixels: float32, from OpenCV's bilinear warp."""
    fine = np.array([[n, 0, (n - 1) / 2], [0, n, (n - 1) / 2], [0, 0, 1]]) @ H
    many = cv2.warpPerspective(scene.astype(np.float32), fine, (512 * n, 512 * n), borderMode=cv2.BORDER_REPLICATE)
    return many.reshape(512, n, 512, n, 3).mean((1, 3))


@pytest.mark.parametrize("azimuth_deg", [0, 15, 30])
def test_a_frame_is_nearer_to_the_scene_than_one_sample_a_pixel_is(azimuth_deg):
    noise = np.random.default_rng(0).integers(0, 256, (2048, 4096, 3), np.uint8)
    scene = cv2.GaussianBlur(noise, (0, 0), 1.0)
    photo = scene.reshape(1024, 2, 2048, 2, 3).mean((1, 3)).round().astype(np.uint8)
    H = homography(camera(azimuth_deg, 22), camera(0, 22), K(), K_bg(2048, 1024))
    truth = average_of(scene, H @ np.array([[0.5, 0, -0.25], [0, 0.5, -0.25], [0, 0, 1]]))
    ways = [cv2.warpPerspective(photo, H, (512, 512), flags=flags) for flags in (cv2.INTER_LINEAR, cv2.INTER_CUBIC)]
    ours, linear, cubic = (np.sqrt(((seen - truth) ** 2).mean()) for seen in (warp(photo, H), *ways))
    assert ours < linear and ours < cubic
