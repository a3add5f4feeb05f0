"""Validate clips of the released size and print CPU seconds a clip for each suite, and how memory grows over many clips.

The clips are made here: four objects each, of at least 100,000 triangles by default, 32 frames of 512 x 512, a background with the noise of a photo. Each
measurement is a process of its own. Clips share their assets, so what these take, and a process to begin, is printed for one clip alone too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np

from sam3dvid.validate import Choice, validate_dataset

SUITES = {"T1": ("T1",), "T2": ("T2",), "T3": ("T3",), "T1, T2 and T3": ("T1", "T2", "T3")}


def make_clips(root: Path, count: int, triangles: int) -> None:
    """Write a dataset of one clip, and its copies: hard links but for what names the clip, and a scale that differs by less than shows, since T1 refuses a
    scene that is another's.   triangles : of each mesh, at least.
    """
    from shardwork.jsonio import dumps, write_json
    from tests.sam3dvid import datasets
    from tests.sam3dvid.datasets import Clip, manifest_line, write_dataset

    coarse = datasets.mesh_of
    datasets.mesh_of = lambda split, number: divided(*coarse(split, number), triangles)
    first = Clip("eval", "00000000", (0, 1, 2, 3), "ph_meadow_v0")
    write_dataset(root, (first,), 32, 512)
    clips = [Clip("eval", f"{number:08d}", first.assets, first.photo) for number in range(count)]
    meta, objects = (json.loads((root / first.path / name).read_text()) for name in ("meta.json", "objects.json"))
    for number, clip in enumerate(clips[1:], 1):
        for path in sorted((root / first.path).rglob("*")):
            copy = root / clip.path / path.relative_to(root / first.path)
            if path.is_file() and path.name not in ("meta.json", "objects.json"):
                copy.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, copy)
        write_json(root / clip.path / "meta.json", {**meta, "clip_id": clip.clip_id, "seed": clip.seed})
        scales = [scale + 1e-12 * number for scale in objects[0]["s_wo"]]
        write_json(root / clip.path / "objects.json", [{**objects[0], "s_wo": scales}, *objects[1:]])
    (root / "manifest.jsonl").write_text("".join(dumps(manifest_line(clip)) + "\n" for clip in clips))


def divided(vertices: np.ndarray, triangles: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a mesh with every triangle cut in four, until there are enough; the vertices are float32's, as a file has them."""
    while len(triangles) < least:
        a, b, c = vertices[triangles].swapaxes(0, 1)
        ab, bc, ca = (a + b) / 2, (b + c) / 2, (c + a) / 2
        corners = np.concatenate([np.stack(part, axis=1) for part in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
        vertices, index = np.unique(corners.reshape(-1, 3).astype(np.float32).astype(np.float64), axis=0, return_inverse=True)
        triangles = index.reshape(-1, 3).astype(np.int32)
    return vertices, triangles


def peak_mib() -> float:
    """Return the peak memory of this process; getrusage would count that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(root: Path, suites: tuple[str, ...], clips: list[str]) -> None:
    """Validate and print what it took, for the process that asked."""
    start = time.process_time()
    report = validate_dataset(root, Choice(suites, clips=tuple(clips)))
    seconds = time.process_time() - start
    if not report.valid:
        raise SystemExit("\n".join(report.lines()))
    print(json.dumps({"cpu_seconds": seconds, "clips": len(report.clips), "peak_mib": peak_mib()}))


def in_process(root: Path, suites: tuple[str, ...], clips: int) -> dict[str, float]:
    """Return what a measurement in a process of its own printed."""
    names = [f"{number:08d}" for number in range(clips)]
    line = [sys.executable, __file__, "--measure", str(root), "--suites", *suites, "--names", *names]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--clips", type=int, default=20)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--triangles", type=int, default=100_000)
    arguments.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--suites", nargs="+", help=argparse.SUPPRESS)
    arguments.add_argument("--names", nargs="+", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.measure:
        return measure(args.measure, tuple(args.suites), args.names)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "dataset"
        make_clips(root, args.clips, args.triangles)
        for name, suites in SUITES.items():
            one = statistics.median(in_process(root, suites, 1)["cpu_seconds"] for _ in range(args.rounds))
            few = [in_process(root, suites, 2) for _ in range(args.rounds)]
            many = [in_process(root, suites, args.clips) for _ in range(args.rounds)]
            seconds = statistics.median(each["cpu_seconds"] / each["clips"] for each in many)
            growth = statistics.median(late["peak_mib"] - early["peak_mib"] for early, late in zip(few, many, strict=True))
            peak = max(each["peak_mib"] for each in many)
            print(f"{name}: {seconds:.2f} CPU s a clip of 4 objects ({one:.2f} for one alone), peak {peak:.0f} MiB, {growth:.1f} MiB more after {args.clips}")
    return None


if __name__ == "__main__":
    main()
