"""Which packages this environment should have and has. Reads metadata only: nothing heavy is imported."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
REQUIRED_EXTRAS = ("events", "blender", "clips", "latents", "workflow")
"""What a workstation that runs the whole workflow needs; other extras may be missing."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:==\s*([^,;\s]+))?")


@dataclass(frozen=True, slots=True)
class Pin:
    """A package that an extra asks for; version is empty where it is not pinned."""

    name: str
    version: str


def read_pins(pyproject: Path = PYPROJECT) -> dict[str, list[Pin]]:
    """Return the packages of every extra, the base dependencies first as "base"; empty if there is no pyproject.toml.

    Entries with an environment marker are left out: whether they apply is the installer's to say.
    """
    if not pyproject.is_file():
        return {}
    project = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
    groups = {"base": project.get("dependencies", []), **project.get("optional-dependencies", {})}
    return {extra: [pin for entry in entries if (pin := _pin(entry, project.get("name", "")))] for extra, entries in groups.items()}


def _pin(entry: str, own_name: str) -> Pin | None:
    """Return a requirement's package and pin, or None for a reference to an extra of our own and for one with a marker."""
    match = _REQUIREMENT.match(entry)
    if match is None or match[1] == own_name or ";" in entry:
        return None
    return Pin(match[1], match[2] or "")


def is_launcher(pins: Mapping[str, Sequence[Pin]]) -> bool:
    """Return whether this environment only starts jobs on a cluster, whose steps run in conda environments of their own."""
    return bool(pins.get("slurm")) and not any(fault_of(pin) for pin in pins["slurm"])


def fault_of(pin: Pin) -> str:
    """Return what is wrong with a package, such as "h5py is 3.15.0, pinned 3.16.0"; empty if nothing is."""
    try:
        version = metadata.version(pin.name)
    except metadata.PackageNotFoundError:
        return f"{pin.name} is not installed"
    # A wheel's local part names its build (2.13.0+cpu), not another version.
    wanted, plain = pin.version, version.partition("+")[0]
    same = plain.startswith(wanted[:-1]) if wanted.endswith(".*") else wanted in ("", plain, version)
    return "" if same else f"{pin.name} is {version}, pinned {wanted}"
