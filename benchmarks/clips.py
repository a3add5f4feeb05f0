"""Measure render_clips on a clip of real scans: CPU seconds of each part, and what the colours lose against 1,024 samples.

    PYTHONPATH=src python benchmarks/clips.py --dataset FOLDER [--split eval] [--objects 4] [--frames 3] [--threads 2] [--skip-quality]

The dataset's folder holds finished assets, at least four of the split. The first clip of so many objects is planned and rendered with a release's settings.
Then some of its frames are rendered with 1,024 samples, and as a baseline with 128 samples, the denoiser's defaults, whole frames and nothing kept from
one frame to the next. dB: the stored pictures over even gray, where the reference shows anything.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import bpy
import numpy as np
from benchmarks.plan import views
from PIL import Image

from sam3dvid.blender import session
from sam3dvid.blender.clip import noise_seed, render_clip, scene_of, set_up
from sam3dvid.blender.clip_camera import place_camera
from sam3dvid.blender.clip_device import Device
from sam3dvid.blender.clip_passes import Colours, film
from sam3dvid.blender.clip_scene import add_light
from sam3dvid.plan.catalogue import Meshes, read_assets
from sam3dvid.plan.draw import fixed_draws
from sam3dvid.plan.planner import Stock, plan_clip, seed_of
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.render.encode import straight_rgba8
from sam3dvid.render.settings import RenderHost, RenderSettings

REFERENCE = RenderSettings(samples=1024, adaptive_threshold=0.0, denoise=False)
BASELINE = RenderSettings(samples=128, adaptive_threshold=0.01, adaptive_min_samples=4)
GRAY = 127.0


def plan_of(dataset: Path, split: str, num_objects: int, settings: PlanSettings) -> tuple[dict, float]:
    """Return the first plan of so many objects, and the CPU seconds that it took."""
    assets = read_assets(dataset, split)
    stock = Stock(split, assets, views(), Meshes(dataset, split))
    plan_clip("99999999", stock, replace(settings, width=64, height=64))  # compiles, or loads what is compiled
    ids = (f"{index:08d}" for index in range(100_000))
    clip_id = next(one for one in ids if fixed_draws(seed_of(one, split), len(assets), len(views())).num_objects == num_objects)
    before = time.process_time()
    return plan_clip(clip_id, replace(stock, shape_of=Meshes(dataset, split)), settings), time.process_time() - before


def render_frames(plan: dict, meshes: list[Path], chosen: list[int], settings: RenderSettings, threads: int, defaults: bool) -> tuple[list[np.ndarray], float]:
    """Return whole frames as stored pictures, and CPU seconds a frame.   defaults : the denoiser's, and nothing is kept between frames."""
    session.start()
    try:
        with film() as to:
            shot = set_up(plan, meshes)
            colours = Colours(scene_of("colours", shot, threads), settings, Device("CPU"))
            add_light(colours.scene, plan["light"])
            if defaults:
                cycles = colours.scene.cycles
                cycles.denoising_prefilter, cycles.denoising_quality, cycles.denoising_input_passes = "ACCURATE", "HIGH", "RGB_ALBEDO_NORMAL"
                colours.scene.view_layers[0].cycles.denoising_store_passes, colours.edges = False, "Combined"
                colours.scene.render.use_persistent_data = False
            pictures, spent = [], 0.0
            for t in chosen:
                place_camera(shot.camera, shot.T_cw[t])
                before = time.process_time()
                part = colours.render(to, (0, shot.size[0], 0, shot.size[1]), noise_seed(plan["seed"] + (not defaults), t))
                spent += time.process_time() - before
                pictures.append(straight_rgba8(part))
            colours.scene.render.use_persistent_data = False
            bpy.data.scenes.remove(colours.scene)
            return pictures, spent / len(chosen)
    finally:
        session.clear()


def over_gray(rgba: np.ndarray) -> np.ndarray:
    """Return a stored picture before even gray."""
    alpha = rgba[..., 3:] / 255.0
    return rgba[..., :3] * alpha + GRAY * (1 - alpha)


def decibels(found: list[np.ndarray], reference: list[np.ndarray]) -> float:
    """Return the peak signal to noise ratio over what the reference shows."""
    errors = [((over_gray(one) - over_gray(true)) ** 2)[true[..., 3] > 0] for one, true in zip(found, reference, strict=True)]
    return float(10 * np.log10(255**2 / np.concatenate(errors).mean()))


def main() -> None:
    """Render and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", type=Path, required=True)
    arguments.add_argument("--split", default="eval")
    arguments.add_argument("--objects", type=int, default=4)
    arguments.add_argument("--frames", type=int, default=3, help="frames that are compared with 1,024 samples")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--size", type=int, default=512)
    arguments.add_argument("--skip-quality", action="store_true", help="only the seconds")
    args = arguments.parse_args()
    plan, planning = plan_of(args.dataset, args.split, args.objects, PlanSettings(width=args.size, height=args.size))
    meshes = [args.dataset / one["mesh"] for one in plan["objects"]]
    with tempfile.TemporaryDirectory() as name:
        record, timing = render_clip(plan, meshes, Path(name), RenderSettings(), RenderHost(threads=args.threads))
        cpu, wall = timing["cpu_seconds"], timing["wall_seconds"]
        frames = len(plan["cameras"]["frames"])
        stored = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
        chosen = np.linspace(0, frames - 1, args.frames).round().astype(int).tolist()
        ours = [np.asarray(Image.open(Path(name) / f"rgba_fg/{t:03d}.png")) for t in chosen]
    print(f"clip {plan['clip_id']}: {args.objects} objects, {frames} frames of {args.size} x {args.size}, {args.threads} threads")
    print(
        f"  CPU seconds: planning {planning:.2f}, "
        + ", ".join(f"{name} {cpu.get(name, 0.0):.2f}" for name in ("setup", "colours", "visible", "amodal", "encode"))
    )
    rest = sum(cpu.get(name, 0.0) for name in ("setup", "visible", "amodal", "encode"))
    print(f"  all but colours {rest:.2f} s = {rest / cpu['colours']:.1%} of colours, with planning {(rest + planning) / cpu['colours']:.1%}")
    print(f"  wall {wall['all']:.1f} s, {stored / 1e6:.1f} MB, most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    print(f"  read back: {record['read_back']}")
    if not args.skip_quality:
        reference, _ = render_frames(plan, meshes, chosen, REFERENCE, args.threads, False)
        baseline, seconds = render_frames(plan, meshes, chosen, BASELINE, args.threads, True)
        print(f"  against 1,024 samples, frames {chosen}: {decibels(ours, reference):.2f} dB at {cpu['colours'] / frames:.2f} CPU seconds a frame")
        print(
            f"  baseline: {decibels(baseline, reference):.2f} dB at {seconds:.2f} CPU seconds a frame, {seconds / (cpu['colours'] / frames):.1f} times as many"
        )


if __name__ == "__main__":
    main()
    session.leave(0)
