"""Clips as a user meets them: what runs, what does not run again, and what a wrong configuration says."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml

from reelmill.config import load
from sam3dvid.validate import Choice, validate_dataset
from tests.sam3dvid.stock import pool_row, write_pool
from tests.workflow.project import ROOT, jobs
from tests.workflow.test_workflow_assets import CONFIG, AssetsProject

# boxes at 64 pixels fill fewer than the format asks for, so few of these clips pass: the other half of the facts is about those that do not
CLIPS = CONFIG.replace("views: 2", "views: 2\n    eval_fraction: 1.0") + "clips:\n  split: eval\n  count: 4\n  clips_per_shard: 2\n  size: 64\n  frames: 4\n"
CLIPS += "  controls: true\n  render: {samples: 2}\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> AssetsProject:
    """A project whose clips are planned. Tests that change it work on a copy."""
    project = AssetsProject(tmp_path_factory.mktemp("w") / "clips", names=("box_a", "-dash", "NA", "four"))
    project.write_config(CLIPS)
    project.ok()
    return project


@pytest.fixture
def project(finished: AssetsProject, tmp_path: Path) -> AssetsProject:
    """A fresh copy of the finished project, times kept."""
    copy = object.__new__(AssetsProject)
    copy.folder = tmp_path / "moved"
    shutil.copytree(finished.folder, copy.folder, symlinks=True)
    return copy


def plans(project: AssetsProject) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in sorted((project.results() / "plans" / "eval").glob("*.json"))}


def test_run_plans_every_clip_and_draws_them(finished: AssetsProject) -> None:
    assert list(plans(finished)) == [f"{index:08d}" for index in range(4)]
    assert (finished.results() / "report" / "plans.png").stat().st_size > 0
    assert "clips: 4 of 4 passed" in (finished.results() / "report" / "clips.txt").read_text()
    assert "Nothing to be done" in finished.ok()


def clips(project: AssetsProject) -> dict[str, bytes]:
    """Return every file of the dataset's clips."""
    folder = project.results() / "dataset" / "clips"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_run_leaves_a_dataset_that_validation_passes_and_whose_manifest_lists_every_clip(finished: AssetsProject) -> None:
    dataset = finished.results() / "dataset"
    report = validate_dataset(dataset, Choice(any_size=True))
    assert report.lines() == [] and report.valid
    lines = [json.loads(line) for line in (dataset / "manifest.jsonl").read_text().splitlines()]
    assert [line["path"] for line in lines] == [f"clips/eval/{index:08d}" for index in range(4)]
    assert yaml.safe_load((dataset / "config.yaml").read_text())["clips"]["render"]["samples"] == 2


def test_run_makes_two_control_videos_of_every_clip(finished: AssetsProject) -> None:
    videos = {path.name for path in (finished.results() / "controls" / "clips" / "eval").iterdir()}
    assert videos == {f"{index:08d}.{kind}.mkv" for index in range(4) for kind in ("depth", "mask")}


def test_controls_that_are_switched_off_are_found_by_nobody_and_no_clip_is_made_again(project: AssetsProject) -> None:
    before = clips(project)
    project.write_config(CLIPS.replace("controls: true", "controls: false"))
    said = project.ok("clips")
    assert jobs(said, "composite_clips") == 0 and clips(project) == before
    assert list((project.results() / "controls" / "clips" / "eval").iterdir()) == []


def test_other_samples_render_every_clip_again_and_plan_none(project: AssetsProject) -> None:
    project.write_config(CLIPS.replace("samples: 2", "samples: 3"))
    said = project.ok("--dry-run", "clips")
    assert (jobs(said, "plan_clips"), jobs(said, "render_clips"), jobs(said, "composite_clips"), jobs(said, "validate_clips")) == (0, 2, 2, 2)


def test_another_device_or_time_limit_makes_nothing_again(project: AssetsProject) -> None:
    project.write_config(CLIPS.replace("samples: 2", "samples: 2, device: auto, clip_seconds: 60.0, threads: 1"))
    assert "Nothing to be done" in project.ok("clips")


