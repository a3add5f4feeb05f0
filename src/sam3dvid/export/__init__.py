"""The training export: clips of one split as WebDataset shards, their voxels, and an index. Source: seed 002, section 9."""
