"""Export clips of 512 x 512 and compare with a bare loop of the same decodes, encodes and PSNR: CPU of one and two workers, time by the clock, memory."""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import cv2
import numpy as np
from PIL import Image

from sam3dvid.composite.blend import png_bytes
from sam3dvid.conventions import K, Orbit, trajectory
from shardwork.jsonio import dumps, write_json

SPLIT, SIZE, FRAMES = "train", 512, 32


def write_dataset(root: Path, clips: int) -> None:
    """Write clips that show the same pictures, with the noise of a photo: of the second one on, all but meta.json are links."""
    asset = root / "assets" / SPLIT / "box"
    asset.mkdir(parents=True)
    np.save(asset / "voxels.npy", np.zeros((64, 64, 64), bool))
    write_json(asset / "meta.json", {"license": "CC0-1.0", "source": "benchmark"})
    first = root / "clips" / SPLIT / "00000000"
    for name in ("rgb", "mask_visible"):
        (first / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    small = rng.integers(0, 255, (20, 40, 3), np.uint8)
    photo = cv2.resize(small, (640, 512), interpolation=cv2.INTER_CUBIC)
    for t in range(FRAMES):
        picture = np.clip(photo[:, 4 * t : 4 * t + SIZE] + rng.normal(0, 2, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)
        (first / "rgb" / f"{t:03d}.png").write_bytes(png_bytes(picture))
        mask = np.zeros((SIZE, SIZE), np.uint8)
        cv2.circle(mask, (200 + 3 * t, 256), 90, (1,), -1)
        Image.fromarray(mask).save(first / "mask_visible" / f"{t:03d}.png")
    T_cw = trajectory(Orbit(0.0, 30.0, 5.0, 40.0, 1, 4.0, (0.0, 0.0, 0.0)))
    frames = [{"t": t, "T_cw": pose.tolist()} for t, pose in enumerate(T_cw)]
    write_json(first / "cameras.json", {"convention": "opencv", "width": SIZE, "height": SIZE, "K": K().tolist(), "frames": frames})
    pose = {"R_wo": np.eye(3).tolist(), "t_wo": [0.0] * 3, "s_wo": [0.7] * 3}
    write_json(first / "objects.json", [{"k": 1, "asset_id": "box", **pose}])
    lines = []
    for number in range(clips):
        clip_id = f"{number:08d}"
        folder = root / "clips" / SPLIT / clip_id
        for path in [path for path in first.rglob("*") if path.is_file() and path.name != "meta.json"] if number else []:
            target = folder / path.relative_to(first)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target)
        seen = {key: [[1]] * FRAMES for key in ("visible_px", "amodal_px", "visible_frac")}
        background = {"image_id": "photo", "provenance": {"source": "photo", "license": "CC0-1.0"}}
        known = {"generator_version": "0", "git_commit": "0", "visibility": seen, "background": background}
        write_json(folder / "meta.json", {"clip_id": clip_id, "split": SPLIT, "seed": number, "num_objects": 1, **known})
        lines.append({"clip_id": clip_id, "split": SPLIT, "path": f"clips/{SPLIT}/{clip_id}"})
    (root / "manifest.jsonl").write_text("".join(dumps(line) + "\n" for line in lines))


def bare(dataset: Path, clips: int) -> None:
    """Decode, encode and compare, and do nothing with it."""
    for number in range(clips):
        folder = dataset / "clips" / SPLIT / f"{number:08d}"
        for t in range(FRAMES):
            data = (folder / "rgb" / f"{t:03d}.png").read_bytes()
            pixels = cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED), cv2.COLOR_BGR2RGB)
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "JPEG", quality=95, subsampling=0)
            with Image.open(io.BytesIO(buffer.getvalue())) as image:
                cv2.norm(pixels, np.asarray(image), cv2.NORM_L2SQR)
            with Image.open(io.BytesIO((folder / "mask_visible" / f"{t:03d}.png").read_bytes())) as image:
                np.asarray(image)


def export(dataset: Path, out: Path, per_shard: int, workers: int) -> tuple[float, float, int]:
    """Export in a process of its own; return its CPU seconds, its seconds by the clock and the memory of its largest process, in MB."""
    line = [sys.executable, "-m", "sam3dvid.export", f"--dataset={dataset}", f"--split={SPLIT}", f"--out={out}"]
    env = {**os.environ, "PYTHONPATH": sys.path[0]}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*line, f"--clips-per-shard={per_shard}", f"--workers={workers}"], check=True, env=env, capture_output=True)
    gone, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, gone, after.ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=100)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, few = Path(name), max(1, args.clips // 4)
        write_dataset(folder / "dataset", args.clips)
        start = time.process_time()
        bare(folder / "dataset", few)
        loop = (time.process_time() - start) / few
        cpu, _, memory = export(folder / "dataset", folder / "one", args.clips, 1)
        one_cpu, halves, _ = export(folder / "dataset", folder / "half", -(-args.clips // 2), 1)
        two_cpu, two, _ = export(folder / "dataset", folder / "two", -(-args.clips // 2), 2)
        print(f"bare loop          {1000 * loop:7.0f} CPU ms a clip")
        print(f"export             {1000 * cpu / args.clips:7.0f} CPU ms a clip, start included: {loop * args.clips / cpu:.0%} of the loop's throughput")
        print(f"one worker         {one_cpu:7.1f} CPU s, two shards")
        print(f"two workers        {two_cpu:7.1f} CPU s, {halves / two:.2f} times as fast as one by the clock ({halves:.1f} s and {two:.1f} s)")
        print(f"memory             {memory:7} MB, the largest process, a shard of {args.clips} clips")
        print(f"a clip             {sum(path.stat().st_size for path in (folder / 'one').glob('*.tar')) / args.clips / 1e6:7.2f} MB in the tar")


if __name__ == "__main__":
    main()
