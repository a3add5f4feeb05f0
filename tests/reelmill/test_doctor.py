"""The doctor: each check is shown to fail once, and says what mends it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from reelmill import doctor, machine, packages, syslibs
from reelmill.__main__ import main
from reelmill.doctor import Check
from reelmill.packages import Pin
from tests.sam3dvid.stock import pool_row, write_pool

GIB = 1 << 30


def config_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def test_other_python_fails_and_says_why() -> None:
    check = doctor.check_python((3, 13, 1))
    assert check.status == "failure" and "3.13.1, wanted 3.11: Blender" in check.found and "Python 3.11" in check.mend
    assert doctor.check_python((3, 11, 0)).status == "ok"


def test_pins_are_read_from_every_extra(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[project]\nname = "reelmill"\ndependencies = ["numpy>=1.26", "h5py"]\n[project.optional-dependencies]\n'
        'events = ["av==18.1.0", "x[y] == 1.0", "old==1; python_version < \'3\'"]\nall = ["reelmill[events]"]\n'
    )
    assert packages.read_pins(project) == {"base": [Pin("numpy", ""), Pin("h5py", "")], "events": [Pin("av", "18.1.0"), Pin("x", "1.0")], "all": []}


def test_every_extra_of_the_project_itself_is_read() -> None:
    pins = packages.read_pins()
    assert {"base", *packages.REQUIRED_EXTRAS} <= pins.keys()
    assert all(pin.version for extra in packages.REQUIRED_EXTRAS for pin in pins[extra])


def test_without_pyproject_versions_are_not_compared(tmp_path: Path) -> None:
    (check,) = doctor.check_packages(packages.read_pins(tmp_path / "pyproject.toml"), ("base",))
    assert check.status == "warning" and "not compared" in check.found


@pytest.mark.parametrize(
    ("have", "want", "fault"),
    [
        ("3.16.0", "3.16.0", ""),
        ("3.15.0", "3.16.0", "thing is 3.15.0, pinned 3.16.0"),
        ("2.13.0+cpu", "2.13.0", ""),
        ("1.26.4", "1.26.*", ""),
        ("1.27.0", "1.26.*", "thing is 1.27.0, pinned 1.26.*"),
        ("9.9", "", ""),
    ],
)
def test_version_is_compared_with_its_pin(monkeypatch: pytest.MonkeyPatch, have: str, want: str, fault: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: have)
    assert packages.fault_of(Pin("thing", want)) == fault


def test_package_at_another_version_fails_where_it_is_required_and_warns_where_not() -> None:
    pins = {"events": [Pin("PyYAML", "0.1")], "clips": [Pin("PyYAML", "0.1")], "latents": [Pin("no-such-package", "1")]}
    required, other, absent = doctor.check_packages(pins, ("events",))
    assert required.status == "failure" and "PyYAML is 6" in required.found and "pinned 0.1" in required.found and required.mend == "make setup"
    assert other.status == "warning" and other.mend == "pip install -e '.[clips]'"
    assert absent == Check("packages latents", "ok", "not installed, fine for what does not need it")


def test_required_package_that_is_missing_fails() -> None:
    (check,) = doctor.check_packages({"events": [Pin("no-such-package", "1")]}, ("events",))
    assert (check.status, check.found) == ("failure", "no-such-package is not installed")


def test_cluster_launcher_is_one_whose_slurm_extra_is_whole() -> None:
    assert packages.is_launcher({"slurm": [Pin("PyYAML", "")]})
    assert not packages.is_launcher({"slurm": [Pin("PyYAML", ""), Pin("no-such-package", "")]}) and not packages.is_launcher({"events": []})


def test_package_that_does_not_load_is_named(tmp_path: Path) -> None:
    check = doctor.check_imports(sys.executable, ("json", "no_such_module", "csv"))
    assert check.status == "failure" and check.found == "no_such_module: ModuleNotFoundError: No module named 'no_such_module'"


def test_crash_while_loading_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crashes.py").write_text("import os\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor.check_imports(sys.executable, ("crashes",))
    assert check.status == "failure" and check.found == "crashes: exit -6"


def test_blender_that_lacks_a_system_library_names_the_line_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "libXrender.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "bpy.py").write_text(f"raise ImportError({said!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = doctor.check_imports(sys.executable, ("bpy",))
    assert check.status == "failure" and check.found == f"bpy: ImportError: {said}" and check.mend.startswith("sudo apt-get install -y libxrender1")


def test_packages_that_load_pass() -> None:
    assert doctor.check_imports(sys.executable, ("json", "csv")) == Check("imports", "ok", "json, csv")


def test_steps_python_that_is_not_there_fails() -> None:
    check = doctor.check_imports("/no/such/python")
    assert check.status == "failure" and "'/no/such/python'" in check.found and "`python`" in check.mend


def test_missing_libraries_are_one_apt_line_and_a_warning() -> None:
    check = doctor.check_libraries(lambda library: library not in ("libXi.so.6", "libGL.so.1"))
    assert (check.status, check.mend) == ("warning", "sudo apt-get install -y libxi6 libgl1")
    assert doctor.check_libraries(lambda library: True).status == "ok"


def test_missing_libraries_are_a_failure_where_the_configuration_renders() -> None:
    assert doctor.check_libraries(lambda library: False, needed=True).status == "failure"


def test_library_loads_or_not() -> None:
    assert syslibs.loads("libc.so.6") and not syslibs.loads("libno_such_library.so.1")


def test_library_list_runs_without_the_environment() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", syslibs.__file__], capture_output=True, text=True, check=True)
    assert done.stdout.split() == syslibs.required_libraries() and done.stderr == ""


def test_libraries_option_prints_the_packages_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(syslibs, "LIBRARIES", {"libc.so.6": "libc6", "libno_a.so.1": "libno-a", "libno_b.so.1": "libno-b"})
    assert main(["doctor", "--libraries"]) == 0
    assert capsys.readouterr().out == "libno-a libno-b\n"


def test_more_workers_than_cores_is_a_warning() -> None:
    assert doctor.check_cores(4, 2.0).status == "warning" and "lower `workers`" in doctor.check_cores(4, 2.0).mend
    assert doctor.check_cores(2, 2.0).status == doctor.check_cores(1, 0.5).status == "ok"


@pytest.mark.parametrize(("memory", "status"), [(GIB // 2, "failure"), (2 * GIB, "warning"), (8 * GIB, "ok")])
def test_memory_is_judged(memory: int, status: str) -> None:
    assert doctor.check_memory(memory).status == status


@pytest.mark.parametrize(("limit", "status"), [(256, "warning"), (1024, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_open_files_are_judged(limit: int, status: str) -> None:
    assert doctor.check_files(limit).status == status


@pytest.mark.parametrize(
    ("free", "inodes", "statuses"),
    [(GIB // 2, 5, ["failure", "failure"]), (5 * GIB, 5_000, ["warning", "warning"]), (50 * GIB, None, ["ok", "ok"]), (50 * GIB, 10**6, ["ok", "ok"])],
)
def test_disk_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, inodes: int | None, statuses: list[str]) -> None:
    monkeypatch.setattr(machine, "disk_at", lambda folder: machine.Disk(tmp_path, free, inodes))
    checks = doctor.check_disk(tmp_path)
    assert [check.status for check in checks] == [*statuses, "ok"]
    assert all(bool(check.mend) == (check.status != "ok") for check in checks)


def test_results_folder_whose_file_system_fails_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "probe_folder", lambda folder: "it takes no locks")
    check = doctor.check_disk(tmp_path / "results")[-1]
    assert (check.status, check.found) == ("failure", f"{tmp_path}: it takes no locks") and "`results`" in check.mend


def test_every_problem_of_a_configuration_is_a_check(tmp_path: Path) -> None:
    checks, config = doctor.check_config([config_file(tmp_path, "run: demo\nverfy: full\nprune: 1\n")])
    assert config is None and [check.status for check in checks] == ["failure", "failure"]
    assert "E_CONFIG_KEY" in checks[0].found and checks[0].mend == "did you mean verify?"


def test_missing_table_is_a_failure(tmp_path: Path) -> None:
    table = tmp_path / "videos.csv"
    path = config_file(tmp_path, f"run: demo\nevents:\n  table: {table}\n")
    assert doctor.check_config([path])[0][-1].found == f"{table} is not there"
    table.write_text("video_id\n")
    assert [check.status for check in doctor.check_config([path])[0]] == ["ok", "ok"]


def test_pool_that_no_table_makes_must_be_there_frozen(tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    path = config_file(tmp_path, f"run: demo\nbackgrounds:\n  polyhaven:\n    pool: {pool}\n")
    check = doctor.check_config([path])[0][-1]
    assert (check.name, check.status) == ("pool", "failure") and "prepare_polyhaven.py" in check.mend
    write_pool(pool, [])
    assert doctor.check_config([path])[0][-1] == Check("pool", "ok", str(pool))


def test_clips_want_four_assets_of_their_split_and_pictures_of_it(tmp_path: Path) -> None:
    table, pool = tmp_path / "assets.csv", tmp_path / "pool"
    text = "run: demo\nassets: {{table: {}}}\nbackgrounds: {{polyhaven: {{pool: {}}}}}\nclips: {{split: {}, count: 3}}\n"
    table.write_text("asset_id,split\n" + "".join(f"a{n},{split}\n" for n, split in enumerate(["eval"] * 4 + ["train"] * 3)))
    write_pool(pool, [pool_row("a", 64, 32)])
    checks = {split: doctor.check_config([config_file(tmp_path, text.format(table, pool, split))])[0] for split in ("eval", "train")}
    assert not any(check.name == "clips" for check in checks["eval"])
    found = [check.found for check in checks["train"] if (check.name, check.status) == ("clips", "failure")]
    assert len(found) == 2 and found[0].startswith("3 assets of train") and "no picture of train" in found[1]


def test_configuration_without_a_dataset_is_a_warning(tmp_path: Path) -> None:
    checks, config = doctor.check_config([config_file(tmp_path, "run: demo\n")])
    assert config is not None and checks[-1].status == "warning"


def test_lines_name_the_mend_and_sum_up() -> None:
    shown = doctor.lines([Check("a", "ok", "fine"), Check("b", "failure", "bad", "mend b"), Check("c", "warning", "odd", "mend c")])
    assert shown == ["ok       a: fine", "failure  b: bad -> mend b", "warning  c: odd -> mend c", "3 checks: 1 to mend before a run, 1 warning"]


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("warning", 0), ("failure", 1)])
def test_exit_code_is_1_for_a_failure_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: doctor.Status, code: int) -> None:
    monkeypatch.setattr(doctor, "examine", lambda files: [Check("a", status, "found", "mend")])
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == [{"name": "a", "status": status, "found": "found", "mend": "mend"}]


def test_whole_examination_covers_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {check.name.split()[0] for check in doctor.examine([config_file(tmp_path, "run: demo\n")])}
    assert names >= {"config", "python", "packages", "imports", "libraries", "cores", "memory", "open", "disk", "inodes", "file"}
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


CLIPS = "clips:\n  split: eval\n  count: 1\n  workers: 512\n"
STOCK = "run: demo\nassets: {table: no.csv}\nbackgrounds:\n  polyhaven: {table: no.csv}\n"


def looked_at(monkeypatch: pytest.MonkeyPatch, path: Path) -> dict[str, Check]:
    """Return the checks of a configuration by their first names; imports say what they were asked to load."""
    monkeypatch.setattr(doctor, "check_imports", lambda interpreter, modules: Check("imports", "ok", " ".join(modules)))
    return {check.name.split()[0]: check for check in doctor.examine([path])}


@pytest.mark.parametrize("module", ["numpy", "cv2", "numba", "trimesh", "PIL"])
def test_section_clips_adds_what_planning_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "IMPORTS", {"clips": doctor.IMPORTS["clips"]})
    assert module in looked_at(monkeypatch, config_file(tmp_path, STOCK + CLIPS))["imports"].found.split()
    assert looked_at(monkeypatch, config_file(tmp_path, STOCK))["imports"].found == ""


def test_workers_of_clips_are_compared_with_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "512 workers" in looked_at(monkeypatch, config_file(tmp_path, STOCK + CLIPS))["cores"].found


def test_examination_without_a_configuration_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "IMPORTS", {})
    assert "config" not in {check.name for check in doctor.examine()}
