"""Normalise and voxelise assets in one process: CPU seconds of each beyond Blender's start, and how memory grows over twenty."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sam3dvid.settings import NormalizeSettings
from sam3dvid.stage import ASSET_KEY, read_asset_table, sources_of


def resident_mb() -> float:
    """Return the memory that this process holds now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, default=Path("data/demo/assets.csv"), help="an asset table (default: the demo's)")
    parser.add_argument("--assets", type=int, default=20, help="how many assets memory is measured over; the table's, again and again")
    args = parser.parse_args()
    rows = read_asset_table(args.table)

    start = time.process_time()
    from sam3dvid.assets.mesh import read_canonical
    from sam3dvid.assets.voxels import voxelize
    from sam3dvid.blender import session
    from sam3dvid.blender.normalize import normalize

    session.start()
    voxelize(*read_canonical_of_nothing())
    print(f"Blender's start and the imports: {time.process_time() - start:.2f} CPU s\n")

    print("| asset | triangles | texture | normalise s | voxelise s | both s (at most 3) |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        out, grown = Path(folder, "mesh.glb"), []
        for number in range(args.assets + len(rows)):
            row = rows[number % len(rows)]
            begin = time.process_time()
            record = normalize([source.path for source in sources_of(row, args.table)], row["up_axis"], out, NormalizeSettings())
            middle = time.process_time()
            voxelize(*read_canonical(out))
            end = time.process_time()
            grown.append(resident_mb())
            if number < len(rows):
                sizes = ", ".join(f"{texture['width']}x{texture['height']}" for texture in record["textures"])
                print(f"| {row[ASSET_KEY]} | {record['num_triangles']:,} | {sizes} | {middle - begin:.2f} | {end - middle:.2f} | {end - begin:.2f} |")
    first, last = grown[len(rows) - 1], grown[-1]
    print(f"\nmemory: {first:.0f} MB after {len(rows)} assets, {last:.0f} MB after {args.assets} more: {(last - first) / args.assets:+.2f} MB each (under 1)")
    session.leave(0)


def read_canonical_of_nothing():
    """Return one triangle, so that voxelize is compiled before anything is timed."""
    import numpy as np

    return np.array([[0.0, 0, 0], [0.2, 0, 0], [0, 0.3, 0.1]]), np.array([[0, 1, 2]], np.int32)


if __name__ == "__main__":
    main()
