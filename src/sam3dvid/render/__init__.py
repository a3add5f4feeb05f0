"""Rendered clips: settings, files and the step; Blender's own part is in `sam3dvid.blender`."""
