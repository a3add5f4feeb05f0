"""Render normalised assets from four sides to one contact sheet (PNG), to be looked at."""

import sys
from pathlib import Path

import _src  # noqa: F401
from shardwork import command
from shardwork.errors import DataError

arguments = command.parser(__doc__)
arguments.add_argument("--meshes", type=Path, nargs="+", required=True, help="normalised meshes (GLB); a row is named by its file")
arguments.add_argument("--out", type=Path, required=True, help="the sheet (PNG)")
arguments.add_argument("--limit", type=command.whole(1), default=24, help="show at most so many, the first ones (default: 24)")
arguments.add_argument("--size", type=command.whole(16), default=192, help="pixels of one view (default: 192)")


def main(args) -> int:
    from sam3dvid.assets.contact import write_sheet
    from sam3dvid.blender.sheet import render_sides

    meshes = args.meshes[: args.limit]
    if missing := [path for path in meshes if not path.is_file()]:
        raise DataError("missing_file", missing[0], "no such file", "a normalised mesh", "see --meshes")
    rows = [(path.stem, render_sides(path, args.size)) for path in meshes]
    write_sheet(args.out, rows)
    more = f" of {len(args.meshes)}" if len(args.meshes) > len(meshes) else ""
    print(f"{args.out}: {len(rows)}{more} assets")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
