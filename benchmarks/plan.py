"""Measure plan_clips on real scans: CPU seconds a clip, memory, how many attempts pass, and what rejection does to the distributions.

    REELMILL_DATAPACK=FOLDER PYTHONPATH=src python benchmarks/plan.py [--clips 100] [--triangles 50000] [--memory] [--frames 8 --size 256]

The scans are brought into the canonical frame here, and with --triangles the largest triangles of each are divided until it has so many. Every clip
reads its meshes anew, as it does where assets are many. Of a plan only a few numbers are kept: as Python objects 300 plans hold 16 MiB. Fewer and smaller
frames show what rejection does to the distributions over thousands of clips; times and shares are then not those of a release.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import trimesh
from benchmarks.raycast import canonical, divided

from sam3dvid.backgrounds.pool import ROW_KEYS
from sam3dvid.plan.catalogue import Meshes, read_assets
from sam3dvid.plan.draw import Arc, Poses, draw_arc, draw_poses
from sam3dvid.plan.layout import cameras_of, covered
from sam3dvid.plan.planner import PlanExhausted, Stock, plan_clip
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.stage import seed_of
from shardwork.digests import sha256_file
from shardwork.jsonio import dumps, write_json

SCANS = ("objects/gso/*/meshes/model.obj", "objects/gso_libero/*/*.obj", "objects/ycb/*/*.obj")
EVERY = 50
"""Clips between two looks at the memory."""
FLAT = 300
"""Clips that --memory plans at least."""
RELEASE = 10_000
SPLIT = "train"
LAWS = {
    "rotation angle, deg": 126.476,
    "scale": 0.7,
    "distance from the ball's centre / N^(1/3)": 0.75,
    "distance factor": 1.2,
    "start azimuth, deg": 180.0,
    "start elevation, deg": 27.5,
    "arc span, deg": 40.0,
    "arc direction": 0.0,
    "elevation drift, deg": 0.0,
}
"""What is drawn again after a rejection -> its mean by the law it is drawn from. Positions without overlap lie farther out than the law says of one."""


@dataclass(frozen=True, slots=True)
class Made:
    """What is kept of a clip.   attempt, arc_retries : those that passed, None where the clip was given up.   sizes : parts of the frame that objects fill."""

    seed: int
    num_objects: int
    seconds: float
    rejected_by: Counter[str]
    attempt: int | None = None
    arc_retries: int = 0
    plan_bytes: int = 0
    sizes: tuple[float, ...] = ()

    @property
    def attempts(self) -> int:
        """Return how many attempts it took."""
        return self.rejected_by.total() + (self.attempt is not None)


def write_scan(path: Path, folder: Path, triangles: int) -> int:
    """Write a scan as a finished asset, as far as a planner reads it, and return its number of triangles."""
    mesh = divided(canonical(path), triangles)
    folder.mkdir(parents=True)
    scene = trimesh.Scene(trimesh.Trimesh(mesh.vertices[:, [0, 2, 1]] * [1, 1, -1], mesh.faces, process=False))
    (folder / "mesh.glb").write_bytes(scene.export(file_type="glb"))
    write_json(folder / "meta.json", {"asset_id": folder.name, "source": "gso", "mesh": {"sha256": sha256_file(folder / "mesh.glb")}})
    return len(mesh.faces)


def resident_mib() -> float:
    """Return the memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def views() -> list[dict[str, object]]:
    """Return rows of a pool of views, as a planner needs them."""
    return [{**dict.fromkeys(ROW_KEYS, ""), "image_id": f"view_{index}", "width": 2048, "height": 1024} for index in range(8)]


def make(clip_id: str, stock: Stock, settings: PlanSettings) -> Made:
    """Plan a clip; return what is kept of it."""
    seed, start = seed_of(clip_id, SPLIT), time.process_time()
    try:
        plan = plan_clip(clip_id, stock, settings)
    except PlanExhausted as error:
        return Made(seed, error.num_objects, time.process_time() - start, Counter(error.counts))
    seconds = time.process_time() - start
    rejected_by = Counter(rejection["reason"] for rejection in plan["rejections"])
    sizes = tuple(np.median(plan["visibility"]["amodal_px"], axis=0) / (settings.width * settings.height))
    return Made(seed, plan["num_objects"], seconds, rejected_by, plan["attempt"], plan["arc_retries"], len(dumps(plan)), sizes)


def numbers_of(poses: Poses, arc: Arc) -> dict[str, float]:
    """Return what rejection may shift: means over the objects of a scene, and its camera path. Keys are those of LAWS."""
    angles = [math.degrees(math.acos(min(1.0, max(-1.0, (float(np.trace(R)) - 1) / 2)))) for R in poses.rotations]
    away = [math.dist((0, 0, 0), position) / math.cbrt(len(poses.positions)) for position in poses.positions]
    path = (arc.distance_factor, arc.start_azimuth_deg, arc.start_elevation_deg, arc.arc_span_deg, float(arc.arc_direction), arc.elevation_drift_deg)
    return dict(zip(LAWS, (float(np.mean(angles)), float(np.mean(poses.scales)), float(np.mean(away)), *path), strict=True))


def drawn(made: Made, attempt: int, retry: int, settings: PlanSettings) -> dict[str, float]:
    """Return what an attempt of a clip drew."""
    poses = draw_poses(made.seed, attempt, made.num_objects, settings.max_position_tries)
    if poses is None:
        raise SystemExit(f"seed {made.seed}: no positions without overlap in attempt {attempt}")
    return numbers_of(poses, draw_arc(made.seed, attempt, retry))


