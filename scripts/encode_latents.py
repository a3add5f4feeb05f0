"""Encode the planned samples of one work shard: one .pt file each, from both videos and the embedding of its prompt."""

import sys
from dataclasses import replace
from pathlib import Path

import _latents
import _src  # noqa: F401
from shardwork import command, flags
from shardwork.errors import Fault
from shardwork.place import retract_manifests, set_aside, the_manifest
from shardwork.run import run_guard
from vidlatents.card import text_card, vae_card
from vidlatents.encode_step import Encoder, VaeModel, by_id, encode_items, spoilt_texts
from vidlatents.models import hub_of
from vidlatents.plan_step import planned
from vidlatents.room import check_room, samples_need
from vidlatents.settings import EncodeFlags
from vidlatents.stage import PLAN_STEP, TEXT_SHARD, TEXT_STEP, VERIFY_STEP, latents_place, plans_place, text_place

arguments = command.parser(__doc__)
arguments.add_argument("--plans", type=Path, required=True, help="the stage of plan_latents, results/RUN/latents_plans/MODEL-LAYOUT")
arguments.add_argument("--folder", type=Path, required=True, help="the folder of the latents, results/RUN/latents/MODEL-LAYOUT")
flags.add_shard_flags(arguments)
_latents.add_root_flags(arguments)
_latents.add_model_flags(arguments)
command.add_settings(arguments, EncodeFlags)


def main(args, how=None) -> int:
    settings = command.settings_from(args, EncodeFlags)
    weights, text_encoder = _latents.models_of(args)
    text = text_card(text_encoder, args.books / "models", hub=hub_of(settings.model))
    card = vae_card(weights, settings.model, args.books / "models")
    model = VaeModel(weights, settings.model, settings.dtype, args.device, card)
    plans, texts = plans_place(args.plans), text_place(args.books / "text")
    place = replace(latents_place(args.stage, args.folder), before=plans)
    encoder = Encoder(model, text, settings, _latents.roots_of(args), place, texts, args.threads, *filter(None, [how]))
    retract_manifests(place, VERIFY_STEP, args.shard)  # see rules/latents.smk: missing, not only older than what is encoded now
    embedded = by_id(the_manifest(texts, TEXT_STEP, TEXT_SHARD))
    rows = planned(the_manifest(plans, PLAN_STEP, args.shard))
    try:
        check_room(samples_need(rows, place, settings.text_dtype))
        run_guard(encoder.step(), args.shard, lambda rows: encode_items(rows, embedded, encoder), PLAN_STEP, place, flags.options_from(args))
    except Fault as fault:
        # the text of all shards is made again only where it is what was not as it should be
        if fault.code == "fault_stale" and (spoilt := spoilt_texts({row["prompt_digest"] for row in rows}, embedded, texts, text.short)):
            _latents.retract_prompts(texts, args.stage.name, args.shard)
            retract_manifests(texts, TEXT_STEP, TEXT_SHARD)
            for path in filter(Path.exists, spoilt):
                set_aside(path, texts)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
