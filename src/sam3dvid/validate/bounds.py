"""The bounds of a clip's numbers, and where each comes from: the one table that T1 compares with."""

from __future__ import annotations

HFOV_DEG, BACKGROUND_HFOV_DEG = 50.0, 130.0
"""Fields of view of the frames and of the photo behind them. Source: format v0.1, 3.2 and 5."""
MOST_OBJECTS = 4
"""Source: format v0.1, 1."""
SCALES = (0.4, 1.0)
"""Of s_wo. Source: format v0.1, 7."""

TRAJECTORY = {
    "arc_span_deg": (10.0, 70.0),
    "start_azimuth_deg": (0.0, 360.0),
    "start_elevation_deg": (10.0, 45.0),
    "elevation_drift_deg": (-10.0, 10.0),
    "orbit_radius": (1e-6, 1e6),
    "hfov_deg": (HFOV_DEG, HFOV_DEG),
}
"""Numbers of meta.json. Source: format v0.1, 5 and 7; the radius has none there but is a length."""

LIGHT = {"sun_strength": (0.0, 1000.0), "ambient_strength": (0.0, 1000.0), "sun_angle_deg": (0.0, 180.0)}
"""Numbers of meta.json's light. The format bounds none of them; the generator's settings allow these."""

MOST_ATTEMPTS = 10_000
"""Attempts of a seed, counted from 0. Source: the generator's settings, which allow no more; 50 is the default."""
MOST_ARC_RETRIES = 10_000
"""Cameras drawn again for the background's sake in the attempt that passed. Source: the generator's settings; 100 is the default."""

SEED_BASES = {"eval": 0, "train": 1_000_000}
"""Split -> what is added to int(clip_id) to make the seed. Source: the generator."""
MOST_CLIPS = 1_000_000
"""Clip ids lie below this, so that no seed of eval is one of train."""
