"""Measure what memory render_clips takes: many clips in one worker process, as the step has it.

    .venv/bin/python benchmarks/clips_memory.py [--clips 20] [--frames 8] [--size 512] [--samples 4]

Clips of 1 to 4 objects are planned here, and rendered one after another in a process that does nothing else. Resident memory is read after each.
benchmarks/clips.py calls it too.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

# what a worker of the step loads, and no more: the planner is loaded below, in the process that starts it
from sam3dvid.render.settings import RenderHost, RenderSettings
from shardwork.pool import run_tasks

BOUND_MIB = 1.5e9 / 2**20


def render(task: tuple[dict, list[Path], int]) -> tuple[float, float]:
    """Render a clip in a worker and return the memory that the worker holds now, and the most that it ever held, MiB."""
    from sam3dvid.blender.clip import render_clip

    plan, meshes, samples = task
    with tempfile.TemporaryDirectory() as name:
        render_clip(plan, meshes, Path(name), RenderSettings(samples=samples), RenderHost())
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    lines = Path("/proc/self/status").read_text().splitlines()
    return pages * resource.getpagesize() / 2**20, next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Plan, render and print."""
    from benchmarks.clips_stages import add_stock, meshes_of, stock_from

    from sam3dvid.plan.planner import plan_clip
    from sam3dvid.plan.settings import PlanSettings
    from sam3dvid.stage import clip_name

    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_stock(arguments)
    arguments.add_argument("--clips", type=int, default=20, help="at least 3")
    arguments.add_argument("--frames", type=int, default=8, help="frames of a clip")
    arguments.add_argument("--size", type=int, default=512, help="width and height of a frame")
    arguments.add_argument("--samples", type=int, default=4)
    args = arguments.parse_args()
    stock, settings = stock_from(args), PlanSettings(frames=args.frames, width=args.size, height=args.size)
    plans = [plan_clip(clip_name(index), stock, settings) for index in range(args.clips)]
    tasks = [(plan, meshes_of(plan, args.dataset), args.samples) for plan in plans]
    held, most = [], 0.0
    for _, result in run_tasks(render, tasks, 1, lambda task: task[0]["clip_id"]):
        if isinstance(result, Exception):
            raise result
        held.append(result[0])
        most = result[1]
    half = args.clips // 2
    later = ", ".join(f"{held[count - 1]:.0f} after {count}" for count in sorted({2, half, args.clips}))
    print(f"memory of a worker over {args.clips} clips, {args.frames} frames of {args.size} x {args.size}, {args.samples} samples:")
    growth = (held[-1] - held[half - 1]) / (args.clips - half)
    print(f"  MiB held: {later}; {growth:+.2f} a clip in the second half; the most at any time {most:.0f}, bound {BOUND_MIB:.0f}")


if __name__ == "__main__":
    main()
