"""What renders the colours of a clip: the processor, or a GPU that is really there."""

from __future__ import annotations

from dataclasses import dataclass

import bpy

from sam3dvid.blender import session
from sam3dvid.blender.session import silence
from sam3dvid.codes import HINTS
from shardwork.errors import Fault
from shardwork.jsonio import Json

KINDS = ("OPTIX", "CUDA", "HIP", "ONEAPI", "METAL")
"""Kinds of GPU devices that Cycles knows, the fastest of one card first."""


@dataclass(frozen=True, slots=True)
class Device:
    """What colours are rendered on.   kind : CPU or one of KINDS.   names : of the GPUs, as their driver calls them."""

    kind: str
    names: tuple[str, ...] = ()

    def facts(self) -> dict[str, Json]:
        """Return what a record says of it."""
        return {"kind": self.kind, "names": list(self.names)}


def find_device(wanted: str) -> Device:
    """Return the device of a setting, and switch its GPUs on.   wanted : cpu, gpu or auto.

    Raises Fault (no_gpu) for gpu where there is none: Cycles itself would go on, without a word, on the processor.
    """
    session.start()
    if wanted == "cpu":
        return Device("CPU")
    with silence():
        found = next((device for kind in KINDS if (device := _switch_on(kind)) is not None), None)
    if found is None and wanted == "gpu":
        raise Fault("no_gpu", "device", "no GPU that Blender can use", f"one of the kinds {', '.join(KINDS)}", HINTS["no_gpu"])
    return found or Device("CPU")


def _switch_on(kind: str) -> Device | None:
    """Return the GPUs of a kind, switched on, or None if there is none."""
    preferences = bpy.context.preferences.addons["cycles"].preferences
    try:
        preferences.compute_device_type = kind
    except TypeError:  # a kind that this build of Blender lacks
        return None
    preferences.refresh_devices()
    gpus = [device for device in preferences.devices if device.type == kind]
    for device in preferences.devices:
        device.use = device in gpus
    return Device(kind, tuple(sorted(device.name for device in gpus))) if gpus else None
