"""T3: what fits passes with exact figures, and each way in which masks, depth, poses and meshes may disagree is named for what it is."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import trimesh
from PIL import Image

from sam3dvid.conventions import Orbit, frame_K
from sam3dvid.validate import Choice, diagnosis, run, validate_dataset
from sam3dvid.validate import geometry as geometry_module
from sam3dvid.validate.__main__ import main
from sam3dvid.validate.diagnosis import Frame
from sam3dvid.validate.measures import CONTROLS, MISMATCH, Measures, typical_share
from sam3dvid.validate.scene import edge_px, turn
from sam3dvid.validate.worst import BOTH, CAST, STORED
from tests.sam3dvid import datasets
from tests.sam3dvid.datasets import Clip, Lent, write_dataset
from tests.sam3dvid.miscast import (
    each_depth,
    each_mask,
    grown,
    moved,
    off_centre,
    ray_length,
    recast,
    rotation,
    shots_of,
    turned,
    y_up,
)
from tests.sam3dvid.spoiled import data, flip, put, remove

SIZE = 256
CLIP = Clip("eval", "00000003", (0, 1, 2), "ph_meadow_v0")
T3 = Choice(("T3",), any_size=True)
EXACT = Choice(("T3",), any_size=True, exact=True)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid"), (CLIP,), 4, SIZE)


@pytest.fixture(scope="module")
def lent(valid, tmp_path_factory):
    return Lent(valid, tmp_path_factory.mktemp("lent") / "dataset")


@pytest.fixture
def dataset(lent):
    yield lent.root
    lent.put_right()


def look(root, choice=T3):
    """Return T3's part of the report."""
    return next(part for part in validate_dataset(root, choice).suites if part.suite == "T3")


def told(part):
    return [f"{fault.where}: {fault.found}" for fault in part.faults]


def test_exact_masks_have_no_mismatch_at_all(valid):
    part = look(valid, EXACT)
    assert (part.verdict, told(part)) == ("passed", [])
    assert part.figures["mismatch"]["worst"] == 0.0
    assert part.figures["mismatch"]["share_typical"] == 1.0


def test_exact_depth_is_off_by_float32_alone(valid):
    # z is below 8 and s above .4, so float32 rounds by at most 2^-22 / .4
    assert 0 < look(valid).figures["depth"]["worst"] < 2**-22 / 0.4


def test_every_object_is_looked_at_in_every_frame(valid):
    assert look(valid).figures["object_frames"] == 3 * 4


def swap(one, other):
    def change(mask):
        return np.array([other if v == one else one if v == other else v for v in range(256)], np.uint8)[mask]

    return change


def swap_ids(root):
    for path in sorted((root / CLIP.path / "mask_visible").iterdir()):
        with Image.open(path) as image:
            mask = np.array(image)
        Image.fromarray(swap(1, 2)(mask)).save(path)


def swap_silhouettes(root):
    folder = root / CLIP.path / "mask_amodal"
    (folder / "obj1").rename(folder / "aside")
    (folder / "obj2").rename(folder / "obj1")
    (folder / "aside").rename(folder / "obj2")


def next_frame(root):
    shots = shots_of(root, CLIP)
    recast(root, CLIP, lambda _, t: shots[t + 1], frames=(1,))


def swap_poses(shot, _):
    at = [1, 0, 2]
    return replace(shot, R_co=shot.R_co[at], t_co=shot.t_co[at], s=shot.s[at])


def mirrored(shot, _):
    return replace(shot, R_co=shot.R_co @ np.diag([1, -1, 1]))


def larger(shot, _):
    return replace(shot, s=shot.s * [1, 1, 1.1])


def swap_meshes(root):
    """Let the renderer take each other's mesh for objects 1 and 2."""
    recast(root, replace(CLIP, assets=(1, 0, 2)), lambda shot, _: shot)


def transposed(root):
    cameras, objects = (json.loads((root / CLIP.path / f"{name}.json").read_text()) for name in ("cameras", "objects"))
    R_wo = np.array(objects[2]["R_wo"])

    def change(shot, t):
        R_co = shot.R_co.copy()
        R_co[2] = np.array(cameras["frames"][t]["T_cw"])[:3, :3] @ R_wo.T
        return replace(shot, R_co=R_co)

    recast(root, CLIP, change)


