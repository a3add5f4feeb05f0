"""A clip of a dataset as pictures to look at: `python -m sam3dvid.preview CLIP`. Overlays come from the dataset's files alone: no Blender, no planner."""
