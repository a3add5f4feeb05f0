"""T3's numbers, each from both sides: with measures written by hand, and with plates that cover whole pixels."""

import numpy as np
import pytest
import trimesh

from sam3dvid.validate import diagnosis
from sam3dvid.validate.diagnosis import Frame
from sam3dvid.validate.geometry import Geometry
from sam3dvid.validate.glb import Mesh
from sam3dvid.validate.measures import Measures
from sam3dvid.validate.report import Found
from sam3dvid.validate.run import look_at_share
from sam3dvid.validate.scene import Scene, edge_px
from sam3dvid.validate.schema import Size

SIDE, FOCAL, Z, SCALE = 32, 64.0, 8.0, 0.5
"""Of pictures, px; of the camera, px; of the plates, scene units: a canonical unit is 4 px."""


def plate(*boxes):
    """Return a flat mesh that covers these pixels of a picture: (first_u, end_u, first_v, end_v), ends excluded."""
    vertices, triangles = [], []
    for number, box in enumerate(boxes):
        u, v = (np.array(box).reshape(2, 2) - SIDE / 2) * Z / FOCAL / SCALE
        vertices += [(u[0], v[0], 0.0), (u[1], v[0], 0.0), (u[1], v[1], 0.0), (u[0], v[1], 0.0)]
        triangles += [(4 * number, 4 * number + 1, 4 * number + 2), (4 * number, 4 * number + 2, 4 * number + 3)]
    return Mesh(np.array(vertices), np.array(triangles, np.int64))


def scene_of(*meshes, frames=1, R_wo=None):
    """Return a scene of meshes before a camera at the origin, all at one place."""
    count = len(meshes)
    K = np.array([[FOCAL, 0.0, (SIDE - 1) / 2], [0.0, FOCAL, (SIDE - 1) / 2], [0.0, 0.0, 1.0]])
    R = np.stack([np.eye(3)] * count) if R_wo is None else R_wo
    places, scales = np.full((count, 3), (0.0, 0.0, Z)), np.full(count, SCALE)
    return Scene(meshes, np.stack([np.eye(4)] * frames), R, places, scales, K, Size(frames, SIDE, SIDE))


def frame_of(scene, owner=None):
    casts = [scene.cast(i, scene.pose(0, i)) for i in range(len(scene.casters))]
    return Frame(scene, 0, casts, np.zeros((SIDE, SIDE), np.uint8) if owner is None else owner)


def pixels(*boxes):
    """Return the mask of boxes of pixels."""
    mask = np.zeros((SIDE, SIDE), bool)
    for first_u, end_u, first_v, end_v in boxes:
        mask[first_v:end_v, first_u:end_u] = True
    return mask


def measured(exact=True, **changes):
    """Return T3's faults of a clip of 10 frames of one object, whose measures are given."""
    found = Found()
    nothing = np.zeros(0)
    geometry = Geometry(found, "clip", Scene([], np.eye(4)[None], nothing, nothing, nothing, np.eye(3), Size(10, SIDE, SIDE)), exact)
    geometry.measures = Measures.empty("clip", 10, 1)
    geometry.measures.wrong_px[:], geometry.measures.edge_px[:] = 0, 1000
    for kind, wrong in changes.pop("wrong", {}).items():
        geometry.measures.wrong_px[3, 0, kind] = wrong
    geometry.measures.controls.update(changes)
    geometry.close()
    return [problem.found for _, problem in found.told()]


@pytest.mark.parametrize("kind", [0, 1], ids=["silhouette", "visible mask"])
def test_an_exact_clip_may_have_a_thousandth_wrong_of_either_mask_and_no_more(kind):
    assert measured(wrong={kind: 10}) == []
    (said,) = measured(wrong={kind: 11})
    assert said.startswith(f"{('silhouette', 'visible mask')[kind]}s off by 0.00110 ")


def test_masks_are_pooled_in_exact_clips_alone():
    assert measured(exact=False, wrong={0: 40, 1: 40}) == []


def share_told(wrong):
    """Return what is told of 100 object-frames with 1000 pixels at the edge, of which so many have 15 wrong."""
    found, measures = Found(), Measures.empty("clip", 100, 1)
    measures.wrong_px[:], measures.edge_px[:] = 14, 1000
    measures.wrong_px[:wrong] = 15
    look_at_share(found, [measures])
    return [problem.found for _, problem in found.told()]


