"""Named random streams: adding a draw to one never shifts another, and no order or process matters."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator of the stream `names` under `seed`.

    seed : int >= 0.   names : words and numbers that say what is drawn, e.g. ("noise", video_id).
    Words enter as their crc32, after the seed. Source: synthetic spec, section 1.
    """
    words = [name if isinstance(name, int) else zlib.crc32(name.encode()) for name in names]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))
