"""Latents as a user meets them: a pair of videos with its records, tiny models; what runs, what does not run again, and what a wrong configuration says."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.vidlatents.pairs import minimal, write_pair, write_records
from tests.workflow.project import Project, jobs
from vidlatents.__main__ import main as vidlatents

CONFIG = "run: small\nlatents:\n  weights: tiny\n  records: data/pairs/r.jsonl\n  work_shards: 2\n  device: cpu\n"
SIZE = (16, 24)
UTTIDS = ("a_b", "c d", "\u89c6", "gone")


class LatentsProject(Project):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ids=())
        for uttid in UTTIDS[:3]:
            write_pair(self.pairs, uttid, 40, 40, SIZE)
        self.write_records("a red ball")
        self.write_config(CONFIG + "  max_quarantined: 1\n")

    def make_table(self, *flags: str) -> None:
        """Make no table: these pairs have none but their records."""

    @property
    def pairs(self) -> Path:
        return self.folder / "data" / "pairs"

    def write_records(self, prompt: str) -> None:
        """Write the records; the last one's videos are not there."""
        prompts = {UTTIDS[0]: prompt, UTTIDS[1]: "two", UTTIDS[2]: " two "}
        write_records(self.pairs / "r.jsonl", [minimal(uttid, 40, *SIZE, prompt=prompts.get(uttid, "x")) for uttid in UTTIDS])

    def latents(self) -> dict[str, bytes]:
        folder = self.results() / "latents" / "wan21-sections"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def books(self, name: str) -> str:
        return (self.results() / "latents_books" / "wan21-sections" / name).read_text()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> LatentsProject:
    """A project whose latents are made, with one refusal that its gate allows. Tests that change it work on a copy."""
    project = LatentsProject(tmp_path_factory.mktemp("w") / "latents")
    project.ok("latents")
    return project


@pytest.fixture
def project(finished: LatentsProject, tmp_path: Path) -> LatentsProject:
    return finished.copied(tmp_path / "moved")


def test_run_leaves_one_file_for_each_pair_and_nothing_else_in_the_folder(finished: LatentsProject) -> None:
    assert list(finished.latents()) == [f"{uttid}_40_{SIZE[0]}_{SIZE[1]}.pt" for uttid in UTTIDS[:3]]


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
    assert len(list((finished.results() / "latents_books" / "text" / "embeds").iterdir())) == 2


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
    shutil.copytree(project.results() / "latents_books" / "models" / "tiny-wan21", project.folder / "data" / "model")
    project.write_config(CONFIG.replace("weights: tiny", "weights: data/model") + "  max_quarantined: 1\n")
    before = asked(project)
    (file,) = (project.folder / "data" / "model" / "vae").glob("*.safetensors")
    os.utime(file, ns=(1, 1))
    after = asked(project)
    assert {name for name, _ in before} == {name for name, _ in after} == {"encode_latents", "encode_text", "verify_latents"}
    assert {key for name, key in before if name == "encode_latents"}.isdisjoint(key for name, key in after if name == "encode_latents")


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
    ],
)
def test_a_wrong_configuration_is_named_before_anything_starts(finished: LatentsProject, text: str, found: str) -> None:
    (finished.folder / "wrong.yaml").write_text(text)
    done = finished.run("--dry-run", "--configfile", "wrong.yaml")
    assert done.returncode != 0 and found in done.stderr, done.stderr