RAYS = ray_length(SIZE, frame_K(SIZE, SIZE))
MASK_FAULTS = {
    "half a pixel": (lambda root: recast(root, CLIP, off_centre(0.5, 0.5)), 1, 0, "it fits a principal point moved by (+0.5, +0.5) px"),
    "half a pixel to the left": (lambda root: recast(root, CLIP, off_centre(-0.5, 0)), 2, 0, "it fits a principal point moved by (-0.5, +0) px"),
    "5 degrees about x": (lambda root: recast(root, CLIP, turned(2, "x", 5)), 2, 0, "turned by about 5 degrees about the axis [1.0, 0.0, 0.0]"),
    "5 degrees about y": (lambda root: recast(root, CLIP, turned(3, "y", -5)), 3, 0, "turned by about 5 degrees about the axis [0.0, -1.0, 0.0]"),
    "moved by .1 s": (lambda root: recast(root, CLIP, moved(1, 0.1, 0)), 1, 0, "it fits the object moved across the view by (+0.1"),
    "y-up mesh": (lambda root: y_up(root, CLIP, 2), 2, 0, "it fits a mesh turned by -90 degrees about x, as one with Y up would be"),
    "mesh turned about z": (lambda root: recast(root, CLIP, turned(1, "z", 90)), 1, 0, "it fits a mesh turned by +90 degrees about z (and so"),
    "mesh mirrored": (lambda root: recast(root, CLIP, mirrored), 1, 0, "it fits a mesh mirrored along y"),
    "object of another size": (lambda root: recast(root, CLIP, larger), 3, 0, "it fits the object 1.1"),
    "pose of the next frame": (next_frame, 1, 1, "it fits the camera of frame 2"),
    "R_wo transposed": (transposed, 3, 0, "it fits R_wo transposed"),
    "silhouettes swapped": (swap_silhouettes, 1, 0, "it fits object 2, as if they were swapped"),
    "poses swapped": (lambda root: recast(root, CLIP, swap_poses), 1, 0, "it fits object 1 at the place of object 2, as if their poses were swapped"),
    "meshes swapped": (swap_meshes, 1, 0, "it fits the mesh of object 2 at this place, as if their meshes were swapped"),
    "silhouettes grown": (lambda root: each_mask(root, CLIP, 3, grown), 3, 0, "it is grown by one pixel all around"),
    "silhouettes shrunk": (lambda root: each_mask(root, CLIP, 3, lambda mask: ~grown(~mask)), 3, 0, "it is shrunk by one pixel all around"),
    "empty silhouettes": (lambda root: each_mask(root, CLIP, 3, np.zeros_like), 3, 0, "it is empty"),
}


@pytest.mark.parametrize("fault", MASK_FAULTS)
def test_a_wrong_silhouette_is_named_with_object_frame_figure_and_cause(fault, dataset):
    spoil, k, t, cause = MASK_FAULTS[fault]
    spoil(dataset)
    part = look(dataset)
    assert part.verdict == "failed"
    line = next(line for line in told(part) if line.startswith(f"{CLIP.path}: object {k} in frame {t}: silhouette off by "))
    figure = re.search(r"off by (\d+) px, ([0-9.]+) for each of (\d+) at its edge", line)
    assert figure is not None
    assert float(figure[2]) == pytest.approx(int(figure[1]) / int(figure[3]), abs=1e-4) and float(figure[2]) > 0.05
    assert cause in line


def test_swapped_numbers_in_the_visible_mask_are_named(dataset):
    swap_ids(dataset)
    lines = told(look(dataset))
    assert len(lines) == 2
    assert lines[0].startswith(f"{CLIP.path}: object 1 in frame 0: visible mask off by ")
    assert "they fit those of object 2, as if their numbers were swapped" in lines[0]


@pytest.fixture
def hiding(tmp_path, monkeypatch):
    """Make a clip seen from the side, where object 2 hides a part of object 3."""
    monkeypatch.setattr(datasets, "orbit_of", lambda clip, center: Orbit(95.0, 4.0, 1.0, 10.0, 1, 4.0, tuple(center.tolist())))
    return write_dataset(tmp_path, (CLIP,), 2, SIZE)