def report_shift(clips: Sequence[Made], settings: PlanSettings, title: str) -> None:
    """Print how rejection moves the means: those of the first draws against those of the plans, of the same clips."""
    ours = [(one, one.attempt) for one in clips if one.attempt is not None]
    if len(ours) < 2:
        return
    before = [drawn(one, 0, 0, settings) for one, _ in ours]
    after = [drawn(one, attempt, one.arc_retries, settings) for one, attempt in ours]
    print(f"\n| {title}, {len(ours)} clips: mean of | law | first draws | plans | shift, standard error |\n| --- | ---: | ---: | ---: | ---: |")
    for name, law in LAWS.items():
        old, new = (np.array([one[name] for one in many]) for many in (before, after))
        error = (new - old).std(ddof=1) / math.sqrt(len(ours))
        print(f"| {name} | {law:.4g} | {old.mean():.3f} | {new.mean():.3f} | {(new - old).mean():+.3f}, {error:.3f} |")


def report(clips: Sequence[Made], settings: PlanSettings) -> None:
    """Print what planning took, how many attempts passed, and what rejection did."""
    planned = [one for one in clips if one.attempt is not None]
    seconds = [one.seconds for one in clips]
    mean = sum(seconds) / len(clips)
    print(f"{len(planned)} clips planned, {len(clips) - len(planned)} given up")
    print(f"  CPU: {mean:.2f} s a clip (median {np.median(seconds):.2f}, most {max(seconds):.2f}); {RELEASE} clips {mean * RELEASE / 3600:.1f} core-hours")
    for num_objects in (1, 2, 3, 4):
        ours = [one for one in clips if one.num_objects == num_objects]
        if ours:
            attempts, passed = sum(one.attempts for one in ours), sum(one.attempt is not None for one in ours)
            reasons = sum((one.rejected_by for one in ours), Counter[str]())
            why = ", ".join(f"{count} by {reason}" for reason, count in sorted(reasons.items())) or "none"
            spent = sum(one.seconds for one in ours) / len(ours)
            print(f"  N={num_objects}: {len(ours)} clips, {spent:.2f} s a clip, {passed / attempts:.3f} of {attempts} attempts pass; rejected: {why}")
    retried = sum(one.arc_retries > 0 for one in planned)
    sizes = np.median([size for one in planned for size in one.sizes])
    print(f"  arcs drawn again for the background: {retried} clips; a plan has {np.mean([one.plan_bytes for one in planned]) / 1000:.1f} kB")
    print(f"  an object fills {100 * sizes:.1f} % of the frame (median)")
    report_shift(clips, settings, "all N")
    for num_objects in (1, 2, 3, 4):
        report_shift([one for one in clips if one.num_objects == num_objects], settings, f"N={num_objects}")


def report_cover(count: int) -> None:
    """Print for pictures of some shapes the share of arcs that leave a corner uncovered, and the mean span of the others."""
    arcs = [draw_arc(seed, 0, 0) for seed in range(count)]
    cameras = [cameras_of(arc, (0.0, 0.0, 0.0), 1.0, 32) for arc in arcs]
    print(f"{count} arcs, mean span {np.mean([arc.arc_span_deg for arc in arcs]):.1f} degrees: width / height, uncovered, mean span of the covered")
    for shape in (0.75, 1.0, 1.5, 2.0, 2.5, 4.0):
        row = {"width": round(1024 * shape), "height": 1024}
        spans = [arc.arc_span_deg for arc, one in zip(arcs, cameras, strict=True) if covered(one, row, PlanSettings())]
        print(f"| {shape:g} | {1 - len(spans) / count:.3f} | {np.mean(spans):.1f} |", flush=True)


def main() -> None:
    """Plan clips and print what it took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clips", type=int, default=100)
    arguments.add_argument("--triangles", type=int, default=0, metavar="N", help="divide scans up to N triangles; 0: as they are")
    arguments.add_argument("--memory", action="store_true", help=f"plan at least {FLAT} clips, so that memory is seen to stay flat")
    arguments.add_argument("--frames", type=int, default=32)
    arguments.add_argument("--size", type=int, default=512, help="width and height of a frame")
    arguments.add_argument("--cover", type=int, default=0, metavar="N", help="instead: how many of N arcs pictures of some shapes leave uncovered")
    args = arguments.parse_args()
    if args.cover:
        report_cover(args.cover)
        return
    paths = sorted(path for pattern in SCANS for path in Path(os.environ.get("REELMILL_DATAPACK", "")).glob(pattern))
    if len(paths) < 4:
        raise SystemExit("no scans: set REELMILL_DATAPACK to the folder of real inputs")
    settings = PlanSettings(frames=args.frames, width=args.size, height=args.size)
    with tempfile.TemporaryDirectory() as name:
        dataset = Path(name)
        counts = [write_scan(path, dataset / "assets" / SPLIT / f"scan_{index}", args.triangles) for index, path in enumerate(paths)]
        stock = Stock(SPLIT, read_assets(dataset, SPLIT), views(), Meshes(dataset, SPLIT))
        plan_clip("00999999", stock, replace(settings, width=64, height=64))  # compiles, or loads what is compiled
        print(f"{len(paths)} scans of {min(counts)} to {max(counts)} triangles")
        clips: list[Made] = []
        for index in range(max(args.clips, FLAT if args.memory else 1)):
            clips.append(make(f"{index:08d}", replace(stock, shape_of=Meshes(dataset, SPLIT)), settings))
            if len(clips) % EVERY == 0:
                print(f"  {len(clips)} clips: {resident_mib():.0f} MiB", flush=True)
    report(clips, settings)


if __name__ == "__main__":
    main()
