"""Measure what a clip of real scans takes, part by part, and what its colours lose against 1,024 samples.

After `make demo`, on a machine that does nothing else:

    .venv/bin/python benchmarks/clips.py [--objects 1 2 3 4] [--frames 3] [--every 8] [--clips 20] [--dataset FOLDER --pool FOLDER]

For each number of objects the clip is taken that shows most nearly the mean of pixels of the first clips with so many. Seconds are CPU seconds of all
threads; imports, Blender's start and compiling are left out: a small clip is made first. The clip with the most objects is made whole with --samples; its
parts are printed. The others are made whole with 8 samples, and what --samples add is measured on every eighth frame of each clip. From these clips comes
what an estimate counts with, weighted by how often a clip has so many objects.

dB: the stored pictures over even gray, where the reference shows anything. The baseline has 128 samples, the denoiser's defaults, whole frames and nothing
kept from one frame to the next. Memory is that of another process: see benchmarks/clips_memory.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import bpy
import numpy as np
from benchmarks.clips_stages import REST, Made, Workshop, add_stock, clips_with, cpu_seconds, meshes_of, typical_clip, workshop
from PIL import Image

from sam3dvid.blender import session
from sam3dvid.blender.clip import noise_seed, render_clip, scene_of, set_up
from sam3dvid.blender.clip_camera import place_camera
from sam3dvid.blender.clip_device import Device
from sam3dvid.blender.clip_passes import Colours, film
from sam3dvid.blender.clip_scene import add_light
from sam3dvid.plan.settings import NUM_OBJECTS_CHANCES, PlanSettings
from sam3dvid.render.boxes import around, inside
from sam3dvid.render.encode import straight_rgba8
from sam3dvid.render.settings import RenderHost, RenderSettings
from shardwork.jsonio import Json

REFERENCE = RenderSettings(samples=1024, adaptive_threshold=0.0, denoise=False)
BASELINE = RenderSettings(samples=128, adaptive_threshold=0.01, adaptive_min_samples=4)
GRAY = 127.0
FEW = 8
"""Samples of a first look, as the demo has them."""


def render_frames(plan: dict[str, Json], meshes: list[Path], chosen: list[int], settings: RenderSettings, threads: int, defaults: bool) -> tuple[list, float]:
    """Return frames as stored pictures, and CPU seconds a frame.   defaults : the denoiser's, whole frames, and nothing is kept between frames."""
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
                whole = (0, shot.size[0], 0, shot.size[1])
                box = whole if defaults else around([each.box for each in shot.seen[t]]) or whole
                before = cpu_seconds()
                part = colours.render(to, box, noise_seed(plan["seed"] + (not defaults), t))
                spent += cpu_seconds() - before
                pictures.append(np.zeros((shot.size[1], shot.size[0], 4), np.uint8))
                pictures[-1][inside(box)] = straight_rgba8(part)
            colours.scene.render.use_persistent_data = False
            bpy.data.scenes.remove(colours.scene)
            return pictures, spent / len(chosen)
    finally:
        session.clear()


def over_gray(rgba: np.ndarray) -> np.ndarray:
    """Return a stored picture before even gray."""
    alpha = rgba[..., 3:] / 255.0
    return rgba[..., :3] * alpha + GRAY * (1 - alpha)


