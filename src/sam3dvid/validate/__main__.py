"""Check a dataset of clips; exits 0 (valid), 1 (faults, one per line) or 2 (could not look)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sam3dvid.validate import convention, determinism, measures, roundtrip
from sam3dvid.validate.report import CONVENTION, DETERMINISM, EXPORT, GEOMETRY, SUITES, USUAL, Report
from sam3dvid.validate.run import Choice, validate_dataset
from sam3dvid.validate.schema import SPLITS
from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_FAULT, EXIT_OK, DataError, fault_from, plain, print_error
from shardwork.jsonio import dumps_pretty, write_json


def _validate(args: argparse.Namespace) -> int:
    again = determinism.Again(args.again, args.rgb_noise) if args.again is not None else None
    more = [suite for suite, given in ((DETERMINISM, again), (EXPORT, args.export)) if given is not None]
    suites, splits = tuple(args.suite or (*USUAL, *more)), tuple(args.split or SPLITS)
    choice = Choice(suites, splits, tuple(args.clips or ()), args.any_size, args.exact, again, args.export)
    if args.picture is not None and GEOMETRY not in suites:
        raise DataError("bad_argument", "--picture", f"suites {', '.join(suites)}", f"suite {GEOMETRY} among them", f"add --suite {GEOMETRY}")
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
    if args.picture is not None and not _draw(args.picture, args.dataset, report):
        print(plain(f"{args.picture}: not written, since {GEOMETRY} measured nothing"), file=sys.stderr)
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
    lines = {GEOMETRY: measures.line_of, DETERMINISM: determinism.line_of, EXPORT: roundtrip.line_of, CONVENTION: convention.line_of}
    figures = [f"{dataset}: {part.suite}: {lines[part.suite](part.figures)}" for part in report.suites if part.figures is not None]
    return [*verdicts, *figures, f"{dataset}: {'valid' if report.valid else 'not valid'}" + (f" ({counts})" if counts else "")]


def _draw(out: Path, dataset: Path, report: Report) -> bool:
    """Return whether there was a worst object-frame to draw."""
    figures = next(part.figures for part in report.suites if part.suite == GEOMETRY)
    at = measures.worst_at(figures)
    if at is not None:
        # here, since it loads what casts rays
        from sam3dvid.validate.worst import write_worst

        write_worst(out, dataset, at)
    return at is not None


def arguments() -> argparse.ArgumentParser:
    """Return the parser of `python -m sam3dvid.validate`."""
    parser = command.parser(__doc__, "python -m sam3dvid.validate")
    parser.add_argument("dataset", type=Path, metavar="DATASET", help="the folder with manifest.jsonl")
    about = ", ".join(f"{suite} {text}" for suite, text in SUITES.items())
    parser.add_argument("--suite", action="append", choices=tuple(SUITES), help=f"what is checked; may be given again ({about}; default: {', '.join(USUAL)})")
    parser.add_argument("--exact", action="store_true", help="hold T3 to what exact renders keep: see docs/clips_validation.md")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the object-frame that comes nearest to a limit of T3, or passes it furthest")
    parser.add_argument("--again", type=Path, metavar="DATASET", help="compare with clips made again in another dataset (T4, which is then run too)")
    parser.add_argument("--rgb-noise", type=command.whole(0), default=0, metavar="N", help="colours that T4 lets differ, of 255 (default: 0)")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="compare with a training export of the dataset (T5, which is then run too)")
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
