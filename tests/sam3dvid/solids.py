"""Solids and scenes that rays are cast at."""

from __future__ import annotations

import hashlib

import numpy as np
import trimesh

from sam3dvid.conventions import Orbit, frame_K, pose_in_camera, random_rotation, trajectory
from sam3dvid.raycast import Caster, frame_truth
from shardwork.streams import stream

EYE = np.eye(3)


QUAD = np.array([[0, 1, 2], [0, 2, 3]], np.int32)


def box(*sides):
    mesh = trimesh.creation.box(sides)
    return np.asarray(mesh.vertices), np.asarray(mesh.faces, np.int32)


def plane(side, z=0.0):
    return np.array([[-side, -side, z], [side, -side, z], [side, side, z], [-side, side, z]]), QUAD


def sphere(level):
    mesh = trimesh.creation.icosphere(level, radius=0.5)
    return np.asarray(mesh.vertices), np.asarray(mesh.faces, np.int32)


def grid_cube(cells):
    """Return a unit cube whose sides are divided into cells x cells squares of two triangles, edges at multiples of 1 / cells."""
    steps = np.arange(cells + 1) / cells - 0.5
    p, q = np.meshgrid(steps, steps, indexing="ij")
    vertices: list[np.ndarray] = []
    faces: list[np.ndarray] = []
    i, j = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
    corner = (i * (cells + 1) + j).ravel()
    for axis in range(3):
        for end in (-0.5, 0.5):
            square = np.empty((p.size, 3))
            square[:, axis], square[:, axis - 1], square[:, axis - 2] = end, p.ravel(), q.ravel()
            start = len(vertices) * p.size
            vertices.append(square)
            for a, b, c in ((0, 1, cells + 1), (1, cells + 2, cells + 1)):
                faces.append(start + np.stack([corner + a, corner + b, corner + c], axis=1))
    return np.concatenate(vertices), np.concatenate(faces).astype(np.int32)


def one(mesh, t=(0, 0, 3.0), R=EYE, s=1.0, K=None, size=64, caster=Caster):
    return frame_truth([caster(*mesh)], R[None], [t], [s], frame_K(size, size) if K is None else K, size, size)


CLIP = Orbit(30.0, 20.0, 8.0, 60.0, -1, 4.0, (0.1, -0.1, 0.0))


PLACES, SCALES = np.array([[0.4, 0.3, 0], [-0.6, 0.1, 0.2], [0.2, -0.7, -0.3]]), np.array([0.6, 0.7, 0.5])


def clip_arguments():
    casters = [Caster(*sphere(3)), Caster(*grid_cube(6)), Caster(*box(1, 0.5, 0.3))]
    return casters, trajectory(CLIP), random_rotation(stream(31, "rotation"), (3,)), PLACES, SCALES, frame_K(96, 96), 96, 96


def frame_digest():
    casters, T_cw, R_wo, t_wo, s, K, width, height = clip_arguments()
    R_co, t_co, _ = pose_in_camera(T_cw[9], R_wo, t_wo, s[:, None].repeat(3, axis=1))
    truth = frame_truth(casters, R_co, t_co, s, K, width, height)
    return hashlib.sha256(truth.mask.tobytes() + truth.amodal.tobytes() + truth.depth.tobytes()).hexdigest()


def triangle_soup():
    """Return 30 triangles between 24 vertices, all anywhere."""
    rng = stream(11, "soup")
    return rng.uniform(-0.5, 0.5, (24, 3)), rng.integers(0, 24, (30, 3)).astype(np.int32)
