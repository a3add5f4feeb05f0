"""`python -m sam3dvid voxelize`: what it writes, says and refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh

SRC = Path(__file__).resolve().parents[2] / "src"


def run(*arguments, cwd):
    return subprocess.run([sys.executable, "-m", "sam3dvid", *arguments], cwd=cwd, env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=False)


def glb(path, *sides):
    path.write_bytes(trimesh.Scene(trimesh.creation.box(sides)).export(file_type="glb"))


def test_a_cube_is_written_and_counted(tmp_path):
    glb(tmp_path / "m.glb", 1, 1, 1)
    done = run("voxelize", "m.glb", "out/v.npy", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "out/v.npy: 23816 voxels of 12 triangles\n")
    assert np.load(tmp_path / "out" / "v.npy").sum() == 23816


def test_gltf_axes_are_taken_to_canonical_ones(tmp_path):
    glb(tmp_path / "m.glb", 1, 0.25, 0.5)  # y up: height .25
    run("voxelize", "m.glb", "v.npy", cwd=tmp_path)
    assert np.load(tmp_path / "v.npy").any((0, 1)).sum() == 17


@pytest.mark.parametrize(
    ("sides", "out", "code"),
    [((1.001, 1, 1), "v.npy", "not_canonical"), ((1, 1, 1), "v.npz", "bad_argument"), (None, "v.npy", "missing_file"), ((), "v.npy", "unreadable_mesh")],
)
def test_bad_input_is_refused_with_exit_code_2_and_writes_nothing(tmp_path, sides, out, code):
    if sides:
        glb(tmp_path / "m.glb", *sides)
    elif sides is not None:
        (tmp_path / "m.glb").write_bytes(b"glTF")
    done = run("voxelize", "m.glb", out, cwd=tmp_path)
    assert done.returncode == 2 and f"[{code}]" in done.stderr and done.stdout == ""
    assert not (tmp_path / out).exists()
