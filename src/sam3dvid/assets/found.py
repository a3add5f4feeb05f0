"""What a look into an asset's files found: the record that each format's reader gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FAR = 100.0
"""Coordinates beyond this many times the asset's size lose what shows of its shape to float32: 6e-8 of the coordinate is 6e-6 of the size."""


@dataclass(frozen=True, slots=True)
class Found:
    """A source that looks usable.

    kind : gltf, obj, ply, stl or fbx.   path : the file for Blender, which may be a plain copy of the source.   notes : what the record shall say of it.
    digests : sha256 of all textures that were decoded whole.   triangles : least and most that Blender must find, or None where the file does not say.
    origin : (3,) in the file's own axes, what was subtracted from every vertex because float32 would have lost it.
    """

    kind: str
    path: Path
    notes: set[str]
    digests: set[str]
    triangles: tuple[int, int] | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
