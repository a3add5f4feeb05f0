"""Real pictures where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def datapack():
    root = os.environ.get("REELMILL_DATAPACK")
    if root is None:
        pytest.skip("REELMILL_DATAPACK is not set: no real pictures")
    return Path(root)
