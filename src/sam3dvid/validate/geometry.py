"""T3: masks and depth of a clip are those of its meshes, posed as its files say: each object is cast in each frame, one ray a pixel centre.

Nothing of the renderer is used. The casts that must not fit (see `controls`) show that a clip's objects would tell small errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sam3dvid.raycast.raster import lay_over
from sam3dvid.validate import diagnosis
from sam3dvid.validate.dataset import Unreadable, read_bytes
from sam3dvid.validate.glb import Mesh, read_mesh
from sam3dvid.validate.measures import AMODAL, CONTROLS, DEPTH, EXACT_DEPTH, FAR_DEPTH, FAR_SHARE, HALF_PIXEL, KINDS, MISMATCH, POOLED, VISIBLE, Measures
from sam3dvid.validate.report import GEOMETRY, LAYOUT, Found
from sam3dvid.validate.scene import Cast, Scene, Truth, edge_px, mismatch, turn, wrong_px
from sam3dvid.validate.schema import Cameras, Placed

TURN_DEG, MOVE, HALF = 5.0, 0.1, 0.5
"""How much the controls are off: degrees, parts of s, px."""


def scene_of(found: Found, root: Path, clip: str, split: str, cameras: Cameras, placed: Sequence[Placed], tell: bool = False) -> Scene | None:
    """Return the objects of a clip, or None with what is not in order noted as blocking T3.

    tell : whether T1 was not asked for, so that what it would say of a mesh is told here.   Raises OSError.
    """
    meshes: list[Mesh] = []
    for k, one in enumerate(placed, 1):
        name = f"assets/{split}/{one.asset_id}/mesh.glb"
        try:
            if one.asset_id is not None:
                meshes.append(read_mesh(read_bytes(root, name), name))
        except Unreadable as error:
            found.block(GEOMETRY, f"{clip}: mesh of object {k}")
            if tell:
                found.add(LAYOUT, f"{clip}: object {k}: {error.problem.where}", error.problem.found, error.problem.expected)
    poses = [(one.R_wo, one.t_wo, one.scale) for one in placed]
    if cameras.T_cw is None or cameras.K is None or cameras.size is None:
        found.block(GEOMETRY, f"{clip}/cameras.json")
    if any(value is None for pose in poses for value in pose) or any(one.asset_id is None for one in placed):
        found.block(GEOMETRY, f"{clip}/objects.json")
    if len(meshes) < len(placed) or cameras.T_cw is None or cameras.K is None or cameras.size is None:
        return None
    rotations, places, scales = ([value for value in values if value is not None] for values in zip(*poses, strict=True))
    if not len(rotations) == len(places) == len(scales) == len(placed):
        return None
    return Scene(meshes, cameras.T_cw, np.array(rotations), np.array(places), np.array(scales), cameras.K, cameras.size)


class Geometry:
    """T3 at work on one clip, frame by frame, with files that T1 and T2 have decoded already.

    exact : whether the stricter limit of depth holds.   measures : what was measured up to now.   nearest, owner : (H, W) of the
    last frame as it must be: z of the nearest surface, and the number of its object.
    """

    def __init__(self, found: Found, clip: str, scene: Scene, exact: bool = False) -> None:
        self.found, self.clip, self.scene, self.exact = found, clip, scene, exact
        count = len(scene.casters)
        self.measures = Measures.empty(clip, scene.size.frames, count)
        self._told: set[tuple[int, str]] = set()
        self.nearest = np.empty((scene.size.height, scene.size.width))
        self.owner = np.empty((scene.size.height, scene.size.width), np.uint8)

    def look(self, t: int, mask: NDArray[np.uint8] | None, wholes: Sequence[Truth | None], depth: NDArray[np.float32] | None) -> None:
        """Compare a frame.

        mask : (H, W), 0 or the number of the object that is seen.   wholes : each object's silhouette, (H, W).   depth : (H, W), NaN for the background.
        None is what is missing or not in order: it blocks T3.
        """
        if depth is None:
            self.found.block(GEOMETRY, f"{self.clip}: depth of frame {t}")
        if mask is None or any(whole is None for whole in wholes):
            self.found.block(GEOMETRY, f"{self.clip}: masks of frame {t}")
        casts = [self.scene.cast(i, self.scene.pose(t, i)) for i in range(len(wholes))]
        self._lay(casts)
        frame = diagnosis.Frame(self.scene, t, casts, self.owner)
        for i, (cast, whole) in enumerate(zip(casts, wholes, strict=True)):
            fits = self._silhouette(frame, i, cast, whole)
            if mask is not None:
                fits &= self._visible(frame, i, cast, mask, fits)
                if depth is not None:
                    self._depth(frame, i, cast, mask, depth)
            if whole is not None and fits and t == self._control_frame(i):
                self._control(t, i, whole)

    def _lay(self, casts: Sequence[Cast]) -> None:
        """Lay casts over one another."""
        self.nearest.fill(np.inf)
        self.owner.fill(0)
        visible = np.zeros(len(casts) + 1, np.int64)
        drawn = self.scene.view().drawn
        for k, cast in enumerate(casts, 1):
            drawn[cast.rows, cast.columns] = cast.z
            lay_over(drawn, cast.box, k, self.nearest, self.owner, visible)

    def _silhouette(self, frame: diagnosis.Frame, i: int, cast: Cast, whole: Truth | None) -> bool:
        """Return whether an object's silhouette fits."""
        if whole is None:
            return False
        fits = self._mask(frame.t, i, AMODAL, whole, cast, cast.seen)
        return fits or self._tell_mask(frame.t, i, AMODAL, partial(diagnosis.of_silhouette, frame, i, whole))

    def _visible(self, frame: diagnosis.Frame, i: int, cast: Cast, mask: NDArray[np.uint8], whole_fits: bool) -> bool:
        """Return whether an object's visible pixels fit. Where its silhouette does not, the cause was looked for there."""
        own: Truth = mask == i + 1
        fits = self._mask(frame.t, i, VISIBLE, own, cast, frame.owner[cast.rows, cast.columns] == i + 1)
        return fits or self._tell_mask(frame.t, i, VISIBLE, partial(diagnosis.of_visible, frame, i, own) if whole_fits else None)

    def _mask(self, t: int, i: int, what: str, stored: Truth, cast: Cast, seen: Truth) -> bool:
        wrong, edge = wrong_px(stored, cast, seen), edge_px(seen)
        kind = KINDS.index(what)
        self.measures.wrong_px[t, i, kind], self.measures.edge_px[t, i, kind] = wrong, edge
        return wrong <= MISMATCH * max(edge, 1)

    def _tell_mask(self, t: int, i: int, what: str, cause: Callable[[], str] | None) -> bool:
        kind = KINDS.index(what)
        wrong, edge = int(self.measures.wrong_px[t, i, kind]), int(self.measures.edge_px[t, i, kind])
        found = f"{what} off by {wrong} px, {wrong / max(edge, 1):.4f} for each of {edge} at its edge"
        self._tell(t, i, what, found, f"at most {MISMATCH}", cause)
        return False

    def _tell(self, t: int, i: int, what: str, found: str, expected: str, cause: Callable[[], str] | None) -> None:
        """Note a fault; a cause is looked for in the first of its kind and object."""
        first = (i, what) not in self._told
        self._told.add((i, what))
        said = cause() if first and cause is not None else ""
        self.found.add(GEOMETRY, f"{self.clip}: object {i + 1} in frame {t}", found + said, expected, f"{self.clip}: object {i + 1}: {what}")

    def _depth(self, frame: diagnosis.Frame, i: int, cast: Cast, mask: NDArray[np.uint8], depth: NDArray[np.float32]) -> None:
        """Compare depth where mask and cast both show the object; where they have no such pixel, the mask's fault says it."""
        part = np.s_[cast.rows, cast.columns]
        both = (mask[part] == i + 1) & (frame.owner[part] == i + 1) & ~np.isnan(depth[part])
        if not both.any():
            return
        s = float(self.scene.s[i])
        stored, truth = depth[part][both].astype(np.float64), self.nearest[part][both]
        errors = np.abs(stored - truth) / s
        off = float(np.median(errors))
        self.measures.depth[frame.t, i] = off
        limit = EXACT_DEPTH if self.exact else DEPTH
        many = int(np.count_nonzero(errors > FAR_DEPTH))
        if off <= limit and many > FAR_SHARE * len(errors):
            found = f"depth off by more than {FAR_DEPTH:g} s in {many} of {len(errors)} px, by up to {errors.max():.3g} s"
            self._tell(frame.t, i, "depth of many pixels", found, f"in at most {FAR_SHARE:.0%}", None)
        if off > limit:
            at = np.argwhere(both) + [cast.rows.start, cast.columns.start]
            found = f"depth off by {off:.3g} s (median of {len(stored)} px)"
            self._tell(frame.t, i, "depth", found, f"at most {limit:g} s", partial(diagnosis.of_depth, frame, i, stored, truth, at))

    def _control_frame(self, i: int) -> int:
        """Return the frame in which an object's controls are cast: another for each object, spread over the clip."""
        return (2 * i + 1) * self.scene.size.frames // (2 * len(self.scene.casters))

    def _control(self, t: int, i: int, whole: Truth) -> None:
        """Compare a silhouette that fits with casts that must not."""
        pose, scene = self.scene.pose(t, i), self.scene
        turned = (turn(axis, TURN_DEG) for axis in (0, 1))
        casts = [scene.cast(i, pose, (HALF, HALF)), *(scene.cast(i, pose.turned(Q)) for Q in turned), scene.cast(i, pose.moved(MOVE * pose.s, 0.0))]
        for name, cast in zip(CONTROLS, casts, strict=True):
            self.measures.controls[name].append(mismatch(whole, cast))

    def close(self) -> Measures:
        """Note what only the whole clip tells, and return what was measured."""
        tried = self.measures.controls[HALF_PIXEL]
        if tried and max(tried) <= MISMATCH:
            found = f"blind: a cast with the principal point half a pixel off fits too, to {max(tried):.4f}"
            self.found.add(GEOMETRY, f"{self.clip}: controls", found, f"more than {MISMATCH} for one object at least")
        if self.exact:
            for what, pooled in zip(KINDS, self.measures.pooled.tolist(), strict=True):
                if pooled > POOLED:
                    self.found.add(GEOMETRY, self.clip, f"{what}s off by {pooled:.5f} for each pixel at their edges, all together", f"at most {POOLED} (exact)")
        return self.measures
