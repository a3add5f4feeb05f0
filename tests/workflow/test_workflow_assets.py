"""Assets and backgrounds as a user meets them: what runs, what does not run again, and how it ends when something is wrong."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sam3dvid.backgrounds.pool import verify_pool
from shardwork.jsonio import read_json
from shardwork.shards import shard_of
from tests.contract.test_contract_assets import write_box, write_points
from tests.once import made_once
from tests.workflow.project import RUN_SECONDS, SNAKEMAKE, Project, jobs

ASSETS = ("box_a", "-dash", "NA")
CONFIG = """\
run: small
assets:
  table: data/assets.csv
  work_shards: 3
backgrounds:
  polyhaven:
    table: data/panoramas.csv
    pool: data/pool
    width: 512
    height: 256
    views: 2
"""


def write_panorama(path: Path, seed: int, width: int = 1024) -> None:
    """Write a smooth panorama, twice as wide as high unless `width` says otherwise."""
    import cv2

    x, y = np.meshgrid(np.linspace(0, 2 * np.pi, width), np.linspace(0, np.pi, 512))
    picture = np.stack([120 + 90 * np.sin(x + seed), 120 + 60 * np.cos(y), 100 + 10.0 * seed + 0 * x], -1).astype(np.uint8)
    cv2.imwrite(str(path), picture)


class AssetsProject(Project):
    """A clone with small assets and three small panoramas."""

    def __init__(self, folder: Path, names: tuple[str, ...] = ASSETS) -> None:
        super().__init__(folder, ids=())
        for seed, name in enumerate(names):
            write_box(self.folder / "data" / "assets" / name / "meshes", seed)
        for seed in range(3):
            write_panorama(self.folder / "data" / "panoramas" / f"place{seed}_1k.png", seed)
        self.tables()
        self.write_config(CONFIG)

    def make_table(self, *flags: str) -> None:
        (self.folder / "data" / "panoramas").mkdir()

    def tables(self, *flags: str) -> None:
        for line in (
            ["make_asset_table.py", "--assets=data/assets", "--layout=gso", "--license=CC0-1.0", "--out=data/assets.csv", *flags],
            ["make_panorama_table.py", "--panoramas=data/panoramas", "--out=data/panoramas.csv"],
        ):
            subprocess.run([sys.executable, f"scripts/{line[0]}", *line[1:]], cwd=self.folder, check=True, capture_output=True, timeout=RUN_SECONDS)

    def finished_assets(self) -> list[str]:
        return sorted(path.name for path in (self.results() / "dataset" / "assets" / "eval").iterdir() if not path.name.startswith("."))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> AssetsProject:
    """A project that ran once. Tests that change it work on a copy."""

    def make(folder: Path) -> AssetsProject:
        project = AssetsProject(folder / "it's here")
        project.ok(snakemake=SNAKEMAKE)
        return project

    return made_once(tmp_path_factory, "workflow-assets", make)


@pytest.fixture
def project(finished: AssetsProject, tmp_path: Path) -> AssetsProject:
    """A fresh copy of the finished project, times kept."""
    return finished.copied(tmp_path / "moved")


def test_run_finishes_every_asset_and_freezes_the_pool(finished: AssetsProject) -> None:
    assert finished.finished_assets() == sorted(ASSETS)
    pool = verify_pool(finished.folder / "data" / "pool")
    assert len(pool.eval) + len(pool.train) == 3 * 2
    for name in ("assets.png", "polyhaven.png", "ATTRIBUTION.md", "asset_licenses.csv", "assets.txt", "polyhaven.txt"):
        assert (finished.results() / "report" / name).stat().st_size > 0


def test_second_run_and_a_moved_clone_do_nothing(project: AssetsProject) -> None:
    assert "Nothing to be done" in project.ok()


def test_added_asset_reruns_its_shard_only(project: AssetsProject) -> None:
    write_box(project.folder / "data" / "assets" / "late" / "meshes", 9)
    project.tables()
    said = project.ok("--dry-run", "assets")
    assert (jobs(said, "normalize_assets"), jobs(said, "voxelize_assets"), jobs(said, "build_polyhaven_pool")) == (1, 1, 0)
    project.ok()
    assert project.finished_assets() == sorted((*ASSETS, "late"))
    logs = (project.results() / "logs" / "normalize_assets").glob(f"{shard_of('late', 3)}.*.log")
    assert any("1 made" in log.read_text() for log in logs)


def test_corrected_licence_makes_no_mesh_again_and_stands_in_meta_and_audit(project: AssetsProject) -> None:
    table = project.folder / "data" / "assets.csv"
    table.write_text(table.read_text().replace("CC0-1.0", "CC-BY-4.0"))
    said = project.ok("--dry-run")
    assert (jobs(said, "normalize_assets"), jobs(said, "voxelize_assets"), jobs(said, "write_asset_audit")) == (0, len({shard_of(n, 3) for n in ASSETS}), 1)
    project.ok()
    assert read_json(project.results() / "dataset" / "assets" / "eval" / "NA" / "meta.json")["license"] == "CC-BY-4.0"
    assert "CC-BY-4.0" in (project.results() / "report" / "ATTRIBUTION.md").read_text()


def test_refused_asset_fails_the_gate_after_all_else_is_built_and_its_own_limit_lets_it_pass(project: AssetsProject) -> None:
    write_points(project.folder / "data" / "assets" / "dots" / "meshes")
    project.tables()
    done = project.run("assets")
    assert done.returncode != 0 and "too_many_quarantined" in done.stdout + done.stderr
    text = (project.results() / "report" / "assets.txt").read_text()
    assert "3 of 4 passed, 1 quarantined" in text and "dots: points_only (normalize_assets)" in text
    assert project.finished_assets() == sorted(ASSETS)
    project.write_config(CONFIG.replace("work_shards: 3", "work_shards: 3\n  max_quarantined: 1"))
    project.ok("assets")


def test_filter_takes_assets_out_and_they_come_back_without_work(project: AssetsProject) -> None:
    with open(project.folder / "data" / "assets.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["scores"] = json.dumps({"aesthetic": 6.0 if row["asset_id"] == "NA" else 5.0})
    with open(project.folder / "data" / "assets.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    project.write_config(CONFIG.replace("work_shards: 3", "work_shards: 3\n  filter: {min_aesthetic: 5.5}"))
    project.ok("assets")
    assert project.finished_assets() == ["NA"]
    project.write_config(CONFIG)
    project.ok("assets")
    assert project.finished_assets() == sorted(ASSETS)
    meshes = project.results() / "assets" / "eval"
    assert sorted(path.stem for path in meshes.glob("*.glb")) == sorted(ASSETS)


def test_frozen_pool_refuses_other_settings_in_one_line_and_a_new_folder_takes_them(project: AssetsProject) -> None:
    before = {path.name: path.read_bytes() for path in (project.folder / "data" / "pool").rglob("*") if path.is_file()}
    project.write_config(CONFIG.replace("views: 2", "views: 3"))
    done = project.run("backgrounds", "--quiet", "rules")
    assert done.returncode != 0 and "[pool_frozen]" in done.stdout + done.stderr, "shown in quiet runs too"
    assert {path.name: path.read_bytes() for path in (project.folder / "data" / "pool").rglob("*") if path.is_file()} == before
    project.write_config(CONFIG.replace("views: 2", "views: 3").replace("data/pool", "data/pool_of_3"))
    project.ok("backgrounds")
    pool = verify_pool(project.folder / "data" / "pool_of_3")
    assert len(pool.eval) + len(pool.train) == 9


def test_panorama_that_is_refused_freezes_nothing_until_it_is_mended(tmp_path: Path) -> None:
    project = AssetsProject(tmp_path / "fresh")
    bad = project.folder / "data" / "panoramas" / "strip.png"
    write_panorama(bad, 5, width=1500)
    project.tables()
    done = project.run("backgrounds")
    assert done.returncode != 0 and "not_equirectangular" in (project.results() / "report" / "polyhaven.txt").read_text()
    assert not (project.folder / "data" / "pool" / "selection.json").exists()
    write_panorama(bad, 5)
    project.tables()
    project.ok("backgrounds")
    assert "strip" in read_json(project.folder / "data" / "pool" / "selection.json")["sources"]


def test_pool_that_is_not_there_is_one_clear_line_before_anything_runs(project: AssetsProject) -> None:
    project.write_config("run: small\nbackgrounds:\n  polyhaven:\n    pool: data/nowhere\nassets:\n  table: data/assets.csv\n")
    done = project.run()
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error:")]
    assert done.returncode != 0 and len(said) == 1 and "[bad_pool]" in said[0] and "prepare_polyhaven.py" in said[0]


def test_20000_assets_show_the_whole_run(project: AssetsProject) -> None:
    head, row = (project.folder / "data" / "assets.csv").read_text().splitlines()[:2]
    lines = [head, *(f"a{n:07d}," + row.partition(",")[2] for n in range(20_000))]
    (project.folder / "data" / "assets.csv").write_text("\n".join(lines) + "\n")
    project.write_config("run: big\nassets:\n  table: data/assets.csv\n")
    said = project.ok("--dry-run", "--quiet", "rules")
    assert (jobs(said, "normalize_assets"), jobs(said, "voxelize_assets"), jobs(said, "total")) == (20, 20, 45)


def test_changed_asset_is_made_again_also_without_snakemakes_records(project: AssetsProject) -> None:
    made = project.results() / "assets" / "eval" / "NA.glb"
    before = made.read_bytes()
    shutil.rmtree(project.folder / ".snakemake")
    write_box(project.folder / "data" / "assets" / "NA" / "meshes", 77)
    (project.folder / "data" / "assets" / "NA" / "meshes" / "model.obj").touch()
    project.tables()
    project.ok("report")
    assert made.read_bytes() != before