def test_99_of_100_object_frames_must_be_exact():
    assert share_told(1) == []
    assert share_told(2) == ["98.00% of object-frames with a mismatch of at most 0.014"]


def test_half_a_pixel_that_fits_to_exactly_5_hundredths_is_blind():
    assert measured(half_pixel=[0.05, 0.0501]) == []
    assert measured(half_pixel=[0.05, 0.04]) == ["blind: a cast with the principal point half a pixel off fits too, to 0.0500"]


def test_a_control_that_fits_to_exactly_5_hundredths_is_unseen():
    measures = Measures.empty("clip", 1, 1)
    measures.controls.update(turned_x=[0.05], turned_y=[0.04, 0.0501])
    assert measures.unseen() == ["turned_x"]


def looked(scene, mask=None, whole=None, depth=None, exact=False):
    """Return what T3 tells of masks and depth of a frame with one object, which are right where they are not given, and what it measured."""
    found = Found()
    geometry = Geometry(found, "clip", scene, exact)
    (cast,) = frame_of(scene).casts
    right, z = np.zeros((SIDE, SIDE), bool), np.full((SIDE, SIDE), np.nan, np.float32)
    right[cast.rows, cast.columns], z[cast.rows, cast.columns] = cast.seen, np.where(cast.seen, cast.z, np.nan)
    mask, whole, depth = (given if given is not None else true for given, true in ((mask, right.astype(np.uint8)), (whole, right), (depth, z)))
    geometry.look(0, mask, [whole], depth)
    return [problem.found for _, problem in found.told()], geometry.measures


SIX = (13, 19, 13, 19)
"""A square of 6 x 6 px, with 20 of them at its edge."""


@pytest.mark.parametrize(("wrong", "faults"), [(1, 0), (2, 1)])
@pytest.mark.parametrize("what", ["silhouette", "visible mask"])
def test_a_mask_with_20_pixels_at_its_edge_may_have_1_wrong_and_not_2(what, wrong, faults):
    spoilt = pixels(SIX, (0, wrong, 0, 1))
    said, _ = looked(scene_of(plate(SIX)), **({"whole": spoilt} if what == "silhouette" else {"mask": spoilt.astype(np.uint8)}))
    assert edge_px(pixels(SIX)) == 20
    assert [text.startswith(f"{what} off by 2 px, 0.1000") for text in said] == [True] * faults


def test_a_few_wild_pixels_of_depth_are_no_fault():
    depth = np.where(pixels(SIX), np.float32(Z), np.float32(np.nan))
    depth[13, 13] = 100.0
    said, measures = looked(scene_of(plate(SIX)), depth=depth)
    assert said == [] and measures.depth[0, 0] < 1e-6


def test_more_than_a_twentieth_of_wild_pixels_are_a_fault_that_counts_them():
    depth = np.where(pixels(SIX), np.float32(Z), np.float32(np.nan))
    depth[13:15, 13] = 100.0
    (said,), measures = looked(scene_of(plate(SIX)), depth=depth)
    assert said.startswith("depth off by more than 0.005 s in 2 of 36 px, by up to ") and measures.depth[0, 0] < 1e-6


@pytest.mark.parametrize(("exact", "limit"), [(True, 5e-5), (False, 5e-4)], ids=["exact", "usual"])
def test_depth_may_be_off_by_its_limit_and_no_more(exact, limit):
    scene, z = scene_of(plate(SIX)), np.where(pixels(SIX), Z, np.nan)
    assert looked(scene, depth=(z + 0.95 * limit * SCALE).astype(np.float32), exact=exact)[0] == []
    (said,) = looked(scene, depth=(z + 1.05 * limit * SCALE).astype(np.float32), exact=exact)[0]
    assert said.startswith("depth off by ")


# the axis along which a round bar lies, and the turn that brings the other one of x and y into the line of sight
BARS = {"turned_x": ((0, 1, 0), 0, (1, 0, 0)), "turned_y": ((1, 0, 0), 1, (0, -1, 0))}


