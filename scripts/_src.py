"""Puts this project's libraries on the path, so that a step runs in any environment, installed or not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
