"""The validator as a command: exit codes, choices, the report for programs; and that nothing in a file makes it stumble."""

import copy
import errno
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sam3dvid.backgrounds.warp import covers, homography
from sam3dvid.conventions import K_bg, frame_K
from sam3dvid.validate import Choice, clips, frames, run, validate_dataset
from sam3dvid.validate.__main__ import main
from sam3dvid.validate.assets import look_at_asset
from sam3dvid.validate.background import Background
from sam3dvid.validate.clips import look_at_clip
from sam3dvid.validate.frames import Seen
from sam3dvid.validate.meta import Meta
from sam3dvid.validate.report import Found
from sam3dvid.validate.schema import Size
from sam3dvid.validate.visibility import look_at_cover
from shardwork.jsonio import dumps_pretty
from tests.sam3dvid.datasets import CLIPS, write_dataset
from tests.sam3dvid.spoiled import ASSET, META, ONE, THREE, add, data, edit, flip, masks, new, picture, pixel, put, remove

ROOT = Path(__file__).resolve().parents[2]
SMALL = Choice(("T1", "T2"), any_size=True)
BOTH = [("T1", "passed"), ("T2", "passed")]


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("valid"))


@pytest.fixture
def dataset(valid, tmp_path):
    root = tmp_path / "data set é"
    shutil.copytree(valid, root)
    return root


def verdicts(report):
    return [(part.suite, part.verdict) for part in report.suites]


