"""The shard of work: what every stage of Reelmill shares.

A stage turns the rows of one table into published files. `shardwork` owns the loop, resume, isolation, the manifest and the exit code;
a stage plugs in `run_item(item)`. See `shardwork.step` for the shape of a stage, `shardwork.work` and `shardwork.run` for what happens to it.
"""

__version__ = "0.1.0"
