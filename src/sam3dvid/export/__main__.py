"""Export the clips of one split for training, as WebDataset shards; `verify` checks an export, `ship` packs a split as it is into one tar."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from sam3dvid.export.settings import add_export_flags, add_release_flags, export_settings, release_settings
from sam3dvid.stage import SPLITS
from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_FAULT, EXIT_OK, fault_from, plain, print_error
from shardwork.jsonio import dumps
from shardwork.pack import PackOptions

PROGRAM = "python -m sam3dvid.export"


def run_export(args: argparse.Namespace) -> int:
    """Export; return the exit code."""
    from sam3dvid.export.run import export_split

    index = export_split(args.dataset, args.split, args.out, export_settings(args), PackOptions(args.workers, args.replan))
    left_out = f", {len(index['left_out'])} clips left out" if index["left_out"] else ""
    releasable = "all may be released" if index["releasable"] else "some may not be released: see refusals in index.json"
    print(plain(f"{args.out}: {index['samples']} clips in {len(index['shards'])} tars, PSNR {index['psnr']['min_db']} dB or more{left_out}; {releasable}"))
    return EXIT_OK


def _verify(args: argparse.Namespace) -> int:
    from sam3dvid.export.verify import verify_export

    try:
        problems = verify_export(args.out, args.dataset, args.workers)
    except OSError as error:
        print_error(fault_from(error, args.out))
        return EXIT_BAD_INPUT
    if args.json:
        print(dumps({"problems": [asdict(problem) for problem in problems], "valid": not problems}))
    else:
        compared = "compared with the dataset" if args.dataset else "without the dataset"
        print("\n".join(plain(str(problem)) for problem in problems) or plain(f"{args.out}: valid (every byte read, {compared})"))
    return EXIT_FAULT if problems else EXIT_OK


def _ship(args: argparse.Namespace) -> int:
    from sam3dvid.export.ship import ship_split

    shipped = ship_split(args.dataset, args.split, args.out, release_settings(args))
    left_out = f", {len(shipped.left_out)} left out" if shipped.left_out else ""
    print(plain(f"{args.out}: {shipped.clips} clips{left_out}, {shipped.assets} assets, {shipped.written.size_bytes} bytes, sha256 {shipped.written.sha256}"))
    if shipped.refused:
        clip_id, why = next(iter(shipped.refused.items()))
        print(plain(f"warning: {len(shipped.refused)} clips may not be released: {clip_id}: {why[0]}"), file=sys.stderr)
    return EXIT_OK


def arguments() -> argparse.ArgumentParser:
    """Return the parser of an export."""
    parser = command.parser(__doc__, PROGRAM)
    parser.epilog = f"Also: {PROGRAM} verify OUT [--dataset DATASET], {PROGRAM} ship --dataset DATASET --out FILE.tar; each has its own --help."
    add_export_flags(parser)
    return parser


def verify_arguments() -> argparse.ArgumentParser:
    """Return the parser of `verify`."""
    parser = command.parser("Check an export whole; exits 0 (valid), 1 (faults, one per line) or 2 (could not look).", f"{PROGRAM} verify")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of the export")
    parser.add_argument("--dataset", type=Path, metavar="DATASET", help="compare with the dataset too: clips, poses, masks, PSNR, voxels")
    parser.add_argument("--workers", type=command.whole(0), default=1, metavar="N", help="processes; 0 works in this one (default: 1)")
    parser.add_argument("--json", action="store_true", help="as one line of JSON")
    return parser


def ship_arguments() -> argparse.ArgumentParser:
    """Return the parser of `ship`."""
    parser = command.parser("Pack a split with its assets, manifest and configuration into one tar, and write FILE.tar.sha256.", f"{PROGRAM} ship")
    add_release_flags(parser)
    parser.add_argument("--split", choices=SPLITS, default="eval", help="which split (default: eval)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.tar", help="the file to write, not compressed")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Return the exit code of `python -m sam3dvid.export`."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["verify"]:
        return command.run(_verify, verify_arguments(), words[1:])
    if words[:1] == ["ship"]:
        return command.run(_ship, ship_arguments(), words[1:])
    return command.run(run_export, arguments(), words)


if __name__ == "__main__":
    raise SystemExit(main())
