"""Rendered objects over their photo, and the dataset's books: what turns renders into clips. No Blender."""
