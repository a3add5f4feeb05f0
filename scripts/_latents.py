"""The sample sets of latents: the flags that describe one, and how they become its members, for the steps, the report and the gate."""

from collections.abc import Collection, Iterable
from pathlib import Path

import _src  # noqa: F401
from eventvox import stage as event_stage
from sam3dvid import stage as clip_stage
from shardwork import command
from shardwork.files import retract
from shardwork.place import Place, retract_manifests, the_manifest
from shardwork.shards import rows_of, split_rows
from shardwork.step import Fields
from shardwork.tables import Row
from vidlatents.card import TEXT_PARTS, VAE_PARTS, at_hand
from vidlatents.members import Member, check_ids, own_members, own_row, record_members, refuse_shared_names
from vidlatents.models import hub_of, vae_hub_of
from vidlatents.records import read_records
from vidlatents.settings import SetSettings
from vidlatents.shard_names import names
from vidlatents.sources import CLIP_KINDS, clip_samples, clip_uttid, event_samples, without_row
from vidlatents.stage import KEY, PLAN_STEP, STEPS, folder_of, latents_place, plans_place, prompts_marks, text_place


def add_root_flags(arguments) -> None:
    """Add the flags that say where the videos of each source are."""
    arguments.add_argument("--videos", type=Path, help="records: the folder that their paths count from")
    arguments.add_argument("--control-videos", type=Path, help="records: the folder that their control paths count from")
    arguments.add_argument("--event-table", type=Path, help="events: the video table")
    arguments.add_argument("--event-controls", type=Path, help="events: the folder of their control videos, results/RUN/controls/events")
    arguments.add_argument("--clip-dataset", type=Path, help="clips: the dataset's folder, results/RUN/dataset")
    arguments.add_argument("--clip-controls", type=Path, help="clips: the folder of their control videos, results/RUN/controls/clips")


def add_set_flags(arguments) -> None:
    """Add the flags that describe a sample set, whichever of its sources there are."""
    add_root_flags(arguments)
    arguments.add_argument("--records", type=Path, help="records: a JSONL file, one object a line")
    arguments.add_argument("--event-work-shards", type=command.whole(1), default=1, help="events: how many work shards their table is cut into")
    arguments.add_argument("--clip-stage", type=Path, help="clips: the folder of composite_clips, results/RUN/clips")
    arguments.add_argument("--clip-split", choices=clip_stage.SPLITS, default="train", help="clips: their split")
    arguments.add_argument("--clip-count", type=command.whole(0), default=0, help="clips: how many; 0 for none")
    arguments.add_argument("--clip-first", type=command.whole(0), default=0, help="clips: number of the first")
    arguments.add_argument("--clip-shard-size", type=command.whole(1), default=1, help="clips: how many in a row make a work shard")
    command.add_settings(arguments, SetSettings)


def roots_of(args) -> dict[str, tuple[Path, Path]]:
    """Return where the videos of each source are that the flags name."""
    found = {}
    if args.videos:
        found["records"] = (args.videos, args.control_videos)
    if args.event_table:
        found["events"] = (args.event_table.parent, args.event_controls)
    if args.clip_dataset:
        found["clips"] = (args.clip_dataset, args.clip_controls)
    return found


def own_rows(args) -> list[Row]:
    """Return a row for each member of the run's own."""
    rows = []
    if args.event_controls:
        rows += [own_row(row[event_stage.KEY], "events", row.get("captions", "")) for row in event_stage.read_video_table(args.event_table)]
    return rows + [own_row(uttid, "clips") for uttid in clip_uttids(args)]


def record_members_of(args, own: Iterable[Row]) -> list[Member]:
    if not args.records:
        return []
    settings = command.settings_from(args, SetSettings)
    return record_members(read_records(args.records, settings.records(args.videos, args.control_videos)), [row[KEY] for row in own])


def set_rows(args) -> list[Row]:
    """Return a row for each member of the set: id, uttid and source. No video is looked at, and no manifest of an earlier stage."""
    own = own_rows(args)
    return check_ids([*(one.row() for one in record_members_of(args, own)), *own])


def clip_uttids(args) -> list[str]:
    """Return the uttids of the set's clips: one for each kind of control video."""
    clips = [clip_stage.clip_name(args.clip_first + number) for number in range(args.clip_count)]
    return [clip_uttid(args.clip_split, name, kind) for name in clips for kind in CLIP_KINDS]


def shards_of(rows, work_shards: int) -> dict[str, tuple[str, ...]]:
    """Return the ids of each work shard that holds any."""
    return {shard: tuple(row["id"] for row in held) for shard, held in split_rows(rows, KEY, work_shards).items()}


def members_of(args, shard: str) -> list[Member]:
    """Return the members of one work shard, from the records and from the manifests of the control videos."""
    uttids: dict[str, set[str]] = {"events": set(), "clips": set()}
    own = own_rows(args)
    records = record_members_of(args, own)
    held = rows_of(check_ids([*(one.row() for one in records), *own]), KEY, shard)
    for row in held:
        uttids.setdefault(row["source"], set()).add(row[KEY])
    ids = {row["id"] for row in held}
    members = [one for one in records if one.id in ids]
    if uttids["events"]:
        members += own_members(_events(args, uttids["events"]), "events")
    if uttids["clips"]:
        members += [one for one in own_members(_clips(args, uttids["clips"]), "clips") if one.id in ids]
    return refuse_shared_names(members)


