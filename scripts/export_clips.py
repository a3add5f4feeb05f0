"""Export the finished clips of one split for training, as WebDataset shards with their voxels and an index."""

import sys
from dataclasses import replace

import _src  # noqa: F401
from sam3dvid.export.run import export_split
from sam3dvid.export.settings import add_export_flags, export_settings
from shardwork import command
from shardwork.pack import PackOptions

arguments = command.parser(__doc__)
add_export_flags(arguments)


def main(args) -> int:
    # a run whose clips were all refused has an empty export: the gate says why
    settings = replace(export_settings(args), empty=True)
    index = export_split(args.dataset, args.split, args.out, settings, PackOptions(args.workers, args.replan))
    print(f"export_clips: {index['samples']} clips in {len(index['shards'])} shards, {len(index['left_out'])} left out", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
