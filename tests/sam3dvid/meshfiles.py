"""Small mesh files made on the spot, and the independent route: trimesh, with node transforms, (x, y, z) -> (x, -z, y)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from PIL import Image

RED = (200, 30, 30, 255)
TETRA = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
FACES = [(1, 3, 2), (1, 2, 4), (2, 3, 4), (3, 1, 4)]


def l_shape(colour=RED):
    """Return a closed L of two boxes, 2 x 1 x 1 and 1 x 1 x 1, of one colour by material."""
    mesh: Any = trimesh.util.concatenate([trimesh.creation.box(bounds=[[0, 0, 0], [2, 1, 1]]), trimesh.creation.box(bounds=[[0, 1, 0], [1, 2, 1]])])
    if colour is not None:
        material = trimesh.visual.material.PBRMaterial(baseColorFactor=colour, metallicFactor=0.0)
        mesh.visual = trimesh.visual.TextureVisuals(uv=np.zeros((len(mesh.vertices), 2)), material=material)
    return mesh


def write_scene(path: Path, *placements, mesh=None):
    """Write one mesh, shared by a node for each 4 x 4 matrix (None: identity), as a GLB."""
    scene = trimesh.Scene()
    scene.add_geometry(mesh or l_shape(), geom_name="shared", node_name="node0", transform=placements[0] if placements else None)
    for index, matrix in enumerate(placements[1:], 1):
        scene.graph.update(f"node{index}", geometry="shared", matrix=matrix)
    path.write_bytes(scene.export(file_type="glb"))
    return path


def edit_glb(path: Path, change):
    """Rewrite a GLB after `change(document)`; the binary chunk stays."""
    data = path.read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    document = json.loads(data[20 : 20 + size])
    change(document)
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    rest = data[20 + size :]
    path.write_bytes(b"glTF" + struct.pack("<II", 2, 20 + len(text) + len(rest)) + struct.pack("<II", len(text), 0x4E4F534A) + text + rest)
    return path


def write_obj(folder: Path, *, faces=FACES, vertices=TETRA, mtl="newmtl m\nKd 0.8 0.1 0.1\n", extra="", name="model.obj"):
    """Write a tetrahedron with a red material and return the paths of its files, OBJ first."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["mtllib model.mtl", *("v " + " ".join(map(str, v)) for v in vertices), "vt 0 0", "vt 1 0", "vt 0 1", extra, "usemtl m"]
    lines += ["f " + " ".join(str(c) if isinstance(c, str) else f"{c}/{1 + k % 3}" for k, c in enumerate(face)) for face in faces]
    (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "model.mtl").write_text(mtl)
    return [folder / name, folder / "model.mtl"]


def write_picture(path: Path, size=(8, 4), colour=(10, 200, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def load(path: Path) -> Any:
    """Return a file as one mesh, as trimesh reads it: its nodes' transforms applied, nothing merged."""
    loaded = trimesh.load(path, process=False)
    return loaded.to_geometry() if isinstance(loaded, trimesh.Scene) else loaded


def canonical(path: Path):
    """Return (V, 3) vertices with Z up and (T, 3) triangles of a file in glTF's axes, read by trimesh."""
    mesh = load(path)
    vertices = np.asarray(mesh.vertices, np.float64)
    return np.c_[vertices[:, 0], -vertices[:, 2], vertices[:, 1]], np.asarray(mesh.faces)


def glb_document(path: Path):
    data = path.read_bytes()
    return json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])


def volume(vertices, triangles):
    """Return the signed volume that triangles enclose: positive where they face outwards."""
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)
