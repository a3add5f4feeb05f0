"""Write the dataset's manifest of clips, one line for each that passed, and the configuration that it was made with."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.composite.books import manifest_lines, write_books
from sam3dvid.stage import CLIP_STEPS, clip_manifest_mark, clip_shards, clips_place
from shardwork import command
from shardwork.files import retract, write_bytes
from shardwork.jsonio import loads
from shardwork.place import the_manifest

arguments = command.parser(__doc__)
arguments.add_argument("--stage", type=Path, required=True, help="the stage of the clips, results/RUN/clips")
arguments.add_argument("--dataset", type=Path, required=True, help="the dataset's folder, results/RUN/dataset")
arguments.add_argument("--clips", type=command.whole(1), required=True, help="how many clips there are")
arguments.add_argument("--first", type=command.whole(0), default=0, help="number of the first clip (default: 0)")
arguments.add_argument("--clips-per-shard", type=command.whole(1), required=True, help="how many clips in a row make a work shard")
arguments.add_argument("--config", required=True, metavar="JSON", help="the resolved configuration, as a JSON object")
arguments.add_argument("--key", default="by-hand", help="name of the mark that is left in the stage's folder: a digest of what the manifest is made for")


def main(args) -> int:
    place = clips_place(args.stage, args.dataset)
    made, validated = (
        [row for shard in clip_shards(args.clips, args.clips_per_shard, args.first) for row in the_manifest(place, step, shard)] for step in CLIP_STEPS
    )
    lines, mark = manifest_lines(made, validated), clip_manifest_mark(place, args.key)
    for old in sorted(mark.parent.glob("*")):
        retract(old)
    write_books(args.dataset, lines, loads(args.config, "--config"))
    write_bytes(mark, f"{args.key}\n".encode())
    print(f"write_clip_manifest: {len(lines)} clips, {len(validated) - len(lines)} refused", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
