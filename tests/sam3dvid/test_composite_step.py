"""The steps composite_clips, validate_clips and write_clip_manifest: what is published, what is set aside, and whom a fault is told of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from PIL import Image

from sam3dvid.backgrounds.warp import warp
from sam3dvid.codes import CODES, HINTS
from sam3dvid.composite.books import config_text, manifest_lines
from sam3dvid.composite.composite_step import Stock, composite_items, composite_step
from sam3dvid.composite.origin import Origin
from sam3dvid.composite.settings import CompositeSettings
from sam3dvid.composite.validate_step import clip_items, validate_step
from sam3dvid.stage import CLIP_STEPS, PLAN_STEP, clip_of, clips_place
from sam3dvid.validate import Choice, validate_dataset
from shardwork.errors import Fault
from shardwork.place import the_manifest
from shardwork.run import Options, run_guard
from tests.sam3dvid.renders import LIMITED, SHARD, SPLIT, Renders, finish

ROOT = Path(__file__).resolve().parents[2]
CLIPS = [f"{index:08d}" for index in range(3)]
ORIGIN = Origin("0.1.0", "0" * 40)
WITHOUT_PLAN = CLIPS[2]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Renders of three planned clips, of which the last has no plan."""
    world = Renders(tmp_path_factory.mktemp("w") / "made", settings=LIMITED)
    world.plan(CLIPS)
    world.render()
    return world


@pytest.fixture
def world(rendered, tmp_path):
    """A copy of them, times kept."""
    shutil.copytree(rendered.folder, tmp_path / "w")
    copy = object.__new__(Renders)
    copy.__dict__.update(rendered.__dict__)
    copy.folder, copy.dataset, copy.pool = tmp_path / "w", tmp_path / "w" / "run" / "dataset", tmp_path / "w" / "pool"
    copy.plans = replace(rendered.plans, stage=copy.folder / "run" / "plans")
    copy.renders = replace(rendered.renders, stage=copy.folder / "run" / "renders")
    return copy


def place_of(world):
    return replace(clips_place(world.folder / "run" / "clips", world.dataset), before=world.renders)


def composite(world, origin=ORIGIN, **options):
    place = place_of(world)

    def items_of(rows):
        return composite_items(rows, the_manifest(world.plans, PLAN_STEP, SHARD), SPLIT, world.renders, place)

    step = composite_step(CompositeSettings(), Stock(world.plans, world.pool, origin))
    return {row["id"]: row for row in run_guard(step, SHARD, items_of, "render_clips", place, Options(workers=0, **options))}


def validate(world):
    place = clips_place(world.folder / "run" / "clips", world.dataset)
    step = validate_step(world.dataset, any_size=True)
    rows = run_guard(step, SHARD, lambda made: clip_items(made, place, SPLIT), CLIP_STEPS[0], place, Options(workers=0))
    return {row["id"]: row for row in rows}


def script(name, world, *flags):
    line = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), f"--stage={world.folder / 'run' / 'clips'}", f"--dataset={world.dataset}", *flags]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def clip(world, clip_id=CLIPS[0]):
    return clip_of(world.dataset, clip_id, SPLIT)


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dataset_of_composited_clips_passes_the_schema_and_visibility_suites(world):
    made, validated = composite(world), validate(world)
    done = script("write_clip_manifest", world, "--clips=3", "--clips-per-shard=3", '--config={"run": "test"}')
    assert done.returncode == 0, done.stderr
    report = validate_dataset(world.dataset, Choice(any_size=True))
    assert report.lines() == [] and report.valid
    assert {part.suite: part.verdict for part in report.suites}.items() >= {("T1", "passed"), ("T2", "passed")}
    statuses = dict(zip(CLIPS, ("ok", "ok", "upstream"), strict=True))
    assert [{clip_id: row["status"] for clip_id, row in rows.items()} for rows in (made, validated)] == [statuses, statuses]


def test_a_clip_without_a_plan_names_the_step_that_gave_it_up(world):
    assert composite(world)[WITHOUT_PLAN] == {"id": WITHOUT_PLAN, "status": "upstream", "code": "plan_exhausted", "step": "plan_clips"}
    assert validate(world)[WITHOUT_PLAN]["step"] == "plan_clips"


def test_rendered_files_are_the_renders_own_to_the_byte_and_no_copies(world):
    composite(world)
    rendered, made = files(world.folder_of(CLIPS[0])), files(clip(world))
    shared = rendered.keys() - {"render.json"}
    assert {name: made[name] for name in shared} == {name: rendered[name] for name in shared}
    assert all(os.path.samefile(clip(world) / name, world.folder_of(CLIPS[0]) / name) for name in shared)


