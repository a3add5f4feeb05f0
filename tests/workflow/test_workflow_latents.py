"""Latents as a user meets them: a pair of videos with its records, tiny models; what runs, what does not run again, and what a wrong configuration says."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from reelmill.config import load
from reelmill.estimate_latents import latents_of
from reelmill.machine import usable_memory_bytes
from tests.contract.test_contract_events import write_video
from tests.once import made_once
from tests.vidlatents.pairs import minimal, write_pair, write_records
from tests.workflow.project import SNAKEMAKE, Project, jobs
from vidlatents.__main__ import main as vidlatents
from vidlatents.stage import MODEL_VERSION

CONFIG = "run: small\nevents: {table: data/videos.csv, controls: true, work_shards: 1}\n"
CONFIG += "latents:\n  weights: tiny\n  records: data/pairs/r.jsonl\n  work_shards: 2\n  device: cpu\n  events: true\n  missing_prompt: empty\n"
CONFIG += "  max_quarantined: 1\n"
SIZE = (16, 24)
OWN, OWN_FRAMES = "own", 36
UTTIDS = ("a_b", "c d", "\u89c6", "gone")


class LatentsProject(Project):
    """Three pairs with records, a record whose videos are not there, and a video of the run's own with its events.   said : what the first run printed."""

    said = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ids=())
        write_video(folder / "data" / "videos" / f"{OWN}.mkv", 0, OWN_FRAMES)
        Project.make_table(self)
        for uttid in UTTIDS[:3]:
            write_pair(self.pairs, uttid, 40, 40, SIZE)
        self.write_records("a red ball")
        self.write_config(CONFIG)

    def make_table(self, *flags: str) -> None:
        """Make none before there is a video."""

    @property
    def pairs(self) -> Path:
        return self.folder / "data" / "pairs"

    def write_records(self, prompt: str, uttids: Sequence[str] = UTTIDS) -> None:
        """Write the records; the last one's videos are not there."""
        prompts = {UTTIDS[0]: prompt, UTTIDS[1]: "two", UTTIDS[2]: " two "}
        write_records(self.pairs / "r.jsonl", [minimal(uttid, 40, *SIZE, prompt=prompts.get(uttid, "x")) for uttid in uttids])

    def latents(self) -> dict[str, bytes]:
        folder = self.results() / "latents" / "wan21-sections"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def books(self, name: str) -> str:
        return (self.results() / "latents_books" / "wan21-sections" / name).read_text()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> LatentsProject:
    """A project whose latents are made, with one refusal that its gate allows. Tests that change it work on a copy."""

    def make(folder: Path) -> LatentsProject:
        project = LatentsProject(folder / "latents")
        project.said = project.ok("latents", snakemake=SNAKEMAKE)
        return project

    return made_once(tmp_path_factory, "workflow-latents", make)


@pytest.fixture
def project(finished: LatentsProject, tmp_path: Path) -> LatentsProject:
    return finished.copied(tmp_path / "moved")


def test_run_leaves_one_file_for_each_pair_and_nothing_else_in_the_folder(finished: LatentsProject) -> None:
    assert set(finished.latents()) == {f"{OWN}_33_32_48.pt", *(f"{uttid}_40_{SIZE[0]}_{SIZE[1]}.pt" for uttid in UTTIDS[:3])}


def test_a_video_of_the_runs_own_is_read_with_its_events_and_what_is_left_of_it_is_told(finished: LatentsProject) -> None:
    (row,) = [row for row in map(json.loads, finished.books("manifest.jsonl").splitlines()) if row["source"] == "events"]
    assert (row["uttid"], row["used"], row["dropped"], row["unread"]) == (OWN, 33, 0, OWN_FRAMES - 33)


