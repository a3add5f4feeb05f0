"""Check a dataset of clips; exits 0 (valid), 1 (faults, one per line) or 2 (could not look)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sam3dvid.validate.report import SUITES, Report
from sam3dvid.validate.run import Choice, validate_dataset
from sam3dvid.validate.schema import SPLITS
from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_FAULT, EXIT_OK, fault_from, plain, print_error
from shardwork.jsonio import dumps_pretty, write_json


def _validate(args: argparse.Namespace) -> int:
    suites, splits = tuple(args.suite or SUITES), tuple(args.split or SPLITS)
    choice = Choice(suites, splits, tuple(args.clips or ()), args.any_size)
    try:
        report = validate_dataset(args.dataset, choice, args.workers, progress=not args.quiet)
    except OSError as error:
        print_error(fault_from(error, args.dataset))
        return EXIT_BAD_INPUT
    if args.json == "-":
        sys.stdout.write(dumps_pretty(report.as_json()))
    else:
        if args.json:
            write_json(Path(args.json), report.as_json())
        print("\n".join(plain(line) for line in (*report.lines(), *_summary(args.dataset, report))))
    for fault in report.not_looked:
        print_error(fault)
    return EXIT_BAD_INPUT if report.not_looked else EXIT_OK if report.valid else EXIT_FAULT


def _summary(dataset: Path, report: Report) -> list[str]:
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
    verdicts = [
        f"{dataset}: {part.suite} ({SUITES[part.suite]}) {part.verdict}"
        + (f", {len(part.faults)} faults" if part.faults else "")
        + (f", could not look at {part.blocked[0]}" + (f" and {len(part.blocked) - 1} more" if part.blocked[1:] else "") if part.blocked else "")
        for part in report.suites
    ]
    return [*verdicts, f"{dataset}: {'valid' if report.valid else 'not valid'} ({counts})"]


def arguments() -> argparse.ArgumentParser:
    """Return the parser of `python -m sam3dvid.validate`."""
    parser = command.parser(__doc__, "python -m sam3dvid.validate")
    parser.add_argument("dataset", type=Path, metavar="DATASET", help="the folder with manifest.jsonl")
    about = ", ".join(f"{suite} {text}" for suite, text in SUITES.items())
    parser.add_argument("--suite", action="append", choices=tuple(SUITES), help=f"what is checked; may be given again ({about}; default: all)")
    parser.add_argument("--split", action="append", choices=SPLITS, help="clips and assets of this split alone; may be given again (default: all)")
    parser.add_argument("--clips", nargs="+", metavar="ID", help="these clips and their assets alone (default: all)")
    parser.add_argument("--any-size", action="store_true", help="allow other sizes than 32 frames of 512 x 512, as tests and demonstrations have")
    parser.add_argument("--workers", type=command.whole(0), default=1, help="processes; 0 works in this one (default: 1)")
    parser.add_argument("--json", metavar="FILE", help="write a report for programs to a file, or to the output instead of lines for -")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Return the exit code of `python -m sam3dvid.validate`."""
    return command.run(_validate, arguments(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
