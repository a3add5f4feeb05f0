"""Where T2 draws its lines: what lies on one is in order, what lies beyond it by the least amount is not."""

import numpy as np
import pytest

from sam3dvid.conventions import frame_K
from sam3dvid.validate.background import Background
from sam3dvid.validate.frames import Seen
from sam3dvid.validate.meta import Meta
from sam3dvid.validate.report import Found
from sam3dvid.validate.schema import Size
from sam3dvid.validate.visibility import look_at_cover, look_at_visibility


def told(look, *arguments):
    found = Found()
    look(found, "clip", *arguments)
    return [(problem.where, problem.found) for _, problem in found.told()]


def faults_of_counts(visible, amodal, size):
    counts = {"visible_px": [[visible]], "amodal_px": [[amodal]], "visible_frac": [[visible / amodal]]}
    stated = {key: np.array(value, float) for key, value in counts.items()}
    return told(look_at_visibility, Seen(np.array([[visible]]), np.array([[amodal]])), Size(1, size, size), Meta(visibility=stated))


@pytest.mark.parametrize(("size", "least"), [(512, 524), (256, 131), (64, 8)])
def test_an_object_may_show_exactly_the_least_pixels_and_no_fewer(size, least):
    assert faults_of_counts(least, least, size) == []
    assert faults_of_counts(least - 1, least, size) == [("clip: object 1 in frame 0", f"{least - 1} visible pixels")]


def test_an_object_may_show_exactly_a_tenth_of_itself_and_no_less():
    assert faults_of_counts(600, 6000, 512) == []
    assert faults_of_counts(600, 6001, 512) == [("clip: object 1 in frame 0", "0.1000 of its 6001 pixels visible")]


def faults_of_a_photo(width, height, u, v):
    """Look at a frame of 64 x 64 before a photo of its own scale, whose pixel (u, v) its first corner is."""
    K_bg = frame_K(64, 64)
    K_bg[:2, 2] = 31.5 + u, 31.5 + v
    meta = Meta(reference=np.eye(4), background=Background(width, height, K_bg, {}))
    return told(look_at_cover, np.eye(4)[None], Size(1, 64, 64), meta)


def test_a_frame_may_end_exactly_where_the_photo_does():
    assert faults_of_a_photo(64, 64, 0.0, 0.0) == []


@pytest.mark.parametrize(("u", "v"), [(-0.001, 10.0), (36.001, 10.0), (10.0, -0.001), (10.0, 16.001)], ids=["left", "right", "above", "below"])
def test_a_corner_a_thousandth_of_a_pixel_beyond_the_photo_is_not_covered(u, v):
    ((where, found),) = faults_of_a_photo(100, 80, u, v)
    assert where == "clip: background in frame 0" and found.startswith("a corner at (")
