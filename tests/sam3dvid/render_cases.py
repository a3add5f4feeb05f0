"""Small clips to render, and a program that renders them in a process of its own: python -m tests.sam3dvid.render_cases FOLDER THREADS NAME[=SOURCE]..."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import trimesh
from trimesh.visual.material import PBRMaterial

from sam3dvid.conventions import K_bg, frame_K, look_at
from sam3dvid.render.settings import RenderHost, RenderSettings
from shardwork.jsonio import dumps_pretty

ROOT = Path(__file__).resolve().parents[2]
SIZE, FRAMES = 64, 4
FEW = RenderSettings(samples=4)
QUICK, HOST = RenderSettings(samples=1, denoise=False), RenderHost()
DARK = {"sun_direction": [0.0, 0.0, 1.0], "sun_strength": 0.0, "ambient_strength": 0.0, "sun_angle_deg": 2.0}
SUNNY = {"sun_direction": [0.6, 0.0, 0.8], "sun_strength": 3.0, "ambient_strength": 0.3, "sun_angle_deg": 2.0}


def l_shape():
    """Return an L whose box is 1 x 0.6 x 0.8 around the origin: no turn or mirror maps it onto itself."""
    foot, leg = trimesh.creation.box((1.0, 0.6, 0.2)), trimesh.creation.box((0.2, 0.3, 0.6))
    foot.apply_translation((0, 0, -0.3))
    leg.apply_translation((-0.4, 0.15, 0.1))
    return trimesh.util.concatenate([foot, leg])


def egg():
    """Return an ellipsoid of 1280 triangles."""
    mesh = trimesh.creation.icosphere(3, 0.5)
    mesh.apply_scale((1.0, 0.7, 0.5))
    return mesh


def write_glb(path, mesh, **material):
    """Write a mesh in canonical axes as a GLB, which is Y-up, with one material."""
    mesh = mesh.copy()
    mesh.vertices = mesh.vertices[:, [0, 2, 1]] * [1, 1, -1]
    mesh.visual = trimesh.visual.TextureVisuals(material=PBRMaterial(**material))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(trimesh.Scene(mesh).export(file_type="glb"))


def clip(poses, light, frames=FRAMES):
    """Return a plan as far as a renderer reads it.   poses : (name, R_wo, t_wo, s) of each object; the cameras go a little way around the origin."""
    azimuths = np.radians(np.linspace(-12, 12, frames))
    T_cw = [look_at(3 * np.array([np.cos(a), np.sin(a), 0.4]), np.zeros(3)) for a in azimuths]
    objects = [
        {"k": k, "asset_id": name, "R_wo": np.asarray(R).tolist(), "t_wo": list(t), "s_wo": [s] * 3, "source": "toys"}
        for k, (name, R, t, s) in enumerate(poses, 1)
    ]
    cameras = {"convention": "opencv", "width": SIZE, "height": SIZE, "K": frame_K(SIZE, SIZE).tolist()}
    cameras["frames"] = [{"t": t, "T_cw": T.tolist()} for t, T in enumerate(T_cw)]
    return {"clip_id": "00000007", "seed": 7, "split": "eval", "objects": objects, "cameras": cameras, "light": light, "K_bg": K_bg(64, 32).tolist()}


def turned(degrees, axis):
    """Return a rotation matrix."""
    return trimesh.transformations.rotation_matrix(np.radians(degrees), axis)[:3, :3]


def pair():
    """Return a clip in which the first object hides a part of the second in every frame."""
    poses = [("l_shape", turned(40, (1, 2, 3)), (0.5, 0.1, 0.0), 0.9), ("egg", turned(70, (3, 1, 0)), (-0.6, -0.1, 0.1), 0.95)]
    return clip(poses, SUNNY)


def glow():
    """Return a clip in the dark, of one egg that shines (0.8, 0.2, 0.2) by itself."""
    return clip([("glowing", np.eye(3), (0.0, 0.0, 0.0), 1.0)], DARK, frames=2)


def flat():
    """Return a thin plate across canonical x."""
    return trimesh.creation.box((0.02, 1.0, 1.0))


def slab():
    """Return a clip of one frame, in which a plate is seen aslant."""
    return clip([("flat", turned(35, (0, 1, 1)), (0.0, 0.0, 0.0), 1.0)], DARK, frames=1)


def scan():
    """Return a clip of a scan, in even white light, in frames of 128 pixels."""
    plan = clip([("scan", turned(50, (1, 2, 3)), (0.0, 0.0, 0.0), 1.0)], {**DARK, "ambient_strength": 1.0}, frames=2)
    plan["cameras"] |= {"width": 2 * SIZE, "height": 2 * SIZE, "K": frame_K(2 * SIZE, 2 * SIZE).tolist()}
    return plan


CLIPS = {"pair": pair, "glow": glow, "slab": slab, "scan": scan}


def write_meshes(folder):
    """Write the meshes of all clips: NAME.glb."""
    write_glb(folder / "l_shape.glb", l_shape(), baseColorFactor=[200, 120, 40, 255], roughnessFactor=0.7, metallicFactor=0.0)
    write_glb(folder / "egg.glb", egg(), baseColorFactor=[30, 90, 200, 255], roughnessFactor=0.4, metallicFactor=0.0)
    write_glb(folder / "flat.glb", flat())
    write_glb(folder / "glowing.glb", egg(), baseColorFactor=[0, 0, 0, 255], emissiveFactor=[0.8, 0.2, 0.2], metallicFactor=0.0)


def meshes_of(plan, folder):
    """Return the meshes of a clip's objects."""
    return [folder / f"{one['asset_id']}.glb" for one in plan["objects"]]


def render_apart(folder, threads, *names):
    """Render clips in another process, in this order, into FOLDER/NAME. NAME=SOURCE is a clip whose one mesh is first made from an OBJ's folder.

    The meshes are in FOLDER. In a process of its own, since one that showed Blender pictures of textures may hang when it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_meshes(folder)
    line = [sys.executable, "-m", "tests.sam3dvid.render_cases", str(folder), str(threads), *names]
    done = subprocess.run(line, cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def render_here(folder, plan=None, settings=QUICK, host=HOST, **changes):
    """Render a clip, by default the pair, in this process; return its record, its timing and its folder."""
    from sam3dvid.blender.clip import render_clip

    plan = {**(plan or pair()), **changes}
    write_meshes(folder / "meshes")
    out = folder / "out"
    out.mkdir(parents=True)
    return (*render_clip(plan, meshes_of(plan, folder / "meshes"), out, settings, host), out)


def files_of(folder):
    """Return the bytes of all files of a rendered clip."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def main(folder, threads, *names):
    """Render clips in this process."""
    from sam3dvid.blender import session
    from sam3dvid.blender.clip import render_clip
    from sam3dvid.blender.normalize import normalize
    from sam3dvid.settings import NormalizeSettings

    for name, _, source in (each.partition("=") for each in names):
        if source:
            files = sorted(Path(source).iterdir(), key=lambda path: path.suffix != ".obj")
            normalize(files, "Y", Path(folder) / f"{name}.glb", NormalizeSettings())
        plan, out = CLIPS[name](), Path(folder) / name
        out.mkdir()
        record, _ = render_clip(plan, meshes_of(plan, Path(folder)), out, FEW, RenderHost(threads=int(threads)))
        (Path(folder) / f"{name}.json").write_text(dumps_pretty(record))
    session.leave(0)


def read_record(folder, name):
    """Return the record of a clip rendered by `render_apart`."""
    return json.loads((folder / f"{name}.json").read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
