"""3D assets: checked, normalised, voxelised, with their licences."""
