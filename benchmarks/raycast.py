"""Plan the visibility of clips with real scans: CPU seconds a clip, memory over many clips, and the same masks by Embree through trimesh.

python benchmarks/raycast.py mug.obj bowl.obj book.obj pan.obj     (the four objects of each clip; with fewer, they are taken in turn)
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import trimesh

from sam3dvid.conventions import K, Orbit, camera_distance, pixel_rays, pose_in_camera, random_rotation, trajectory
from sam3dvid.raycast import Caster, clip_visibility, frame_truth
from shardwork.streams import stream

OBJECTS = 4


def canonical(path: Path) -> trimesh.Trimesh:
    mesh = trimesh.load_mesh(path, process=False, skip_materials=True)
    low, high = mesh.bounds
    return trimesh.Trimesh((mesh.vertices - (low + high) / 2) / (high - low).max(), mesh.faces, process=False)


def divided(mesh: trimesh.Trimesh, count: int) -> trimesh.Trimesh:
    """Divide the largest triangles, each into four, until there are `count`."""
    while len(mesh.faces) < count:
        some = np.argsort(-mesh.area_faces, kind="stable")[: max(1, min(len(mesh.faces), (count - len(mesh.faces) + 2) // 3))]
        vertices, faces = trimesh.remesh.subdivide(mesh.vertices, mesh.faces, face_index=some)
        mesh = trimesh.Trimesh(vertices, faces, process=False)
    return mesh


def clip(seed: int, meshes: list[trimesh.Trimesh]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return T_cw, R_wo, t_wo and s of a clip, drawn as the format describes it, its camera at the drawn distance."""
    rng = stream(seed, "benchmark")
    s = rng.uniform(0.4, 1.0, OBJECTS)
    while True:
        t = rng.standard_normal((OBJECTS, 3))
        t *= (OBJECTS ** (1 / 3) * rng.uniform(size=OBJECTS) ** (1 / 3) / np.linalg.norm(t, axis=1))[:, None]
        if all(np.linalg.norm(t[i] - t[j]) > 3**0.5 / 2 * (s[i] + s[j]) for i in range(OBJECTS) for j in range(i)):
            break
    R = random_rotation(rng, (OBJECTS,))
    centre = t.mean(axis=0)
    radius = max(np.linalg.norm(s[i] * mesh.vertices @ R[i].T + t[i] - centre, axis=1).max() for i, mesh in enumerate(meshes))
    way = Orbit(
        rng.uniform(0, 360), rng.uniform(10, 45), rng.uniform(-10, 10), rng.uniform(10, 70), 1, camera_distance(radius, rng.uniform(1, 1.4)), tuple(centre)
    )
    return trajectory(way), R, t, s


def embree_frame(meshes, R_co, t_co, s):
    """Return the mask of a frame and z by trimesh's Embree, with rays in each object's box only and its usual plane intersection."""
    x, y = pixel_rays(K(), 512, 512)
    mask, depth = np.zeros((512, 512), np.uint8), np.full((512, 512), np.inf)
    for i, mesh in enumerate(meshes):
        points = s[i] * mesh.vertices @ R_co[i].T + t_co[i]
        uv = points[:, :2] / points[:, 2:] * K()[0, 0] + 255.5
        (u0, v0), (u1, v1) = np.clip(np.floor(uv.min(0)), 0, 512).astype(int), np.clip(np.ceil(uv.max(0)) + 1, 0, 512).astype(int)
        if u0 >= u1 or v0 >= v1:
            continue
        rays = np.stack([*np.meshgrid(x[u0:u1], y[v0:v1]), np.ones((v1 - v0, u1 - u0))], axis=-1).reshape(-1, 3)
        directions = rays @ R_co[i] / s[i]
        origin = -R_co[i].T @ t_co[i] / s[i]
        _, ray, places = mesh.ray.intersects_id(np.tile(origin, (len(rays), 1)), directions, multiple_hits=False, return_locations=True)
        z = (s[i] * places @ R_co[i].T + t_co[i])[:, 2]
        v, u = v0 + ray // (u1 - u0), u0 + ray % (u1 - u0)
        nearer = z < depth[v, u]
        mask[v[nearer], u[nearer]], depth[v[nearer], u[nearer]] = i + 1, z[nearer]
    return mask, depth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="MESH")
    parser.add_argument("--triangles", type=int, default=0, metavar="N", help="divide meshes up to N triangles; 0: as they are")
    parser.add_argument("--clips", type=int, default=20)
    parser.add_argument("--embree-clips", type=int, default=2, help="of them also by Embree")
    args = parser.parse_args()
    loaded = [divided(canonical(path), args.triangles) for path in args.files]
    meshes = [loaded[i % len(loaded)] for i in range(OBJECTS)]
    start = time.process_time()
    casters = [Caster(mesh.vertices, mesh.faces) for mesh in meshes]
    print(f"triangles {[len(mesh.faces) for mesh in meshes]}, casters made in {time.process_time() - start:.3f} CPU s")
    clip_visibility(casters, *clip(0, meshes), K(), 512, 512)  # loads compiled code
    taken, before = [], 0
    for seed in range(args.clips):
        drawn = clip(seed, meshes)
        start = time.process_time()
        clip_visibility(casters, *drawn, K(), 512, 512)
        taken.append(time.process_time() - start)
        if seed == args.clips // 4:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"clip_visibility: median {statistics.median(taken):.3f}, most {max(taken):.3f} CPU s a clip; peak memory grew by {grown} KiB in the last 3 quarters")
    try:
        import embreex  # noqa: F401
    except ImportError:
        print("embreex is not installed: no comparison")
        return
    for mesh in meshes:
        mesh.ray.intersects_first([[0, 0, 3.0]], [[0, 0, -1.0]])  # builds its tree
    theirs, differ, pixels, deepest = [], 0, 0, 0.0
    for seed in range(args.embree_clips):
        T_cw, R, t, s = clip(seed, meshes)
        R_co, t_co, _ = pose_in_camera(T_cw[:, None], R, t, np.repeat(s[:, None], 3, axis=1))
        start = time.process_time()
        frames = [embree_frame(meshes, R_co[i], t_co[i], s) for i in range(len(T_cw))]
        theirs.append(time.process_time() - start)
        for i, (mask, depth) in enumerate(frames):
            truth = frame_truth(casters, R_co[i], t_co[i], s, K(), 512, 512)
            differ, pixels = differ + np.count_nonzero(mask != truth.mask), pixels + np.count_nonzero(truth.mask)
            both = (mask == truth.mask) & (mask > 0)
            deepest = max(deepest, np.median(np.abs(depth[both] - truth.depth[both])))
    ratios = [slow / fast for slow, fast in zip(theirs, taken, strict=False)]
    print(f"Embree through trimesh: median {statistics.median(theirs):.3f} CPU s a clip, {statistics.median(ratios):.1f} x as much")
    print(f"  of {pixels} object pixels {differ} differ; greatest median depth difference of a frame {deepest:.1e}")


if __name__ == "__main__":
    main()
