"""The named front doors: a folder of RGB and control videos with its records to a folder of latents, in one process and without a workflow.

The flags are those of the public producer; the steps, and so the bytes, are those of the workflow.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from shardwork import command
from shardwork.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_SOME_FAILED, DataError, plain
from shardwork.jsonio import read_json, write_json
from shardwork.place import Place
from shardwork.run import Options, run_guard, run_shard
from shardwork.step import Fields, Item
from vidlatents.books import check_books, held_books, named_by_others
from vidlatents.buckets import FRAME_BUCKETS, LAYOUTS
from vidlatents.card import TEXT_PARTS, VAE_PARTS, at_hand, text_card, vae_card
from vidlatents.dataset import About, Models, lines, write_books
from vidlatents.encode_step import Encoder, VaeModel, by_id, encode_items
from vidlatents.members import record_members
from vidlatents.models import HUB
from vidlatents.plan_report import cost_by_bucket, whole_report
from vidlatents.plan_step import plan_items, plan_step, planned
from vidlatents.records import MISSING_PROMPT, STARTS, parse_name, read_records
from vidlatents.room import check_room, embeddings_need, samples_need
from vidlatents.settings import DEVICES, DTYPES, HOWS, TEXT_DTYPES, EncodeFlags, SetSettings
from vidlatents.stage import DATASET, ENCODE_STEP, FAILURES, ONE_SHARD, PLAN_STEP, latents_place, output_of, plans_place, text_place
from vidlatents.text_step import TextModel, text_items, text_step, truncations
from vidlatents.verify import LEVELS, sample_files
from vidlatents.verify_step import verify_items, verify_step


def arguments(doc: str | None, model: str, output: str) -> argparse.ArgumentParser:
    """Return the parser of a front door.   output : its own default folder."""
    parser = command.parser(doc)
    add = parser.add_argument
    add("--data_root", type=Path, default=Path("data/giga_ctrl"), help="the folder of the records, videos/ and control_videos/ (default: data/giga_ctrl)")
    add("--metadata_file", default="helios_giga_ctrl.jsonl", help="the records in it, one JSON object a line (default: helios_giga_ctrl.jsonl)")
    add("--output_root", type=Path, default=Path(output), help=f"the folder of the latents; notes go to OUTPUT_ROOT.books (default: {output})")
    add("--pretrained_model_name_or_path", default=HUB[model], metavar="WHERE", help=f"a local folder, or a hub id (default: {HUB[model]})")
    add("--text_encoder", metavar="WHERE", help="text encoder and tokenizer, if they are elsewhere")
    add("--append_mode", action="store_true", default=True, help="make what is missing or outdated (the default)")
    add("--no_append_mode", "--no-append", action="store_false", dest="append_mode", help="make all again")
    add("--order_mode", choices=("sequential", "random"), default="sequential", help="accepted; no byte depends on an order")
    add("--dataloader_num_workers", type=command.whole(0), default=2, metavar="N", help="processes that look at videos and verify files (default: 2)")
    add("--debug_dir", help="accepted; no debug videos are written")
    add("--max_debug_batches", type=command.whole(0), help="accepted, likewise")
    add("--layout", choices=LAYOUTS, default="sections", help="windows of 33 frames, or the whole of 4n+1 (default: sections)")
    add("--sizes", default="480x1920", help="heights and widths that a record of the full form may get, the one of the nearest shape (default: 480x1920)")
    add(
        "--frame_buckets",
        default=" ".join(map(str, FRAME_BUCKETS)),
        help="numbers of frames that it may get (default: 21 41 ... 501)",
    )
    add(
        "--start",
        choices=STARTS,
        default="first",
        help="which of more frames than a bucket has: from the first, or drawn (default: first)",
    )
    add("--missing_prompt", choices=MISSING_PROMPT, default="error", help="what a record without a prompt is (default: error)")
    add("--how", choices=HOWS, default="sample", help="a seeded draw from the autoencoder's distribution, or its mode (default: sample)")
    add("--seed", type=command.whole(0), default=0, help="of what is drawn (default: 0)")
    add("--torch_dtype", choices=DTYPES, default="float32", help="of the autoencoder (default: float32; the others are known to hurt)")
    add("--text_dtype", choices=TEXT_DTYPES, default="bfloat16", help="of the text encoder (default: bfloat16)")
    add("--memory_gib", type=float, default=0.0, help="cut pictures into tiles that fit this; 0: whole pictures (default: 0)")
    add("--fallback_gib", type=float, default=0.0, help="where memory does not suffice, try once more with tiles for this; 0: the sample fails (default: 0)")
    add("--device", choices=DEVICES, default="auto", help="where models run (default: auto)")
    add("--threads", type=command.whole(1), default=os.cpu_count() or 1, help="threads on the processor (default: all there are)")
    add("--verify", choices=("fast", "full"), default="fast", help="how finished files are looked at: size and time, or digests too (default: fast)")
    add("--level", choices=LEVELS, default="sha256", help="how far new files are verified (default: sha256)")
    add("--dry_run", action="store_true", help="only plan: say what would be encoded, and why the rest would not; exits 2 where a sample is refused")
    return parser


def produce(args: argparse.Namespace, model: str) -> int:
    """Return the exit code of a front door: 0 all good, 2 bad input and nothing encoded, 3 some samples failed and the rest is there.

    Raises DataError (exit 2) and Fault (exit 1).
    """
    with ExitStack() as held:
        return _produce(args, model, held)


def _produce(args: argparse.Namespace, model: str, held: ExitStack) -> int:
    if _rank():
        _say(["latents: one process does all; the workflow works with many"])
        return EXIT_OK
    records = args.data_root / args.metadata_file
    chosen = {name: getattr(args, name) for name in ("layout", "seed", "missing_prompt", "sizes", "frame_buckets", "start")}
    settings = SetSettings(model=model, **chosen)
    flags = EncodeFlags(model, args.layout, args.how, args.seed, args.torch_dtype, args.text_dtype, args.memory_gib, args.fallback_gib)
    roots = {"records": (args.data_root / "videos", args.data_root / "control_videos")}
    members = record_members(read_records(records, settings.records(*roots["records"])))
    output = Path(os.path.abspath(args.output_root))  # a name such as "." has no place beside it
    if not output.name:
        raise DataError("bad_argument", "--output_root", str(args.output_root), "a folder of its own", "name another folder")
    books = output.with_name(output.name + ".books")
    check_owner(output, books, model, args.layout)
    plans, texts = plans_place(books / f"{records.stem}.plans"), text_place(books / f"{records.stem}.text")
    place = replace(latents_place(books / records.stem, output), others=partial(named_by_others, books / records.stem))
    check_books(place, records)
    models = None if args.dry_run else _models(args, model, books / "models")  # before all videos are decoded: a missing one ends the run at once
    if not args.dry_run:
        held.enter_context(held_books(place, records))
    redo = _redo(place, args.append_mode or args.dry_run)
    options = Options(args.dataloader_num_workers, redo=redo, full=args.verify == "full")
    rows = run_shard(plan_step(settings, roots), ONE_SHARD, plan_items(members, roots), plans, options)
    good = planned(rows)
    new = args.dry_run or not args.append_mode or any(not output_of(place, row["name"]).exists() for row in good)
    # counted only where something is to be encoded: that takes a second or two a bucket
    where = models.vae if models else args.pretrained_model_name_or_path
    _say(whole_report(rows, [ONE_SHARD], settings.plan(), cost_by_bucket(good, flags, where) if new else {}).splitlines())
    if not good:
        raise DataError("E_FIELD", records.name, f"no sample of {len(rows)} can be encoded", "at least one", "see the refusals above")
    if models is None:
        return EXIT_OK if len(good) == len(rows) else EXIT_BAD_INPUT
    cards = models.cards
    vae = VaeModel(models.vae, model, args.torch_dtype, args.device, cards.vae)
    encoder = Encoder(vae, cards.text, flags, roots, replace(place, before=plans), texts, args.threads, notes=books / "notes")
    text = TextModel(models.text, args.text_dtype, args.device, cards.text, HUB[model])
    items = text_items(rows, texts, cards.text.short)
    check_room({**samples_need(good, place, args.text_dtype), **embeddings_need(items, texts, args.text_dtype)})
    if not args.append_mode:
        write_json(_redo_file(place), redo)  # from here on all is made again, whatever ends this run
    done = _encoded(rows, items, encoder, text, options)
    step = verify_step(args.level, model, args.layout)
    verified = run_guard(step, ONE_SHARD, lambda made: verify_items(made, place), ENCODE_STEP, place, options)
    facts = write_books(rows, done, verified, place, About(cards, flags, settings.plan()))
    _say(lines(facts, args.output_root))
    if facts["failed"]:
        _say([f"latents: {facts['failed']} of {len(rows)} samples failed: {place.stage / FAILURES}"])
    return EXIT_SOME_FAILED if facts["failed"] else EXIT_OK


class _Found(NamedTuple):
    """Models that are here.   vae, text : the folders of autoencoder and text encoder.   cards : what they are."""

    vae: str
    text: str
    cards: Models


def _models(args: argparse.Namespace, model: str, books: Path) -> _Found:
    """Return the models, downloaded as far as they are missing, and read whole the first time. Raises DataError (E_MODEL_KIND, E_MODEL_MISSING)."""
    where = at_hand(args.pretrained_model_name_or_path, VAE_PARTS, HUB[model], books)
    text = at_hand(args.text_encoder or args.pretrained_model_name_or_path, TEXT_PARTS, HUB[model], books)
    return _Found(where, text, Models(vae_card(where, model, books), text_card(text, books, hub=HUB[model])))


def _encoded(rows: Sequence[Fields], items: Sequence[Item], encoder: Encoder, text: TextModel, options: Options) -> list[Fields]:
    """Return the rows of encode_latents. The text encoder's process ends before the autoencoder's begins.

    rows : of plan_latents.   items : of encode_text.
    """
    one = Options(1, redo=options.redo, full=options.full)
    embedded = run_shard(text_step(text, encoder.threads), ONE_SHARD, items, encoder.texts, one)
    for warning in truncations(embedded, rows):
        _say([f"warning: {warning}"])
    return run_guard(encoder.step(), ONE_SHARD, lambda plans: encode_items(plans, by_id(embedded), encoder), PLAN_STEP, encoder.place, one)


def _rank() -> int:
    """Return the number of this process among those of a launcher such as torchrun; 0 where there is none. Raises DataError (bad_argument)."""
    text = os.environ.get("RANK", "").strip() or "0"
    if not (text.isascii() and text.isdigit()):
        raise DataError("bad_argument", "RANK", repr(text), "a whole number", "correct the environment variable, or take it out")
    return int(text)


def check_owner(output: Path, books: Path, model: str, layout: str) -> None:
    """Raise DataError (bad_argument) where a folder holds samples of another model or layout: names do not tell them apart, and no loader takes both.

    Its descriptions say so; where there is none yet, the first file that can be read does.
    """
    told = [read_json(path) for path in sorted(books.glob(f"*/{DATASET}"))]
    forms = {(facts["settings"]["model"], facts["settings"]["layout"]) for facts in told if facts["samples"]} or _first_form(output)
    for found in sorted(forms - {(model, layout)}):
        hint = f"name another --output_root, or take this one and {books.name} away"
        raise DataError("bad_argument", "--output_root", f"{output.name}, which holds samples of {' '.join(found)}", f"those of {model} {layout}", hint)


def _first_form(output: Path) -> set[tuple[str, str]]:
    """Return the model and layout of the first file that is a sample, none where there is none."""
    for name in filter(parse_name, sample_files(output) if output.is_dir() else []):
        from vidlatents.contents import look_inside

        try:
            form, _ = look_inside(output / name, None, None)
        except DataError:
            continue
        if form is not None:
            return {(form.kind, form.layout)}
    return set()


def _redo_file(place: Place) -> Path:
    return place.stage / "redo.json"


def _redo(place: Place, append: bool) -> int:
    """Return how often all was asked for again, this time included."""
    path = _redo_file(place)
    return (int(read_json(path)) if path.exists() else 0) + (not append)


def _say(texts: Sequence[str]) -> None:
    for text in texts:
        sys.stderr.write(plain(text) + "\n")
