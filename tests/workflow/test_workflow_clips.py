"""Clips as a user meets them: what runs, what does not run again, and what a wrong configuration says."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from reelmill.config import load
from sam3dvid import export_reader
from sam3dvid.export.verify import verify_export
from sam3dvid.plan.picture import SIDE, TEXT_HEIGHT
from sam3dvid.validate import Choice, roundtrip, validate_dataset
from sam3dvid.validate.determinism import Again
from tests.once import made_once
from tests.sam3dvid.stock import pool_row, write_pool
from tests.workflow.project import ROOT, SNAKEMAKE, jobs
from tests.workflow.test_workflow_assets import CONFIG, AssetsProject

ASSETS = ("box_a", "-dash", "NA", "four", "five")
COUNT = 12
# small frames keep the field of view, and the least numbers of pixels shrink with their area: so clips pass as they do in a release, and some not at once
CLIPS = (
    CONFIG.replace("views: 2", "views: 2\n    eval_fraction: 1.0") + f"clips:\n  split: eval\n  count: {COUNT}\n  clips_per_shard: 6\n  size: 64\n  frames: 4\n"
)
CLIPS += "  controls: true\n  render: {samples: 2}\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> AssetsProject:
    """A project that ran once. Tests that change it work on a copy."""

    def make(folder: Path) -> AssetsProject:
        project = AssetsProject(folder / "clips", names=ASSETS)
        project.write_config(CLIPS)
        project.ok(snakemake=SNAKEMAKE)
        return project

    return made_once(tmp_path_factory, "workflow-clips", make)


@pytest.fixture
def project(finished: AssetsProject, tmp_path: Path) -> AssetsProject:
    """A fresh copy of the finished project, times kept."""
    return finished.copied(tmp_path / "moved")


def plans(project: AssetsProject) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in sorted((project.results() / "plans" / "eval").glob("*.json"))}


def sheet_size(project: AssetsProject) -> tuple[int, int]:
    with Image.open(project.results() / "report" / "plans.png") as image:
        return image.size


def without_assets(project: AssetsProject, *names: str) -> None:
    """Take assets out of the table."""
    table = project.folder / "data" / "assets.csv"
    lines = table.read_text().splitlines(keepends=True)
    kept = [line for line in lines if line.partition(",")[0] not in names]
    assert len(kept) == len(lines) - len(names)
    table.write_text("".join(kept))


def test_run_plans_every_clip_and_draws_the_first_six(finished: AssetsProject) -> None:
    assert list(plans(finished)) == [f"{index:08d}" for index in range(COUNT)]
    assert sheet_size(finished) == (4 * SIDE, 6 * (SIDE + TEXT_HEIGHT) + 5 * 2), "six panels, and a line of 2 px between any two"
    assert f"clips: {COUNT} of {COUNT} passed" in (finished.results() / "report" / "clips.txt").read_text()


def test_second_run_of_clips_does_nothing(project: AssetsProject) -> None:
    assert "Nothing to be done" in project.ok()


def clips(project: AssetsProject) -> dict[str, bytes]:
    """Return every file of the dataset's clips."""
    folder = project.results() / "dataset" / "clips"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_run_leaves_a_dataset_that_validation_passes_and_whose_manifest_lists_every_clip(finished: AssetsProject) -> None:
    dataset = finished.results() / "dataset"
    report = validate_dataset(dataset, Choice(any_size=True))
    assert report.lines() == [] and report.valid
    lines = [json.loads(line) for line in (dataset / "manifest.jsonl").read_text().splitlines()]
    assert [line["path"] for line in lines] == [f"clips/eval/{index:08d}" for index in range(COUNT)]
    assert yaml.safe_load((dataset / "config.yaml").read_text())["clips"]["render"]["samples"] == 2


def test_run_makes_two_control_videos_of_every_clip(finished: AssetsProject) -> None:
    videos = {path.name for path in (finished.results() / "controls" / "clips" / "eval").iterdir()}
    assert videos == {f"{index:08d}.{kind}.mkv" for index in range(COUNT) for kind in ("depth", "mask")}