@pytest.mark.parametrize("unseen", BARS)
def test_a_round_bar_shows_no_turn_about_its_own_axis_and_one_about_the_axis_across(unseen):
    across, axis, about = BARS[unseen]
    bar = trimesh.creation.cylinder(0.8, 5.0, sections=512)
    along = np.eye(3)[axis]
    bar.apply_transform(trimesh.geometry.align_vectors((0, 0, 1), along))
    R_wo = trimesh.transformations.rotation_matrix(np.pi / 2, about)[:3, :3]
    assert np.allclose(R_wo @ across, (0, 0, 1))
    _, measures = looked(scene_of(Mesh(np.array(bar.vertices), np.array(bar.faces, np.int64)), R_wo=R_wo[None]))
    assert measures.unseen() == [unseen]


def test_controls_are_cast_in_another_frame_for_each_object(monkeypatch):
    cast = []
    monkeypatch.setattr(Geometry, "_control", lambda self, t, i, whole: cast.append((t, i)))
    boxes = [(2, 8, 2, 8), (12, 18, 2, 8), (22, 28, 2, 8)]
    scene = scene_of(*(plate(box) for box in boxes), frames=6)
    geometry = Geometry(Found(), "clip", scene)
    for t in range(6):
        geometry.look(t, None, [pixels(box) for box in boxes], None)
    assert cast == [(1, 0), (3, 1), (5, 2)]


LARGE, BUMP = (5, 27, 5, 27), (10, 14, 27, 28)
"""A square of 22 x 22 px, with 84 at its edge, so that 4 may be wrong; and 4 px below it."""


@pytest.mark.parametrize(("left", "said"), [(1, ": it fits object 2, as if they were swapped"), (2, ""), (4, "")])
def test_a_silhouette_of_which_a_cause_leaves_more_than_a_quarter_has_none(left, said):
    # the other object has the bump too, but not the pixels in the corner
    frame = frame_of(scene_of(plate(LARGE), plate(LARGE, BUMP)))
    assert diagnosis.of_silhouette(frame, 0, pixels(LARGE, BUMP, (0, left, 0, 1))) == said


@pytest.mark.parametrize(("left", "said"), [(2, ": it is shrunk by one pixel all around"), (6, "")])
def test_a_silhouette_that_is_shrunk_by_half_of_what_is_wrong_is_not_called_so(left, said):
    # it fills the picture but for a hole of 2 x 2 px, around which 8 are missing
    sides = [(0, 15, 0, 32), (17, 32, 0, 32), (15, 17, 0, 15), (15, 17, 17, 32)]
    shrunk = pixels(*sides) & ~pixels((14, 18, 15, 17), (15, 17, 14, 18), (2, 2 + left, 2, 3))
    assert diagnosis.of_silhouette(frame_of(scene_of(plate(*sides))), 0, shrunk) == said


@pytest.mark.parametrize(("left", "said"), [(2, ": they fit its whole silhouette, as if nothing hid it"), (4, "")])
def test_visible_pixels_of_which_the_silhouette_leaves_more_than_a_quarter_have_no_cause(left, said):
    owner = pixels(LARGE).astype(np.uint8)
    owner[5, 5:13] = 2
    own = pixels(LARGE) & ~pixels((10, 10 + left, 15, 16))
    assert diagnosis.of_visible(frame_of(scene_of(plate(LARGE)), owner), 0, own) == said


@pytest.mark.parametrize(
    ("spread", "named"),
    [((2.5e-4, 3.5e-4), True), ((0.0, 6e-4), False), ((0.9, 1.1), False)],
    ids=["nearly all", "half", "beyond the limit"],
)
def test_a_depth_has_a_cause_that_leaves_a_quarter_at_most_and_keeps_the_limit(spread, named):
    # a quarter of the error's spread is what a constant leaves: 2.5e-5, 1.5e-4 of 3e-4, .05 of 1; the limit is 2.5e-4
    truth = np.full(101, Z)
    at = np.full((101, 2), SIDE // 2, np.int64)
    said = diagnosis.of_depth(frame_of(scene_of(plate(LARGE))), 0, truth + np.linspace(spread[0], spread[1], 101), truth, at)
    assert bool(said) is named