def whole_rows(place: Place, step: str, shard: str, ids: Collection[str]) -> list[Fields]:
    """Return the rows of a shard manifest that names every one of some ids. One that does not is taken away; raises Fault (fault_stale)."""
    rows = the_manifest(place, step, shard)
    if lacking := sorted(set(ids) - {str(row["id"]) for row in rows}):
        retract_manifests(place, step, shard)
        raise without_row(lacking[0], step)
    return rows


def _events(args, wanted):
    settings = command.settings_from(args, SetSettings)
    table = event_stage.read_video_table(args.event_table)
    place = event_stage.controls_place(args.event_controls, event_stage.events_place(args.event_controls))
    shards = {shard: [row for row in rows if row["video_id"] in wanted] for shard, rows in split_rows(table, event_stage.KEY, args.event_work_shards).items()}
    controls = [row for shard, rows in shards.items() if rows for row in whole_rows(place, event_stage.CONTROLS_STEP, shard, {one["video_id"] for one in rows})]
    rows = [row for rows in shards.values() for row in rows]
    return event_samples(rows, args.event_table, controls, args.event_controls, _records(args, settings), settings.own)


def _clips(args, wanted):
    settings = command.settings_from(args, SetSettings)
    clips = clip_stage.clips_place(args.clip_stage, args.clip_dataset)
    place = clip_stage.clip_controls_place(args.clip_controls, clips)
    cut = clip_stage.clip_shards(args.clip_count, args.clip_shard_size, args.clip_first)
    clip_ids = {uttid.rpartition("_")[0].rpartition("_")[2] for uttid in wanted}
    shards = {shard: clip_ids & set(ids) for shard, ids in cut.items() if clip_ids & set(ids)}
    made, controls = (
        [row for shard, ids in shards.items() for row in whole_rows(where, step, shard, ids) if row["id"] in ids]
        for where, step in ((clips, clip_stage.CLIP_STEPS[0]), (place, clip_stage.CLIP_CONTROLS_STEP))
    )
    return clip_samples(made, controls, args.clip_dataset, args.clip_controls, _records(args, settings), args.clip_split, settings.own)


def _records(args, settings):
    return settings.records(args.videos or Path("videos"), args.control_videos or Path("control_videos"))


def models_of(args) -> tuple[str, str]:
    """Return where autoencoder and text encoder are: folders here, of a hub id those of the one commit that the books note for the run.

    Where they are missing, those of the run's model (args.model) are the ones to get.
    """
    where, text = args.weights, args.text_encoder or args.weights
    books = args.books / "models"
    return at_hand(where, VAE_PARTS, vae_hub_of(args.model), books), at_hand(text, TEXT_PARTS, hub_of(args.model), books)


def retract_made(books: Path, settings: SetSettings, shard: str) -> None:
    """Take away what says that a shard's plan was worked on, before it is planned anew.

    A run that ends between the plan and what is made of it must leave that missing, not only older: see rules/latents.smk.
    books : results/<run>/latents_books.
    """
    folder = folder_of(settings.model, settings.layout)
    for step in STEPS[1:]:
        retract_manifests(latents_place(books / folder, books.with_name("latents") / folder), step, shard)
    retract_prompts(text_place(books / "text"), folder, shard)


def retract_prompts(texts: Place, folder: str, shard: str) -> None:
    """Take away what says that the text has all prompts of a shard's plan.   folder : <model>-<layout>."""
    for mark in prompts_marks(texts, folder, shard):
        retract(mark)


def plan_manifests(plans: Iterable[Path], shards: Iterable[str]) -> list[Path]:
    """Return the manifests of plan_latents of some folders.   plans : their stages.   shards : of each, as of `shard_names.short`."""
    named = [(plans_place(stage), shard) for stage, held in zip(plans, shards, strict=True) for shard in names(held)]
    return [path for place, shard in named for path in place.manifests(PLAN_STEP, shard)]


def plan_rows(plans: Path, shards: str) -> list[Fields]:
    """Return the rows of plan_latents.   plans : its stage.   shards : as of `shard_names.short`."""
    return [row for shard in names(shards) for row in the_manifest(plans_place(plans), PLAN_STEP, shard)]


def add_model_flags(arguments) -> None:
    """Add the flags that name models and say how they run."""
    arguments.add_argument("--weights", required=True, help="the autoencoder: a local folder, or a hub id")
    arguments.add_argument("--text-encoder", help="the text encoder: a local folder, or a hub id (default: as --weights)")
    arguments.add_argument("--books", type=Path, required=True, help="where models and embeddings are noted, results/RUN/latents_books")
    arguments.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="where models run (default: auto, a GPU where there is one)")
    arguments.add_argument("--threads", type=command.whole(1), default=1, help="threads of a process on the processor (default: 1)")
