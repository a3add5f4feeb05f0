"""One clip: its records, then its frames, each file read once for all suites that are asked for."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sam3dvid.validate.background import Background
from sam3dvid.validate.convention import Agreement, look_at_convention
from sam3dvid.validate.dataset import Unreadable, read_json
from sam3dvid.validate.frames import LOOSE_DEPTH, FrameFiles, look_at_frames
from sam3dvid.validate.kinds import Float, Values
from sam3dvid.validate.layout import look_at_clip_names
from sam3dvid.validate.measures import Measures
from sam3dvid.validate.meta import Meta, look_at_meta
from sam3dvid.validate.report import CONVENTION, GEOMETRY, LAYOUT, USUAL, VISIBILITY, Found
from sam3dvid.validate.schema import Cameras, Placed, look_at_cameras, look_at_objects
from sam3dvid.validate.trajectory import look_at_trajectory
from sam3dvid.validate.visibility import look_at_cover, look_at_spheres, look_at_visibility
from shardwork.digests import digest_value
from shardwork.jsonio import Json

if TYPE_CHECKING:
    from sam3dvid.validate.geometry import Geometry


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """What other files and other clips are compared with; None or left out where the clip's own files are not in order.

    clip : path of its folder.   objects : (asset_id, source) of each, in order.   background : the photo behind it.   measures : what T3 measured.
    scene : digest of its cameras and objects.
    """

    clip: str
    split: str
    clip_id: str
    seed: int | None = None
    arc_span_deg: float | None = None
    objects: tuple[tuple[str | None, str | None], ...] = ()
    background: Background | None = None
    measures: Measures | None = None
    agreement: Agreement | None = None
    scene: str | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """A clip's JSON files, as far as they are in order.   clip : path of its folder."""

    clip: str
    split: str
    cameras: Cameras
    placed: list[Placed]
    meta: Meta


def look_at_clip(root: Path, split: str, clip_id: str, suites: Collection[str], any_size: bool, exact: bool = False) -> tuple[Found, ClipFacts]:
    """Return what is found in a clip's folder.   exact : whether T3 has its stricter limits. Raises OSError where the machine does not let us look."""
    found, clip = Found(), f"clips/{split}/{clip_id}"
    found.counts["clips"] += 1
    cameras_json, objects_json, meta_json = (_read(found, root, f"{clip}/{name}.json") for name in ("cameras", "objects", "meta"))
    cameras, placed, meta = Cameras(None, None), list[Placed](), Meta()
    if cameras_json is not None:
        cameras = look_at_cameras(cameras_json[0], cameras_json[1], any_size)
    if objects_json is not None:
        placed = look_at_objects(objects_json[0], objects_json[1], split)
    if meta_json is not None:
        meta = look_at_meta(meta_json[0], meta_json[1], split, clip_id, len(placed) or None, cameras.size)
        positions = [one.t_wo for one in placed if one.t_wo is not None]
        if cameras.T_cw is not None and placed and len(positions) == len(placed):
            look_at_trajectory(meta_json[0], cameras.T_cw, positions, meta)
    measures = _look_at_files(found, root, Records(clip, split, cameras, placed, meta), suites, exact) if set(suites) & set(USUAL) else None
    agreement = look_at_convention(found, clip, cameras.T_cw, placed) if CONVENTION in suites else None
    objects = tuple((one.asset_id, one.source) for one in placed)
    scene = None if cameras_json is None or objects_json is None else digest_value([cameras_json[1], objects_json[1]])
    arc = meta.numbers.get("arc_span_deg")
    return found, ClipFacts(clip, split, clip_id, meta.seed, arc, objects, meta.background, measures, agreement, scene)


def _read(found: Found, root: Path, name: str) -> tuple[Values, Json] | None:
    """Return a JSON file's judge and its value, or None if it is missing (which the look at names says) or not in order."""
    if not (root / name).is_file():
        return None
    found.counts["files"] += 1
    try:
        return Values(name, found), read_json(root, name)
    except Unreadable as error:
        found.add(LAYOUT, error.problem.where, error.problem.found, error.problem.expected)
    except OSError as error:
        found.miss(error, name)
    return None


def _look_at_files(found: Found, root: Path, records: Records, suites: Collection[str], exact: bool) -> Measures | None:
    """Return what T3 measured, if it was asked for and could look."""
    clip, cameras, placed = records.clip, records.cameras, records.placed
    size = cameras.size
    present = look_at_clip_names(found, root, clip, size.frames if size else None, len(placed) or None)
    if size is None or not placed:
        for suite in (VISIBILITY, GEOMETRY):
            found.block(suite, clip)
        return None
    found.counts["frames"] += size.frames
    found.counts["objects"] += len(placed)
    geometry = _geometry(found, root, records, LAYOUT not in suites, exact) if GEOMETRY in suites else None
    reach = _reach(cameras.T_cw, placed)
    seen = look_at_frames(FrameFiles(root, clip, size, present, found), len(placed), LAYOUT in suites, reach, geometry.look if geometry else None)
    if VISIBILITY in suites:
        look_at_visibility(found, clip, seen, size, records.meta)
        look_at_cover(found, clip, cameras.T_cw, size, records.meta)
        look_at_spheres(found, clip, placed)
    return None if geometry is None else geometry.close()


def _geometry(found: Found, root: Path, records: Records, tell: bool, exact: bool) -> Geometry | None:
    """Return T3 ready for a clip's frames, or None where what it needs is not in order.   tell : whether T1 does not tell of meshes."""
    # here, since it loads the compiler, which no other suite needs
    from sam3dvid.validate.geometry import Geometry, scene_of

    scene = scene_of(found, root, records.clip, records.split, records.cameras, records.placed, tell)
    return None if scene is None else Geometry(found, records.clip, scene, exact)


def _reach(T_cw: Float | None, placed: list[Placed]) -> Float | None:
    """Return the least and greatest depth that each object can have in each frame: (F, N, 2), None if poses or scales are not known.

    Every point of it lies within s sqrt(3) / 2 of its centre, which is at depth t_co's z, t_co = R_cw t_wo + t_cw.   Source: format v0.1, 3.3.
    """
    known = [(one.t_wo, one.scale) for one in placed if one.t_wo is not None and one.scale is not None]
    if T_cw is None or len(known) != len(placed):
        return None
    centre = np.array([t_wo for t_wo, _ in known]) @ T_cw[:, 2, :3].T + T_cw[:, 2, 3]
    radius = math.sqrt(3) / 2 * np.array([scale for _, scale in known])[:, None]
    slack = LOOSE_DEPTH * (1 + np.abs(centre))
    reach: Float = np.stack([centre - radius - slack, centre + radius + slack], axis=-1).swapaxes(0, 1)
    return reach