def silhouettes_for_visible(root):
    """Show each object whole in the visible mask, object 3 above all."""
    for path in sorted((root / CLIP.path / "mask_visible").iterdir()):
        with Image.open(path) as image:
            mask = np.array(image)
        with Image.open(root / CLIP.path / "mask_amodal/obj3" / path.name) as image:
            mask[np.array(image) > 0] = 3
        Image.fromarray(mask).save(path)


def test_objects_that_hide_others_fit_exactly(hiding):
    visible_frac = json.loads((hiding / CLIP.path / "meta.json").read_text())["visibility"]["visible_frac"]
    assert 0.3 < visible_frac[0][2] < 0.9
    assert look(hiding).figures["mismatch"]["worst"] == 0.0


def test_a_visible_mask_that_nothing_hides_is_named(hiding):
    silhouettes_for_visible(hiding)
    lines = told(look(hiding))
    line = next(line for line in lines if line.startswith(f"{CLIP.path}: object 3 in frame 0: visible mask off by "))
    assert "they fit its whole silhouette, as if nothing hid it" in line


@pytest.mark.parametrize("k", [1, 2])
def test_the_greatest_fault_of_a_clip_stands_in_the_figures(dataset, k):
    each_mask(dataset, CLIP, k, np.zeros_like)
    at = look(dataset).figures["mismatch"]["worst_at"]
    assert (at["clip"], at["object"], at["what"]) == (CLIP.path, k, "silhouette")


DEPTH_FAULTS = {
    "ray distance": (lambda depth: depth * RAYS, "it fits the distance along the ray instead of z"),
    "z over the ray's length": (lambda depth: depth / RAYS, "it fits z divided by the ray's length"),
    "scaled": (lambda depth: depth * 1.001, "it fits z times 1.001"),
    "offset": (lambda depth: depth + 0.02, "it fits z and 0.02 more"),
}


@pytest.mark.parametrize("fault", DEPTH_FAULTS)
def test_wrong_depth_is_named_for_what_it_is(fault, dataset):
    change, cause = DEPTH_FAULTS[fault]
    each_depth(dataset, CLIP, change)
    lines = told(look(dataset))
    assert lines and all("depth off by" in line and "silhouette" not in line for line in lines)
    assert cause in lines[0]


def test_depth_within_the_limit_passes_and_one_beyond_does_not(dataset):
    # object 2 is the smallest: for it the limit is .000225, for the next .00025
    least = min(shots_of(dataset, CLIP)[0].s)
    each_depth(dataset, CLIP, lambda depth: depth + 4e-4 * least)
    assert look(dataset).verdict == "passed"
    each_depth(dataset, CLIP, lambda depth: depth + 1.3e-4 * least)
    assert [line.split(": ")[1] for line in told(look(dataset))] == ["object 2 in frame 0"]


def test_one_pixel_here_and_there_passes_and_is_counted(dataset):
    path = dataset / CLIP.path / "mask_amodal/obj2/002.png"
    with Image.open(path) as image:
        whole = np.array(image)
    v, u = np.argwhere(grown(whole > 0) & (whole == 0))[0]
    whole[v, u] = 255
    Image.fromarray(whole).save(path)
    part = look(dataset)
    edge = sum(
        whole[v, u] > 0 and any(not (0 <= a < SIZE and 0 <= b < SIZE and whole[a, b]) for a, b in ((v - 1, u), (v + 1, u), (v, u - 1), (v, u + 1)))
        for v, u in np.ndindex(SIZE, SIZE)
    )
    assert part.verdict == "passed"
    # the pixel itself has made the edge one longer, and may have hidden some of it
    assert 1 / (edge + 4) <= part.figures["mismatch"]["worst"] <= 1 / (edge - 4)
    assert part.figures["mismatch"]["worst_at"] == {"clip": CLIP.path, "object": 2, "frame": 2, "what": "silhouette"}


def test_exact_limits_refuse_what_the_format_allows(dataset):
    for k in (1, 2, 3):
        each_mask(dataset, CLIP, k, lambda mask: mask & ~(np.cumsum(mask).reshape(mask.shape) == 1))
    assert look(dataset).verdict == "passed"
    lines = told(look(dataset, EXACT))
    assert any(re.search("silhouettes off by 0.0[12]", line) for line in lines)
    assert any(line.startswith("clips: ") and "of object-frames with a mismatch of at most 0.014" in line for line in lines)


