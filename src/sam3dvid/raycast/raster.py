"""One object drawn into a depth picture: for every pixel centre, z of the nearest surface on its ray.

Rays of one camera meet in one point, so instead of searching triangles for each ray, each triangle looks for the rays in its projected box. The verdict on each
is the exact one of `exact`, for vertices that are rounded once, into the camera. Edges and corners belong to a triangle; one that is seen edge-on covers
no pixel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sam3dvid.raycast.compiled import compiled
from sam3dvid.raycast.exact import ROUNDING, exact_det

FAR = 1e15
"""Pixels: projected coordinates beyond this are taken as this."""
MARGIN = 1e-9
"""By how much of itself, at least of 1 px, a projected coordinate may err; rounding makes it about 1e-15."""


@compiled
def _first(least: Any) -> Any:
    """Return the first pixel centre that may lie at or beyond a coordinate, within 0 and 2**30."""
    return int(np.ceil(min(max(least - MARGIN * (1 + abs(least)), 0.0), 2.0**30)))


@compiled
def _end(greatest: Any, size: Any) -> Any:
    """Return one more than the last pixel centre that may lie at or before a coordinate, within 0 and the picture's size."""
    return int(np.floor(min(max(greatest + MARGIN * (1 + abs(greatest)), -1.0), size - 1.0))) + 1


@compiled
def _into_camera(vertices: Any, R: Any, t: Any, s: Any, K: Any, width: Any, height: Any, camera: Any, spans: Any) -> Any:
    """Write x_c = R (s x_o) + t to `camera`, and where z > 0 the pixel centres about it to `spans`; return whether z > 0 for all, and for some.

    The pixels of a triangle are the least and greatest of its corners' spans, so that here, and not for each triangle, the coordinates are rounded.
    """
    every, some = True, False
    for i in range(vertices.shape[0]):
        x, y, z = s * vertices[i, 0], s * vertices[i, 1], s * vertices[i, 2]
        cx = ((R[0, 0] * x + R[0, 1] * y) + R[0, 2] * z) + t[0]
        cy = ((R[1, 0] * x + R[1, 1] * y) + R[1, 2] * z) + t[1]
        cz = ((R[2, 0] * x + R[2, 1] * y) + R[2, 2] * z) + t[2]
        camera[i, 0], camera[i, 1], camera[i, 2] = cx, cy, cz
        if cz > 0:
            u = min(max(K[0, 0] * (cx / cz) + K[0, 2], -FAR), FAR)
            v = min(max(K[1, 1] * (cy / cz) + K[1, 2], -FAR), FAR)
            spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3] = _first(u), _end(u, width), _first(v), _end(v, height)
            some = True
        else:
            every = False
    return every, some


@compiled
def _span_in_front(camera: Any, spans: Any, a: Any, b: Any, c: Any, axis: Any, size: Any) -> Any:
    """Return the pixels along an axis of the part of a triangle that lies in front; some of its corners do not, and some do."""
    first, end = size, 0
    for corner in (a, b, c):
        if camera[corner, 2] > 0:
            first, end = min(first, spans[corner, 2 * axis]), max(end, spans[corner, 2 * axis + 1])
    for p, q in ((a, b), (b, c), (c, a)):
        pz, qz = camera[p, 2], camera[q, 2]
        if (pz > 0) == (qz > 0):
            continue
        # where the edge passes the camera's plane it leaves the picture on one side, or it may on both
        share = pz / (pz - qz)
        at = camera[p, axis] * (1 - share) + camera[q, axis] * share
        doubt = 1e-12 * (abs(camera[p, axis]) + abs(camera[q, axis]))
        if at >= -doubt:
            end = size
        if at <= doubt:
            first = 0
    return first, end


