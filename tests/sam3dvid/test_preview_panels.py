"""Panels of a clip: what must not be is red, depth has one scale, and windows show what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sam3dvid.colours import PALETTE
from sam3dvid.preview.clip import read_clip
from sam3dvid.preview.panels import ALARM, HATCH, edge, paint_depth, paint_foreground, paint_masks, paint_voxels
from sam3dvid.preview.sheet import INK, RED, object_lines
from sam3dvid.preview.survey import survey_clip
from sam3dvid.preview.window import Box, box_of, fit, whole, window_of
from sam3dvid.validate.schema import Size
from tests.sam3dvid.datasets import CLIPS, write_dataset


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return read_clip(write_dataset(tmp_path_factory.mktemp("panels"), CLIPS[:1]) / CLIPS[0].path)


@pytest.fixture(scope="module")
def survey(clip):
    return survey_clip(clip)


def red(picture):
    return (picture == ALARM).all(axis=-1)


def spoil(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


def test_nothing_of_a_good_clip_is_red(clip, survey):
    for t in range(4):
        frame = clip.frame(t)
        for picture in (paint_masks(clip, frame), paint_depth(frame, survey), paint_voxels(clip, t, frame, survey)):
            assert not red(picture).any()


def test_a_mask_value_above_n_is_red(clip):
    frame = clip.frame(0)
    picture = paint_masks(clip, replace(frame, mask=spoil(frame.mask, (5, 7), 4)))
    assert np.argwhere(red(picture)).tolist() == [[5, 7]]


def test_a_visible_pixel_outside_of_its_silhouette_is_red(clip):
    frame = clip.frame(0)
    picture = paint_masks(clip, replace(frame, mask=spoil(frame.mask, (5, 7), 2)))
    assert np.argwhere(red(picture)).tolist() == [[5, 7]]


def test_a_pixel_of_an_object_is_half_its_own_colour_and_half_the_objects(clip):
    frame = clip.frame(0)
    picture = paint_masks(clip, frame).astype(float)
    inside = (frame.mask == 1) & ~np.any([edge(one) for one in frame.amodal], axis=0)
    assert inside.any() and np.abs(picture - (frame.rgb / 2 + np.array(PALETTE[0]) / 2))[inside].max() <= 0.5
    assert np.array_equal(picture[~frame.amodal.any(axis=0)], frame.rgb[~frame.amodal.any(axis=0)])


def test_an_edge_touches_what_is_outside_but_not_the_frames_own_edge():
    mask = np.zeros((6, 6), bool)
    mask[:4, 1:5] = True
    assert np.argwhere(edge(mask)).tolist() == [[0, 1], [0, 4], [1, 1], [1, 4], [2, 1], [2, 4], [3, 1], [3, 2], [3, 3], [3, 4]]


@pytest.mark.parametrize("value", [np.inf, -1.0, 0.0, np.nan])
def test_a_depth_that_an_object_cannot_have_is_red(clip, survey, value):
    frame = clip.frame(0)
    place = tuple(np.argwhere(frame.mask > 0)[0])
    picture = paint_depth(replace(frame, depth=spoil(frame.depth, place, value)), survey)
    assert np.argwhere(red(picture)).tolist() == [list(place)]


def test_depth_where_no_object_is_is_red(clip, survey):
    frame = clip.frame(0)
    picture = paint_depth(replace(frame, depth=spoil(frame.depth, (5, 7), 3.0)), survey)
    assert np.argwhere(red(picture)).tolist() == [[5, 7]]


def test_nan_is_grey_stripes(clip, survey):
    frame = clip.frame(0)
    pixels = paint_depth(frame, survey)[np.isnan(frame.depth)]
    assert sorted(set(map(tuple, pixels.tolist()))) == [(grey,) * 3 for grey in HATCH]


def test_a_depth_has_the_same_colour_in_every_frame(clip, survey):
    middle, colours = (survey.nearest + survey.farthest) / 2, set()
    for t in range(4):
        frame = clip.frame(t)
        place = tuple(np.argwhere(frame.mask > 0)[t])
        colours.add(tuple(paint_depth(replace(frame, depth=spoil(frame.depth, place, middle)), survey)[place].tolist()))
    assert len(colours) == 1


def test_depth_reaches_from_the_nearest_to_the_farthest_surface_of_the_clip(clip, survey):
    depths = np.stack([clip.frame(t).depth for t in range(4)])
    assert (survey.nearest, survey.farthest) == (np.nanmin(depths), np.nanmax(depths))
    # viridis ends in yellow and in dark blue
    (t, y, x), (u, j, i) = (np.unravel_index(place, depths.shape) for place in (np.nanargmin(depths), np.nanargmax(depths)))
    assert np.abs(paint_depth(clip.frame(int(t)), survey)[y, x] - np.array([253, 231, 37])).max() <= 2
    assert np.abs(paint_depth(clip.frame(int(u)), survey)[j, i] - np.array([68, 1, 84])).max() <= 2


def test_colours_stand_over_a_checkerboard_by_their_alpha():
    rgba = np.zeros((32, 32, 4), np.uint8)
    rgba[..., :3] = (200, 120, 40)
    rgba[0, 0, 3], rgba[0, 1, 3] = 255, 128
    picture = paint_foreground(rgba).astype(int)
    assert picture[0, 0].tolist() == [200, 120, 40]
    assert picture[0, 1].tolist() == [round(value * 128 / 255 + 205 * 127 / 255) for value in (200, 120, 40)]
    assert [picture[y, x, 0] for y, x in ((5, 5), (5, 20), (20, 5), (20, 20))] == [205, 240, 240, 205]


@pytest.mark.parametrize(("size", "pixels", "colour"), [(512, 524, INK), (512, 523, RED), (1024, 2097, INK), (1024, 2096, RED)])
def test_the_line_of_an_object_is_red_that_shows_fewer_pixels_than_the_format_asks_for(clip, survey, size, pixels, colour):
    counts = np.full_like(survey.visible_px, pixels)
    lines = object_lines(replace(clip, size=Size(clip.size.frames, size, size)), replace(survey, visible_px=counts, amodal_px=counts))
    assert [one for _, one, _ in lines] == [colour] * len(clip.objects)


def test_strays_are_red_where_they_are_drawn(clip):
    T_cw = clip.T_cw.copy()
    T_cw[1] = T_cw[2]
    wrong = replace(clip, T_cw=T_cw)
    survey = survey_clip(wrong)
    assert survey.strays[1].any() and red(paint_voxels(wrong, 1, clip.frame(1), survey)).any()


@pytest.mark.parametrize(("height", "width", "shown"), [(64, 64, (256, 256)), (512, 512, (512, 512)), (300, 200, (300, 200)), (1024, 2048, (256, 512))])
def test_frames_are_shown_as_they_are_or_enlarged_by_a_whole_number_or_reduced(height, width, shown):
    assert fit(np.zeros((height, width, 3), np.uint8)).shape == (*shown, 3)
    assert whole(Size(4, width, height)).shown(np.zeros((height, width, 3), np.uint8)).shape == (*shown, 3)


@pytest.mark.parametrize(
    ("needed", "zoom", "box"),
    [
        (Box(200, 220, 300, 280), 4, (186, 186, 314, 314)),
        (Box(0, 0, 60, 60), 7, (0, 0, 73, 73)),
        (Box(450, 100, 512, 300), 2, (256, 72, 512, 328)),
        (Box(10, 10, 500, 500), 1, (0, 0, 512, 512)),
        (Box(0, 0, 0, 0), 1, (0, 0, 512, 512)),
    ],
)
def test_a_window_holds_what_is_needed_with_a_margin_as_large_as_fits(needed, zoom, box):
    window = window_of(Size(), needed)
    assert (window.zoom, (window.box.left, window.box.top, window.box.right, window.box.bottom)) == (zoom, box)


def test_a_point_lies_in_a_window_where_its_pixel_is_shown():
    window = window_of(Size(), Box(200, 220, 300, 280))
    picture = np.zeros((512, 512, 3), np.uint8)
    picture[250, 210] = 255
    rows, columns = np.nonzero(window.shown(picture)[..., 0])
    assert window.place(np.array([210.0, 250.0])).tolist() == [columns.mean(), rows.mean()]


def test_boxes_are_joined_and_an_empty_one_adds_nothing():
    mask = np.zeros((8, 9), bool)
    assert box_of(mask).empty
    mask[2, 3] = mask[5, 7] = True
    assert box_of(mask) == Box(3, 2, 8, 6)
    assert box_of(mask).joined(Box(0, 0, 0, 0)) == Box(0, 0, 0, 0).joined(box_of(mask)) == Box(3, 2, 8, 6)
    assert Box(3, 2, 8, 6).joined(Box(1, 4, 2, 7)) == Box(1, 2, 8, 7)