def test_exact_limits_refuse_a_depth_that_the_format_allows(dataset):
    each_depth(dataset, CLIP, lambda depth: depth + 1e-4)
    assert look(dataset).verdict == "passed"
    assert len([line for line in told(look(dataset, EXACT)) if "depth off by" in line]) == 3


def test_every_control_is_told_from_what_is_right(valid):
    controls = look(valid).figures["controls"]
    assert set(controls) == set(CONTROLS)
    assert all(least > MISMATCH for least, _ in controls.values())


def test_a_control_is_what_a_planted_fault_of_the_same_kind_measures(dataset):
    # frame 0 of 4 is where the first of three objects has its controls
    control = look(dataset).figures["clips"][CLIP.path]["controls"]["moved"]
    recast(dataset, CLIP, lambda shot, t: moved(3, -0.1, 0)(moved(2, -0.1, 0)(moved(1, -0.1, 0)(shot, t), t), t))
    mismatches = look(dataset).figures["mismatch"]["worst"]
    assert control[1] <= mismatches * 1.5 and control[0] > 0.3


def test_a_suite_that_half_a_pixel_does_not_fail_is_blind(valid, monkeypatch):
    monkeypatch.setattr(geometry_module, "HALF", 0.0)
    part = look(valid)
    assert told(part) == [f"{CLIP.path}: controls: blind: a cast with the principal point half a pixel off fits too, to 0.0000"]


def test_a_ball_shows_no_turn_and_the_report_says_so(tmp_path, monkeypatch):
    ball = trimesh.creation.icosphere(subdivisions=5, radius=0.5)
    monkeypatch.setattr(datasets, "mesh_of", lambda split, number: (ball.vertices.astype(np.float32).astype(np.float64), ball.faces.astype(np.int32)))
    one = Clip("eval", "00000001", (0,), "ph_meadow_v0")
    part = look(write_dataset(tmp_path, (one,), 2, SIZE))
    assert part.verdict == "passed"
    assert part.figures["clips"][one.path]["controls_unseen"] == ["turned_x", "turned_y"]


def test_an_object_that_does_not_fit_has_no_controls(dataset):
    each_mask(dataset, CLIP, 1, grown)
    each_mask(dataset, CLIP, 2, grown)
    each_mask(dataset, CLIP, 3, grown)
    assert look(dataset).figures["controls"] == dict.fromkeys(CONTROLS)


@pytest.mark.parametrize(
    ("spoil", "blocked"),
    [
        (remove(f"{CLIP.path}/mask_visible/001.png"), f"{CLIP.path}: masks of frame 1"),
        (data(f"{CLIP.path}/mask_amodal/obj2/002.png", flip(50)), f"{CLIP.path}: masks of frame 2"),
        (remove(f"{CLIP.path}/depth/003.npz"), f"{CLIP.path}: depth of frame 3"),
        (put(f"{CLIP.path}/cameras.json", ("K", 0, 2), 64.0), f"{CLIP.path}/cameras.json"),
        (put(f"{CLIP.path}/objects.json", (0, "R_wo", 0, 0), 2.0), f"{CLIP.path}/objects.json"),
        (data("assets/eval/corner_eval-1/mesh.glb", lambda content: content[:-8]), f"{CLIP.path}: mesh of object 2"),
    ],
    ids=["mask gone", "silhouette spoilt", "depth gone", "other K", "no rotation", "mesh cut"],
)
def test_what_t3_cannot_see_blocks_it_and_is_told_by_t1(dataset, spoil, blocked):
    spoil(dataset)
    report = validate_dataset(dataset, T3)
    assert [(part.suite, part.verdict) for part in report.suites] == [("T1", "failed"), ("T3", "blocked")]
    assert blocked in report.suites[1].blocked and report.suites[0].faults


def test_the_report_does_not_depend_on_the_number_of_workers(dataset):
    recast(dataset, CLIP, turned(2, "x", 5))
    alone, many = (json.dumps(validate_dataset(dataset, T3, workers).as_json()) for workers in (0, 2))
    assert alone == many


