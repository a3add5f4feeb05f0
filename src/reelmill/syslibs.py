"""System libraries that Blender needs: `python3 src/reelmill/syslibs.py` prints the missing Debian packages on one line.

The set-up script runs this file before there is an environment: standard library alone, Python 3.9 or newer, no import of this project.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Callable, List  # noqa: UP035  (this file also runs on Python 3.9, whose typing these are)

LIBRARIES = {
    "libXrender.so.1": "libxrender1",
    "libXfixes.so.3": "libxfixes3",
    "libXi.so.6": "libxi6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libSM.so.6": "libsm6",
    "libGL.so.1": "libgl1",
}
"""Shared library that the bpy wheel loads, and the Debian or Ubuntu package that holds it."""


def loads(library: str) -> bool:
    """Return whether the system's loader finds a shared library and all that it needs."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def required_libraries(has: Callable[[str], bool] = loads) -> List[str]:  # noqa: UP006
    """Return the Debian packages of the libraries that are missing, in a fixed order.

    has : says of a shared library whether it loads.
    """
    return [package for library, package in LIBRARIES.items() if not has(library)]


def main() -> int:
    """Print the missing packages on one line, nothing if all are there; return 0."""
    missing = required_libraries()
    if missing:
        sys.stdout.write(" ".join(missing) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
