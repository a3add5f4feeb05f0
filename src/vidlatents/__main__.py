"""Look at folders of latents."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_FAULT, EXIT_OK, DataError, fault_from, plain, print_error
from shardwork.jsonio import dumps, write_jsonl
from vidlatents.codes import HINT_REMADE
from vidlatents.models import kind_named
from vidlatents.verify import LEVELS, Look, delete_bad, finding_as_json, read_manifest, requeue_rows, verify_folder


def _verify(args: argparse.Namespace) -> int:
    if not args.folder.is_dir():
        raise DataError("missing_file", args.folder, "no such folder", "a folder of samples", "correct the path")
    if args.manifest is not None and not args.manifest.exists():
        hint = "correct the path; a run writes it when all its samples have their verdict, so that one that has not ended has none yet"
        raise DataError("missing_file", args.manifest, "no such file", "the manifest that a run wrote", hint)
    looked_at = args.manifest or args.folder
    try:
        manifest = None if args.manifest is None else read_manifest(args.manifest)
        looked_at = args.folder
        report = verify_folder(args.folder, Look(args.level, manifest, kind_named(args.model) if args.model else None, args.layout))
        deleted = delete_bad(args.folder, report) if args.delete_bad else []
        staying = [name for name in report.bad if name in report.files and name not in deleted] if args.delete_bad else []
        looked_at = args.requeue or args.folder
        if args.requeue is not None:
            write_jsonl(args.requeue, requeue_rows(report))
    except OSError as error:
        print_error(fault_from(error, looked_at))
        return EXIT_BAD_INPUT
    if args.json:
        findings = [finding_as_json(finding) for finding in report.findings]
        facts = {"deleted": deleted, "files": len(report.files), "findings": findings, "level": args.level, "staying": staying, "valid": not findings}
        print(dumps(facts))
    else:
        lines = [plain(str(finding)) for finding in report.findings] + [plain(f"{name}: deleted") for name in deleted]
        lines += [plain(f"{name}: stays, since it is no file: take it away yourself") for name in staying]
        lines += [f"to make it again: {HINT_REMADE}"] if deleted else []
        bad = len({finding.file for finding in report.findings})
        print("\n".join([*lines, plain(f"{args.folder}: {len(report.files)} files, {bad or 'none'} with faults (level {args.level})")]))
    return EXIT_FAULT if report.findings else EXIT_OK


def arguments() -> argparse.ArgumentParser:
    """Return the parser of `python -m vidlatents`."""
    parser = command.parser(__doc__, "python -m vidlatents")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    text = "check a folder of samples; exits 0 (valid), 1 (faults, one per line) or 2 (could not look)"
    one: argparse.ArgumentParser = commands.add_parser("verify", help=text, description=text, allow_abbrev=False)
    one.set_defaults(run=_verify)
    one.add_argument("folder", type=Path, metavar="FOLDER")
    one.add_argument("--level", choices=LEVELS, default="full", help="how far to look; each includes the ones before it (default: full)")
    one.add_argument("--manifest", type=Path, metavar="FILE", help="JSONL with file, bytes and sha256; names files that are missing or too many")
    one.add_argument("--model", help="what the samples must be of: wan21, wan22-5b, or such as wan-z12-s8-t4-p1 (default: either of the first)")
    one.add_argument("--layout", choices=("sections", "whole"), help="the layout they must have (default: either, but one for the folder)")
    one.add_argument(
        "--delete-bad", action="store_true", help=f"delete bad samples; files that are no samples stay, and so do folders. To make them again: {HINT_REMADE}"
    )
    one.add_argument("--requeue", type=Path, metavar="FILE", help="write a JSONL row for each sample to make again")
    one.add_argument("--json", action="store_true", help="as one line of JSON")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Return the exit code of `python -m vidlatents`."""
    return command.run(lambda args: int(args.run(args)), arguments(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
