"""The only place that imports bpy."""
