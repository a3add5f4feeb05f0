"""T6: a pose turned into SAM 3D's convention puts and shows the object where ours does; wrong readings of it do not.

Nothing of SAM 3D is run: its transform of a vertex is written out here a second time, with row vectors and 4 x 4 matrices, as its public source has it.
Source: synthetic spec, section 2; facebookresearch/sam-3d-objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sam3dvid.sam3d import ours_to_sam3d, sam3d_to_ours
from sam3dvid.validate.kinds import EXACT, Float
from sam3dvid.validate.report import CONVENTION, Found
from sam3dvid.validate.schema import Placed
from shardwork.jsonio import Json

LIMIT = 5 * EXACT
"""How far the two may lie apart, in the object's distance, and a pose turned there and back from itself.

A rotation that T1 takes may scale by half of EXACT, and R_co is a product of two: the quaternion cannot keep that. Of exact rotations, rounding keeps to 1e-14.
"""
SEEN = 1e-3
"""What a wrong reading must be off by in some frame of a clip, in the object's distance: half a pixel."""
GLTF_ROWS = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
"""A vertex of a GLB file, as a row, into the canonical frame, as SAM 3D turns it."""
CORNERS = np.array([[x, y, z, 1.0] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)] + [[0.1, 0.3, 0.2, 1.0]])
"""(9, 4), homogeneous rows in the GLB file's axes: the corners of the canonical cube, and a point that no symmetry leaves in its place."""
COLUMNS, SCALAR_LAST, OTHER_AXES, SAME_T = "columns", "scalar_last", "other_axes", "t_untouched"
CONTROLS = (COLUMNS, SCALAR_LAST, OTHER_AXES, SAME_T)
"""Wrong readings: R(q) for column vectors, q as xyzw, a camera with y up that looks along -z, and t of our camera.

The last is right for an object in the middle of the picture, as the one object of a clip is: it need not be seen.
"""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What T6 measured of a clip.

    poses : frames times objects.   off : greatest distance between a point by SAM 3D's transform and by ours, in the object's distance.
    back : greatest difference of a pose turned there and back.   controls : wrong reading -> the most that it is off.
    """

    clip: str
    poses: int
    off: float
    back: float
    controls: dict[str, float]


def look_at_convention(found: Found, clip: str, T_cw: Float | None, placed: Sequence[Placed]) -> Agreement | None:
    """Return how well both conventions agree over a clip's poses; faults are noted. None where poses are not in order, which T1 tells.

    T_cw : (F, 4, 4).
    """
    poses = [(one.R_wo, one.t_wo, one.scale) for one in placed if one.R_wo is not None and one.t_wo is not None and one.scale is not None]
    if T_cw is None or not placed or len(poses) < len(placed):
        found.block(CONVENTION, clip)
        return None
    R_wo, t_wo, s = np.stack([R for R, _, _ in poses]), np.stack([t for _, t, _ in poses]), np.array([scale for _, _, scale in poses])
    R_cw, t_cw = T_cw[:, None, :3, :3], T_cw[:, None, :3, 3]
    R_co, t_co = R_cw @ R_wo, np.einsum("fnij,nj->fni", np.broadcast_to(R_cw, (len(T_cw), len(s), 3, 3)), t_wo) + t_cw
    s_co = np.broadcast_to(s[:, None], t_co.shape)
    canonical = CORNERS[:, :3] @ GLTF_ROWS
    ours = np.einsum("fnij,npj->fnpi", R_co, s[:, None, None] * canonical) + t_co[..., None, :]
    q, t, scale = ours_to_sam3d(R_co, t_co, s_co)
    axes = np.diag([-1.0, -1.0, 1.0])
    theirs = by_rows(q, t, scale, axes)
    distance = np.linalg.norm(t_co, axis=-1)[..., None, None]
    back = sam3d_to_ours(q, t, scale)
    agreement = Agreement(
        clip,
        t_co.shape[0] * t_co.shape[1],
        _most((theirs - ours) / distance),
        max(_most(one - other) for one, other in zip(back, (R_co, t_co, s_co), strict=True)),
        {
            COLUMNS: _most((by_rows(q * [1, -1, -1, -1], t, scale, axes) - ours) / distance),
            SCALAR_LAST: _most((by_rows(np.roll(q, 1, axis=-1), t, scale, axes) - ours) / distance),
            OTHER_AXES: _most((by_rows(q, t, scale, np.diag([1.0, -1.0, -1.0])) - ours) / distance),
            SAME_T: _most((by_rows(q, t_co, scale, axes) - ours) / distance),
        },
    )
    _judge(found, agreement)
    return agreement


def by_rows(q: Float, t: Float, s: Float, axes: Float) -> Float:
    """Return the corners in OpenCV's camera as SAM 3D comes there: row vectors, scale, then R(q), then t, and last the camera's axes.

    q : (..., 4) wxyz.   t, s : (..., 3).   axes : (3, 3), rows from its camera to ours.   Returns (..., 9, 3) float64.
    """
    w, x, y, z = np.moveaxis(q, -1, 0)
    two = 2.0 / (w * w + x * x + y * y + z * z)
    turn, move, size = np.zeros((3, *w.shape, 4, 4))
    turn[..., 3, 3] = move[..., 3, 3] = size[..., 3, 3] = 1.0
    turn[..., 0, 0], turn[..., 0, 1], turn[..., 0, 2] = 1 - two * (y * y + z * z), two * (x * y - z * w), two * (x * z + y * w)
    turn[..., 1, 0], turn[..., 1, 1], turn[..., 1, 2] = two * (x * y + z * w), 1 - two * (x * x + z * z), two * (y * z - x * w)
    turn[..., 2, 0], turn[..., 2, 1], turn[..., 2, 2] = two * (x * z - y * w), two * (y * z + x * w), 1 - two * (x * x + y * y)
    for axis in range(3):
        size[..., axis, axis] = s[..., axis]
        move[..., axis, axis] = 1.0
    move[..., 3, :3] = t
    rows = np.hstack([CORNERS[:, :3] @ GLTF_ROWS, CORNERS[:, 3:]])
    placed: Float = (rows @ size @ turn @ move)[..., :3] @ axes
    return placed


def _most(values: Float) -> float:
    return float(np.abs(values).max(initial=0.0))


def _judge(found: Found, agreement: Agreement) -> None:
    for name, value in (("a point in SAM 3D's transform", agreement.off), ("a pose turned there and back", agreement.back)):
        if not value <= LIMIT:
            found.add(CONVENTION, agreement.clip, f"{name} is off by {value:.3g}", f"at most {LIMIT:g}")
    for name in unseen(agreement):
        if name != SAME_T:
            found.add(CONVENTION, agreement.clip, f"blind: the wrong reading {name} is off by {agreement.controls[name]:.3g} alone", f"more than {SEEN:g}")


def unseen(agreement: Agreement) -> list[str]:
    """Return the wrong readings that a clip does not show."""
    return [name for name, value in agreement.controls.items() if not value > SEEN]


def figures_of(measured: Sequence[Agreement]) -> Json:
    """Return what was measured ready for JSON, null where nothing was."""
    controls = {name: [one.controls[name] for one in measured] for name in CONTROLS}
    return {
        "back": max((one.back for one in measured), default=None),
        "clips": len(measured),
        "controls": {name: [min(values), max(values)] if values else None for name, values in controls.items()},
        "controls_unseen": {name: count for name in CONTROLS if (count := sum(name in unseen(one) for one in measured))},
        "limit": LIMIT,
        "off": max((one.off for one in measured), default=None),
        "poses": sum(one.poses for one in measured),
    }


def line_of(figures: Json) -> str:
    """Return those figures in one line for people."""
    if not figures["clips"]:
        return "nothing measured"
    least = min(values[0] for name, values in figures["controls"].items() if name != SAME_T)
    return (
        f"{figures['poses']} poses in {figures['clips']} clips, off by at most {figures['off']:.1e}, there and back by {figures['back']:.1e}; "
        f"wrong readings by {least:.2g} or more (not against SAM 3D's own outputs)"
    )
