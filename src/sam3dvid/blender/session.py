"""One Blender in this process for many assets: started once, quiet, and empty after each."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NoReturn

import bpy


@cache
def start() -> str:
    """Start from Blender's factory settings with an empty scene, once in a process, and return Blender's version."""
    with silence():
        bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.preferences.edit.use_global_undo = False
    bpy.context.preferences.filepaths.use_relative_paths = False
    return str(bpy.app.version_string)


def leave(code: int) -> NoReturn:
    """End a program that loaded Blender, at once: its own ending may crash or hang long after all is written."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def clear() -> None:
    """Remove everything that is not the one empty scene, as it was after the start."""
    scene = bpy.context.scene
    for other in [each for each in bpy.data.scenes if each != scene]:
        bpy.data.scenes.remove(other)
    scene.world = None
    for name in COLLECTIONS:
        blocks = getattr(bpy.data, name)
        bpy.data.batch_remove(list(blocks))
    bpy.data.orphans_purge(do_local_ids=True, do_linked_ids=True, do_recursive=True)
    gc.collect()


COLLECTIONS = (
    *("objects", "collections", "meshes", "materials", "images", "textures", "node_groups", "actions", "armatures", "cameras", "lights", "curves"),
    *("shape_keys", "worlds", "texts", "lattices", "metaballs", "volumes", "pointclouds", "hair_curves", "grease_pencils", "linestyles", "libraries"),
)
"""Kinds of data that an import can make."""


def counts() -> dict[str, int]:
    """Return how much of each kind of data Blender holds."""
    return {name: len(getattr(bpy.data, name)) for name in (*COLLECTIONS, "scenes")}


@contextmanager
def silence() -> Iterator[None]:
    """Keep what Blender prints, from C too, out of the log."""
    _flush()
    kept = [os.dup(number) for number in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(null, number)
        yield
    finally:
        _flush()
        for number, file in enumerate(kept, 1):
            os.dup2(file, number)
        for file in (*kept, null):
            os.close(file)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # C keeps its lines back where the output is no terminal
