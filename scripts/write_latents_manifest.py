"""Write the manifest of a folder of latents, a description with models and settings, and a row for each sample that failed."""

import sys
from pathlib import Path

import _latents
import _src  # noqa: F401
from shardwork import command
from shardwork.errors import Fault, plain
from shardwork.files import retract, write_bytes
from shardwork.place import retract_manifests, the_manifest
from vidlatents.card import text_card, vae_card
from vidlatents.dataset import About, Models, lines, write_books
from vidlatents.models import hub_of
from vidlatents.settings import EncodeFlags, SetSettings, TrainerFlags
from vidlatents.shard_names import names
from vidlatents.stage import ENCODE_STEP, STEPS, TEXT_SHARD, TEXT_STEP, latents_place, manifest_mark, plans_place, text_place

arguments = command.parser(__doc__)
arguments.add_argument("--stage", type=Path, required=True, help="the stage's folder, results/RUN/latents_books/MODEL-LAYOUT")
arguments.add_argument("--plans", type=Path, required=True, help="the stage of plan_latents, results/RUN/latents_plans/MODEL-LAYOUT")
arguments.add_argument("--folder", type=Path, required=True, help="the folder of the latents, results/RUN/latents/MODEL-LAYOUT")
arguments.add_argument("--shards", required=True, help="the work shards that hold samples, such as 0-1,7/20")
arguments.add_argument("--start", default="first", help="as of plan_latents")
arguments.add_argument("--key", default="by-hand", help="name of the mark that is left among the books: a digest of what the manifest is made for")
_latents.add_model_flags(arguments)
command.add_settings(arguments, EncodeFlags)
command.add_settings(arguments, TrainerFlags)


def main(args) -> int:
    settings = command.settings_from(args, EncodeFlags)
    place = latents_place(args.stage, args.folder)
    weights, text_encoder = _latents.models_of(args)
    models = Models(vae_card(weights, settings.model, args.books / "models"), text_card(text_encoder, args.books / "models", hub=hub_of(settings.model)))
    places = (plans_place(args.plans), place, place)
    planned, encoded, verified = (
        [row for shard in names(args.shards) for row in the_manifest(at, step, shard)] for at, step in zip(places, STEPS, strict=True)
    )
    mark = manifest_mark(place, args.key)
    for old in sorted(mark.parent.glob("*")):
        retract(old)
    made_for = SetSettings(model=settings.model, layout=settings.layout, start=args.start).plan(trainer=command.settings_from(args, TrainerFlags))
    try:
        facts = write_books(planned, encoded, verified, place, About(models, settings, made_for))
    except Fault:  # so that the same command encodes by the plans and models that lie there
        retract_manifests(text_place(args.books / "text"), TEXT_STEP, TEXT_SHARD)
        for shard in names(args.shards):
            retract_manifests(place, ENCODE_STEP, shard)
        raise
    write_bytes(mark, f"{args.key}\n".encode())
    for line in lines(facts, args.folder):
        print(plain(line), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
