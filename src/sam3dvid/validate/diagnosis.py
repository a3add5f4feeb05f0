"""T3, what a fault most likely is: an object that does not fit is cast as usual errors would have it. Tried for the first fault of a kind alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sam3dvid.conventions import pixel_rays
from sam3dvid.validate.kinds import Float
from sam3dvid.validate.measures import DEPTH, MISMATCH
from sam3dvid.validate.scene import Cast, Pose, Scene, Truth, edge_px, mismatch, turn, wrong_px

HALF = 0.5
CLEARLY = 0.25
"""A cause must leave at most this share of the error, besides keeping the limit."""
TURNED = ((0, -90.0), (0, 90.0), (0, 180.0), (2, 90.0), (2, 180.0), (2, -90.0))
"""Axis and degrees by which a mesh is turned where its source's axes were taken for others."""
STEPS_DEG = (8.0, 4.0, 2.0, 1.0, 0.5)
"""Turns that are tried, one after another, to find how an object is turned."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it must be.   casts : of its objects.   owner : (H, W), 0 or the number of the object that is seen."""

    scene: Scene
    t: int
    casts: Sequence[Cast]
    owner: NDArray[np.uint8]


Cause = tuple[str, Callable[[], Cast]]
"""What is said of a cause, and the cast of it."""


def of_silhouette(frame: Frame, i: int, whole: Truth) -> str:
    """Return what a silhouette (H, W) fits that does not fit object i, as text to go on with, or nothing."""
    cast = frame.casts[i]
    before = mismatch(whole, cast)
    if not whole.any():
        return ": it is empty"
    if (said := _of_size(whole, cast)) is not None:
        return said
    said, least = min(((text, mismatch(whole, other())) for text, other in _causes(frame, i)), key=lambda pair: pair[1])
    if not _explains(least, before):
        said, least = min((_moved(frame, i, whole), _scaled(frame, i, whole), _turned(frame, i, whole)), key=lambda pair: pair[1])
    return f": it fits {said}" if _explains(least, before) else ""


def _explains(left: float, before: float) -> bool:
    return left <= MISMATCH and left <= CLEARLY * before


def _of_size(whole: Truth, cast: Cast) -> str | None:
    """Return whether a silhouette is the cast one with a border more or less."""
    true = np.zeros_like(whole)
    true[cast.rows, cast.columns] = cast.seen
    edge, before = edge_px(cast.seen), wrong_px(whole, cast, cast.seen)
    for said, changed in (("grown", _grow(true)), ("shrunk", ~_grow(~true))):
        if np.count_nonzero(changed ^ whole) <= min(MISMATCH * edge, CLEARLY * before):
            return f": it is {said} by one pixel all around"
    return None


def _grow(mask: Truth) -> Truth:
    """Return a mask with the 4-neighbours of its pixels."""
    grown: Truth = mask.copy()
    grown[1:] |= mask[:-1]
    grown[:-1] |= mask[1:]
    grown[:, 1:] |= mask[:, :-1]
    grown[:, :-1] |= mask[:, 1:]
    return grown


def _causes(frame: Frame, i: int) -> Iterator[Cause]:
    """Yield what may be wrong with an object's silhouette, or with all of the clip."""
    scene, t = frame.scene, frame.t
    pose = scene.pose(t, i)
    for u, v in product((-HALF, 0.0, HALF), repeat=2):
        if u or v:
            yield f"a principal point moved by ({u:+g}, {v:+g}) px", partial(scene.cast, i, pose, (u, v))
    for j in range(len(frame.casts)):
        if j != i:
            yield f"object {j + 1}, as if they were swapped", partial(scene.cast, j, scene.pose(t, j))
            yield f"object {i + 1} at the place of object {j + 1}, as if their poses were swapped", partial(scene.cast, i, scene.pose(t, j))
            yield f"the mesh of object {j + 1} at this place, as if their meshes were swapped", partial(scene.cast, j, pose)
    for other_t in sorted(set(range(scene.size.frames)) - {t}, key=lambda one: (abs(one - t), one)):
        yield f"the camera of frame {other_t}", partial(scene.cast, i, scene.pose(other_t, i))
    for axis, degrees in TURNED:
        said = f"a mesh turned by {degrees:+g} degrees about {'xyz'[axis]}{', as one with Y up would be' if axis == 0 and abs(degrees) == 90 else ''}"
        yield said, partial(scene.cast, i, pose.turned(turn(axis, degrees)))
    for axis in range(3):
        yield f"a mesh mirrored along {'xyz'[axis]}", partial(scene.cast, i, pose.turned(np.diag([-1.0 if one == axis else 1.0 for one in range(3)])))
    back = Pose(scene.T_cw[t, :3, :3] @ scene.R_wo[i].T, pose.t_co, pose.s)
    yield "R_wo transposed", partial(scene.cast, i, back)


