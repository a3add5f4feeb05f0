"""T2: every object shows enough in every frame, the background covers every frame, and no two objects meet.

Worked out from the mask files, the cameras and the poses alone. What T1 found not in order cannot be looked at, and blocks the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sam3dvid.validate.background import Background
from sam3dvid.validate.bounds import HFOV_DEG
from sam3dvid.validate.frames import Seen
from sam3dvid.validate.kinds import Float
from sam3dvid.validate.meta import Meta
from sam3dvid.validate.report import VISIBILITY, Found
from sam3dvid.validate.schema import Placed, Size, pinhole

LEAST_SHARE = 500
"""An object shows at least one in so many of the frame's pixels: 524 of 512 x 512. Source: seed 002, section 6."""
LEAST_PARTS = 10
"""An object shows at least one in so many of its own pixels in the frame."""
FRACTION = 1e-12
COVER_PX = 1e-6
"""By how much rounding may carry a corner beyond the photo's edge."""


def least_visible_px(width: int, height: int) -> int:
    """Return how many pixels an object shows at least in a frame of this size, a whole number."""
    return width * height // LEAST_SHARE


def look_at_visibility(found: Found, clip: str, seen: Seen, size: Size, meta: Meta) -> None:
    """Note every object that shows too little, and where meta.json says otherwise than the masks."""
    least = least_visible_px(size.width, size.height)
    for t, k in np.ndindex(*seen.visible_px.shape):
        visible, amodal = int(seen.visible_px[t, k]), int(seen.amodal_px[t, k])
        if visible < 0 or amodal < 0:
            found.block(VISIBILITY, f"{clip}: masks of frame {t}")
            continue
        where, alike = f"{clip}: object {k + 1} in frame {t}", f"{clip}: object {k + 1}"
        if visible < least:
            found.add(VISIBILITY, where, f"{visible} visible pixels", f"at least {least}", f"{alike} least")
        if LEAST_PARTS * visible < amodal or amodal == 0:
            share = visible / amodal if amodal else 0.0
            found.add(VISIBILITY, where, f"{share:.4f} of its {amodal} pixels visible", f"at least {1 / LEAST_PARTS}", f"{alike} part")
    if meta.visibility is None:
        return found.block(VISIBILITY, f"{clip}/meta.json: visibility")
    known = (seen.visible_px >= 0) & (seen.amodal_px >= 0)
    fraction = np.divide(seen.visible_px, seen.amodal_px, out=np.zeros(known.shape), where=seen.amodal_px > 0)
    for key, counted, tolerance in (("visible_px", seen.visible_px, 0.0), ("amodal_px", seen.amodal_px, 0.0), ("visible_frac", fraction, FRACTION)):
        stated = meta.visibility[key]
        wrong = np.argwhere(known & (np.abs(stated - counted) > tolerance))
        if len(wrong):
            t, k = wrong[0]
            where = f"{clip}/meta.json: visibility.{key}[{t}][{k}]"
            more = f" ({len(wrong)} such numbers in all)" if len(wrong) > 1 else ""
            found.add(VISIBILITY, where, f"{stated[t, k]}{more}", f"{counted[t, k]}, as the masks have it")
    return None


def look_at_cover(found: Found, clip: str, T_cw: Float | None, size: Size, meta: Meta) -> None:
    """Note frames that the background does not cover: all four corners of a frame must come from before the photo's camera and from within the photo.

    Exact for the whole frame, since both frame and photo are convex. A corner's ray is turned from the frame's camera to the reference camera.
    """
    if T_cw is None or meta.reference is None or meta.background is None or meta.background.K_bg is None:
        return found.block(VISIBILITY, f"{clip}: cover of the background")
    photo = meta.background
    corners = np.array([[u, v, 1.0] for u in (0, size.width - 1) for v in (0, size.height - 1)]).T
    rays = np.linalg.inv(pinhole(size.width, size.height, HFOV_DEG)) @ corners
    for t, pose in enumerate(T_cw):
        turned = meta.reference[:3, :3] @ pose[:3, :3].T @ rays
        outside = _outside(turned, photo, meta.background.K_bg)
        if outside is not None:
            found.add(VISIBILITY, f"{clip}: background in frame {t}", outside, f"within its {photo.width} x {photo.height} pixels", f"{clip}: cover")
    return None


def _outside(rays: Float, photo: Background, K_bg: Float) -> str | None:
    """Return where one of the rays (3, n) in the photo's camera leaves the photo, or None."""
    if (rays[2] <= 0).any():
        return "a corner from behind the photo's camera"
    u, v, _ = K_bg @ (rays / rays[2])
    off = np.max([-u, u - (photo.width - 1), -v, v - (photo.height - 1)], axis=0)
    worst = int(off.argmax())
    return f"a corner at ({u[worst]:.3f}, {v[worst]:.3f}) of the photo" if off[worst] > COVER_PX else None


def look_at_spheres(found: Found, clip: str, placed: Sequence[Placed]) -> None:
    """Note two objects whose bounding spheres, of radius s sqrt(3) / 2, are not disjoint."""
    for i, one in enumerate(placed):
        if one.t_wo is None or one.scale is None:
            found.block(VISIBILITY, f"{clip}/objects.json: [{i}]")
            continue
        for j, other in enumerate(placed[:i]):
            if other.t_wo is None or other.scale is None:
                continue
            apart, wanted = math.dist(one.t_wo, other.t_wo), math.sqrt(3) / 2 * (one.scale + other.scale)
            if apart <= wanted:
                found.add(
                    VISIBILITY, f"{clip}: objects {j + 1} and {i + 1}", f"{apart:.6g} apart", f"more than {wanted:.6g}, so that their spheres are disjoint"
                )
