"""Videos to event voxels: decoding, contrast, voxels, HDF5, validation, timing and reading.

Readers need `EventVideo`, `timing` and `validate`, which import numpy and h5py alone. Writers need numba, PyAV and OpenCV as well; the last two
are imported when a video is opened, never before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventvox.reader import EventVideo

__all__ = ["EventVideo"]


def __getattr__(name: str) -> Any:
    """Load the reader when it is first asked for: the workflow imports this package without numpy."""
    if name == "EventVideo":
        from eventvox.reader import EventVideo

        return EventVideo
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
