"""Videos to event voxels: decoding, contrast, voxels, HDF5, validation and timing.

Readers need `timing`, `validate` and the reading half of `hdf5`, which import numpy and h5py alone. Writers need PyAV and OpenCV as well;
both are imported when a video is opened, never before.
"""

from __future__ import annotations
