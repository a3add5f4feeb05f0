"""What of an imported scene has no area where it stands: nothing shows of it, and it must not decide the box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam3dvid.blender.collect import Piece
from sam3dvid.codes import AssetRefused

THIN = 1e-7
"""A triangle whose height is less than this of its longest side has no area: float32 keeps no more of it."""
SMALL = 1e-6
"""A piece whose diagonal is less than this of the largest piece's shows nothing: a part that is scaled to a point so that it is not seen."""


def drop_degenerate(pieces: Sequence[Piece], where: str) -> tuple[list[Piece], set[str]]:
    """Return the pieces with those triangles alone that have an area as they stand, and what is to be noted: degenerate_parts if any had none.

    where : what messages call the asset.   A piece of which nothing is left is gone, and so are vertices that no triangle is left to use.
    Raises AssetRefused: not_finite; zero_extent if nothing is left.
    """
    kept = []
    for piece in pieces:
        if not (np.isfinite(piece.vertices).all() and np.isfinite(piece.world).all()):
            raise AssetRefused("not_finite", where, "a coordinate that is NaN or infinite", "finite coordinates")
        if (chosen := _with_area(piece)).any():
            kept.append(piece if chosen.all() else _only(piece, chosen))
    if not kept:
        raise AssetRefused("zero_extent", where, "no triangle with an area", "triangles with an area")
    sizes = [float(np.linalg.norm(np.ptp(piece.vertices @ piece.world[:3, :3].T, axis=0))) for piece in kept]
    kept = [piece for piece, size in zip(kept, sizes, strict=True) if size >= SMALL * max(sizes)]
    changed = sum(len(piece.triangles) for piece in kept) < sum(len(piece.triangles) for piece in pieces)
    return kept, {"degenerate_parts"} if changed else set()


def _with_area(piece: Piece) -> NDArray[Any]:
    """Return which triangles have an area, (T,) bool. A translation plays no part, so that none is lost to it far from the origin."""
    a, b, c = (piece.vertices[piece.triangles[:, corner]] for corner in range(3))
    ab, bc, ca = ((end - start) @ piece.world[:3, :3].T for start, end in ((a, b), (b, c), (c, a)))
    doubled = np.linalg.norm(np.cross(ab, bc), axis=1)
    longest = np.max([np.einsum("ij,ij->i", side, side) for side in (ab, bc, ca)], axis=0)
    chosen: NDArray[Any] = doubled > THIN * longest
    return chosen


def _only(piece: Piece, chosen: NDArray[Any]) -> Piece:
    used, triangles = np.unique(piece.triangles[chosen], return_inverse=True)
    corners = np.repeat(chosen, 3)
    return replace(
        piece,
        vertices=piece.vertices[used],
        triangles=triangles.reshape(-1, 3),
        normals=piece.normals[corners],
        uvs={name: values[corners] for name, values in piece.uvs.items()},
        colours=None if piece.colours is None else piece.colours[corners],
        slots=piece.slots[chosen],
    )
