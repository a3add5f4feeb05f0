"""What all frames of a clip show, before anything is drawn: what is visible, which voxels stray, and how far depth reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam3dvid.preview.clip import Clip
from sam3dvid.preview.project import LEAST_PX, Dots, bare, strays, voxels_in_frame
from sam3dvid.preview.window import NOTHING, Box, box_of

Counts = NDArray[np.int64]
LEAST_FRACTION = 0.1
"""An object shows at least a tenth of its silhouette. Source: seed 002, section 6."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Numbers of a whole clip.

    visible_px, amodal_px : (F, N) int64, counted in the masks.   strays, bare : (F, N) int64, voxels far from their silhouette, and pixels far from any voxel.
    allowed_px : the most that a voxel was allowed.   voxels : projections that were looked at.   nearest, farthest : of depth, scene units; NaN without any.
    shown : around all silhouettes and all voxels within the frame, px.
    """

    visible_px: Counts
    amodal_px: Counts
    strays: Counts
    bare: Counts
    allowed_px: float
    voxels: int
    nearest: float
    farthest: float
    shown: Box

    @property
    def fits(self) -> bool:
        """Return whether every voxel is where its silhouette is, and the other way round."""
        return not (self.strays.any() or self.bare.any())

    def least_visible(self) -> list[tuple[int, int, float, int]]:
        """Return for each object its fewest visible pixels and in which frame, and its least visible fraction and in which frame."""
        fraction = self.visible_px / np.maximum(self.amodal_px, 1)
        rows, least = self.visible_px.argmin(axis=0), fraction.argmin(axis=0)
        return [(int(self.visible_px[t, k]), int(t), float(fraction[u, k]), int(u)) for k, (t, u) in enumerate(zip(rows, least, strict=True))]

    def verdict(self) -> list[str]:
        """Return a line for each way in which voxels and silhouettes disagree, none if they agree."""
        limit = f"{LEAST_PX:g} px" if self.allowed_px <= LEAST_PX else f"{LEAST_PX:g} to {self.allowed_px:.1f} px, by the voxel's size"
        lines = []
        for counts, what in ((self.strays, "voxels outside of their object's silhouette"), (self.bare, "silhouette pixels without a voxel near them")):
            if total := int(counts.sum()):
                t, k = np.unravel_index(int(counts.argmax()), counts.shape)
                of = f" of {self.voxels:,}" if counts is self.strays else ""
                lines.append(f"{total:,}{of} {what} (more than {limit}), most in frame {t}: {int(counts[t, k]):,} of object {k + 1}")
        return lines


def survey_clip(clip: Clip) -> Survey:
    """Return what all frames of a clip show. Holds one frame at a time. Raises as `Clip.frame` does."""
    shape = (clip.size.frames, len(clip.objects))
    visible, amodal, stray, empty = (np.zeros(shape, np.int64) for _ in range(4))
    allowed, near, far, shown = 0.0, np.inf, -np.inf, NOTHING
    for t in range(clip.size.frames):
        frame = clip.frame(t)
        good = frame.depth[np.isfinite(frame.depth) & (frame.depth > 0)]
        near, far = min(near, float(good.min(initial=np.inf))), max(far, float(good.max(initial=-np.inf)))
        shown = shown.joined(box_of(frame.mask > 0))
        for index, (one, silhouette) in enumerate(zip(clip.objects, frame.amodal, strict=True)):
            dots = voxels_in_frame(clip, t, one)
            visible[t, index] = np.count_nonzero(frame.mask == one.k)
            amodal[t, index] = np.count_nonzero(silhouette)
            stray[t, index] = np.count_nonzero(strays(dots, silhouette))
            empty[t, index] = np.count_nonzero(bare(dots, silhouette))
            shown = shown.joined(box_of(silhouette)).joined(_box_of_dots(dots, clip))
            allowed = max(allowed, float(dots.allowed_px.max(initial=0.0)))
    voxels = clip.size.frames * sum(len(one.centres) for one in clip.objects)
    nearest, farthest = (near, far) if near <= far else (np.nan, np.nan)
    return Survey(visible, amodal, stray, empty, allowed, voxels, nearest, farthest, shown)


def _box_of_dots(dots: Dots, clip: Clip) -> Box:
    pixels = dots.pixels()
    within = pixels[(pixels >= 0).all(axis=1) & (pixels < (clip.size.width, clip.size.height)).all(axis=1)]
    if not len(within):
        return NOTHING
    (left, top), (right, bottom) = within.min(axis=0).tolist(), within.max(axis=0).tolist()
    return Box(left, top, right + 1, bottom + 1)
