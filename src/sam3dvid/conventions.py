"""Frames and cameras of the dataset. Source: format v0.1, section 3."""

from __future__ import annotations

import numpy as np

CANONICAL_FROM_GLTF = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], np.float64)
"""(3, 3) float64: a vertex of mesh.glb, as a column, into the canonical object frame: (x, y, z) -> (x, -z, y)."""