def test_files_are_copied_where_the_disk_has_no_links(world, monkeypatch):
    composite(world)
    linked = files(clip(world))
    shutil.rmtree(clip(world))

    def no_links(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    composite(world)
    assert files(clip(world)) == linked
    assert not os.path.samefile(clip(world) / "depth/000.npz", world.folder_of(CLIPS[0]) / "depth/000.npz")


def test_a_render_that_disagrees_is_refused_and_set_aside(world):
    folder = world.folder_of(CLIPS[1])
    Image.new("L", (64, 64)).save(folder / "mask_visible/001.png")
    finish(folder)
    row = composite(world)[CLIPS[1]]
    assert (row["status"], row["code"]) == ("quarantined", "render_disagrees")
    assert "in frame 1" in row["found"] and "where the plan foresaw" in row["found"]
    assert not clip(world, CLIPS[1]).exists() and not folder.exists()
    assert (world.renders.quarantine / SPLIT / CLIPS[1] / "render.json").is_file()


@pytest.mark.parametrize("kind", ["flipped", "missing"])
def test_a_render_that_changed_is_set_aside_so_that_it_is_made_again(world, kind):
    spoilt = world.folder_of(CLIPS[0]) / "rgba_fg/002.png"
    data = bytearray(spoilt.read_bytes())
    data[len(data) // 2] ^= 1
    spoilt.unlink() if kind == "missing" else spoilt.write_bytes(data)
    with pytest.raises(Fault, match=r"rgba_fg/002\.png.*\[fault_stale\]"):
        composite(world)
    assert not world.folder_of(CLIPS[0]).exists() and world.folder_of(CLIPS[1]).exists()
    assert world.renders.manifests("render_clips", SHARD) == []


def test_a_photo_that_changed_is_a_fault_of_the_pool_and_sets_nothing_aside(world):
    row = world.read_plan(CLIPS[0])["background"]["provenance"]
    picture = world.pool / row["file"]
    picture.write_bytes(picture.read_bytes()[:-1] + b"\0")
    with pytest.raises(Fault, match=r"\[bad_pool\]"):
        composite(world)
    assert world.folder_of(CLIPS[0]).exists()


@pytest.mark.parametrize("kind", ["changed", "missing"])
def test_a_plan_that_is_not_the_one_that_was_rendered_is_a_fault(world, kind):
    path = world.plan_path(CLIPS[0])
    path.unlink() if kind == "missing" else path.write_bytes(path.read_bytes().replace(b'"attempt":0', b'"attempt":1'))
    with pytest.raises(Fault, match=rf"{CLIPS[0]}\.json.*\[bad_plan\]"):
        composite(world)
    assert world.folder_of(CLIPS[0]).exists()


def test_plans_of_other_clips_are_a_fault(world):
    rows = the_manifest(world.renders, "render_clips", SHARD)
    with pytest.raises(Fault, match="manifest_mismatch"):
        composite_items(rows, rows[:2], SPLIT, world.renders, place_of(world))


def test_another_commit_makes_no_clip_again(world, capsys):
    composite(world)
    before = files(clip(world))
    composite(world, Origin("0.1.0", "1" * 40))
    shutil.rmtree(world.folder / "run" / "clips" / ".journal")
    composite(world, Origin("0.1.0", "1" * 40))
    said = capsys.readouterr().err
    assert "2 kept" in said and "2 adopted" in said
    assert files(clip(world)) == before


@pytest.mark.parametrize("name", ["rgb/001.png", "depth/003.npz", "meta.json", "extra.txt"])
def test_a_published_clip_that_changed_is_not_adopted(world, capsys, name):
    composite(world)
    before, spoilt = files(clip(world)), clip(world) / name
    if name == "meta.json":
        spoilt.write_bytes(spoilt.read_bytes().replace(b'"frames"', b'"Frames"').replace(b'"seed": 0', b'"seed": 5'))
    else:
        data = spoilt.read_bytes() if spoilt.exists() else b"foreign"
        spoilt.unlink(missing_ok=True)  # a file of its own: the render keeps its bytes
        spoilt.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    shutil.rmtree(world.folder / "run" / "clips" / ".journal")
    composite(world)
    assert "1 adopted, 1 made" in capsys.readouterr().err
    assert files(clip(world)) == before


def test_a_clip_that_breaks_the_format_is_set_aside_with_its_fault(world):
    rows = composite(world)
    spoilt = clip(world) / "meta.json"
    spoilt.write_bytes(spoilt.read_bytes().replace(b'"hfov_deg": 50.0', b'"hfov_deg": 50.1'))
    manifest = place_of(world).manifest(CLIP_STEPS[0], SHARD, "by-hand")
    manifest.write_text(manifest.read_text().replace(folder_digest(rows[CLIPS[0]]), looked(clip(world))))
    row = validate(world)[CLIPS[0]]
    assert (row["status"], row["code"]) == ("quarantined", "invalid_clip")
    assert row["found"].startswith("T1: clips/eval/00000000/meta.json: hfov_deg")
    assert not clip(world).exists() and (world.folder / "run/clips/quarantine/clips/eval/00000000").is_dir()


def folder_digest(row):
    return row["files"][f"../dataset/clips/eval/{row['id']}"]["digest"]


def looked(folder):
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files(folder).items(), key=lambda one: folder / one[0]))
    return hashlib.sha256(lines.encode()).hexdigest()