def test_clips_made_again_from_their_seeds_in_another_order_and_with_other_threads_are_the_same(finished: AssetsProject, tmp_path: Path) -> None:
    again, dataset = tmp_path / "again", finished.results() / "dataset"
    line = [sys.executable, "scripts/regenerate_clips.py", f"--dataset={dataset}", f"--pool={finished.folder / 'data' / 'pool'}", "--split=eval"]
    line += ["--clip=00000003", "--clip=00000001", f"--out={again}", "--threads=1"]
    done = subprocess.run(line, cwd=finished.folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = validate_dataset(dataset, Choice(("T4",), clips=("00000001", "00000003"), any_size=True, again=Again(again / "dataset")))
    assert report.lines() == [] and report.valid
    figures = next(part.figures for part in report.suites if part.suite == "T4")
    assert figures["files"] - figures["files_same_bytes"] == 2, "meta.json of each, whose timing differs"


def test_run_ends_in_an_export_of_every_clip_that_verification_passes(finished: AssetsProject) -> None:
    out, dataset = finished.results() / "export" / "eval", finished.results() / "dataset"
    assert list(json.loads((out / "index.json").read_text())["clips"]) == [f"{index:08d}" for index in range(COUNT)]
    assert verify_export(out, dataset) == []


def test_the_export_of_a_run_holds_what_its_dataset_holds(finished: AssetsProject, monkeypatch: pytest.MonkeyPatch) -> None:
    # these clips have 4 frames, where the reader knows those of the format alone
    members = {"json", *(f"{kind}.{t:03d}.{suffix}" for t in range(4) for kind, suffix in (("rgb", "jpg"), ("visible", "png")))}
    for module, name, value in ((export_reader, "MEMBERS", members), (export_reader, "FRAMES", 4), (roundtrip, "FRAMES", 4)):
        monkeypatch.setattr(module, name, value)
    report = validate_dataset(finished.results() / "dataset", Choice(("T5",), any_size=True, export=finished.results() / "export" / "eval"))
    assert report.lines() == [] and report.valid and report.counts["samples"] == COUNT


def test_a_damaged_tar_of_the_export_is_made_again_where_every_file_is_verified(project: AssetsProject) -> None:
    (tar,) = (project.results() / "export" / "eval").glob("*.tar")
    whole = tar.read_bytes()
    tar.write_bytes(whole[:-9] + b"x" + whole[-8:])
    # this rule alone: those before it would look at their files again too
    assert jobs(project.ok("export_clips", "--allowed-rules", "export_clips", "--config", "verify=full"), "export_clips") == 1
    assert tar.read_bytes() == whole


def test_the_split_is_shipped_whole_only_where_that_target_is_asked_for(project: AssetsProject) -> None:
    assert not (project.results() / "ship").exists()
    said = project.ok("ship_eval")
    assert (jobs(said, "ship_eval"), jobs(said, "export_clips"), jobs(said, "composite_clips")) == (1, 0, 0)
    done = subprocess.run(["sha256sum", "--check", "eval.tar.sha256"], cwd=project.results() / "ship", capture_output=True, check=False)
    assert done.returncode == 0


def test_other_settings_of_the_export_make_it_again_and_no_clip(project: AssetsProject) -> None:
    project.write_config(CLIPS + "  export: {clips_per_shard: 5}\n")
    said = project.ok("clips")
    assert (jobs(said, "export_clips"), jobs(said, "write_clip_manifest"), jobs(said, "composite_clips")) == (1, 0, 0)
    assert len(list((project.results() / "export" / "eval").glob("*.tar"))) == 3


def test_controls_that_are_switched_off_are_found_by_nobody_and_no_clip_is_made_again(project: AssetsProject) -> None:
    before = clips(project)
    project.write_config(CLIPS.replace("controls: true", "controls: false"))
    said = project.ok("clips")
    assert jobs(said, "composite_clips") == 0 and clips(project) == before
    assert list((project.results() / "controls" / "clips" / "eval").iterdir()) == []


def test_finished_clips_become_latents_of_their_depths_and_masks_and_none_is_made_again(project: AssetsProject) -> None:
    project.write_config(CLIPS + "latents: {weights: tiny, clips: true, work_shards: 1, device: cpu, level: sha256}\n")
    said = project.ok("latents")
    assert (jobs(said, "encode_latents"), jobs(said, "composite_clips"), jobs(said, "render_clip_controls")) == (1, 0, 0)
    made = {path.name for path in (project.results() / "latents" / "wan21-whole").iterdir()}
    # of 4 frames the first alone is 4n + 1
    assert made == {f"eval_{index:08d}_{kind}_1_64_64.pt" for index in range(COUNT) for kind in ("depth", "mask")}
    assert f"latents_whole: {2 * COUNT} of {2 * COUNT} passed" in (project.results() / "report" / "latents_whole.txt").read_text()


def test_other_samples_render_every_clip_again_and_plan_none(project: AssetsProject) -> None:
    project.write_config(CLIPS.replace("samples: 2", "samples: 3"))
    said = project.ok("--dry-run", "clips")
    assert (jobs(said, "plan_clips"), jobs(said, "render_clips"), jobs(said, "composite_clips"), jobs(said, "validate_clips")) == (0, 2, 2, 2)


def test_another_device_makes_nothing_again_and_another_time_limit_looks_again_and_renders_nothing(project: AssetsProject) -> None:
    project.write_config(CLIPS.replace("samples: 2", "samples: 2, device: auto, threads: 1"))
    assert "Nothing to be done" in project.ok("clips")
    before = clips(project)
    project.write_config(CLIPS.replace("samples: 2", "samples: 2, clip_seconds: 60.0"))
    assert jobs(project.ok("clips"), "render_clips") == 2
    assert clips(project) == before and "6 kept" in "".join(log.read_text() for log in (project.results() / "logs" / "render_clips").glob("*.log"))


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
    project.write_config(CLIPS.replace(f"count: {COUNT}", f"count: {COUNT + 2}"))
    assert jobs(project.ok("clips"), "plan_clips") == 1, "the two full shards stand"
    after = plans(project)
    assert {name: after[name] for name in before} == before and len(after) == COUNT + 2
    project.write_config(CLIPS.replace(f"count: {COUNT}", "count: 2"))
    project.ok("clips")
    assert plans(project) == {name: before[name] for name in list(before)[:2]}
    assert sheet_size(project)[1] == 2 * (SIDE + TEXT_HEIGHT) + 2


def test_clips_that_fail_their_one_attempt_are_gaps_that_the_gate_counts_and_the_report_names(project: AssetsProject) -> None:
    before = plans(project)
    # the same attempts are drawn: a clip that passed at the first one passes again, and no other
    first = [name for name, data in before.items() if json.loads(data)["attempt"] == 0]
    gaps = [name for name in before if name not in first]
    assert first and gaps
    project.write_config(CLIPS + f"  max_attempts: 1\n  max_quarantined: {len(gaps) - 1}\n")
    done = project.run("clips")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "too_many_quarantined" in said and f"{len(gaps)} of {COUNT} items quarantined, expected at most {len(gaps) - 1}" in said
    assert list(plans(project)) == first
    assert sheet_size(project)[1] == 6 * (SIDE + TEXT_HEIGHT) + 5 * 2, "the first six that have a plan"
    report = (project.results() / "report" / "clips.txt").read_text()
    assert f"clips: {len(first)} of {COUNT} passed, {len(gaps)} quarantined" in report
    assert all(f"{name}: plan_exhausted (plan_clips)" in report for name in gaps)


def test_gaps_within_the_limit_of_clips_let_a_run_pass_and_its_sheet_is_there_if_every_clip_is_one(project: AssetsProject) -> None:
    # no object fills all pixels of a frame
    project.write_config(CLIPS + f"  max_attempts: 1\n  planned_visible_px: {512 * 512}\n  max_quarantined: {COUNT}\n")
    project.ok("clips")
    assert plans(project) == {}
    assert sheet_size(project) == (4 * SIDE, TEXT_HEIGHT), "one line of text and no panel"


def test_an_asset_that_leaves_the_table_replans_every_clip_without_it(project: AssetsProject) -> None:
    before = plans(project)
    assert any(b'"asset_id":"NA"' in data for data in before.values())
    without_assets(project, "NA")
    assert jobs(project.ok("clips"), "plan_clips") == 2
    after = plans(project)
    assert after.keys() == before.keys() and all(after[name] != before[name] for name in before)
    used = {one["asset_id"] for data in after.values() for one in json.loads(data)["objects"]}
    assert used == {name for name in ASSETS if name != "NA"}


def test_three_assets_are_too_few_for_clips_of_four(project: AssetsProject) -> None:
    without_assets(project, "NA", "four")
    done = project.run("clips")
    assert done.returncode != 0 and "[too_few_assets]" in done.stdout + done.stderr


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


@pytest.mark.parametrize(("name", "table", "planning"), [("m1_polyhaven", "gso.csv", 20), ("m2", "objaverse.csv", 200)])
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
