"""Turn meshes into voxels by hand."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardwork import command
from shardwork.errors import EXIT_OK, DataError
from shardwork.files import write_bytes


def _voxelize(args: argparse.Namespace) -> int:
    from sam3dvid.assets.mesh import check_canonical, read_canonical
    from sam3dvid.assets.voxelize_step import npy_bytes
    from sam3dvid.assets.voxels import voxelize

    if args.out.suffix != ".npy":
        raise DataError("bad_argument", "OUT", str(args.out), "a name that ends in .npy", "name the file to write")
    if not args.mesh.is_file():
        raise DataError("missing_file", args.mesh, "no such file", "a normalised mesh (GLB)", "correct the path")
    vertices, triangles = read_canonical(args.mesh)
    check_canonical(vertices, args.mesh)
    grid = voxelize(vertices, triangles)
    write_bytes(args.out, npy_bytes(grid))
    print(f"{args.out}: {int(grid.sum())} voxels of {len(triangles)} triangles")
    return EXIT_OK


def arguments() -> argparse.ArgumentParser:
    """Return the parser of `python -m sam3dvid`."""
    parser = command.parser(__doc__, "python -m sam3dvid")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    text = "write the surface voxels of a canonical mesh, bool (64, 64, 64); exits 0 or 2 (bad input)"
    one = commands.add_parser("voxelize", help=text, description=text, allow_abbrev=False)
    one.set_defaults(run=_voxelize)
    one.add_argument("mesh", type=Path, metavar="MESH.glb", help="in glTF axes (y up), longest side 1, centred, as normalize_assets writes it")
    one.add_argument("out", type=Path, metavar="OUT.npy")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Return the exit code of `python -m sam3dvid`."""
    return command.run(lambda args: int(args.run(args)), arguments(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