def test_a_clip_that_changed_since_it_was_written_is_a_fault_and_made_again(world):
    composite(world)
    (clip(world) / "rgb/000.png").unlink()
    with pytest.raises(Fault, match=r"\[fault_stale\]"):
        validate(world)
    assert place_of(world).manifests(CLIP_STEPS[0], SHARD) == []
    composite(world)
    assert validate(world)[CLIPS[0]]["status"] == "ok"


def test_a_clip_whose_asset_is_gone_is_a_fault_and_no_verdict_on_the_clip(world):
    composite(world)
    mesh = world.dataset / world.read_plan(CLIPS[0])["objects"][0]["mesh"]
    away = mesh.rename(mesh.with_suffix(".away"))
    with pytest.raises(Fault, match=r"mesh of object 1, expected the finished assets.*\[bad_asset\]"):
        validate(world)
    assert clip(world).is_dir() and place_of(world).manifests(CLIP_STEPS[0], SHARD)
    away.rename(mesh)
    assert validate(world)[CLIPS[0]]["status"] == "ok"


def test_a_clip_of_another_size_than_the_format_is_refused_unless_it_is_allowed(world):
    composite(world)
    done = script("validate_clips", world, f"--split={SPLIT}", f"--shard={SHARD}")
    assert done.returncode == 0, done.stderr
    assert "4 frames of 64 x 64, expected 32 frames of 512 x 512" in done.stderr and '{"invalid_clip":2}' in done.stderr


def test_manifest_has_a_line_for_every_clip_that_passed_sorted_by_path(world):
    composite(world)
    validate(world)
    assert script("write_clip_manifest", world, "--clips=3", "--clips-per-shard=3", "--config={}", "--key=ab").returncode == 0
    lines = [json.loads(line) for line in (world.dataset / "manifest.jsonl").read_text().splitlines()]
    plans = [world.read_plan(clip_id) for clip_id in CLIPS[:2]]
    expected = [
        {
            "clip_id": plan["clip_id"],
            "split": "eval",
            "N": plan["num_objects"],
            "arc_span_deg": plan["trajectory"]["arc_span_deg"],
            "seed": plan["seed"],
            "path": f"clips/eval/{plan['clip_id']}",
        }
        for plan in plans
    ]
    assert lines == expected
    assert [path.name for path in (world.folder / "run/clips/.manifest").iterdir()] == ["ab"]


def test_a_clip_that_passed_without_being_made_is_a_fault():
    with pytest.raises(Fault, match="manifest_mismatch"):
        manifest_lines([], [{"id": "00000000", "status": "ok", "code": "ok"}])


def test_configuration_of_a_dataset_names_no_host_and_no_absolute_path():
    config = {
        "run": "m1",
        "results": "/scratch/me/results",
        "python": "/opt/bin/python",
        "events": None,
        "assets": {"table": "/home/me/assets.csv", "work_shards": 3, "filter": {"licenses": "CC0-1.0", "min_aesthetic": 5.5}},
        "backgrounds": {"polyhaven": {"pool": "C:\\pools\\ph", "eval_fraction": 1e-07, "limit": 0, "workers": 4}},
        "clips": {"split": "eval", "count": 500, "salt": "no", "max_attempts": 50, "controls": False, "render": {"samples": 8, "device": "gpu", "threads": 2}},
    }
    assert yaml.safe_load(config_text(config)) == {
        "run": "m1",
        "assets": {"table": "assets.csv", "filter": {"licenses": "CC0-1.0", "min_aesthetic": 5.5}},
        "backgrounds": {"polyhaven": {"pool": "ph", "eval_fraction": 1e-07, "limit": 0}},
        "clips": {"split": "eval", "count": 500, "salt": "no", "max_attempts": 50, "render": {"samples": 8}},
    }


def test_configuration_of_a_dataset_is_the_same_in_any_order_of_keys():
    assert config_text({"b": {"d": 1, "c": 2}, "a": 1}) == config_text({"a": 1, "b": {"c": 2, "d": 1}}) == "a: 1\nb:\n  c: 2\n  d: 1\n"


@pytest.mark.parametrize("code", ["render_disagrees", "invalid_clip"])
def test_each_code_of_clips_says_what_it_means_and_what_to_do(code):
    assert CODES[code] and HINTS[code]


def test_any_number_of_threads_gives_the_same_background():
    """The steps take one thread a process, the pictures of plans take all."""
    photo, found = np.random.default_rng(0).integers(0, 256, (256, 512, 3), np.uint8), []
    before = cv2.getNumThreads()
    for threads in (1, 4):
        cv2.setNumThreads(threads)
        found.append(warp(photo, np.array([[1.5, 0.1, -200.0], [-0.1, 1.4, -80.0], [1e-4, 0, 1]]), 128, 128))
    cv2.setNumThreads(before)
    assert np.array_equal(found[0], found[1])
