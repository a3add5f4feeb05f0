"""Where voxels land, and when they do not fit their silhouette, against projections written out here."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sam3dvid.colours import PALETTE
from sam3dvid.preview.clip import read_clip
from sam3dvid.preview.panels import paint_axes, paint_voxels
from sam3dvid.preview.project import HALF_DIAGONAL, LEAST_PX, MOST_PX, ROUNDING_PX, bare, strays, voxels_in_frame
from sam3dvid.preview.survey import survey_clip
from sam3dvid.preview.window import whole
from tests.sam3dvid.datasets import CLIPS, write_dataset

CLIP = "clips/eval/00000000"
SIZE = 256


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("preview"), CLIPS[:1], size=SIZE)


@pytest.fixture(scope="module")
def clip(dataset):
    return read_clip(dataset / CLIP)


def camera_points(dataset, t, k, points):
    """Return points of an object in the camera, by the loader of the format's section 8: (V, 3)."""
    cameras, objects = (json.loads((dataset / CLIP / name).read_text()) for name in ("cameras.json", "objects.json"))
    T_cw, one = np.array(cameras["frames"][t]["T_cw"]), objects[k - 1]
    R_co, t_co = T_cw[:3, :3] @ np.array(one["R_wo"]), T_cw[:3, :3] @ np.array(one["t_wo"]) + T_cw[:3, 3]
    return (points * np.array(one["s_wo"])) @ R_co.T + t_co


def seen_at(dataset, points_c):
    K = np.array(json.loads((dataset / CLIP / "cameras.json").read_text())["K"])
    return points_c[:, :2] / points_c[:, 2:] @ K[:2, :2].T + K[:2, 2]


