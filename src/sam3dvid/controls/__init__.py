"""Control videos of clips: depth and masks as lossless videos, frame by frame beside rgb. No Blender."""
