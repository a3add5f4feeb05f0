"""Rays of any origin and direction against one object, each decided exactly: a tree of boxes finds the triangles to ask.

Boxes only save work. They are taken larger than rounding could make them wrong, so the verdict does not depend on the tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sam3dvid.raycast.compiled import compiled
from sam3dvid.raycast.exact import side

LEAF = 4
"""Triangles that a box may hold without being divided."""


@compiled
def build(vertices: Any, triangles: Any) -> Any:
    """Return a tree of boxes: (lows (M, 3), highs (M, 3), second (M,), starts (M,), ends (M,), order (F,)).

    The children of box i are i + 1 and second[i]; a leaf has second[i] = 0 and holds the triangles order[starts[i]:ends[i]].
    """
    count = triangles.shape[0]
    lows, highs, middles = np.empty((count, 3)), np.empty((count, 3)), np.empty((count, 3))
    for face in range(count):
        for axis in range(3):
            p, q, r = vertices[triangles[face, 0], axis], vertices[triangles[face, 1], axis], vertices[triangles[face, 2], axis]
            lows[face, axis], highs[face, axis] = min(p, q, r), max(p, q, r)
            middles[face, axis] = lows[face, axis] + highs[face, axis]
    room = max(1, 2 * count)
    low, high = np.empty((room, 3)), np.empty((room, 3))
    second, starts, ends = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int32)
    order = np.arange(count).astype(np.int32)
    # what is still to be made: from, to, and the box whose second child it is
    waiting = np.empty((64, 3), np.int32)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, count, -1
    left, made = 1, 0
    while left > 0:
        left -= 1
        start, end, parent = waiting[left, 0], waiting[left, 1], waiting[left, 2]
        node = made
        made += 1
        if parent >= 0:
            second[parent] = node
        starts[node], ends[node] = start, end
        widest, axis = -1.0, 0
        for k in range(3):
            least, greatest, first, last = np.inf, -np.inf, np.inf, -np.inf
            for i in range(start, end):
                face = order[i]
                least, greatest = min(least, lows[face, k]), max(greatest, highs[face, k])
                first, last = min(first, middles[face, k]), max(last, middles[face, k])
            low[node, k], high[node, k] = least, greatest
            if last - first > widest:
                widest, axis = last - first, k
        if end - start > LEAF:
            part = order[start:end].copy()
            order[start:end] = part[np.argsort(middles[part, axis], kind="mergesort")]
            half = (start + end) // 2
            waiting[left, 0], waiting[left, 1], waiting[left, 2] = half, end, node
            waiting[left + 1, 0], waiting[left + 1, 1], waiting[left + 1, 2] = start, half, -1
            left += 2
    return low[:made].copy(), high[:made].copy(), second[:made].copy(), starts[:made].copy(), ends[:made].copy(), order


@compiled
def meet(origin: Any, direction: Any, vertices: Any, triangle: Any) -> Any:
    """Return where a ray meets a triangle, in directions from its origin (more than 0), or inf where it does not.

    The vertices are rounded once, relative to the origin; from there on the verdict is exact. Edges and corners belong to the triangle; a triangle
    seen edge-on is not met.
    """
    dx, dy, dz = direction[0], direction[1], direction[2]
    a, b, c = triangle[0], triangle[1], triangle[2]
    ax, ay, az = vertices[a, 0] - origin[0], vertices[a, 1] - origin[1], vertices[a, 2] - origin[2]
    bx, by, bz = vertices[b, 0] - origin[0], vertices[b, 1] - origin[1], vertices[b, 2] - origin[2]
    cx, cy, cz = vertices[c, 0] - origin[0], vertices[c, 1] - origin[1], vertices[c, 2] - origin[2]
    wa = side(bx, by, bz, cx, cy, cz, dx, dy, dz)
    wb = side(cx, cy, cz, ax, ay, az, dx, dy, dz)
    if (wa < 0 and wb > 0) or (wa > 0 and wb < 0):
        return np.inf
    wc = side(ax, ay, az, bx, by, bz, dx, dy, dz)
    if (wc < 0 and (wa > 0 or wb > 0)) or (wc > 0 and (wa < 0 or wb < 0)):
        return np.inf
    total = wa + wb + wc
    if total == 0:
        return np.inf
    # along the direction's greatest part, which divides with the least error
    if abs(dx) >= abs(dy) and abs(dx) >= abs(dz):
        p, q, r, d = ax, bx, cx, dx
    elif abs(dy) >= abs(dz):
        p, q, r, d = ay, by, cy, dy
    else:
        p, q, r, d = az, bz, cz, dz
    t = min(max((wa * p + wb * q + wc * r) / total, min(p, q, r)), max(p, q, r)) / d
    return t if t > 0 else np.inf


@compiled
def _entry(origin: Any, direction: Any, slack: Any, low: Any, high: Any) -> Any:
    """Return where a ray enters a box grown by `slack` on all sides, in directions, or inf where it passes it by."""
    enter, leave = 0.0, np.inf
    for k in range(3):
        least, greatest = (low[k] - slack) - origin[k], (high[k] + slack) - origin[k]
        if direction[k] == 0:
            if least > 0 or greatest < 0:
                return np.inf
            continue
        p, q = least / direction[k], greatest / direction[k]
        enter, leave = max(enter, min(p, q)), min(leave, max(p, q))
    # both ends may err by a few units in the last place
    return enter * (1 - 1e-14) if enter * (1 - 1e-14) <= leave * (1 + 1e-14) else np.inf


@compiled
def nearest(origins: Any, directions: Any, vertices: Any, triangles: Any, tree: Any, found_t: Any, found: Any) -> None:
    """Write the nearest meeting of each ray whose `found` is -2: t and triangle, of equally near ones the lowest triangle; inf and -1 for none."""
    low, high, second, starts, ends, order = tree
    # boxes still to be looked into, and where the ray enters them
    waiting, entries = np.empty(64, np.int32), np.empty(64)
    extent = 0.0
    for k in range(3):
        extent = max(extent, abs(low[0, k]), abs(high[0, k]))
    for ray in range(origins.shape[0]):
        if found[ray] != -2:
            continue
        origin, direction = origins[ray], directions[ray]
        # subtracting the origin moves a vertex by no more than this
        slack = 4 * 2.0**-53 * (extent + max(abs(origin[0]), abs(origin[1]), abs(origin[2])))
        best, which = np.inf, -1
        waiting[0], entries[0] = 0, _entry(origin, direction, slack, low[0], high[0])
        left = 1 if entries[0] < np.inf else 0
        while left > 0:
            left -= 1
            node = waiting[left]
            # a little further than the best, since that has errors of its own
            if entries[left] > best * (1 + 1e-9):
                continue
            if second[node] == 0:
                for i in range(starts[node], ends[node]):
                    face = order[i]
                    t = meet(origin, direction, vertices, triangles[face])
                    if t < best or (t == best and t < np.inf and face < which):
                        best, which = t, face
                continue
            one, other = node + 1, second[node]
            one_entry = _entry(origin, direction, slack, low[one], high[one])
            other_entry = _entry(origin, direction, slack, low[other], high[other])
            # the nearer child is looked into first
            if one_entry < other_entry:
                one, other, one_entry, other_entry = other, one, other_entry, one_entry
            if one_entry < np.inf:
                waiting[left], entries[left] = one, one_entry
                left += 1
            if other_entry < np.inf:
                waiting[left], entries[left] = other, other_entry
                left += 1
        found_t[ray], found[ray] = best, which


@compiled
def confirm(origins: Any, directions: Any, vertices: Any, triangles: Any, proposed: Any, found_t: Any, found: Any) -> None:
    """Take a proposed triangle of each ray if the ray exactly meets it; leave -2 where it does not, or none is proposed."""
    for ray in range(origins.shape[0]):
        found[ray] = -2
        if proposed[ray] >= 0:
            t = meet(origins[ray], directions[ray], vertices, triangles[proposed[ray]])
            if t < np.inf:
                found_t[ray], found[ray] = t, proposed[ray]
