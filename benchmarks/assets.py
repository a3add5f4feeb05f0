"""Voxelise meshes of several sizes: CPU seconds of ours and (--open3d PYTHON) of Open3D, whether the voxels are equal, and memory at five million triangles."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sam3dvid.assets.voxels import LIMIT, SIZE, voxelize

# Run by a Python that has open3d and numpy; it knows nothing of ours.
THEIRS = """
import json, sys, time
import numpy as np
import open3d as o3d
data, limit, size, repeat = np.load(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
mesh = o3d.geometry.TriangleMesh(o3d.utility.Vector3dVector(np.clip(data["v"], -limit, limit)), o3d.utility.Vector3iVector(data["f"]))
times = []
for _ in range(repeat + 1):
    start = time.process_time()
    made = o3d.geometry.VoxelGrid.create_from_triangle_mesh_within_bounds(mesh, voxel_size=1 / size, min_bound=(-.5,) * 3, max_bound=(.5,) * 3)
    times.append(time.process_time() - start)
grid = np.zeros((size,) * 3, bool)
grid[tuple(np.array([voxel.grid_index for voxel in made.get_voxels()]).T)] = True
np.save(sys.argv[5], grid)
print(json.dumps(min(times[1:])))
"""


def torus(triangles: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a bumpy torus of about so many triangles, turned out of the axes, longest side 1."""
    rows = max(3, round((triangles / 4) ** 0.5))
    u, v = np.meshgrid(np.arange(2 * rows) * np.pi / rows, np.arange(rows) * 2 * np.pi / rows, indexing="ij")
    tube = 0.35 + 0.03 * np.sin(9 * u) * np.cos(7 * v)
    points = np.stack([(1 + tube * np.cos(v)) * np.cos(u), (1 + tube * np.cos(v)) * np.sin(u), tube * np.sin(v)], -1).reshape(-1, 3)
    points = points @ np.linalg.qr(np.array([[1, 2, 0.5], [0.3, 1, 2], [1.5, 0.2, 1]]))[0]
    low, high = points.min(0), points.max(0)
    i, j = np.meshgrid(np.arange(2 * rows), np.arange(rows), indexing="ij")
    at = lambda a, b: ((a % (2 * rows)) * rows + b % rows).ravel()  # noqa: E731
    a, b, c, d = at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)
    return (points - (low + high) / 2) / (high - low).max(), np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]).astype(np.int32)


def ours(vertices: np.ndarray, faces: np.ndarray, repeat: int) -> tuple[float, np.ndarray]:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        grid = voxelize(vertices, faces)
        times.append(time.process_time() - start)
    return min(times), grid


def theirs(python: Path, vertices: np.ndarray, faces: np.ndarray, repeat: int) -> tuple[float, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "mesh.npz"), Path(folder, "grid.npy")
        np.savez(data, v=vertices, f=faces)
        line = [str(python), "-c", THEIRS, str(data), repr(LIMIT), str(SIZE), str(repeat), str(out)]
        done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout.splitlines()[-1]), np.load(out)


def peak_mib() -> float:
    """Return the most memory that this process held since the peak was last reset (Linux)."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open3d", type=Path, metavar="PYTHON", help="a Python that has open3d, to compare with")
    parser.add_argument("--triangles", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--large", type=int, default=5_000_000, help="triangles of the mesh that memory is measured with")
    parser.add_argument("--repeat", type=int, default=5, help="the best of so many counts")
    args = parser.parse_args()
    voxelize(*torus(100))  # the first call compiles
    print("triangles  voxels  ours CPU ms  Open3D CPU ms  ratio  equal")
    for count in args.triangles:
        vertices, faces = torus(count)
        seconds, grid = ours(vertices, faces, args.repeat)
        line = f"{len(faces):9d}  {grid.sum():6d}  {seconds * 1e3:11.2f}"
        if args.open3d:
            other, their_grid = theirs(args.open3d, vertices, faces, args.repeat)
            line += f"  {other * 1e3:13.2f}  {other / seconds:5.1f}  {np.array_equal(grid, their_grid)}"
        print(line, flush=True)
    vertices, faces = torus(args.large)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here: making the mesh took more
    before = peak_mib()
    seconds, grid = ours(vertices, faces, 1)
    grown = peak_mib() - before
    held = (vertices.nbytes + faces.nbytes) / 2**20
    print(f"{len(faces)} triangles: {seconds:.2f} CPU s, {int(grid.sum())} voxels, peak memory grew by {grown:.1f} MiB beyond the arrays ({held:.0f} MiB)")


if __name__ == "__main__":
    main()
