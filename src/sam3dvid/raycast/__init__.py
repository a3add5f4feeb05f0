"""Which pixels show which object, how far away, without Blender: exact in float64, at pixel centres."""

from sam3dvid.raycast.caster import Caster
from sam3dvid.raycast.frames import Truth, Visibility, clip_visibility, frame_truth

__all__ = ["Caster", "Truth", "Visibility", "clip_visibility", "frame_truth"]
