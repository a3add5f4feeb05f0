"""Write what a folder of latents will hold and take, from the plan of all its work shards, before anything is encoded."""

import sys
from pathlib import Path

import _latents
import _src  # noqa: F401
from shardwork import command
from shardwork.files import write_bytes
from vidlatents.plan_report import cost_by_bucket, whole_report
from vidlatents.settings import EncodeFlags, SetSettings, TrainerFlags
from vidlatents.shard_names import names

arguments = command.parser(__doc__)
arguments.add_argument("--plans", type=Path, required=True, help="the stage of plan_latents, results/RUN/latents_plans/MODEL-LAYOUT")
arguments.add_argument("--shards", required=True, help="the work shards that hold samples, such as 0-1,7/20")
arguments.add_argument(
    "--weights", required=True, help="the autoencoder: a local folder, a hub id, or tiny; where it is not here, the released one's cost is told"
)
arguments.add_argument("--out", type=Path, required=True, help="the report, results/RUN/report/latents_LAYOUT.plan.txt")
command.add_settings(arguments, EncodeFlags)
command.add_settings(arguments, TrainerFlags)


def main(args) -> int:
    flags = command.settings_from(args, EncodeFlags)
    settings = SetSettings(model=flags.model, layout=flags.layout).plan(trainer=command.settings_from(args, TrainerFlags))
    rows = _latents.plan_rows(args.plans, args.shards)
    text = whole_report(rows, names(args.shards), settings, cost_by_bucket(rows, flags, args.weights))
    write_bytes(args.out, text.encode())
    print(text, end="", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
