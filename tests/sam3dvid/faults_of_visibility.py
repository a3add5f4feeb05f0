"""Faults of what a clip shows: visibility, cover, spheres."""

from __future__ import annotations

import math
from typing import Any

from tests.sam3dvid.spoiled import (
    META,
    OBJECTS,
    ONE,
    T2,
    THREE,
    Fault,
    add,
    edit,
    masks,
)


def small_photo(record: Any) -> None:
    width, height = 512, 64
    focal = (width / 2) / math.tan(math.radians(65))
    K_bg = [[focal, 0.0, (width - 1) / 2], [0.0, focal, (height - 1) / 2], [0.0, 0.0, 1.0]]
    record["background"] |= {"width": width, "height": height, "K_bg": K_bg}


SEEN = [
    Fault("object that shows too little", masks(THREE, 1, 2, keep=7), T2, f"{THREE}: object 2 in frame 1: 7 visible pixels, expected at least 8"),
    Fault("object that vanishes", masks(THREE, 3, 1, keep=0), T2, f"{THREE}: object 1 in frame 3: 0 visible pixels"),
    Fault("object out of the picture", masks(ONE, 2, 1, keep=0, amodal=0), T2, f"{ONE}: object 1 in frame 2: 0.0000 of its 0 pixels"),
    Fault("object that is mostly hidden", masks(ONE, 0, 1, keep=15, amodal=151), T2, f"{ONE}: object 1 in frame 0: 0.0993 of its 151 pixels visible"),
    Fault("visible pixels told wrongly", add(META, ("visibility", "visible_px", 2, 1), 1), T2, f"{META}: visibility.visible_px[2][1]: "),
    Fault("amodal pixels told wrongly", add(META, ("visibility", "amodal_px", 0, 2), -1), T2, f"{META}: visibility.amodal_px[0][2]: "),
    Fault("visible part told wrongly", add(META, ("visibility", "visible_frac", 3, 0), -1e-6), T2, f"{META}: visibility.visible_frac[3][0]: "),
    Fault("background that leaves corners bare", edit(META, small_photo), T2, f"{THREE}: background in frame 0: a corner at"),
    Fault("spheres that meet", edit(OBJECTS, lambda entries: [entry.update(s_wo=[1.0] * 3) for entry in entries] and None), T2, "objects 1 and 2: 1.6"),
]
