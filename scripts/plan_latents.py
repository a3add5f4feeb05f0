"""Plan the samples of one work shard: decode both videos of each once, and say what of it will be encoded, or why it is refused."""

import sys
from pathlib import Path

import _latents
import _src  # noqa: F401
from shardwork import command, flags
from shardwork.run import run_shard
from vidlatents.plan_report import whole_report
from vidlatents.plan_step import plan_items, plan_step
from vidlatents.settings import SetSettings, TrainerFlags
from vidlatents.stage import plans_place

arguments = command.parser(__doc__)
arguments.add_argument("--books", type=Path, required=True, help="where folders of latents and embeddings are noted, results/RUN/latents_books")
flags.add_shard_flags(arguments)
_latents.add_set_flags(arguments)


def main(args) -> int:
    settings = command.settings_from(args, SetSettings)
    roots = _latents.roots_of(args)
    items = plan_items(_latents.members_of(args, args.shard), roots)
    place = plans_place(args.stage)
    _latents.retract_made(args.books, settings, args.shard)
    rows = run_shard(plan_step(settings, roots), args.shard, items, place, flags.options_from(args))
    trainer = TrainerFlags(trainer_frames=0)  # what is known of it stands in the report on all work shards, whose settings make no job run again
    print(whole_report(rows, [args.shard], settings.plan(trainer=trainer), {}), end="", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
