"""A picture of one object in one frame, for people: its masks against the cast ones, and how far its depth is off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sam3dvid.validate.dataset import Unreadable, read_depth, read_json
from sam3dvid.validate.geometry import Geometry, scene_of
from sam3dvid.validate.kinds import Values
from sam3dvid.validate.measures import DEPTH, MISMATCH, VISIBLE
from sam3dvid.validate.png import read_png
from sam3dvid.validate.report import GEOMETRY, Found
from sam3dvid.validate.scene import Scene, Truth, edge_of
from sam3dvid.validate.schema import look_at_cameras, look_at_objects
from shardwork.errors import DataError
from shardwork.files import atomic_path
from shardwork.jsonio import Json

Rgb = NDArray[np.uint8]
PAPER, INK, FAINT = (255, 255, 255), (40, 40, 40), (205, 205, 205)
STORED, CAST, BOTH = (213, 94, 0), (0, 114, 178), (0, 158, 115)
"""Colours of what is in the stored mask alone, in the cast one alone, and at the edge of both; colour-blind eyes tell them. Source: Okabe and Ito 2008."""
SIDE = 384
"""A small part is enlarged, by a whole factor, to about so many px."""
MARGIN, GAP, LINE = 6, 8, 16
LEAST_WIDTH = 760
RANGE = 2
"""Depth errors of so many limits have the full colour, unless most are greater."""


@dataclass(frozen=True, slots=True)
class Case:
    """An object in a frame.   stored, cast : (H, W), the mask in question.   off : (H, W), depth error in scene units, NaN but where both show the object."""

    rgb: Rgb | None
    stored: Truth
    cast: Truth
    off: NDArray[np.float64]
    lines: tuple[str, ...]
    s: float


def write_worst(out: Path, root: Path, at: Json) -> None:
    """Write a PNG of an object-frame.   at : clip, object, frame, what, as the report's figures have them. The same bytes for the same files and Pillow.

    Raises DataError (bad_argument) if the clip's files cannot be read any more, OSError.
    """
    try:
        panel = draw(_case(root, at))
    except Unreadable as error:
        raise DataError("bad_argument", error.problem.where, error.problem.found, error.problem.expected, "do not change a dataset while it is read") from error
    with atomic_path(out) as temp:
        panel.save(temp, format="PNG")


def _case(root: Path, at: Json) -> Case:
    clip, k, t = at["clip"], at["object"], at["frame"]
    scene, found, assets = _scene(root, clip)
    size = scene.size
    mask = read_png(root, f"{clip}/mask_visible/{t:03d}.png", "L", size.width, size.height)
    wholes = [read_png(root, f"{clip}/mask_amodal/obj{j + 1}/{t:03d}.png", "L", size.width, size.height) == 255 for j in range(len(scene.casters))]
    depth = _if_there(lambda: read_depth(root, f"{clip}/depth/{t:03d}.npz", size.width, size.height))
    geometry = Geometry(found, clip, scene)
    geometry.look(t, mask, wholes, depth)
    nearest, owner = geometry.nearest, geometry.owner
    cast = scene.cast(k - 1, scene.pose(t, k - 1))
    true = np.zeros_like(wholes[0])
    true[cast.rows, cast.columns] = cast.seen
    visible = at["what"] == VISIBLE
    both = (mask == k) & (owner == k)
    off = np.full(mask.shape, np.nan)
    if depth is not None:
        off[both] = depth[both] - nearest[both]
    measures = geometry.measures
    figures = [f"{what} {wrong} px / {edge} px = {wrong / max(edge, 1):.4f}"
               for what, wrong, edge in zip(("silhouette", "visible mask"), measures.wrong_px[t, k - 1], measures.edge_px[t, k - 1], strict=True)]  # fmt: skip
    here = f"{clip}: object {k} in frame {t}"
    said = [problem.found for suite, problem in found.faults if suite == GEOMETRY and problem.where == here]
    lines = (
        f"{here} ({assets[k - 1]}), s {scene.s[k - 1]:.3f}: {at['what']}",
        f"differing / edge: {', '.join(figures)} (at most {MISMATCH}); depth off by {measures.depth[t, k - 1]:.2e} s (at most {DEPTH:g} s)",
        *(said or ["within the limits"]),
    )
    rgb = _if_there(lambda: read_png(root, f"{clip}/rgb/{t:03d}.png", "RGB", size.width, size.height))
    stored = (mask == k) if visible else wholes[k - 1]
    return Case(rgb, stored, (owner == k) if visible else true, off, lines, float(scene.s[k - 1]))


def _scene(root: Path, clip: str) -> tuple[Scene, Found, list[str | None]]:
    found, split = Found(), clip.split("/")[1]
    values = {name: (Values(f"{clip}/{name}.json", found), read_json(root, f"{clip}/{name}.json")) for name in ("cameras", "objects")}
    cameras, placed = look_at_cameras(*values["cameras"], any_size=True), look_at_objects(*values["objects"], split)
    scene = scene_of(found, root, clip, split, cameras, placed)
    if scene is None:
        raise Unreadable(clip, "files that are not in order any more", "those that T3 read")
    return scene, found, [one.asset_id for one in placed]


def _if_there(read: Any) -> Any:
    try:
        return read()
    except Unreadable:
        return None


def draw(case: Case) -> Image.Image:
    """Return a picture: the frame, the masks, the depth errors, and the figures below."""
    rows, columns = _part(case.stored | case.cast)
    factor = max(1, SIDE // max(rows.stop - rows.start, columns.stop - columns.start))
    here = np.s_[rows, columns]
    rgb = case.rgb[here] if case.rgb is not None else np.full((*case.stored[here].shape, 3), FAINT, np.uint8)
    full = _full(case.off, case.s)
    panels = [rgb, _masks(rgb, case.stored, case.cast, here), _depth(case.off[here], full)]
    tiles = [Image.fromarray(np.ascontiguousarray(panel.repeat(factor, axis=0).repeat(factor, axis=1))) for panel in panels]
    legend = (("stored alone", STORED), ("cast alone", CAST), ("edge of both", BOTH))
    lines = [*case.lines, f"depth: red is stored as further away, blue as nearer, full from {full / case.s:.2g} s"]
    width = max(LEAST_WIDTH, GAP + sum(tile.width + GAP for tile in tiles))
    cut = [piece for line in lines for piece in _wrapped(line, width - 2 * GAP)]
    sheet = Image.new("RGB", (width, 2 * GAP + tiles[0].height + LINE * (len(cut) + 1)), PAPER)
    write, left = ImageDraw.Draw(sheet), GAP
    for tile in tiles:
        sheet.paste(tile, (left, GAP))
        left += tile.width + GAP
    top, left = GAP + tiles[0].height + 2, GAP
    for text, colour in legend:
        write.text((left, top), text, fill=colour, font=_font())
        left += int(write.textlength(text, font=_font())) + 3 * GAP
    for number, line in enumerate(cut, 1):
        write.text((GAP, top + number * LINE), line, fill=INK, font=_font())
    return sheet


def _part(mask: Truth) -> tuple[slice, slice]:
    """Return rows and columns of a mask's box with a margin; the whole picture if it is empty."""
    if not mask.any():
        return slice(0, mask.shape[0]), slice(0, mask.shape[1])
    ends = [np.flatnonzero(mask.any(axis=axis))[[0, -1]] for axis in (1, 0)]
    rows, columns = (slice(max(0, int(first) - MARGIN), min(size, int(last) + MARGIN + 1)) for (first, last), size in zip(ends, mask.shape, strict=True))
    return rows, columns


