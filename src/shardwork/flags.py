"""The flags that every step of a work shard takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from shardwork.run import Options, Shard
from shardwork.shards import shard_of
from shardwork.step import Item


def add_shard_flags(arguments: argparse.ArgumentParser, by_hash: bool = True) -> None:
    """Add the flags that name the shard and say how it is run."""
    arguments.add_argument("--stage", type=Path, required=True, help="the stage's folder, results/RUN/STAGE")
    arguments.add_argument("--shard", required=True, help="the work shard, such as 0003")
    if by_hash:
        arguments.add_argument("--work-shards", type=int, required=True, help="how many work shards the table is cut into")
    arguments.add_argument("--workers", type=int, default=1, help="processes; 0 works in this one (default: 1)")
    arguments.add_argument("--redo", type=int, default=0, help="raise it to recompute what is finished (default: 0)")
    arguments.add_argument("--verify", choices=("fast", "full"), default="fast", help="how finished files are looked at: size and time, or digests too")
    arguments.add_argument("--prune", choices=("true", "false"), default="false", help="delete files that no row names, instead of setting them aside")


def options_from(args: argparse.Namespace) -> Options:
    """Return how the shard is run."""
    return Options(workers=args.workers, redo=args.redo, full=args.verify == "full", prune=args.prune == "true")


def hashed_shard(args: argparse.Namespace, items: Sequence[Item]) -> Shard:
    """Return a shard by hash: it owns every id whose hash falls into it, also those that the table no longer has."""
    shard: str = args.shard
    work_shards: int = args.work_shards
    return Shard(shard, items, lambda item_id: shard_of(item_id, work_shards) == shard)