def test_a_cause_is_looked_for_once_for_each_object_and_kind(dataset, monkeypatch):
    tried = []
    of_silhouette = diagnosis.of_silhouette

    def count(frame: Frame, i: int, whole):
        tried.append((frame.t, i))
        return of_silhouette(frame, i, whole)

    monkeypatch.setattr(diagnosis, "of_silhouette", count)
    recast(dataset, CLIP, off_centre(0.5, 0.5))
    look(dataset)
    assert tried == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_a_turn_is_right_handed(axis):
    assert np.allclose(turn("xyz".index(axis), 30), rotation(axis, 30), rtol=0, atol=1e-15)


def test_the_edge_of_a_mask_is_what_has_a_neighbour_outside():
    rng = np.random.default_rng(4)
    for _ in range(50):
        mask = rng.random((int(rng.integers(0, 6)), int(rng.integers(0, 6)))) < 0.7
        padded = np.pad(mask, 1)
        edge = sum(
            bool(mask[v, u]) and not (padded[v, u + 1] and padded[v + 2, u + 1] and padded[v + 1, u] and padded[v + 1, u + 2])
            for v, u in np.ndindex(*mask.shape)
        )
        assert edge_px(mask) == edge


def test_the_share_of_typical_object_frames_needs_both_masks():
    measures = Measures.empty("clip", 1, 4)
    measures.edge_px[:] = 1000
    measures.wrong_px[0] = [[14, 14], [15, 0], [0, 15], [-1, 0]]
    assert typical_share([measures]) == 1 / 3


def test_the_picture_of_the_worst_shows_what_differs(dataset, tmp_path):
    each_mask(dataset, CLIP, 2, grown)
    line = [str(dataset), "--any-size", "--suite=T3", "--workers=0", "--quiet", f"--picture={tmp_path / 'worst.png'}"]
    assert main(line) == 1
    first = (tmp_path / "worst.png").read_bytes()
    with Image.open(tmp_path / "worst.png") as image:
        panel = np.asarray(image.convert("RGB"))
    shown = panel[: panel.shape[0] // 2].reshape(-1, 3)
    assert (shown == STORED).all(axis=1).sum() > 100
    assert (shown == CAST).all(axis=1).sum() > 100
    assert not (shown == BOTH).all(axis=1).any()
    assert main(line) == 1 and (tmp_path / "worst.png").read_bytes() == first


def test_a_picture_of_nothing_is_not_written(dataset, tmp_path, capsys):
    for t in range(4):
        remove(f"{CLIP.path}/mask_visible/{t:03d}.png")(dataset)
        for k in (1, 2, 3):
            remove(f"{CLIP.path}/mask_amodal/obj{k}/{t:03d}.png")(dataset)
    out = tmp_path / "worst.png"
    assert main([str(dataset), "--any-size", "--suite=T3", "--workers=0", "--quiet", f"--picture={out}"]) == 1
    assert not out.exists() and "not written, since T3 measured nothing" in capsys.readouterr().err


def test_a_picture_needs_t3(valid, tmp_path, capsys):
    assert main([str(valid), "--any-size", "--suite=T1", f"--picture={tmp_path / 'worst.png'}"]) == 2
    assert "add --suite T3" in capsys.readouterr().err


def test_exact_limits_need_t3(valid, capsys):
    assert main([str(valid), "--any-size", "--suite=T1", "--exact"]) == 2
    assert "add --suite T3" in capsys.readouterr().err


def test_t3_without_the_compiler_says_what_to_install(valid, capsys, monkeypatch):
    monkeypatch.setattr(run, "find_spec", lambda _: None)
    assert main([str(valid), "--any-size"]) == 2
    assert "numba is not installed" in capsys.readouterr().err


def test_the_command_tells_the_worst_in_one_line(valid, capsys):
    assert main([str(valid), "--any-size", "--suite=T3", "--workers=0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{valid}: T3 (geometry) passed"
    assert lines[1].startswith(f"{valid}: T3: 12 object-frames, mismatch at most 0.0000 ({CLIP.path}: object 1 in frame 0, silhouette), pooled 0.00000")
