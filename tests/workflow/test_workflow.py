"""The workflow as a user meets it: what runs, what does not run again, and how it ends when something is wrong."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
import yaml

from eventvox.release_check import verify_release
from reelmill.config import load
from shardwork.errors import DataError, print_error
from shardwork.jsonio import read_json, read_jsonl
from shardwork.shards import shard_of
from shardwork.tables import write_table
from tests.once import made_once
from tests.workflow.project import ROOT, SNAKEMAKE, Project, jobs

NOTHING = "Nothing to be done"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that ran once, in a folder whose name breaks careless shells. Tests that change it work on a copy."""

    def make(folder: Path) -> Project:
        project = Project(folder / "sp ace's dir $(id)")
        project.ok(snakemake=SNAKEMAKE)
        return project

    return made_once(tmp_path_factory, "workflow-events", make)


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A fresh copy of the finished project, times kept."""
    return finished.copied(tmp_path / "moved it's here")


def test_run_gives_a_voxel_file_for_every_video(finished: Project) -> None:
    assert list(finished.voxel_files()) == ["train/NA.h5", "train/c_3.h5", "train/v_--b.h5", "train/v_k.h5"]
    summary = read_json(finished.results() / "report" / "events.json")
    assert (summary["items"], summary["passed"], summary["quarantined"]) == (4, 4, 0)
    assert summary["totals"]["frames"] == 4 * 13 and summary["totals"]["voxels"] == 4 * 3


def test_run_packs_a_release_that_sha256sum_and_our_verifier_accept(finished: Project) -> None:
    release = finished.results() / "events_release"
    with tarfile.open(release / "data" / "train" / "train-000000.tar") as tar:
        assert tar.getnames() == ["NA.h5", "c_3.h5", "v_--b.h5", "v_k.h5"]
    subprocess.run(["sha256sum", "-c", "metadata/shard_checksums.sha256"], cwd=release, check=True, capture_output=True)
    assert read_json(release / "metadata" / "shards_validation.json")["shards"] == []
    assert verify_release(release) == []


def test_run_ends_with_where_its_results_and_its_release_are(project: Project) -> None:
    said = project.ok("--forcerun", "gate")
    assert "events: 4 of 4 passed" in said and "  dataset: results/small/events_release/\n" in said


def test_second_run_does_nothing(project: Project) -> None:
    assert NOTHING in project.ok()


def test_run_from_another_folder_does_nothing_more(finished: Project, tmp_path: Path) -> None:
    assert NOTHING in finished.ok("--dry-run", cwd=tmp_path)


def test_moved_clone_reruns_nothing(project: Project) -> None:
    assert NOTHING in project.ok("--dry-run")


def test_touched_table_reruns_nothing(project: Project) -> None:
    (project.folder / "data" / "videos.csv").touch()
    assert NOTHING in project.ok("--dry-run")


def test_added_video_reruns_its_shard_only(project: Project) -> None:
    project.add_video("late", 9)
    project.make_table()
    assert jobs(project.ok("--dry-run"), "voxelize_events") == 1
    project.ok()
    logs = project.results().glob(f"logs/voxelize_events/{shard_of('late', 4)}.*.log")
    assert any("1 made" in log.read_text() for log in logs)
    assert verify_release(project.results() / "events_release") == []
    assert "late.h5" in (project.results() / "events_release" / "metadata" / "shards_train.json").read_text()
    assert "train/late.h5" in project.voxel_files()


def test_changed_caption_rewrites_the_manifests_and_makes_no_voxel_again(project: Project) -> None:
    large = project.results() / "events_release" / "manifests" / "large.jsonl"
    assert [row["event_friendly"] for row in read_jsonl(large)] == [False] * 4
    captions = project.folder / "captions.json"
    captions.write_text('{"v_k": {"duration": 1, "timestamps": [[0, 1]], "sentences": ["It spins."]}}')
    project.make_table("--captions", str(captions))
    said = project.ok()
    assert (jobs(said, "voxelize_events"), jobs(said, "validate_events"), jobs(said, "write_event_manifest")) == (0, 0, 1)
    assert [row["event_friendly"] for row in read_jsonl(large)] == [False, False, False, True]
    assert NOTHING in project.ok("--dry-run")


def controls(project: Project) -> dict[str, bytes]:
    folder = project.results() / "controls" / "events"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.mkv"))}


def test_controls_are_rendered_set_aside_and_taken_back_as_the_config_and_the_table_say(project: Project) -> None:
    config = (project.folder / "config" / "config.yaml").read_text()
    project.write_config(config + "  controls: true\n")
    said = project.ok()
    assert (jobs(said, "voxelize_events"), jobs(said, "render_event_controls"), jobs(said, "write_event_manifest")) == (0, 3, 0)
    assert "  render_event_controls: 4 files" in said
    made = controls(project)
    assert list(made) == ["NA.mkv", "c_3.mkv", "v_--b.mkv", "v_k.mkv"]
    assert NOTHING in project.ok("--dry-run")

    project.write_config(config)
    project.ok()
    assert controls(project) == {}
    assert (project.results() / "controls" / "events" / "quarantine" / "v_k.mkv").read_bytes() == made["v_k.mkv"]
    project.write_config(config + "  controls: true\n")
    project.ok()
    assert controls(project) == made
    logs = sorted(project.results().glob("logs/render_event_controls/*.log"))
    assert logs and all("adopted" in log.read_text() and " made" not in log.read_text() for log in logs)

    (project.folder / "data" / "videos" / "v_k.mkv").unlink()
    project.make_table("--remove-gone")
    project.ok()
    assert list(controls(project)) == ["NA.mkv", "c_3.mkv", "v_--b.mkv"]
    (project.results() / "controls" / "events" / "NA.mkv").unlink()
    project.ok("--config", "verify=full")
    assert controls(project) == {name: data for name, data in made.items() if name != "v_k.mkv"}


def test_refused_video_has_no_control_and_is_counted_once(project: Project) -> None:
    (project.folder / "data" / "videos" / "page.mp4").write_text("<html>404</html>")
    project.make_table()
    project.write_config((project.folder / "config" / "config.yaml").read_text() + "  controls: true\nmax_quarantined: 1\n")
    project.ok()
    summary = read_json(project.results() / "report" / "events.json")
    assert (summary["passed"], summary["codes"]) == (4, {"not_a_video": 1})
    assert list(controls(project)) == ["NA.mkv", "c_3.mkv", "v_--b.mkv", "v_k.mkv"]


def test_release_setting_makes_the_release_anew_and_no_voxel(project: Project) -> None:
    release = project.results() / "events_release"
    project.write_config((project.folder / "config" / "config.yaml").read_text() + "  release:\n    dark_below: 0.01\n    members_per_shard: 3\n")
    shutil.rmtree(project.folder / ".snakemake")  # a change shows in the files alone
    said = project.ok()
    assert (jobs(said, "voxelize_events"), jobs(said, "write_event_manifest"), jobs(said, "pack_events"), jobs(said, "checksum_events")) == (0, 1, 2, 1)
    assert [path.name for path in sorted((release / "data" / "train").glob("*.tar"))] == ["train-000000.tar", "train-000001.tar"]
    assert verify_release(release) == []
    assert NOTHING in project.ok("--dry-run")


def test_no_list_of_the_release_can_be_missing_unnoticed(project: Project) -> None:
    metadata = project.results() / "events_release" / "metadata"
    for name in ("shards_train.json", "shard_checksums.sha256", "dataset_description.json"):
        away = (metadata / name).rename(project.folder / name)
        assert NOTHING not in project.ok("--dry-run"), name
        away.rename(metadata / name)
    assert NOTHING in project.ok("--dry-run")


def test_verify_full_finds_and_mends_a_damaged_release_shard(project: Project) -> None:
    project.write_config((project.folder / "config" / "config.yaml").read_text() + "verify: full\n")
    flip_a_bit(project.results() / "events_release" / "data" / "train" / "train-000000.tar")
    project.ok()
    assert verify_release(project.results() / "events_release") == []


def test_changed_video_reruns_its_shard_and_only_it_is_made(project: Project) -> None:
    before = project.voxel_files()
    project.add_video("c_3", 77)
    project.make_table()
    project.ok()
    after = project.voxel_files()
    assert {name for name in after if after[name] != before[name]} == {"train/c_3.h5"}


def test_removed_video_leaves_the_folder_even_if_its_shard_is_empty(project: Project) -> None:
    (project.folder / "data" / "videos" / "v_k.mkv").unlink()
    project.make_table()
    assert "Nothing to be done" in project.ok("--dry-run"), "a video whose file is gone keeps its row and its result"
    project.make_table("--remove-gone")
    project.ok()
    assert "train/v_k.h5" not in project.voxel_files()
    live = {shard_of(video_id, 4) for video_id in ("v_--b", "c_3", "NA")}
    assert shard_of("v_k", 4) not in live, "choose ids so that v_k has a shard of its own"
    assert {path.name.partition(".")[0] for path in project.results().glob("events/shards/*/*.jsonl")} == live


def test_changed_setting_redoes_all_and_redo_too(project: Project) -> None:
    before = project.voxel_files()
    config = (project.folder / "config" / "config.yaml").read_text()
    project.write_config(config + "  threshold_pos: 0.1\n  threshold_neg: 0.1\n")
    said = project.ok()
    assert jobs(said, "voxelize_events") == len({shard_of(i, 4) for i in ("v_k", "v_--b", "c_3", "NA")})
    assert all(data != before[name] for name, data in project.voxel_files().items())
    project.write_config(config)
    project.ok()
    assert project.voxel_files() == before
    project.write_config(config + "redo:\n  events: 1\n")
    project.ok()
    assert project.voxel_files() == before
    newest = max(project.results().glob("logs/voxelize_events/*.log"), key=lambda path: path.stat().st_mtime_ns)
    assert re.search("[12] made", newest.read_text())


def test_refused_video_fails_the_gate_after_all_else_is_built(project: Project) -> None:
    (project.folder / "data" / "videos" / "page.mp4").write_text("<html>404</html>")
    project.add_video("late", 9)
    project.make_table()
    done = project.run()
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "page: not_a_video (voxelize_events)" in said and "[too_many_quarantined]" in said
    assert "train/late.h5" in project.voxel_files()
    assert read_json(project.results() / "report" / "events.json")["codes"] == {"not_a_video": 1}
    project.write_config((project.folder / "config" / "config.yaml").read_text() + "max_quarantined: 1\n")
    assert jobs(project.ok(), "voxelize_events") == 0


def flip_a_bit(path: Path) -> None:
    stat, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # a bad disk changes no time


def test_verify_full_finds_and_mends_a_damaged_and_a_deleted_file_in_every_run(project: Project) -> None:
    before = project.voxel_files()
    train = project.results() / "events" / "train"
    project.write_config((project.folder / "config" / "config.yaml").read_text() + "verify: full\n")
    for _ in range(2):
        flip_a_bit(train / "v_k.h5")
        (train / "NA.h5").unlink()
        project.ok()
        assert project.voxel_files() == before
    assert (project.results() / "events" / "quarantine" / "train" / "v_k.h5").exists()


def test_file_damaged_before_validation_is_made_again_by_the_same_command(project: Project) -> None:
    before = project.voxel_files()
    damaged = project.results() / "events" / "train" / "v_k.h5"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    done = project.run("--forcerun", "validate_events")
    assert done.returncode == 1 and "[fault_stale]" in done.stdout + done.stderr
    project.ok()
    assert project.voxel_files() == before


def test_damaged_manifest_is_made_again_by_the_same_command(project: Project) -> None:
    before = project.voxel_files()
    manifest = next(project.results().glob("events/shards/validate_events/*.jsonl"))
    manifest.write_text("garbage")
    done = project.run()
    assert done.returncode == 1 and "[fault_stale]" in done.stdout + done.stderr
    project.ok()
    assert project.voxel_files() == before
    assert read_json(project.results() / "report" / "events.json")["passed"] == 4


def test_change_shows_in_the_files_alone_without_snakemakes_records(project: Project) -> None:
    shutil.rmtree(project.folder / ".snakemake")
    assert NOTHING in project.ok("--dry-run")
    project.add_video("late", 9)
    project.make_table()
    assert jobs(project.ok("--dry-run"), "voxelize_events") == 1
    project.write_config((project.folder / "config" / "config.yaml").read_text() + "  threshold_pos: 0.1\n")
    assert jobs(project.ok("--dry-run"), "voxelize_events") == 3


def test_gate_asks_again_when_less_is_allowed_without_snakemakes_records(project: Project) -> None:
    (project.folder / "data" / "videos" / "page.mp4").write_text("<html>404</html>")
    project.make_table()
    config = (project.folder / "config" / "config.yaml").read_text()
    project.write_config(config + "max_quarantined: 1\n")
    project.ok()
    shutil.rmtree(project.folder / ".snakemake")
    project.write_config(config)
    done = project.run()
    assert done.returncode == 1 and "[too_many_quarantined]" in done.stdout + done.stderr


@pytest.mark.parametrize("allowed", [0, 1])
def test_missing_video_that_comes_back_is_made_in_the_next_run(project: Project, allowed: int) -> None:
    project.write_config((project.folder / "config" / "config.yaml").read_text() + f"max_quarantined: {allowed}\n")
    video = project.folder / "data" / "videos" / "late.mkv"
    project.add_video("late", 9)
    project.make_table()
    away = video.rename(project.folder / "late.mkv")
    done = project.run()
    assert done.returncode == 1 - allowed and "late: missing_file" in done.stdout + done.stderr
    away.rename(video)
    project.ok(*(["--config", "verify=full"] if allowed else []))  # a tolerated verdict stands until every file is looked at
    assert "train/late.h5" in project.voxel_files()


def test_driver_killed_then_unlock_and_the_same_command_complete(tmp_path: Path, finished: Project) -> None:
    project = Project(tmp_path / "p")
    driver = subprocess.Popen([str(SNAKEMAKE), "--cores", "2"], cwd=project.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list(project.folder.glob("results/small/events/.journal/*.jsonl")) and time.monotonic() < end and driver.poll() is None:
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    project.ok("--unlock")
    for _ in range(3):  # a step that the dead driver left behind may still hold its shard: that is a fault, and the next run goes on
        done = project.run()
        if done.returncode == 0:
            break
        assert "fault_busy" in done.stdout + done.stderr
    assert project.voxel_files() == finished.voxel_files()


def test_dry_run_of_20000_videos_shows_the_whole_run(project: Project) -> None:
    rows = ({"video_id": f"v_{n:011d}", "path": f"v/{n}.mp4", "split": "train", "bytes": "1", "mtime_ns": "2"} for n in range(20_000))
    write_table(project.folder / "data" / "big.csv", ("video_id", "path", "split", "bytes", "mtime_ns"), rows)
    project.write_config("run: big\nevents:\n  table: data/big.csv\n")
    said = project.ok("--dry-run", "--quiet", "rules")
    assert (jobs(said, "voxelize_events"), jobs(said, "validate_events"), jobs(said, "pack_events"), jobs(said, "total")) == (20, 20, 2, 47)


def test_lint_finds_nothing(finished: Project) -> None:
    finished.ok("--lint")


BAD = {
    "missing table": ("run: r\nevents:\n  table: none.csv\n", "[bad_table]"),
    "unknown key": ("run: r\nevents:\n  table: data/videos.csv\n  work_shard: 3\n", "events.work_shards"),
    "yaml clock": ("run: r\nevents:\n  table: data/videos.csv\n  work_shards: 12:30\n", "12:30"),
    "scales not nested": ("run: r\nevents:\n  table: data/videos.csv\n  release:\n    scales: {small: 0.5}\n", "Small is a part of Medium"),
    "unknown condition": ("run: r\nevents:\n  table: data/videos.csv\n  release:\n    scales: {require: bright}\n", "'bright'"),
    "unwritable": ("run: r\nresults: /proc/here\nevents:\n  table: data/videos.csv\n", "[unwritable]"),
}
BAD_VALUES = {
    "wrong type": ("  workers: two\n", "events.workers"),
    "num_bins": ("  num_bins: 6\n", "events.num_bins"),
    "yaml no": ("run: no\n", "run"),
    "yaml octal": ("  work_shards: 0123\n", "0123"),
    "yaml exponent": ("  eps: 1e3\n", "1e3"),
    "controls of summed steps": ("  frames_per_bin: 5\n  controls: true\n", "events.controls"),
    "duplicate key": ("run: s\n", "twice"),
}
"""What the check of the configuration refuses, as it does an unknown key: added to one that is right, or the whole beginning of one."""


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line_before_anything_runs(finished: Project, tmp_path: Path, name: str) -> None:
    text, part = BAD[name]
    config = tmp_path / "bad.yaml"
    config.write_text(text)
    done = finished.run("--configfile", str(config))
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith(("Using", "host:"))]
    assert done.returncode == 2, lines
    assert len(lines) == 1 and lines[0].startswith("error: ") and part in lines[0]
    assert not (finished.folder / "results" / "r").exists()


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_value_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    text, part = BAD_VALUES[name]
    config = tmp_path / "bad.yaml"
    events = "events:\n  table: data/videos.csv\n"
    config.write_text({"yaml no": text + events, "duplicate key": "run: r\n" + text + events}.get(name, "run: r\n" + events + text))
    with pytest.raises(DataError) as caught:
        load([config])
    print_error(caught.value)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and part in line


def test_duplicate_id_is_one_clear_line(project: Project) -> None:
    table = project.folder / "data" / "videos.csv"
    table.write_text(table.read_text() + table.read_text().splitlines()[1] + "\n")
    done = project.run("--dry-run")
    assert done.returncode == 2 and "[duplicate_id]" in done.stderr


def test_user_config_is_not_mixed_with_the_demo(project: Project) -> None:
    (project.folder / "mine.yaml").write_text("run: mine\n")
    done = project.run("events", "--dry-run", "--configfile", "mine.yaml")
    assert done.returncode == 2 and "no section of a branch" in done.stderr


def test_every_rule_is_a_script_with_log_benchmark_env_and_version() -> None:
    rules = {}
    for path in (ROOT / "rules").glob("*.smk"):
        for name, body in re.findall(r"^(?:    )?rule (\w+):\n((?:    .*\n|\n)+)", path.read_text(), re.M):
            rules[name] = body
    whole_stage = {"write_event_manifest", "pack_events", "checksum_events", "write_report", "gate"}
    assert {"voxelize_events", "validate_events", "render_event_controls", *whole_stage} <= rules.keys()
    for name, body in rules.items():
        assert (ROOT / "scripts" / f"{name}.py").exists(), name
        for part in ("log:", "benchmark:", "conda:", "resources:", "mem_mb=lambda wildcards, attempt: attempt", "runtime=", "version=", f'step("{name}"'):
            assert part in body, f"{name} lacks {part}"
        assert not re.search(r"(?<!\w)script:", body), name


def test_slurm_profile_repeats_the_default_one() -> None:
    default, slurm = (yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text()) for name in ("default", "slurm"))
    assert default.items() <= slurm.items()