def _moved(frame: Frame, i: int, whole: Truth) -> tuple[str, float]:
    """Return how an object moved across the view would fit: so far that the middles of both silhouettes meet."""
    scene, cast, pose = frame.scene, frame.casts[i], frame.scene.pose(frame.t, i)
    x = y = 0.0
    middle = np.argwhere(whole).mean(axis=0)
    for _ in range(3):  # the surface is nearer or further than the object's centre, so one step is not all of the way
        if not cast.seen.any():
            return "", np.inf
        v, u = middle - np.argwhere(cast.seen).mean(axis=0) - [cast.rows.start, cast.columns.start]
        x += pose.t_co[2] * u / scene.K[0, 0]
        y += pose.t_co[2] * v / scene.K[1, 1]
        cast = scene.cast(i, pose.moved(x, y))
    return f"the object moved across the view by ({x / pose.s:+.3f}, {y / pose.s:+.3f}) s", mismatch(whole, cast)


def _scaled(frame: Frame, i: int, whole: Truth) -> tuple[str, float]:
    """Return how an object of another size would fit, by the areas of both silhouettes."""
    scene, cast, pose = frame.scene, frame.casts[i], frame.scene.pose(frame.t, i)
    factor = 1.0
    for _ in range(3):  # perspective makes the area grow a little faster than the square
        if not cast.seen.any():
            return "", np.inf
        factor *= float(np.sqrt(np.count_nonzero(whole) / np.count_nonzero(cast.seen)))
        cast = scene.cast(i, Pose(pose.R_co, pose.t_co, factor * pose.s))
    return f"the object {factor:.3f} times as large", mismatch(whole, cast)


def _turned(frame: Frame, i: int, whole: Truth) -> tuple[str, float]:
    """Return how an object turned in its canonical frame would fit: ever smaller turns about its axes, as long as they help."""
    scene, pose = frame.scene, frame.scene.pose(frame.t, i)
    best, least = np.eye(3), mismatch(whole, frame.casts[i])
    for step in STEPS_DEG:
        better = True
        while better:
            tries = [best @ turn(axis, sign * step) for axis in range(3) for sign in (-1, 1)]
            found = [mismatch(whole, scene.cast(i, pose.turned(Q))) for Q in tries]
            better = min(found) < least
            if better:
                least = min(found)
                best = tries[found.index(least)]
    angle = np.degrees(np.arccos(np.clip((np.trace(best) - 1) / 2, -1, 1)))
    axis = np.array([best[2, 1] - best[1, 2], best[0, 2] - best[2, 0], best[1, 0] - best[0, 1]])
    along = np.round(axis / max(float(np.linalg.norm(axis)), 1e-12), 1) + 0.0
    return f"the object turned by about {angle:.0f} degrees about the axis {along.tolist()} of its canonical frame", least


def of_visible(frame: Frame, i: int, own: Truth) -> str:
    """Return what the visible pixels (H, W) of an object fit whose silhouette does fit, as text to go on with, or nothing."""
    if not own.any():
        return ": there are none"
    here = frame.casts[i]
    before = wrong_px(own, here, frame.owner[here.rows, here.columns] == i + 1)
    for j, cast in enumerate(frame.casts):
        seen = frame.owner[cast.rows, cast.columns] == j + 1
        left = wrong_px(own, cast, seen)
        if j != i and left <= min(MISMATCH * edge_px(seen), CLEARLY * before):
            return f": they fit those of object {j + 1}, as if their numbers were swapped"
    if wrong_px(own, here, here.seen) <= min(MISMATCH * edge_px(here.seen), CLEARLY * before):
        return ": they fit its whole silhouette, as if nothing hid it"
    return ""


def of_depth(frame: Frame, i: int, stored: Float, truth: Float, at: NDArray[np.int64]) -> str:
    """Return what a wrong depth is, as text to go on with, or nothing.

    stored, truth : (P,), depth as stored and as cast, at pixels that show object i in both.   at : (P, 2), their rows and columns.
    """
    scene = frame.scene
    x, y = pixel_rays(scene.K, scene.size.width, scene.size.height)
    along = np.sqrt(1 + x[at[:, 1]] ** 2 + y[at[:, 0]] ** 2)
    ratio, more = float(np.median(stored / truth)), float(np.median(stored - truth))
    causes = [
        ("the distance along the ray instead of z", truth * along),
        ("z divided by the ray's length", truth / along),
        (f"z times {ratio:.6g}", truth * ratio),
        (f"z and {more:.4g} more", truth + more),
    ]
    left = {said: float(np.median(np.abs(stored - value))) for said, value in causes}
    said = min(left, key=lambda one: left[one])
    before = float(np.median(np.abs(stored - truth)))
    return f": it fits {said}" if left[said] <= DEPTH * float(scene.s[i]) and left[said] <= CLEARLY * before else ""
