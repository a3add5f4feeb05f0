"""pyproject.toml and envs/ say the same: who runs a step by conda gets the packages that were tested."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
ENVS = sorted((ROOT / "envs").glob("*.yaml"))


def pip_section(path: Path) -> list[str]:
    """Return the pip requirements of a conda environment file."""
    return [pin for entry in yaml.safe_load(path.read_text())["dependencies"] if isinstance(entry, dict) for pin in entry["pip"]]


def pins(requirements: list[str]) -> dict[str, str]:
    """Return the version that each pinned requirement names."""
    return {name: version for name, _, version in (line.partition("==") for line in requirements) if version}


@pytest.mark.parametrize("path", [path for path in ENVS if path.stem in EXTRAS], ids=lambda path: path.stem)
def test_environment_holds_the_pins_of_the_extra_of_its_name(path):
    assert sorted(pip_section(path)) == sorted(EXTRAS[path.stem])


@pytest.mark.parametrize("path", ENVS, ids=lambda path: path.stem)
def test_environment_is_python_311_with_pinned_pip_packages(path):
    packages = [entry for entry in yaml.safe_load(path.read_text())["dependencies"] if isinstance(entry, str)]
    assert (packages, len(pins(pip_section(path)))) == (["python=3.11", "pip"], len(pip_section(path)))


def test_extras_never_pin_one_package_twice_to_different_versions():
    versions: dict[str, set[str]] = {}
    for requirements in EXTRAS.values():
        for name, version in pins(requirements).items():
            versions.setdefault(name.lower(), set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_every_extra_is_pinned():
    loose = [line for requirements in EXTRAS.values() for line in requirements if "==" not in line and not line.startswith("reelmill[")]
    assert loose == []


def test_a_reader_needs_three_packages_only():
    assert sorted(re.split(r"[<>=]", line)[0] for line in PROJECT["project"]["dependencies"]) == ["Pillow", "h5py", "numpy"]


def test_uv_run_takes_the_same_extras_as_make_setup():
    (group,) = PROJECT["dependency-groups"]["dev"]
    setup = re.search(r"^extras=(.*)$", (ROOT / "scripts" / "setup.sh").read_text(), re.MULTILINE)
    assert setup is not None
    assert group == f"reelmill[{setup[1]}]"