def test_a_valid_dataset_ends_with_0_and_says_what_was_looked_at(valid, capsys):
    assert main([str(valid), "--any-size", "--workers=0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith(f"{valid}: T3: 24 object-frames, mismatch at most 0.0000")
    assert [*lines[:3], *lines[4:]] == [
        f"{valid}: T1 (schema and layout) passed",
        f"{valid}: T2 (visibility and cover) passed",
        f"{valid}: T3 (geometry) passed",
        f"{valid}: valid (5 assets, 3 clips, 83 files, 12 frames, 6 objects)",
    ]


def test_a_fault_ends_with_1_on_a_line_of_its_own(dataset, capsys):
    put(META, ("seed",), -1)(dataset)
    assert main([str(dataset), "--any-size", "--workers=0"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"T1: {META}: seed: -1, expected a whole number of 0 or more"


def test_a_folder_that_is_not_there_ends_with_2(tmp_path, capsys):
    assert main([str(tmp_path / "no"), "--workers=0"]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_clip_that_is_not_there_ends_with_2(valid, capsys):
    assert main([str(valid), "--any-size", "--clips", "00000005"]) == 2
    assert "no clip 00000005" in capsys.readouterr().err


def test_what_the_machine_does_not_show_ends_with_2_and_is_no_fault_of_the_dataset(valid, capsys, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run, "look_at_asset", refuse)
    assert main([str(valid), "--any-size", "--workers=0"]) == 2
    out, err = capsys.readouterr()
    assert "Permission denied" in err and "not valid" in out and "T1: " not in out


def test_another_size_is_a_fault_unless_it_is_allowed(valid):
    report = validate_dataset(valid, Choice(("T1", "T2")))
    assert verdicts(report) == [("T1", "failed"), ("T2", "passed")]
    assert report.lines() == [f"T1: {clip.path}/cameras.json: 4 frames of 64 x 64, expected 32 frames of 512 x 512" for clip in CLIPS]


def test_the_package_runs_as_a_command(valid):
    line = [sys.executable, "-m", "sam3dvid.validate", str(valid), "--any-size", "--json=-"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["valid"] is True


LOADED = """
import json, sys
# the environment's own start-up files (.pth) may load modules: what they loaded is not ours
before = set(sys.modules)
from sam3dvid.validate.__main__ import main
assert main([sys.argv[1], "--any-size", "--workers=0", "--suite=T1", "--suite=T2"]) == 0
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)))
"""


def test_schema_and_visibility_are_validated_with_numpy_pillow_and_yaml_alone(valid):
    done = subprocess.run([sys.executable, "-c", LOADED, str(valid)], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")})
    # names that compilers and the process pool leave behind are no packages
    loaded = {name for name in json.loads(done.stdout.splitlines()[-1]) if not name.startswith(("_cython", "cython_runtime", "__mp_main__"))}
    assert {"numpy", "PIL"} <= loaded <= {"numpy", "PIL", "yaml", "_yaml", "sam3dvid", "shardwork"}


def test_the_json_report_holds_suites_clips_faults_and_counts(dataset, tmp_path):
    add(META, ("visibility", "visible_px", 2, 1), 1)(dataset)
    assert main([str(dataset), "--any-size", "--workers=0", f"--json={tmp_path / 'report.json'}"]) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["clips"] == [clip.path for clip in CLIPS]
    assert report["counts"] == {"assets": 5, "clips": 3, "files": 83, "frames": 12, "objects": 6}
    assert report["suites"]["T1"]["verdict"] == "passed" and report["suites"]["T2"]["verdict"] == "failed"
    (fault,) = report["suites"]["T2"]["faults"]
    assert fault.keys() == {"where", "found", "expected"} and fault["where"] == f"{META}: visibility.visible_px[2][1]"
    assert str(tmp_path) not in (tmp_path / "report.json").read_text()


def test_the_report_does_not_depend_on_the_number_of_workers(dataset):
    for spoil in (add(META, ("orbit_radius",), 1e-3), masks(ONE, 1, 1, keep=2), picture(f"{THREE}/mask_visible/001.png", pixel(9)), new("x.txt")):
        spoil(dataset)
    alone, many = (validate_dataset(dataset, SMALL, workers).as_json() for workers in (0, 3))
    assert alone == many and len(alone["suites"]["T1"]["faults"]) == 3


def test_a_chosen_suite_does_not_tell_the_other_s_faults(dataset):
    put(META, ("light", "sun_strength"), -1)(dataset)
    add(META, ("visibility", "visible_px", 0, 0), 1)(dataset)
    assert [line[:3] for line in validate_dataset(dataset, Choice(("T1",), any_size=True)).lines()] == ["T1:"]
    assert [line[:3] for line in validate_dataset(dataset, Choice(("T2",), any_size=True)).lines()] == ["T2:"]


@pytest.mark.parametrize(
    "spoil",
    [remove(f"{THREE}/mask_visible/001.png"), data(f"{THREE}/mask_amodal/obj1/002.png", flip(50)), remove(f"{THREE}/cameras.json"), remove(META)],
    ids=["mask gone", "silhouette spoilt", "cameras gone", "meta gone"],
)
def test_what_t2_cannot_see_blocks_it_and_is_told_by_t1(dataset, spoil):
    spoil(dataset)
    report = validate_dataset(dataset, Choice(("T2",), any_size=True))
    assert verdicts(report) == [("T1", "failed"), ("T2", "blocked")]
    assert report.suites[0].faults and not report.valid


def test_one_split_is_looked_at_alone(dataset):
    put(META, ("seed",), -1)(dataset)
    report = validate_dataset(dataset, Choice(splits=("train",), any_size=True))
    assert report.valid and report.clips == ("clips/train/00000000",) and report.counts["assets"] == 2


def test_chosen_clips_are_looked_at_with_their_assets_alone(dataset):
    put(META, ("seed",), -1)(dataset)
    report = validate_dataset(dataset, Choice(clips=("00000007",), any_size=True))
    assert report.valid and report.clips == (ONE,) and report.counts["assets"] == 1


def test_a_fault_of_many_frames_is_told_once(dataset):
    for t in range(4):
        picture(f"{THREE}/rgba_fg/{t:03d}.png", pixel((1, 2, 3, 0)))(dataset)
    (line,) = validate_dataset(dataset, SMALL).lines()
    assert "rgba_fg/000.png: 1 pixels with a colour but without alpha (and so 3 times more)" in line


def test_a_dataset_without_clips_is_not_valid(dataset):
    shutil.rmtree(dataset / "clips")
    (dataset / "clips").mkdir()
    (dataset / "manifest.jsonl").write_text("")
    for suites in (("T1", "T2"), ("T2",), ("T3",)):
        report = validate_dataset(dataset, Choice(suites, any_size=True))
        assert "T1: clips: no clips in eval or train, expected at least one clip" in report.lines()
        assert verdicts(report) == [("T1", "failed"), (suites[-1], "blocked")]


def test_linked_assets_are_as_good_as_copies(dataset, tmp_path):
    (dataset / "assets").rename(tmp_path / "elsewhere")
    (dataset / "assets").symlink_to(tmp_path / "elsewhere")
    assert validate_dataset(dataset, SMALL).valid


WORSE: tuple[Any, ...] = (None, True, -1, 2**70, 1e308, "", "a\nb", [], {}, [None])
FREE = re.compile(r"meta\.json.*(git_commit|generator_version|timing|render|authors|source|license|reason)")
"""What a clip alone may hold almost anything in: other text, or another number."""


def places(value, at=()):
    """Yield the place of every value within a JSON value; of long lists the first and last alone."""
    yield at
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*at, key))
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1}) if value else ():
            yield from places(value[index], (*at, index))


@pytest.mark.parametrize("name", ["cameras.json", "objects.json", "meta.json"])
def test_no_value_of_a_record_makes_it_stumble_and_none_passes(valid, tmp_path, monkeypatch, name):
    # the pictures are not what this is about
    monkeypatch.setattr(clips, "look_at_frames", lambda files, count, *_: Seen(*np.full((2, files.size.frames, count), -1)))
    folder = tmp_path / "dataset" / THREE
    shutil.copytree(valid / THREE, folder)
    content = json.loads((folder / name).read_text())
    tried, passed = 0, []
    for at in places(content):
        for worse in WORSE:
            spoilt = copy.deepcopy(content)
            inner = spoilt
            for key in at[:-1]:
                inner = inner[key]
            if at:
                inner[at[-1]] = worse
            (folder / name).write_text(dumps_pretty(spoilt if at else worse))
            found, _ = look_at_clip(tmp_path / "dataset", "eval", "00000000", ("T2",), True)
            tried += 1
            if not found.faults and not FREE.search(f"{name} {'.'.join(map(str, at))}"):
                passed.append((at, worse))
    assert tried >= 300
    assert passed == []


def with_flipped_bytes(valid, root, name):
    """Yield a file of an asset with one byte or another of its head flipped, and whether a fault is found."""
    shutil.copytree(valid / ASSET, root / ASSET)
    content = (valid / ASSET / name).read_bytes()
    for at in range(0, min(len(content), 1500), 7):
        spoilt = content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]
        (root / ASSET / name).write_bytes(spoilt)
        found, _ = look_at_asset(root, "eval", "corner_eval-1")
        yield spoilt, bool(found.faults)


@pytest.mark.parametrize("name", ["mesh.glb", "voxels.npy"])
def test_no_flipped_byte_in_the_head_of_an_asset_s_file_passes(valid, tmp_path, name):
    assert all(told for _, told in with_flipped_bytes(valid, tmp_path, name))


def test_a_flipped_byte_of_an_asset_s_record_passes_only_where_any_word_or_number_may_stand(valid, tmp_path):
    record = json.loads((valid / ASSET / "meta.json").read_bytes())
    flipped = list(with_flipped_bytes(valid, tmp_path, "meta.json"))
    assert sum(told for _, told in flipped) > len(flipped) / 2
    for spoilt in (json.loads(spoilt) for spoilt, told in flipped if not told):
        assert record.keys() - spoilt.keys() <= {"asset_id", "split"}, "the format does not ask for these"
        assert {key for key in record.keys() & spoilt.keys() if record[key] != spoilt[key]} <= {"source", "source_name", "license", "filter_scores"}


@pytest.mark.parametrize("name", ["rgb/001.png", "mask_visible/001.png", "depth/001.npz"])
def test_every_cut_and_every_flipped_byte_of_a_picture_is_named(valid, tmp_path, name):
    folder = tmp_path / "dataset" / ONE
    shutil.copytree(valid / ONE, folder)
    content = (folder / name).read_bytes()
    step = max(1, len(content) // 60)
    spoilt = [content[:at] for at in range(0, len(content), step)]
    if name.endswith("png"):  # a zip's own fields of time and system say nothing of its values
        spoilt += [content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :] for at in range(0, len(content), step)]
    for one in spoilt:
        (folder / name).write_bytes(one)
        found, _ = look_at_clip(tmp_path / "dataset", "eval", "00000007", ("T1",), True)
        assert any(name in problem.where for _, problem in found.told()), one[:50]


def test_cover_is_that_of_the_homography_for_many_cameras():
    rng = np.random.default_rng(5)
    width, height, told = 900, 700, []
    for _ in range(300):
        angles = rng.uniform(-0.7, 0.7, 2)
        turned = np.array([[np.cos(angles[0]), 0, np.sin(angles[0])], [0, 1, 0], [-np.sin(angles[0]), 0, np.cos(angles[0])]])
        tilted = np.array([[1, 0, 0], [0, np.cos(angles[1]), -np.sin(angles[1])], [0, np.sin(angles[1]), np.cos(angles[1])]])
        pose = np.eye(4)
        pose[:3, :3] = tilted @ turned
        found = Found()
        meta = Meta(reference=np.eye(4), background=Background(width, height, K_bg(width, height), {}))
        look_at_cover(found, "clip", pose[None], Size(1, 64, 64), meta)
        covered = covers(homography(pose[:3, :3], np.eye(3), frame_K(64, 64), K_bg(width, height)), width, height, 64, 64)
        assert covered == (not found.faults)
        told.append(covered)
    assert 50 < sum(told) < 250


@pytest.fixture
def bad_disk(monkeypatch):
    """Return what makes reading of files of one name fail."""

    def spoil(reader, name):
        real = getattr(frames, reader)

        def read(root, path, *more):
            if path == name:
                raise OSError(errno.EIO, "Input/output error")
            return real(root, path, *more)

        monkeypatch.setattr(frames, reader, read)

    return spoil


def test_a_file_that_the_machine_does_not_let_be_read_is_told_and_hides_no_fault(dataset, bad_disk):
    bad_disk("read_png", f"{ONE}/rgb/002.png")
    new(f"{ONE}/Thumbs.db")(dataset)
    masks(ONE, 0, 1, keep=2)(dataset)
    report = validate_dataset(dataset, SMALL)
    assert not report.valid and [fault.where for fault in report.not_looked] == [f"{ONE}/rgb/002.png"]
    assert any("Thumbs.db" in line for line in report.lines()) and any("visible pixels, expected at least" in line for line in report.lines())


def test_a_file_that_cannot_be_read_lets_no_suite_pass_that_needs_it(dataset, bad_disk):
    bad_disk("read_depth", f"{ONE}/depth/002.npz")
    report = validate_dataset(dataset, Choice(any_size=True))
    assert report.lines() == [] and not report.valid
    assert verdicts(report) == [("T1", "blocked"), ("T2", "passed"), ("T3", "blocked")]


def test_a_link_that_leads_to_itself_is_named_and_hides_no_fault(dataset):
    loop = dataset / f"{ONE}/rgb/002.png"
    loop.unlink()
    loop.symlink_to(loop.name)
    new(f"{ONE}/Thumbs.db")(dataset)
    said = validate_dataset(dataset, SMALL).lines()
    assert f"T1: {ONE}/rgb/002.png: no regular file, expected a file" in said and any("Thumbs.db" in line for line in said)


def test_a_clip_copied_under_another_id_is_named(dataset):
    copied = "clips/eval/00000009"
    shutil.copytree(dataset / ONE, dataset / copied)
    edit(f"{copied}/meta.json", lambda record: record.update(clip_id="00000009", seed=9))(dataset)
    assert f"T1: {copied}: the cameras and objects of {ONE}, expected a scene of its own" in validate_dataset(dataset, SMALL).lines()
