"""Encode each unique prompt of a run once; the text encoder is loaded once, and only where a prompt has no embedding yet."""

import sys
from pathlib import Path

import _latents
import _src  # noqa: F401
from shardwork import command, flags
from shardwork.errors import print_error
from shardwork.files import retract, write_bytes
from shardwork.run import run_shard
from vidlatents.card import text_card
from vidlatents.models import hub_of
from vidlatents.room import check_room, embeddings_need
from vidlatents.settings import MODEL_HELP, TextFlags
from vidlatents.stage import TEXT_SHARD, TEXT_STEP, prompts_mark, prompts_marks, text_place
from vidlatents.text_step import TextModel, text_items, text_step, truncations

arguments = command.parser(__doc__)
arguments.add_argument("--plans", type=Path, action="append", required=True, help="the stage of plan_latents of a folder; once for each")
arguments.add_argument("--shards", action="append", required=True, help="its work shards that hold samples, such as 0-1,7/20; in the order of --plans")
flags.add_run_flags(arguments)
_latents.add_model_flags(arguments)
arguments.add_argument("--model", default="wan21", help=f"{MODEL_HELP}; says whose download is named where the text encoder is missing (default: wan21)")
command.add_settings(arguments, TextFlags)


def main(args) -> int:
    (_, where), dtype = _latents.models_of(args), command.settings_from(args, TextFlags).text_dtype
    hub = hub_of(args.model)
    card = text_card(where, args.books / "models", hub=hub)
    rows = [row for plans, shards in zip(args.plans, args.shards, strict=True) for row in _latents.plan_rows(plans, shards)]
    place = text_place(args.books / "text")
    for mark in prompts_marks(place):
        retract(mark)  # this run's text may lack what another one's had
    model = TextModel(where, dtype, args.device, card, hub)
    items = text_items(rows, place, card.short)
    check_room(embeddings_need(items, place, dtype))
    done = run_shard(text_step(model, args.threads), TEXT_SHARD, items, place, flags.options_from(args))
    for planned in _latents.plan_manifests(args.plans, args.shards):
        write_bytes(prompts_mark(place, planned, place.manifest(TEXT_STEP, TEXT_SHARD, args.key)), b"")
    for warning in truncations(done, rows):
        print_error(warning)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
