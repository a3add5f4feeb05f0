"""T1, a clip's orbit: what meta.json says of it, worked out anew from T_cw of every frame and from the objects' positions.

Nothing is taken from the planner: azimuths, elevations and distances are read off the camera's place, and its look off its rotation.
"""

from __future__ import annotations

import numpy as np

from sam3dvid.validate.kinds import EXACT, Float, Values
from sam3dvid.validate.meta import Meta

ANGLE_DEG = 1e-7
"""How far an angle worked out from T_cw may lie from the stated one: a hundred times what rounding makes of it."""


def look_at_trajectory(values: Values, T_cw: Float, positions: list[Float], meta: Meta) -> None:
    """Note where meta.json and the cameras disagree.   T_cw : (F, 4, 4).   positions : t_wo (3,) of every object.   Source: seed 002, 3.2, 5 and 7."""
    center = np.mean(positions, axis=0)
    values.near("scene_center", meta.scene_center, center)
    turned = np.swapaxes(T_cw[:, :3, :3], 1, 2)
    away = -np.einsum("tij,tj->ti", turned, T_cw[:, :3, 3]) - center
    distance = np.linalg.norm(away, axis=1)
    if float(distance.min()) < EXACT:
        return values.fault("", f"a camera at the point that it looks at, in frame {int(distance.argmin())}", "a camera beside it")
    if not _look_at_aim(values, T_cw, center, distance):
        return None
    numbers, frames = meta.numbers, len(T_cw)
    u = (1 - np.cos(np.pi * np.arange(frames) / (frames - 1))) / 2
    _agree(values, "orbit_radius", numbers.get("orbit_radius"), float(distance[0]), EXACT)
    if (spread := float(np.ptp(distance))) > EXACT:
        t = int(np.abs(distance - distance[0]).argmax())
        return values.fault("orbit_radius", f"the camera is {distance[t]:.9g} away in frame {t}, {spread:.3g} from others", "one distance in all frames")
    azimuth = np.degrees(np.unwrap(np.arctan2(away[:, 1], away[:, 0])))
    elevation = np.degrees(np.arctan2(away[:, 2], np.hypot(away[:, 0], away[:, 1])))
    turn, climb = float(azimuth[-1] - azimuth[0]), float(elevation[-1] - elevation[0])
    if (start := numbers.get("start_azimuth_deg")) is not None:
        off = (float(azimuth[0]) - start + 180) % 360 - 180
        _agree(values, "start_azimuth_deg", start, start + off, ANGLE_DEG)
    _agree(values, "start_elevation_deg", numbers.get("start_elevation_deg"), float(elevation[0]), ANGLE_DEG)
    _agree(values, "arc_span_deg", numbers.get("arc_span_deg"), abs(turn), ANGLE_DEG)
    if meta.direction is not None and meta.direction != (1 if turn > 0 else -1):
        values.fault("arc_direction", meta.direction, f"{-meta.direction}, as the cameras turn by {turn:.6g} degrees")
    _agree(values, "elevation_drift_deg", numbers.get("elevation_drift_deg"), climb, ANGLE_DEG)
    for name, angle, whole in (("azimuth", azimuth, turn), ("elevation", elevation, climb)):
        off_ease = np.abs(angle - (angle[0] + whole * u))
        if (worst := int(off_ease.argmax())) and off_ease[worst] > ANGLE_DEG:
            values.fault(
                f"{name} in frame {worst}",
                f"{angle[worst]:.9g} degrees",
                f"{angle[0] + whole * u[worst]:.9g}, as u = (1 - cos(pi t / {frames - 1})) / 2 has it",
            )
    if meta.reference is not None:
        wanted = _camera(center, float(distance[0]), float(azimuth[0] + turn / 2), float(elevation[0] + climb / 2))
        values.near("reference_T_cw", meta.reference, wanted, 1e-8)
    return None


def _look_at_aim(values: Values, T_cw: Float, center: Float, distance: Float) -> bool:
    """Return whether every camera looks at the centre, level and upright."""
    aim = np.einsum("tij,j->ti", T_cw[:, :3, :3], center) + T_cw[:, :3, 3]
    aside = np.hypot(aim[:, 0], aim[:, 1])
    for wrong, found, expected in (
        ((aside > EXACT * (1 + distance)) | (aim[:, 2] < 0), "the objects' centre at {aim} of the camera", "the mean of t_wo on the optical axis"),
        (np.abs(T_cw[:, 0, 2]) > EXACT, "a camera that rolls (its x axis rises by {x:.3g})", "a level x axis"),
        (T_cw[:, 1, 2] >= 0, "a camera upside down", "world Z upwards in the picture"),
    ):
        if wrong.any():
            t = int(wrong.argmax())
            values.fault(f"T_cw of frame {t}", found.format(aim=np.round(aim[t], 9).tolist(), x=T_cw[t, 0, 2]), expected)
            return False
    return True


def _agree(values: Values, name: str, stated: float | None, worked_out: float, tolerance: float) -> None:
    if stated is not None and abs(stated - worked_out) > tolerance * max(1.0, abs(worked_out)):
        values.fault(name, repr(stated), f"{worked_out:.12g}, as T_cw has it")


def _camera(center: Float, distance: float, azimuth_deg: float, elevation_deg: float) -> Float:
    """Return T_cw of a camera on the orbit: its rows are the directions right, down and forward."""
    a, e = np.radians(azimuth_deg), np.radians(elevation_deg)
    outward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([-np.sin(a), np.cos(a), 0.0])
    R_cw = np.stack([right, np.cross(-outward, right), -outward])
    T_cw = np.eye(4)
    T_cw[:3, :3] = R_cw
    T_cw[:3, 3] = -R_cw @ (center + distance * outward)
    return T_cw