def decibels(found: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float:
    """Return the peak signal to noise ratio over what the reference shows."""
    errors = [((over_gray(one) - over_gray(true)) ** 2)[true[..., 3] > 0] for one, true in zip(found, reference, strict=True)]
    return float(10 * np.log10(255**2 / np.concatenate(errors).mean()))


def some_frames(made: Made, dataset: Path, samples: int, every: int, threads: int) -> dict[str, Mapping[str, float]]:
    """Return the timing of rendering every so-and-so-many frames of a clip."""
    cameras = made.plan["cameras"]
    plan = {**made.plan, "cameras": {**cameras, "frames": cameras["frames"][::every]}}
    with tempfile.TemporaryDirectory() as name:
        return render_clip(plan, meshes_of(plan, dataset), Path(name), RenderSettings(samples=samples), RenderHost(threads=threads))[1]


def print_parts(made: Made, args) -> None:
    """Print what each part of a clip took, and all but colours together."""
    seconds, colours = made.seconds, made.seconds["colours"]
    print(f"\n| part of clip {made.plan['clip_id']}, {made.plan['num_objects']} objects, {args.samples} samples | CPU s | of colours |\n| --- | ---: | ---: |")
    for name in ("colours", *REST):
        print(f"| {name} | {seconds[name]:.2f} | {seconds[name] / colours:.1%} |")
    print(f"| all but colours | {made.rest:.2f} | {made.rest / colours:.1%} |")
    print(f"| control videos, beside these | {seconds['controls']:.2f} | {seconds['controls'] / colours:.1%} |")
    stored = sum(path.stat().st_size for path in made.folder.rglob("*") if path.is_file())
    print(f"\nvalidation T1, T2 and T3: {seconds['validation']:.2f} CPU s, bound 4; all but colours: bound 35 %, better 25 %")
    print(f"the render has {stored / 1e6:.1f} MB; read back from Blender: {made.record['read_back']}", flush=True)


def print_quality(made: Made, args) -> None:
    """Print dB and CPU seconds of some frames: ours, as stored, and the baseline."""
    frames, meshes = len(made.plan["cameras"]["frames"]), meshes_of(made.plan, args.dataset)
    chosen = np.linspace(0, frames - 1, args.frames).round().astype(int).tolist()
    ours = [np.asarray(Image.open(made.folder / f"rgba_fg/{t:03d}.png")) for t in chosen]
    reference, longest = render_frames(made.plan, meshes, chosen, REFERENCE, args.threads, False)
    baseline, long = render_frames(made.plan, meshes, chosen, BASELINE, args.threads, True)
    short = made.seconds["colours"] / frames
    print(f"\n| colours of frames {', '.join(map(str, chosen))} | dB against 1,024 samples | CPU s a frame | times ours |\n| --- | ---: | ---: | ---: |")
    print(f"| ours, {args.samples} samples (seconds: mean of all frames) | {decibels(ours, reference):.2f} | {short:.2f} | 1.0 |")
    print(f"| 128 samples, denoiser's defaults, nothing kept | {decibels(baseline, reference):.2f} | {long:.2f} | {long / short:.1f} |")
    print(f"| 1,024 samples, objects' box only | - | {longest:.2f} | {longest / short:.1f} |", flush=True)


def print_threads(made: Made, args) -> None:
    """Print what two threads make of it, in wall time: which only an idle machine shows."""
    print(f"\n| threads, every {args.every} frames | wall s, colours | CPU s, colours | wall s, all but setup | CPU s |\n| --- | ---: | ---: | ---: | ---: |")
    wall: dict[int, tuple[float, float]] = {}
    for threads in (1, 2, 1, 2):
        timing = some_frames(made, args.dataset, args.samples, args.every, threads)
        spent, used = timing["wall_seconds"], timing["cpu_seconds"]
        found = spent["colours"], spent["all"] - spent["setup"]
        wall[threads] = min(wall.get(threads, found), found)
        print(f"| {threads} | {found[0]:.2f} | {used['colours']:.2f} | {found[1]:.2f} | {used['all'] - used['setup']:.2f} |")
    gains = [one / two for one, two in zip(wall[1], wall[2], strict=True)]
    print(f"\ntwo threads are {gains[0]:.2f} times as fast as one in colours, of the better rounds, {gains[1]:.2f} in all but setup (bound 1.7)")
    print(f"load of the machine in the last minute {os.getloadavg()[0]:.1f}: above {args.threads} others worked on it", flush=True)


def slope_of(made: Made, args) -> float:
    """Return the CPU seconds that each sample between FEW and --samples adds to a clip's colours, from some of its frames: what a clip takes once cancels."""
    few, many = (some_frames(made, args.dataset, samples, args.every, args.threads)["cpu_seconds"]["colours"] for samples in (FEW, args.samples))
    frames = len(made.plan["cameras"]["frames"])
    return (many - few) * frames / len(range(0, frames, args.every)) / (args.samples - FEW)


def print_all(clips: Mapping[int, Made], most: int, args) -> None:
    """Print a line for each number of objects, and what an estimate counts with."""
    print(f"\n| objects | colours, {FEW} samples | colours, {args.samples} samples | all else | of colours, {args.samples} | validation | pixels of a frame |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    base: dict[str, dict[int, float]] = {name: {} for name in ("PLAN", "RENDER", "SAMPLE", "FINISH", "CONTROL")}
    for count, made in sorted(clips.items()):
        slope, seconds = slope_of(made, args), made.seconds
        few = seconds["colours"] - (slope * (args.samples - FEW) if count == most else 0.0)
        many = few + slope * (args.samples - FEW)
        share, covered = made.rest / many, made.covered
        print(f"| {count} | {few:.2f} | {many:.2f} | {made.rest:.2f} | {share:.1%} | {seconds['validation']:.2f} | {covered:.0f} |", flush=True)
        base["PLAN"][count], base["CONTROL"][count], base["SAMPLE"][count] = seconds["planning"], seconds["controls"], slope
        base["RENDER"][count] = few - slope * FEW + sum(seconds[name] for name in ("setup", "visible", "amodal", "encode"))
        base["FINISH"][count] = seconds["compositing"] + seconds["validation"]
    chances = {count: NUM_OBJECTS_CHANCES[count - 1] for count in clips}
    mean = {name: sum(chances[count] * each[count] for count in clips) / sum(chances.values()) for name, each in base.items()}
    print("\nfor src/reelmill/estimate_assets.py: " + ", ".join(f"{name}_SECONDS {value:.3g}" for name, value in mean.items()))
    totals = " and ".join(f"{mean['RENDER'] + mean['SAMPLE'] * samples:.1f} s with {samples} samples" for samples in (FEW, args.samples))
    print(f"  rendering a clip: {totals}, weighted by {chances}")


def make(shop: Workshop, args) -> tuple[dict[int, Made], int]:
    """Return a clip for each number of objects, and the most objects."""
    most = max(args.objects)
    ids = {count: typical_clip(count, shop.stock) for count in args.objects}
    small = next(one for one in clips_with(2, args.split) if one not in ids.values())
    shop.make(small, PlanSettings(frames=2, width=128, height=128), RenderSettings(samples=FEW), RenderHost())
    settings, host = PlanSettings(width=args.size, height=args.size), RenderHost(threads=args.threads)
    samples = {count: args.samples if count == most else FEW for count in args.objects}
    return {count: shop.make(ids[count], settings, RenderSettings(samples=samples[count]), host) for count in args.objects}, most


def main() -> None:
    """Make clips and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_stock(arguments)
    arguments.add_argument("--objects", type=int, nargs="+", default=[1, 2, 3, 4], choices=range(1, 5), metavar="N")
    arguments.add_argument("--frames", type=int, default=3, help="frames that are compared with 1,024 samples; 0 leaves it out")
    arguments.add_argument("--every", type=int, default=8, help="of these frames one is rendered again to see what threads and samples do")
    arguments.add_argument("--clips", type=int, default=20, help="clips over which memory is looked at; 0 leaves it out")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--size", type=int, default=512, help="width and height of a frame")
    arguments.add_argument("--samples", type=int, default=64, help=f"more than {FEW}")
    args = arguments.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        clips, most = make(workshop(args, Path(name)), args)
        print(f"{len(clips)} clips, frames of {args.size} x {args.size}, {args.threads} threads, {os.cpu_count()} cores")
        print_parts(clips[most], args)
        if args.frames:
            print_quality(clips[most], args)
        print_threads(clips[most], args)
        print_all(clips, most, args)
    if args.clips:
        print(flush=True)
        flags = {"clips": args.clips, "size": args.size, "dataset": args.dataset, "pool": args.pool, "split": args.split}
        line = [sys.executable, str(Path(__file__).with_name("clips_memory.py")), *(f"--{key}={value}" for key, value in flags.items())]
        subprocess.run(line, check=True)
    print(f"\nall this took {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
    session.leave(0)