def test_the_plan_of_all_is_told_with_its_cost_before_anything_is_encoded(finished: LatentsProject) -> None:
    path = finished.results() / "report" / "latents_sections.plan.txt"
    first = min((finished.results() / "latents_books" / "text" / "embeds").iterdir(), key=lambda one: one.stat().st_mtime_ns)
    assert path.stat().st_mtime_ns < first.stat().st_mtime_ns
    text = path.read_text()
    for said in ("5 samples: 4 pass, 1 refused", "21 of 153 bucket frames are dropped", "3 frames of videos", "4 samples would be ignored", "TFLOP"):
        assert said in text


def test_jobs_of_this_machine_share_its_memory_and_one_gpu(finished: LatentsProject) -> None:
    (line,) = [line for line in finished.said.splitlines() if line.startswith("Provided resources:")]
    assert re.search(r"\bgpu\b[^,]*[=,] ?1\b", line) and str(usable_memory_bytes() // 1_000_000) in line


@pytest.mark.parametrize("change", [("", ""), ("  device: cpu\n", "  device: auto\n")])
def test_a_changed_trainer_or_device_reports_again_at_most(project: LatentsProject, change: tuple[str, str]) -> None:
    project.write_config(CONFIG.replace(*change) if change[0] else f"{CONFIG}  trainer_frames: 34\n")
    said = project.ok("latents", "--dry-run")
    assert [jobs(said, rule) for rule in ("plan_latents", "encode_text", "encode_latents", "verify_latents")] == [0, 0, 0, 0]
    assert jobs(said, "write_latents_plan") == (0 if change[0] else 2)


def test_another_version_of_tiny_models_encodes_again(project: LatentsProject) -> None:
    path = project.folder / "src" / "vidlatents" / "stage.py"
    path.write_text(path.read_text().replace("MODEL_VERSION = 1", "MODEL_VERSION = 2"))
    said = project.ok("latents", "--dry-run")
    assert [jobs(said, rule) for rule in ("plan_latents", "encode_text", "encode_latents")] == [0, 1, 3]


def test_the_estimate_counts_the_jobs_that_a_dry_run_counts(finished: LatentsProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.folder)
    said = finished.ok("latents", "--dry-run", "--forceall")
    rules = ("plan_latents", "write_latents_plan", "build_tiny_model", "encode_text", "encode_latents", "verify_latents")
    count = sum(jobs(said, rule) for rule in (*rules, "write_latents_manifest_sections", "write_latents_manifest_whole"))
    found = latents_of(load([finished.folder / "config" / "config.yaml"]))
    assert found is not None and found.jobs == count


def test_no_command_names_the_shard_manifests_of_all_jobs(finished: LatentsProject) -> None:
    lines = [line for line in finished.ok("latents", "--dry-run", "--forceall", "--printshellcmds").splitlines() if "scripts/" in line]
    for script in ("encode_text.py", "write_latents_plan.py", "write_latents_manifest.py"):
        (line, *_) = [line for line in lines if script in line]
        assert "--shards=" in line and "-of-0002" not in line


def test_run_leaves_a_folder_that_verification_passes(finished: LatentsProject, capsys: pytest.CaptureFixture[str]) -> None:
    folder, manifest = finished.results() / "latents" / "wan21-sections", finished.results() / "latents_books" / "wan21-sections" / "manifest.jsonl"
    assert vidlatents(["verify", str(folder), f"--manifest={manifest}", "--level=sha256", "--model=wan21", "--layout=sections"]) == 0, capsys.readouterr().out


def test_a_pair_that_is_not_there_is_a_row_with_its_code(finished: LatentsProject) -> None:
    (row,) = map(json.loads, finished.books("failures.jsonl").splitlines())
    assert (row["uttid"], row["code"]) == ("gone", "E_VIDEO_MISSING")


def test_a_dataset_of_tiny_models_says_so_in_its_description_and_at_the_end_of_the_run(finished: LatentsProject) -> None:
    assert json.loads(finished.books("dataset.json"))["tiny"] is True
    log = finished.results() / "logs" / "write_latents_manifest" / "sections.log"
    assert "tests only" in log.read_text().splitlines()[-1]


def test_prompts_that_are_one_after_cleaning_are_encoded_once(finished: LatentsProject) -> None:
    assert len(list((finished.results() / "latents_books" / "text" / "embeds").iterdir())) == 3, "two and the empty one"


def test_a_moved_clone_runs_nothing(project: LatentsProject) -> None:
    assert "Nothing to be done" in project.ok("latents")


def test_a_changed_prompt_remakes_one_sample(project: LatentsProject) -> None:
    before = project.latents()
    project.write_records("a blue ball")
    said = project.ok("latents")
    after = project.latents()
    assert [name for name in after if after[name] != before[name]] == [f"a_b_40_{SIZE[0]}_{SIZE[1]}.pt"]
    assert jobs(said, "encode_latents") == 1 and jobs(said, "encode_text") == 1
    log = max((project.results() / "logs" / "encode_latents").glob("*.log"), key=lambda path: path.stat().st_mtime_ns).read_text()
    assert "1 to do" in log


def test_weights_replaced_under_the_same_name_are_encoded_with_again_and_nothing_is_planned_again(project: LatentsProject) -> None:
    """A dry run tells: the weights differ in their time alone."""
    shutil.copytree(project.results() / "latents_books" / "models" / f"tiny-wan21-{MODEL_VERSION}", project.folder / "data" / "model")
    project.write_config(CONFIG.replace("weights: tiny", "weights: data/model"))
    before = asked(project)
    (file,) = (project.folder / "data" / "model" / "vae").glob("*.safetensors")
    os.utime(file, ns=(1, 1))
    after = asked(project)
    assert {name for name, _ in before} == {name for name, _ in after} == {"encode_latents", "encode_text", "verify_latents"}
    assert {key for name, key in before if name == "encode_latents"}.isdisjoint(key for name, key in after if name == "encode_latents")


def test_a_work_shard_that_has_no_records_left_is_written_out_of_the_folders_books(project: LatentsProject) -> None:
    manifests = [path.read_text() for path in sorted((project.results() / "latents_plans" / "wan21-sections" / "shards" / "plan_latents").iterdir())]
    (kept,) = [text for text in manifests if f'"{OWN}"' in text]
    left = [uttid for uttid in UTTIDS if json.dumps(uttid, ensure_ascii=False) in kept]
    assert len(manifests) == 2 and len(left) < len(UTTIDS)
    project.write_records("a red ball", left)
    project.ok("latents")
    assert {json.loads(line)["uttid"] for line in project.books("manifest.jsonl").splitlines()} == {OWN, *left} - {"gone"}


def test_a_shard_that_is_not_encoded_yet_is_encoded_though_the_text_is_written_anew(project: LatentsProject) -> None:
    """A changed parameter runs the text's job alone; of what is behind it, Snakemake would look at nothing."""
    for path in (*shards_of(project, "encode_latents"), *shards_of(project, "verify_latents")):
        path.unlink()
    for path in (project.results() / "report").glob("latents_sections.*.passed"):
        path.unlink()
    rules = project.folder / "rules" / "latents.smk"
    rules.write_text(rules.read_text().replace("        version=latent_stage.TEXT_VERSION,", "        version=999,"))
    said = project.ok("latents", "--dry-run")
    assert jobs(said, "encode_text") == 1
    assert jobs(said, "encode_latents") == jobs(said, "verify_latents") == 2


def shards_of(project: LatentsProject, step: str) -> list[Path]:
    folder = "latents_plans" if step == "plan_latents" else "latents_books"
    return sorted((project.results() / folder / "wan21-sections" / "shards" / step).iterdir())


def refused_manifest(project: LatentsProject) -> Path:
    """Return the shard manifest of the plan that refused a record, as a gate takes it away after such a run."""
    (manifest,) = [path for path in shards_of(project, "plan_latents") if "E_VIDEO_MISSING" in path.read_text()]
    return manifest


def test_a_run_that_ended_between_plan_and_encoding_is_finished_by_the_next_one(project: LatentsProject) -> None:
    """What is behind an edge that Snakemake does not follow must be missing, not only older than its plan."""
    write_pair(project.pairs, "gone", 40, 40, SIZE)
    manifest = refused_manifest(project)
    manifest.unlink()
    project.ok(str(manifest.relative_to(project.folder)))
    project.ok("latents")
    assert f"gone_40_{SIZE[0]}_{SIZE[1]}.pt" in project.latents() and project.books("failures.jsonl") == ""


def test_the_plan_alone_is_made_again_where_its_manifest_was_taken_away(project: LatentsProject) -> None:
    refused_manifest(project).unlink()
    assert jobs(project.ok("latents_plan", "--dry-run"), "plan_latents") == 1


@pytest.mark.parametrize(
    ("version", "asked_for"), [("TEXT_VERSION", {"encode_text", "encode_latents", "verify_latents"}), ("VERIFY_VERSION", {"verify_latents"})]
)
def test_another_version_asks_for_other_files_whatever_snakemake_knows_of_those_there(project: LatentsProject, version: str, asked_for: set[str]) -> None:
    shutil.rmtree(project.folder / ".snakemake")
    path = project.folder / "src" / "vidlatents" / "stage.py"
    path.write_text(path.read_text().replace(f"{version} = 1", f"{version} = 2"))
    assert {step for step, _ in asked(project)} == asked_for


def test_records_of_another_layout_and_back_again_have_their_prompts(project: LatentsProject) -> None:
    """The text of the run between had other prompts: what the first one's plans say is older than it, and not in it."""
    first = CONFIG.replace("  events: true\n", "").replace("  missing_prompt: empty\n", "")
    write_records(project.pairs / "other.jsonl", [minimal("a_b", 37, *SIZE, prompt="another")])
    for config in (first, first.replace("r.jsonl", "other.jsonl") + "  layout: whole\n", first + "  how: mode\n"):
        project.write_config(config)
        project.ok("latents")
    assert set(project.latents()) == {f"{uttid}_40_{SIZE[0]}_{SIZE[1]}.pt" for uttid in UTTIDS[:3]}


def test_a_video_that_changed_after_its_plan_stops_its_own_shard_alone(project: LatentsProject) -> None:
    (text,) = (project.results() / "latents_books" / "text" / "shards" / "encode_text").iterdir()
    for path in (*shards_of(project, "encode_latents"), *shards_of(project, "verify_latents")):
        path.unlink()
    (plan,) = [path for path in shards_of(project, "plan_latents") if '"a_b"' in path.read_text()]
    (project.results() / "latents" / "wan21-sections" / f"a_b_40_{SIZE[0]}_{SIZE[1]}.pt").unlink()
    write_pair(project.pairs, "a_b", 41, 41, SIZE)
    assert project.run("latents").returncode != 0
    assert text.exists() and not plan.exists()
    assert len(shards_of(project, "encode_latents")) == 1, "the other shard"


def asked(project: LatentsProject) -> set[tuple[str, str]]:
    """Return step and key of the shard manifests that a run would write."""
    done = project.run("latents", "--dry-run")
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"output: \S*/shards/(\w+)/\S*\.([0-9a-f]{16})\.jsonl", done.stdout + done.stderr))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run: r\nlatents: {weights: tiny}\n", "no samples"),
        ("run: r\nlatents: {weights: tiny, events: true}\n", "no section events"),
        ("run: r\nlatents: {weights: tiny, records: nowhere.jsonl}\n", "no such file"),
        ("run: r\nlatents: {weights: tiny, records: data/pairs/r.jsonl, own_sizes: 10x10}\n", "E_MULTIPLE"),
        ("run: r\nlatents: {weights: tiny, records: data/pairs/r.jsonl, sizes: 10x16}\n", "E_MULTIPLE"),
    ],
)
def test_a_wrong_configuration_is_named_before_anything_starts(finished: LatentsProject, tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    done = finished.run("--dry-run", "--configfile", str(tmp_path / "wrong.yaml"))
    assert done.returncode != 0 and found in done.stderr, done.stderr