def test_a_damaged_render_of_a_lost_clip_is_made_again_by_the_same_command_twice(project: AssetsProject) -> None:
    before = clips(project)
    picture = project.results() / "renders" / "eval" / "00000001" / "mask_visible" / "000.png"
    data = picture.read_bytes()
    picture.unlink()
    picture.write_bytes(data[:-1])
    shutil.rmtree(project.results() / "dataset" / "clips" / "eval" / "00000001")
    shutil.rmtree(project.results() / "clips" / "shards")
    assert project.run("clips").returncode != 0, "a clip whose render changed is a fault, which takes the render's shard manifest away"
    project.ok("clips")
    after = clips(project)
    assert {name for name in before if after.get(name) != before[name]} <= {"eval/00000001/meta.json"}, "times of rendering alone may differ"


def test_more_clips_change_none_of_those_before_and_fewer_leave_none_behind(project: AssetsProject) -> None:
    before = plans(project)
    project.write_config(CLIPS.replace("count: 4", "count: 6"))
    project.ok("clips")
    after = plans(project)
    assert {name: after[name] for name in before} == before and len(after) == 6
    project.write_config(CLIPS.replace("count: 4", "count: 2"))
    project.ok("clips")
    assert plans(project) == {name: before[name] for name in list(before)[:2]}


def test_an_asset_that_leaves_the_table_replans_every_clip_without_it(project: AssetsProject) -> None:
    project.write_config(CLIPS.replace("work_shards: 3", "work_shards: 3\n  filter: {licenses: CC-BY-4.0}"))
    table = project.folder / "data" / "assets.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *(line if line.startswith("NA") else line.replace("CC0-1.0", "CC-BY-4.0") for line in lines[1:])]) + "\n")
    assert jobs(project.ok("--dry-run", "clips"), "plan_clips") == 2
    done = project.run("clips")
    assert done.returncode != 0 and "too_few_assets" in done.stdout + done.stderr, "three assets are too few for clips of four"


@pytest.mark.parametrize(("without", "said"), [("assets", "no section assets"), ("backgrounds", "no section backgrounds.polyhaven")])
def test_clips_without_what_they_are_made_of_are_one_clear_line(project: AssetsProject, without: str, said: str) -> None:
    sections = CLIPS.split("\n")
    start = sections.index(f"{without}:")
    end = next((i for i in range(start + 1, len(sections)) if sections[i] and not sections[i].startswith(" ")), len(sections))
    project.write_config("\n".join(sections[:start] + sections[end:]))
    done = project.run()
    errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error:")]
    assert done.returncode != 0 and len(errors) == 1 and said in errors[0] and "[E_CONFIG_VALUE]" in errors[0]


@pytest.mark.parametrize(("name", "split", "clips"), [("m1_polyhaven", "eval", 500), ("m2", "train", 10_000)])
def test_shipped_configuration_asks_for_the_clips_of_the_format_and_tolerates_a_gap_in_a_hundred(name: str, split: str, clips: int) -> None:
    config = load([ROOT / "config" / f"{name}.yaml"]).clips
    assert config is not None and (config.split, config.count, config.max_quarantined) == (split, clips, clips // 100)
    assert (config.frames, config.size, config.pool) == (32, 512, "polyhaven")


@pytest.mark.parametrize(("name", "table", "planning"), [("m1_polyhaven", "gso.csv", 1), ("m2", "objaverse.csv", 4)])
def test_shipped_configuration_is_a_whole_plan_of_jobs_with_the_tables_that_it_names(tmp_path: Path, name: str, table: str, planning: int) -> None:
    project = AssetsProject(tmp_path / "clips")
    write_pool(project.folder / "data" / "bg_pools_polyhaven", [pool_row("a"), pool_row("b", split="train")])
    with open(project.folder / "data" / "assets.csv", newline="") as file:
        rows = [{**row, "scores": '{"aesthetic": 6.0}'} for row in csv.DictReader(file)]
    with open(project.folder / "data" / table, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    said = project.ok("--dry-run", "--configfile", f"config/{name}.yaml")
    assert (jobs(said, "plan_clips"), jobs(said, "draw_plans"), jobs(said, "gate")) == (planning, 1, 2)
