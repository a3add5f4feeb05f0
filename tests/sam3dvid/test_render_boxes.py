"""Where objects are in a frame, by hand: a camera of 10 x 10 pixels at the origin, focal length 10, that looks along +z."""

from __future__ import annotations

import numpy as np
import pytest

from sam3dvid.render.boxes import MARGIN_PX, Seen, around, around_pixels, find_object, grown, hidden_pixels, inside

K = np.array([[10.0, 0.0, 4.5], [0.0, 10.0, 4.5], [0.0, 0.0, 1.0]])
WIDE = np.array([[10.0, 0.0, 49.5], [0.0, 10.0, 49.5], [0.0, 0.0, 1.0]])


def find(points, K=K, size=10):
    return find_object(np.array(points, float), np.eye(4), K, size, size)


def test_a_box_holds_the_pixels_that_vertices_fall_into_and_a_margin():
    # u = 49.5 + 10 * (-1, 2) = 39.5, 69.5: pixels 40 (39.5 is its left edge) to 70; v = 49.5 + 10 * (0.3, 0.52) = 52.5, 54.7: pixels 53 to 55
    seen = find([(-1, 0.3, 1), (2, 0.52, 1)], WIDE, 100)
    assert seen.box == (40 - MARGIN_PX, 71 + MARGIN_PX, 53 - MARGIN_PX, 56 + MARGIN_PX)


def test_far_is_the_largest_z_in_the_camera():
    T_cw = np.eye(4)
    T_cw[2, 3] = 5.0
    assert find_object(np.array([(0.0, 0.0, 1.0), (0.0, 0.0, 2.0)]), T_cw, K, 10, 10).far == 7.0


def test_a_box_is_cut_to_the_frame():
    assert find([(-1, -1, 1), (1, 1, 1)]).box == (0, 10, 0, 10)


def test_an_object_beside_the_frame_has_no_box():
    assert find([(5, 0, 1), (6, 0, 1)]).box is None


def test_an_object_that_reaches_behind_the_camera_has_the_whole_frame():
    assert find([(0, 0, -1), (0.01, 0, 1)]).box == (0, 10, 0, 10)


def test_an_object_behind_the_camera_has_no_box():
    assert find([(0, 0, -1), (0, 0, -2)]).box is None


def test_the_box_around_boxes_leaves_out_what_is_not_there():
    assert around([None, (1, 3, 4, 6), (2, 9, 5, 6)]) == (1, 9, 4, 6) and around([None]) is None


def test_a_margin_ends_at_the_frame():
    assert grown((1, 3, 4, 9), 2, 10, 10) == (0, 5, 2, 10)


def test_the_box_around_pixels_is_the_smallest():
    chosen = np.zeros((5, 6), bool)
    chosen[1, 4] = chosen[3, 2] = True
    assert around_pixels(chosen) == (2, 5, 1, 4) and around_pixels(np.zeros((5, 6), bool)) is None
    assert chosen[inside((2, 5, 1, 4))].shape == (3, 3)


MASK = np.array([[0, 1, 2, 2]], np.uint8)
DEPTH = np.array([[np.nan, 1.0, 2.0, 4.0]], np.float32)


@pytest.mark.parametrize(
    ("k", "box", "far", "expected"),
    [
        (1, (0, 4, 0, 1), 3.0, [0, 0, 1, 0]),  # of 2's pixels only the one that is nearer than 1's far end
        (1, (0, 4, 0, 1), 9.0, [0, 0, 1, 1]),
        (1, (0, 4, 0, 1), 2.0, [0, 0, 1, 0]),  # as far as 1's far end: float32 may have moved either
        (1, (0, 4, 0, 1), 2.0 * (1 - 5e-6), [0, 0, 1, 0]),
        (1, (0, 4, 0, 1), 2.0 * (1 - 2e-5), [0, 0, 0, 0]),
        (1, (0, 3, 0, 1), 9.0, [0, 0, 1, 0]),  # only within its box
        (2, (0, 4, 0, 1), 9.0, [0, 1, 0, 0]),
        (3, (0, 4, 0, 1), 0.5, [0, 0, 0, 0]),  # wholly in front of what is seen: it would show
        (3, None, 9.0, [0, 0, 0, 0]),
    ],
)
def test_only_what_another_object_may_hide_is_not_settled(k, box, far, expected):
    assert hidden_pixels(k, Seen(box, far), MASK, DEPTH).astype(int).tolist() == [expected]
