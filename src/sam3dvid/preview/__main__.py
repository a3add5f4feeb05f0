"""Draw a clip of a dataset as a sheet and a film with overlays; exits 0 (drawn, whatever it shows) or 2 (could not)."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_OK, fault_from, plain, print_error


def _numbers(text: str) -> list[int]:
    return [command.whole(0)(part.strip()) for part in text.split(",")]


def _preview(args: argparse.Namespace) -> int:
    from sam3dvid.preview.draw import preview_clip

    try:
        drawn = preview_clip(args.clip, args.out, args.fps, args.frames)
    except OSError as error:
        print_error(fault_from(error, args.clip))
        return EXIT_BAD_INPUT
    shown = ", ".join(map(str, drawn.frames))
    lines = [f"{drawn.sheet}: frames {shown}", f"{drawn.film}: {len(drawn.survey.strays)} frames at {args.fps} a second"]
    verdict = [f"{args.clip}: {line}" for line in drawn.survey.verdict()]
    print("\n".join(plain(line) for line in (*lines, *(verdict or [f"{args.clip}: voxels and silhouettes agree"]))))
    return EXIT_OK


def arguments() -> argparse.ArgumentParser:
    """Return the parser of `python -m sam3dvid.preview`."""
    parser = command.parser(__doc__, "python -m sam3dvid.preview")
    parser.add_argument("clip", type=Path, metavar="CLIP", help="the clip's folder, DATASET/clips/SPLIT/CLIP_ID")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write SPLIT_CLIP_ID.png and .mp4 (default: previews beside the dataset)")
    parser.add_argument("--fps", type=command.whole(1), default=8, help="frames a second of the film (default: 8)")
    parser.add_argument(
        "--frames", type=_numbers, default=(), metavar="T,T,...", help="frames on the sheet (default: first, quarter, half, three quarters, last)"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Return the exit code of `python -m sam3dvid.preview`."""
    return command.run(_preview, arguments(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
