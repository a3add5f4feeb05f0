"""Measure plan_clips on real scans: CPU seconds a clip, memory, how many attempts pass, and what rejection does to the distributions.

    REELMILL_DATAPACK=FOLDER PYTHONPATH=src python benchmarks/plan.py [--clips 100] [--triangles 50000]

The scans are brought into the canonical frame here, and with --triangles each is subdivided until it has at least so many. Every clip reads its meshes
anew, as it does where assets are many.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import trimesh

from sam3dvid.backgrounds.pool import ROW_KEYS
from sam3dvid.plan.catalogue import Meshes, read_assets
from sam3dvid.plan.draw import draw_arc, draw_poses
from sam3dvid.plan.planner import PlanExhausted, Stock, plan_clip
from sam3dvid.plan.settings import PlanSettings
from shardwork.digests import sha256_file
from shardwork.jsonio import dumps, write_json

SCANS = ("objects/gso/*/meshes/model.obj", "objects/gso_libero/*/*.obj", "objects/ycb/*/*.obj")
WARM = 10
"""Clips before memory is looked at for the first time: the first compile, load and fill what stays."""
RELEASE = 10_000


def scans(datapack: Path) -> list[Path]:
    """Return the scans that there are."""
    return sorted(path for pattern in SCANS for path in datapack.glob(pattern))


def write_scan(path: Path, folder: Path, triangles: int) -> int:
    """Write a scan as a finished asset, as far as a planner reads it, and return its number of triangles."""
    mesh = trimesh.load(path, force="mesh", process=False, skip_materials=True)
    points, faces = np.asarray(mesh.vertices, np.float64), np.asarray(mesh.faces)  # type: ignore[attr-defined]
    while len(faces) < triangles:
        points, faces = trimesh.remesh.subdivide(points, faces)
    low, high = points.min(axis=0), points.max(axis=0)
    points = (points - (low + high) / 2) / (high - low).max()
    folder.mkdir(parents=True)
    scene = trimesh.Scene(trimesh.Trimesh(points[:, [0, 2, 1]] * [1, 1, -1], faces, process=False))
    (folder / "mesh.glb").write_bytes(scene.export(file_type="glb"))
    write_json(folder / "meta.json", {"asset_id": folder.name, "source": "gso", "mesh": {"sha256": sha256_file(folder / "mesh.glb")}})
    return len(faces)


def rss_mib() -> float:
    """Return the memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def views() -> list[dict[str, object]]:
    """Return rows of a pool of views, as a planner needs them."""
    return [{**dict.fromkeys(ROW_KEYS, ""), "image_id": f"view_{index}", "width": 2048, "height": 1024} for index in range(8)]


def numbers_of(poses, arc) -> dict[str, float]:
    """Return what rejection may shift: means over the objects of a scene, and its camera path."""
    distances = [np.linalg.norm(position) for position in poses.positions]
    return {
        "scale": float(np.mean(poses.scales)),
        "distance from the ball's centre / N^(1/3)": float(np.mean(distances)) / len(distances) ** (1 / 3),
        "start elevation, deg": arc.start_elevation_deg,
        "arc span, deg": arc.arc_span_deg,
        "elevation drift, deg": arc.elevation_drift_deg,
        "distance factor": arc.distance_factor,
    }


def report_shift(plans: list[dict], settings: PlanSettings) -> None:
    """Print how rejection moves the means: those of first attempts against those of the plans."""
    print("  rejection: mean of first attempts -> of plans (difference in standard errors of a mean)")
    for num_objects in (1, 2, 3, 4):
        ours = [plan for plan in plans if plan["num_objects"] == num_objects]
        if len(ours) < 2:
            continue

        def drawn(plan: dict, attempt: int, retry: int) -> dict[str, float]:
            poses = draw_poses(plan["seed"], attempt, plan["num_objects"], settings.max_position_tries)
            return numbers_of(poses, draw_arc(plan["seed"], attempt, retry))

        before = [drawn(plan, 0, 0) for plan in ours]
        after = [drawn(plan, plan["attempt"], plan["arc_retries"]) for plan in ours]
        for name in before[0]:
            old, new = (np.array([one[name] for one in many]) for many in (before, after))
            error = old.std(ddof=1) / np.sqrt(len(ours))
            print(f"    N={num_objects} {name:42} {old.mean():8.4f} -> {new.mean():8.4f} ({(new.mean() - old.mean()) / error:+.2f})")


def main() -> None:
    """Plan clips and print what it took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clips", type=int, default=100)
    arguments.add_argument("--triangles", type=int, default=0, help="subdivide every scan to at least so many")
    args = arguments.parse_args()
    paths = scans(Path(os.environ.get("REELMILL_DATAPACK", "")))
    if len(paths) < 4:
        raise SystemExit("no scans: set REELMILL_DATAPACK to the folder of real inputs")
    settings = PlanSettings()
    with tempfile.TemporaryDirectory() as name:
        dataset = Path(name)
        sizes = [write_scan(path, dataset / "assets" / "train" / f"scan_{index}", args.triangles) for index, path in enumerate(paths)]
        stock = Stock("train", read_assets(dataset, "train"), views(), Meshes(dataset, "train"))
        plan_clip("99999999", stock, replace(settings, width=64, height=64))  # compiles, or loads what is compiled
        plans, seconds, gone, grown = [], [], [], 0.0
        for index in range(args.clips):
            before = time.process_time()
            fresh = replace(stock, shape_of=Meshes(dataset, "train"))
            try:
                plans.append(plan_clip(f"{index:08d}", fresh, settings))
                seconds.append(time.process_time() - before)
            except PlanExhausted as error:
                gone.append(error)
            grown = rss_mib() if index == WARM else grown
        total = sum(seconds)
        print(f"{len(paths)} scans of {min(sizes)} to {max(sizes)} triangles, {len(plans)} clips planned, {len(gone)} given up")
        hours = total / len(plans) * RELEASE / 3600
        print(f"  CPU: {total / len(plans):.2f} s a clip (median {np.median(seconds):.2f}, most {max(seconds):.2f}); {RELEASE} clips {hours:.1f} core-hours")
        for num_objects in (1, 2, 3, 4):
            ours = [(plan, spent) for plan, spent in zip(plans, seconds, strict=True) if plan["num_objects"] == num_objects]
            if ours:
                attempts = sum(plan["attempt"] + 1 for plan, _ in ours)
                spent = sum(spent for _, spent in ours) / len(ours)
                print(f"  N={num_objects}: {len(ours)} clips, {len(ours) / attempts:.3f} of {attempts} attempts pass, {spent:.2f} s a clip")
        retried = sum(plan["arc_retries"] > 0 for plan in plans)
        print(f"  arcs drawn again for the background: {retried} clips; a plan has {np.mean([len(dumps(plan)) for plan in plans]) / 1000:.1f} kB")
        print(f"  memory: {grown:.0f} MiB after {WARM + 1} clips, {rss_mib():.0f} MiB at the end")
        report_shift(plans, settings)


if __name__ == "__main__":
    main()
