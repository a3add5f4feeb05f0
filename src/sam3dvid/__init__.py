"""3D assets and photos to rendered clips with exact ground truth (masks, depth, poses), in the format of SAM 3D's video data."""
