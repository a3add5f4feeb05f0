"""The flags that every step of a work shard takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardwork.command import whole
from shardwork.run import Options
from shardwork.shards import parse_shard


def _shard(text: str) -> str:
    parse_shard(text)
    return text


def add_shard_flags(arguments: argparse.ArgumentParser) -> None:
    """Add the flags that name the shard and say how it is run."""
    arguments.add_argument("--stage", type=Path, required=True, help="the stage's folder, results/RUN/STAGE")
    arguments.add_argument("--shard", type=_shard, required=True, help="the work shard, such as 0003-of-0020")
    add_run_flags(arguments)


def add_run_flags(arguments: argparse.ArgumentParser) -> None:
    """Add the flags that say how a shard is run."""
    arguments.add_argument("--key", default="by-hand", help="part of the manifest's name: a digest of what the shard is made for")
    arguments.add_argument("--workers", type=whole(0), default=1, help="processes; 0 works in this one (default: 1)")
    arguments.add_argument("--redo", type=whole(0), default=0, help="raise it to recompute what is finished (default: 0)")
    arguments.add_argument("--verify", choices=("fast", "full"), default="fast", help="how finished files are looked at: size and time, or digests too")


def options_from(args: argparse.Namespace) -> Options:
    """Return how the shard is run."""
    return Options(workers=args.workers, key=args.key, redo=args.redo, full=args.verify == "full")