def _masks(rgb: Rgb, stored: Truth, cast: Truth, here: tuple[slice, slice]) -> Rgb:
    """Return a pale frame with what differs and the edges in colour."""
    panel: Rgb = (128 + rgb / 2).astype(np.uint8)
    edges = edge_of(stored)[here], edge_of(cast)[here]
    one, other = stored[here], cast[here]
    for where, colour in (
        (one & ~other, STORED), (other & ~one, CAST), (edges[0], STORED), (edges[1], CAST), (edges[0] & edges[1], BOTH),
    ):  # fmt: skip
        panel[where] = colour
    return panel


def _full(off: NDArray[np.float64], s: float) -> float:
    """Return which error of depth has the full colour: twice the limit, or what 95 of 100 pixels keep if that is more."""
    known = np.abs(off[~np.isnan(off)])
    return max(RANGE * DEPTH * s, float(np.percentile(known, 95)) if len(known) else 0.0)


def _depth(off: NDArray[np.float64], full: float) -> Rgb:
    """Return errors of depth as colours: white for none, red for too far, blue for too near; gray where there are none."""
    share = np.clip(np.nan_to_num(off / full, nan=0.0), -1, 1)[..., None]
    colour = np.where(share > 0, np.array([178, 24, 43]), np.array([33, 102, 172]))
    panel: Rgb = np.round(255 + (colour - 255.0) * np.abs(share)).astype(np.uint8)
    panel[np.isnan(off)] = FAINT
    return panel


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line cut at blanks into pieces of at most so many px."""
    pieces = [""]
    for word in line.split(" "):
        longer = f"{pieces[-1]} {word}".strip()
        if _font().getlength(longer) <= width:
            pieces[-1] = longer
        else:
            pieces.append(word)
    return pieces


def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(12)
