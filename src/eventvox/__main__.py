"""Turn videos into event voxels, and look at event files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eventvox.codes import VideoRefused
from eventvox.reader import cores
from eventvox.release_check import verify_release
from eventvox.settings import ROTATIONS, VoxelSettings
from eventvox.validate import info, timeout_for, validate_file
from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_FAULT, EXIT_OK, EXIT_SOME_FAILED, DataError, fault_from, plain, print_error
from shardwork.files import check_apart
from shardwork.ids import is_id, suggest_id
from shardwork.jsonio import dumps, dumps_pretty, write_json

SUFFIXES = (".h5", ".hdf5")
SHEET, FILM = ".png", ".mp4"


def _voxelize(args: argparse.Namespace) -> int:
    from eventvox.voxelize import voxelize_video

    settings = command.settings_from(args, VoxelSettings)
    if args.out.suffix not in SUFFIXES:
        raise DataError("bad_argument", "OUT", str(args.out), "a name that ends in .h5", "name the file to write")
    record_path = Path(f"{args.out}.json")
    for path in (args.out, record_path):
        check_apart(path, [args.video])
    video_id = args.id or args.video.stem
    if not args.id and not is_id(video_id):
        video_id = suggest_id(video_id)
        print(f"note: the file's name is no id, so the record says {video_id}; --id=NAME sets another", file=sys.stderr)
    try:
        record = voxelize_video(args.video, args.out, video_id, settings, args.threads)
    except VideoRefused as error:
        print_error(error)
        return EXIT_SOME_FAILED
    write_json(record_path, {"record": asdict(record), "settings": asdict(settings), "video_id": video_id})
    size = f"{record.width}x{record.height}"
    print(f"{args.out}: {record.frames} frames of {size} at {record.fps:g} fps, {record.voxels} voxels, {record.bytes} bytes, xxh3 {record.values_xxh3}")
    if record.clipped:
        print(f"warning: {record.clipped} values lay outside int16 and were saturated", file=sys.stderr)
    return EXIT_OK


def _limit(args: argparse.Namespace, path: Path) -> float | None:
    """Return the time limit of one look: the one given, none for 0, else one that grows with the file."""
    if args.timeout_seconds is None:
        return timeout_for(path)
    return float(args.timeout_seconds) or None


def _validate(args: argparse.Namespace) -> int:
    worst = EXIT_OK
    for path in args.files:
        try:
            problems = validate_file(path, frames_per_bin=args.frames_per_bin, timeout_seconds=_limit(args, path))
        except OSError as error:
            print_error(fault_from(error, path))
            worst = EXIT_BAD_INPUT
            continue
        if args.json:
            print(dumps({"file": str(path), "problems": [asdict(problem) for problem in problems], "valid": not problems}))
        else:
            print("\n".join(f"{path}: {problem}" for problem in problems) or f"{path}: valid")
        worst = max(worst, EXIT_FAULT if problems else EXIT_OK)
    return worst


def _info(args: argparse.Namespace) -> int:
    described = info(args.file, timeout_seconds=_limit(args, args.file))
    if args.json:
        print(dumps_pretty(described), end="")
        return EXIT_OK
    for name, value in described.items():
        print(f"{name}: " + (", ".join(f"{key} {entry}" for key, entry in value.items()) if isinstance(value, dict) else str(value)))
    return EXIT_OK


def _render(args: argparse.Namespace) -> int:
    from eventvox.film import noted_rotation, write_film
    from eventvox.pictures import open_slices, write_sheet

    suffix = args.out.suffix.lower()
    if suffix not in (SHEET, FILM):
        raise DataError("bad_argument", "--out", str(args.out), f"a name that ends in {SHEET} or {FILM}", "the ending says what is made")
    if args.voxel and suffix != SHEET:
        raise DataError("bad_argument", "--voxel", "given for a film", "a contact sheet", f"a film shows every slice: leave it out, or end --out in {SHEET}")
    if args.video and suffix != FILM:
        raise DataError("bad_argument", "--video", "given for a contact sheet", "a film", f"leave it out, or end --out in {FILM}")
    if args.rotation and not args.video:
        raise DataError(
            "bad_argument", "--rotation", "given without a video", "--video SOURCE", "it says how the source is turned: leave it out, or give --video"
        )
    if not args.file.is_file():
        raise DataError("missing_file", args.file, "no such file", "an event file", "correct the path")
    check_apart(args.out, [args.file, *([args.video] if args.video else [])])
    with open_slices(args.file) as source:
        if suffix == SHEET:
            print(f"{args.out}: voxels {', '.join(map(str, write_sheet(source, args.out, args.voxel or ()))) or 'none'} of {source.voxels}")
        else:
            frames = write_film(source, args.out, args.video, args.rotation or noted_rotation(args.file))
            print(f"{args.out}: {frames} frames at {float(source.rate):g} fps")
    return EXIT_OK


def _release_verify(args: argparse.Namespace) -> int:
    try:
        problems = verify_release(args.folder, args.fast)
    except OSError as error:
        print_error(fault_from(error, args.folder))
        return EXIT_BAD_INPUT
    if args.json:
        print(dumps({"problems": [asdict(problem) for problem in problems], "release": str(args.folder), "valid": not problems}))
    else:
        read = "sizes and lists compared, payloads not read" if args.fast else "every byte of the payload read"
        lines = [plain(str(problem)) for problem in problems]
        print("\n".join(lines) or f"{args.folder}: valid ({read})")
    return EXIT_FAULT if problems else EXIT_OK


def arguments() -> argparse.ArgumentParser:
    """Return the parser of `python -m eventvox`."""
    parser = command.parser(__doc__, "python -m eventvox")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str, among: Any = commands) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = among.add_parser(name, help=text, description=text, allow_abbrev=False)
        one.set_defaults(run=run)
        return one

    one = add("voxelize", _voxelize, "write one video's event file OUT.h5 and its record OUT.h5.json; exits 0, 2 (bad input) or 3 (video refused)")
    one.add_argument("video", type=Path, metavar="VIDEO")
    one.add_argument("out", type=Path, metavar="OUT.h5")
    one.add_argument("--id", help="id of the video in the record (default: the file's stem)")
    one.add_argument("--threads", type=command.whole(1), default=min(4, cores()), help="threads that compress; the bytes do not depend on it")
    command.add_settings(one, VoxelSettings)
    one = add("validate", _validate, "check event files; exits 0 (valid), 1 (faults, one per line) or 2 (could not look)")
    one.add_argument("files", type=Path, nargs="+", metavar="FILE")
    one.add_argument("--frames-per-bin", type=int, default=1, help="the setting that the files were made with (default: 1)")
    one.add_argument("--json", action="store_true", help="one line of JSON for each file")
    _add_timeout(one)
    one = add("info", _info, "show what an event file says of itself")
    one.add_argument("file", type=Path, metavar="FILE")
    one.add_argument("--json", action="store_true", help="as JSON")
    _add_timeout(one)
    one = add("render", _render, "show an event file: a contact sheet (PNG) or a film (MP4), + red, - blue; exits 0 or 2 (bad input)")
    one.add_argument("file", type=Path, metavar="FILE.h5")
    one.add_argument("--out", type=Path, required=True, metavar="PNG|MP4", help="a .png shows chosen voxels bin by bin, an .mp4 every slice in order")
    one.add_argument("--voxel", type=int, nargs="+", metavar="T", help="voxels of the contact sheet; -1 is the last (default: evenly spaced ones)")
    one.add_argument("--video", type=Path, metavar="SOURCE", help="the source video, to stand beside its events in a film")
    one.add_argument(
        "--rotation", choices=ROTATIONS, help="how the source is turned: as the events were made (default: from the record FILE.h5.json, where it is there)"
    )
    release = commands.add_parser("release", help="look at a release: `release verify DIR`", description="Look at a release.", allow_abbrev=False)
    text = "check a release whole; exits 0 (valid), 1 (faults, one per line) or 2 (could not look)"
    one = add("verify", _release_verify, text, release.add_subparsers(required=True, metavar="COMMAND"))
    one.add_argument("folder", type=Path, metavar="DIR", help="results/RUN/events_release, or a copy of it")
    one.add_argument("--json", action="store_true", help="as one line of JSON")
    one.add_argument("--fast", action="store_true", help="compare sizes and lists only, read no payload")
    return parser


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout-seconds", type=float, help="limit for one look, in a process of its own; 0: look in this one (default: by size)")


def main(argv: list[str] | None = None) -> int:
    """Return the exit code of `python -m eventvox`."""
    return command.run(lambda args: int(args.run(args)), arguments(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
