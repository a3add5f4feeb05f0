"""What decides an export, and its flags."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.assets.filters import check_licenses
from sam3dvid.stage import SPLITS
from shardwork import command
from shardwork.errors import DataError

WARN, FAIL = "warn", "fail"
LEAST_PSNR_DB = 40.0
"""What every JPEG is expected to reach against its PNG. Source: seed 002, 9.1."""
RELEASE_LICENSES = "CC0-1.0 CC-BY-4.0 CC-BY-3.0 Apache-2.0 MIT BSD-3-Clause"
"""Licences under which assets and backgrounds may be released, unless others are named: the configuration's default of assets.release_licenses."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """What decides an export. Raises DataError (bad_argument, bad_asset_setting).

    clips_per_shard : in each tar but the last.   releasable_only : leave out clips that may not be released.   psnr : what a JPEG below 40 dB does,
    warn or fail.   release_licenses : SPDX ids separated by blanks; empty: every licence that is known and lets changed copies be passed on.
    any_size : whether other sizes than 32 frames of 512 x 512 are in order, for tests.   empty : whether a split without clips is in order, as it is
    for the workflow, whose gate says what became of them.
    """

    clips_per_shard: int = 100
    releasable_only: bool = False
    psnr: str = WARN
    release_licenses: str = RELEASE_LICENSES
    any_size: bool = False
    empty: bool = False

    def __post_init__(self) -> None:
        if self.psnr not in (WARN, FAIL):
            raise DataError("bad_argument", "--psnr", repr(self.psnr), f"{WARN} or {FAIL}", "correct it")
        check_licenses(self.release_licenses)


def add_release_flags(arguments: argparse.ArgumentParser) -> None:
    """Add the flags that say which clips are taken."""
    arguments.add_argument("--dataset", type=Path, required=True, metavar="DATASET", help="the dataset's folder, with manifest.jsonl")
    text = "leave out clips that may not be released: backgrounds for research only, assets under other licences"
    arguments.add_argument("--releasable-only", type=command.truth, nargs="?", const=True, default=False, metavar="true|false", help=text)
    text = "SPDX ids under which assets and backgrounds may be released, separated by blanks; empty: all that let changed copies be passed on"
    arguments.add_argument("--release-licenses", default=RELEASE_LICENSES, metavar="IDS", help=f"{text} (default: {RELEASE_LICENSES})")
    text = "allow other sizes than 32 frames of 512 x 512, as tests have"
    arguments.add_argument("--any-size", type=command.truth, nargs="?", const=True, default=False, metavar="true|false", help=text)


def add_export_flags(arguments: argparse.ArgumentParser) -> None:
    """Add the flags of an export."""
    add_release_flags(arguments)
    arguments.add_argument("--split", choices=SPLITS, required=True, help="which split; one folder holds one")
    arguments.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the export")
    arguments.add_argument("--clips-per-shard", type=command.whole(1), default=100, metavar="N", help="clips in each tar but the last (default: 100)")
    arguments.add_argument("--psnr", choices=(WARN, FAIL), default=WARN, help="a JPEG below 40 dB against its PNG: warn, or write no index (default: warn)")
    arguments.add_argument("--workers", type=command.whole(0), default=1, metavar="N", help="processes; 0 works in this one (default: 1)")
    text = "take the place of another plan's shards: make again those that differ, remove the rest"
    arguments.add_argument("--replan", action="store_true", help=text)


def release_settings(args: argparse.Namespace) -> ExportSettings:
    """Return what the flags of `add_release_flags` say."""
    return ExportSettings(releasable_only=args.releasable_only, release_licenses=args.release_licenses, any_size=args.any_size)


def export_settings(args: argparse.Namespace) -> ExportSettings:
    """Return what the flags of `add_export_flags` say."""
    return ExportSettings(args.clips_per_shard, args.releasable_only, args.psnr, args.release_licenses, args.any_size)
