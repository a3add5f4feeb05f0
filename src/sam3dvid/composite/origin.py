"""Which code makes the clips: what meta.json says of its generator."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from shardwork import __version__

UNKNOWN = "unknown"
"""What stands for the commit of code that is in no repository, such as an installed package."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The generator.   git_commit : 40 hex digits, with -dirty behind them where files were changed since, or `unknown`."""

    generator_version: str
    git_commit: str


def read_origin(root: Path | None = None) -> Origin:
    """Return what is known of the code that runs.   root : the project's folder (default: the one that this file lies in)."""
    return Origin(__version__, _commit(root or Path(__file__).resolve().parents[3]))


def _commit(root: Path) -> str:
    if not (root / ".git").exists():  # asked first: git itself would take the repository of any folder above
        return UNKNOWN
    line = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        # asked what changed, git would otherwise note in the repository what it looked at
        done = subprocess.run(line, capture_output=True, text=True, check=True, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    except (OSError, subprocess.CalledProcessError):  # no git, no commit yet, or a repository of somebody else's
        return UNKNOWN
    return done.stdout.strip() or UNKNOWN