@pytest.mark.parametrize(("t", "k"), [(0, 1), (2, 2), (3, 3)])
def test_a_voxel_is_drawn_on_the_pixel_where_an_independent_projection_puts_it(dataset, clip, t, k):
    centres = clip.objects[k - 1].centres
    frame = clip.frame(t)
    places = np.rint(seen_at(dataset, camera_points(dataset, t, k, centres))).astype(int)
    # one well inside of the silhouette, where no edge is drawn over it
    deep = [n for n, (x, y) in enumerate(places) if frame.amodal[k - 1][y - 1 : y + 2, x - 1 : x + 2].all()]
    chosen = deep[len(deep) // 2]
    alone = [replace(one, centres=centres[chosen : chosen + 1] if one.k == k else np.empty((0, 3))) for one in clip.objects]
    lone = replace(clip, objects=tuple(alone))
    x, y = places[chosen]
    drawn = np.argwhere((paint_voxels(lone, t, frame, survey_clip(lone)) == PALETTE[k - 1]).all(axis=-1))
    assert drawn.tolist() == [[y, x]]


def test_dots_are_the_projections_of_all_occupied_voxels(dataset, clip):
    grid = np.load(dataset / "assets/eval/corner_eval-1/voxels.npy")
    expected = camera_points(dataset, 1, 2, (np.argwhere(grid) + 0.5) / 64 - 0.5)
    dots = voxels_in_frame(clip, 1, clip.objects[1])
    assert np.abs(dots.uv - seen_at(dataset, expected)).max() < 1e-9 and np.abs(dots.z - expected[:, 2]).max() < 1e-12


def test_no_point_of_a_voxel_is_seen_further_from_its_centre_than_is_allowed(dataset, clip):
    rng = np.random.default_rng(0)
    near = replace(clip, K=clip.K * [[9], [9], [1]])  # so near that a voxel is larger than 2 px
    for t, one in ((0, clip.objects[0]), (3, clip.objects[2])):
        way = rng.normal(size=one.centres.shape)
        points = one.centres + HALF_DIAGONAL * way / np.linalg.norm(way, axis=1, keepdims=True)
        allowed = voxels_in_frame(near, t, one).allowed_px
        apart = 9 * np.linalg.norm(
            seen_at(dataset, camera_points(dataset, t, one.k, points)) - seen_at(dataset, camera_points(dataset, t, one.k, one.centres)), axis=1
        )
        assert allowed.min() > LEAST_PX
        assert (apart <= allowed - ROUNDING_PX).all() and apart.max() > 0.9 * (allowed - ROUNDING_PX).max()


@pytest.mark.parametrize("moved", [(0.0, 0.0, 0.0), (0.2, 0.0, 0.0), (-0.1, 0.1, 0.0), (2.0, 2.0, 0.0)])
def test_strays_are_the_voxels_of_the_frame_further_from_the_silhouette_than_allowed(clip, moved):
    one, silhouette = replace(clip.objects[0], t_wo=clip.objects[0].t_wo + moved), clip.frame(0).amodal[0]
    dots = voxels_in_frame(clip, 0, one)
    places = np.rint(dots.uv).astype(int)
    within = ((places >= 0) & (places < SIZE)).all(axis=1)
    rows, columns = np.nonzero(silhouette)
    apart = [np.hypot(columns - x, rows - y).min() for x, y in places]
    expected = within & (apart > dots.allowed_px)
    assert np.array_equal(strays(dots, silhouette), expected)


@pytest.mark.parametrize("moved", [(0.0, 0.0, 0.0), (0.2, 0.0, 0.0), (-0.1, 0.1, 0.0)])
def test_bare_are_the_pixels_of_the_silhouette_further_from_all_voxels_than_allowed(clip, moved):
    one, silhouette = replace(clip.objects[0], t_wo=clip.objects[0].t_wo + moved), clip.frame(0).amodal[0]
    dots = voxels_in_frame(clip, 0, one)
    places = np.unique(np.rint(dots.uv).astype(int), axis=0)
    far = [[y, x] for y, x in np.argwhere(silhouette) if np.hypot(*(places - (x, y)).T).min() > dots.allowed_px.max()]
    assert np.argwhere(bare(dots, silhouette)).tolist() == far


def test_voxels_behind_the_camera_are_strays(clip):
    away = replace(clip.objects[0], t_wo=-3 * clip.T_cw[0, :3, :3].T @ clip.T_cw[0, :3, 3])
    dots = voxels_in_frame(clip, 0, away)
    assert (dots.z == 0).all() and strays(dots, clip.frame(0).amodal[0]).all()


def test_an_object_around_the_camera_is_allowed_no_more_than_32_px(clip):
    around = replace(clip.objects[0], t_wo=-clip.T_cw[0, :3, :3].T @ clip.T_cw[0, :3, 3])
    dots = voxels_in_frame(clip, 0, around)
    assert dots.allowed_px.max() == MOST_PX == 32 and strays(dots, clip.frame(0).amodal[0]).any()


def test_voxels_outside_of_the_frame_are_no_strays_but_leave_the_silhouette_bare(clip):
    silhouette = clip.frame(0).amodal[0]
    aside = voxels_in_frame(clip, 0, replace(clip.objects[0], t_wo=clip.objects[0].t_wo + 8 * clip.T_cw[0, 0, :3]))
    assert not strays(aside, silhouette).any() and np.array_equal(bare(aside, silhouette), silhouette)


def test_every_voxel_of_an_object_without_a_silhouette_is_a_stray(clip):
    dots = voxels_in_frame(clip, 0, clip.objects[0])
    assert strays(dots, np.zeros((SIZE, SIZE), bool)).all() and not bare(dots, np.zeros((SIZE, SIZE), bool)).any()


def test_voxels_and_silhouettes_of_a_good_clip_agree(clip):
    survey = survey_clip(clip)
    assert survey.fits and survey.verdict() == []


def test_a_pose_taken_from_the_next_frame_is_counted_in_that_frame_alone(clip):
    T_cw = clip.T_cw.copy()
    T_cw[1] = T_cw[2]
    survey = survey_clip(replace(clip, T_cw=T_cw))
    assert survey.strays[1].sum() > 0 and survey.strays[[0, 2, 3]].sum() == 0
    assert survey.verdict()[0].startswith(f"{survey.strays.sum():,} of {survey.voxels:,} voxels outside")


def test_an_object_drawn_too_small_is_counted_though_no_voxel_strays(clip):
    least = min(clip.objects, key=lambda one: one.s_wo[0])
    small = tuple(replace(one, s_wo=one.s_wo / 3) if one.k == least.k else one for one in clip.objects)
    survey = survey_clip(replace(clip, objects=small))
    others = [one.k - 1 for one in clip.objects if one.k != least.k]
    assert survey.bare[:, least.k - 1].min() > 0 and survey.bare[:, others].sum() == 0


def test_exchanged_objects_are_counted(clip):
    first, second, third = clip.objects
    exchanged = (replace(first, t_wo=second.t_wo), replace(second, t_wo=first.t_wo), third)
    assert (survey_clip(replace(clip, objects=exchanged)).strays[:, :2] > 0).all()


def test_visible_and_whole_areas_are_counted_in_the_masks(dataset, clip):
    from PIL import Image

    survey = survey_clip(clip)
    for t in range(4):
        mask = np.asarray(Image.open(dataset / CLIP / f"mask_visible/{t:03d}.png"))
        assert survey.visible_px[t].tolist() == [(mask == k).sum() for k in (1, 2, 3)]
    pixels, t, fraction, u = survey.least_visible()[0]
    assert pixels == survey.visible_px[:, 0].min() == survey.visible_px[t, 0]
    assert fraction == (survey.visible_px[:, 0] / survey.amodal_px[:, 0]).min() == survey.visible_px[u, 0] / survey.amodal_px[u, 0]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_end_of_an_axis_is_where_an_independent_projection_puts_it(dataset, clip, axis):
    frame, k, larger = clip.frame(2), 2, 6
    alone = replace(clip, objects=(replace(clip.objects[k - 1], s_wo=larger * clip.objects[k - 1].s_wo),))
    empty = replace(frame, amodal=frame.amodal[:1] & False, rgb=frame.rgb // 255)
    picture = paint_axes(alone, 2, empty, whole(clip.size)).astype(int)
    x, y = np.rint(seen_at(dataset, camera_points(dataset, 2, k, larger * np.eye(3)[axis : axis + 1] / 2))[0]).astype(int)
    assert picture[y, x].argmax() == axis and np.ptp(picture[y, x]) > 100


def test_the_worlds_up_is_upright_in_a_camera_without_roll(dataset, clip):
    frame = clip.frame(0)
    tiny = [replace(one, s_wo=one.s_wo * 1e-6) for one in clip.objects[:2]]
    far = replace(clip, objects=(*tiny, replace(clip.objects[2], s_wo=np.full(3, 6.0))))
    picture = paint_axes(far, 0, replace(frame, amodal=frame.amodal & False, rgb=frame.rgb * 0), whole(clip.size))
    # the camera looks at the middle between the objects: up starts there
    x_c = clip.T_cw[0, :3, :3] @ (np.mean([one.t_wo for one in clip.objects], axis=0) + [0, 0, 1]) + clip.T_cw[0, :3, 3]
    ((x, y),) = np.rint(seen_at(dataset, x_c[None])).astype(int)
    assert abs(x - 127.5) < 1 and y < 90
    assert (picture[y, x] == 255).all() and (picture[(y + 127) // 2, x] == 255).all()
