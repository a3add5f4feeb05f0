"""Licences as their sources write them, as SPDX ids where those are certain."""

from __future__ import annotations

import re

_CC = re.compile(r"creativecommons\.org/licenses/(by(?:-nc)?(?:-nd|-sa)?)/(\d\.\d)")
_ZERO = re.compile(r"creativecommons\.org/publicdomain/zero/(\d\.\d)")
_NAMES = {
    "creative commons attribution 4.0 international": "CC-BY-4.0",
    "creative commons attribution share alike 4.0 international": "CC-BY-SA-4.0",
    "creative commons attribution noncommercial 4.0 international": "CC-BY-NC-4.0",
    "creative commons zero v1.0 universal": "CC0-1.0",
    "mit license": "MIT",
    "apache license 2.0": "Apache-2.0",
    'bsd 2-clause "simplified" license': "BSD-2-Clause",
    'bsd 3-clause "new" or "revised" license': "BSD-3-Clause",
    "mozilla public license 2.0": "MPL-2.0",
    "the unlicense": "Unlicense",
}
"""As GitHub and Gazebo Fuel name them."""
_SKETCHFAB = {
    "creative commons - attribution": "CC-BY-4.0",
    "creative commons - attribution - share alike": "CC-BY-SA-4.0",
    "creative commons - attribution - no derivatives": "CC-BY-ND-4.0",
    "creative commons - attribution - non-commercial": "CC-BY-NC-4.0",
    "creative commons - attribution - non-commercial - share alike": "CC-BY-NC-SA-4.0",
    "creative commons - attribution - non-commercial - no derivatives": "CC-BY-NC-ND-4.0",
    "creative commons - public domain dedication": "CC0-1.0",
    "by": "CC-BY-4.0",
    "by-sa": "CC-BY-SA-4.0",
    "by-nd": "CC-BY-ND-4.0",
    "by-nc": "CC-BY-NC-4.0",
    "by-nc-sa": "CC-BY-NC-SA-4.0",
    "by-nc-nd": "CC-BY-NC-ND-4.0",
    "cc0": "CC0-1.0",
}
"""Sketchfab writes no version and has one alone, 4.0; on Thingiverse the same words may mean an older one."""


def spdx_of(name: str, url: str = "", source: str = "") -> str:
    """Return the SPDX id of a licence; its name as it stands where the id is not certain, "" where nothing is stated.

    url : where its text is, "" if not known; counts before the name.   source : sketchfab, whose names lack a version that is known.
    """
    for text in (url, name):
        if found := _CC.search(text.lower()):
            return f"CC-{found[1].upper()}-{found[2]}"
        if found := _ZERO.search(text.lower()):
            return f"CC0-{found[1]}"
    plain = " ".join(name.split())
    names = {**_NAMES, **_SKETCHFAB} if source == "sketchfab" else _NAMES
    return names.get(plain.lower(), plain)