@compiled
def _fill(camera: Any, a: Any, b: Any, c: Any, ray_x: Any, ray_y: Any, first_u: Any, end_u: Any, first_v: Any, end_v: Any, depth: Any) -> Any:
    """Lower the depth of the pixels that a triangle holds to its z there."""
    ax, ay, az = camera[a, 0], camera[a, 1], camera[a, 2]
    bx, by, bz = camera[b, 0], camera[b, 1], camera[b, 2]
    cx, cy, cz = camera[c, 0], camera[c, 1], camera[c, 2]
    # det(p, q, d) = d . (p x q); `reach` bounds the rays of the box, so that one bound holds for all of its pixels
    reach_x, reach_y = max(abs(ray_x[first_u]), abs(ray_x[end_u - 1])), max(abs(ray_y[first_v]), abs(ray_y[end_v - 1]))
    p, q, r, s, g, h = by * cz, bz * cy, bz * cx, bx * cz, bx * cy, by * cx
    a0, a1, a2 = p - q, r - s, g - h
    a_doubt = ROUNDING * (reach_x * (abs(p) + abs(q)) + reach_y * (abs(r) + abs(s)) + (abs(g) + abs(h)))
    p, q, r, s, g, h = cy * az, cz * ay, cz * ax, cx * az, cx * ay, cy * ax
    b0, b1, b2 = p - q, r - s, g - h
    b_doubt = ROUNDING * (reach_x * (abs(p) + abs(q)) + reach_y * (abs(r) + abs(s)) + (abs(g) + abs(h)))
    p, q, r, s, g, h = ay * bz, az * by, az * bx, ax * bz, ax * by, ay * bx
    c0, c1, c2 = p - q, r - s, g - h
    c_doubt = ROUNDING * (reach_x * (abs(p) + abs(q)) + reach_y * (abs(r) + abs(s)) + (abs(g) + abs(h)))
    least, greatest = min(az, bz, cz), max(az, bz, cz)
    for v in range(first_v, end_v):
        dy = ray_y[v]
        for u in range(first_u, end_u):
            # it is hidden here, whatever its weights are
            if least >= depth[v, u]:
                continue
            dx = ray_x[u]
            wa = dx * a0 + dy * a1 + a2
            if abs(wa) <= a_doubt:
                wa = exact_det(bx, by, bz, cx, cy, cz, dx, dy, 1.0)
            wb = dx * b0 + dy * b1 + b2
            if abs(wb) <= b_doubt:
                wb = exact_det(cx, cy, cz, ax, ay, az, dx, dy, 1.0)
            if (wa < 0 and wb > 0) or (wa > 0 and wb < 0):
                continue
            wc = dx * c0 + dy * c1 + c2
            if abs(wc) <= c_doubt:
                wc = exact_det(ax, ay, az, bx, by, bz, dx, dy, 1.0)
            if (wc < 0 and (wa > 0 or wb > 0)) or (wc > 0 and (wa < 0 or wb < 0)):
                continue
            total = wa + wb + wc
            if total == 0:
                continue
            # the three are in the ratio of the point's weights; rounding must not carry it beyond the corners
            z = min(max((wa * az + wb * bz + wc * cz) / total, least), greatest)
            if 0 < z < depth[v, u]:
                depth[v, u] = z


@compiled
def draw(vertices: Any, triangles: Any, R: Any, t: Any, s: Any, K: Any, ray_x: Any, ray_y: Any, camera: Any, spans: Any, depth: Any) -> Any:
    """Write an object's z to `depth` within its box, inf where its rays hit nothing, and return the box; nothing is hit or written beyond it.

    camera, spans : (V, 3) float64 and (V, 4) int32, room to work in.   depth : (H, W) float64.   Returns (first_u, end_u, first_v, end_v).
    """
    height, width = depth.shape
    every, some = _into_camera(vertices, R, t, s, K, width, height, camera, spans)
    if not some:
        return 0, 0, 0, 0
    box_first_u, box_end_u, box_first_v, box_end_v = 0, width, 0, height
    if every:
        box_first_u, box_end_u, box_first_v, box_end_v = width, 0, height, 0
        for i in range(vertices.shape[0]):
            box_first_u, box_end_u = min(box_first_u, spans[i, 0]), max(box_end_u, spans[i, 1])
            box_first_v, box_end_v = min(box_first_v, spans[i, 2]), max(box_end_v, spans[i, 3])
    if box_first_u >= box_end_u or box_first_v >= box_end_v:
        return 0, 0, 0, 0
    for v in range(box_first_v, box_end_v):
        for u in range(box_first_u, box_end_u):
            depth[v, u] = np.inf
    for face in range(triangles.shape[0]):
        a, b, c = triangles[face, 0], triangles[face, 1], triangles[face, 2]
        if every or (camera[a, 2] > 0 and camera[b, 2] > 0 and camera[c, 2] > 0):
            first_u, end_u = min(spans[a, 0], spans[b, 0], spans[c, 0]), max(spans[a, 1], spans[b, 1], spans[c, 1])
            first_v, end_v = min(spans[a, 2], spans[b, 2], spans[c, 2]), max(spans[a, 3], spans[b, 3], spans[c, 3])
        elif camera[a, 2] > 0 or camera[b, 2] > 0 or camera[c, 2] > 0:
            first_u, end_u = _span_in_front(camera, spans, a, b, c, 0, width)
            first_v, end_v = _span_in_front(camera, spans, a, b, c, 1, height)
        else:
            continue
        if first_u < end_u and first_v < end_v:
            _fill(camera, a, b, c, ray_x, ray_y, first_u, end_u, first_v, end_v, depth)
    return box_first_u, box_end_u, box_first_v, box_end_v


@compiled
def lay_over(drawn: Any, box: Any, k: Any, depth: Any, mask: Any, visible: Any) -> Any:
    """Lay object k, as drawn in its box, over the frame: `depth` (H, W), `mask` (H, W), `visible` (N + 1,). Return its number of pixels."""
    covered = 0
    for v in range(box[2], box[3]):
        for u in range(box[0], box[1]):
            z = drawn[v, u]
            if z < np.inf:
                covered += 1
                if z < depth[v, u]:
                    depth[v, u] = z
                    visible[mask[v, u]] -= 1
                    visible[k] += 1
                    mask[v, u] = k
    return covered
