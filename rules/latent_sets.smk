"""Which samples belong into the folder of a layout, and the flags that say so to the steps of latents."""

from vidlatents.buckets import own_layout
from vidlatents.members import Makers, check_ids, own_row, record_members
from vidlatents.records import read_records
from vidlatents.settings import SetSettings, TrainerFlags
from vidlatents.sources import CLIP_KINDS, clip_uttid


def latent_sources(layout):
    """Return where samples of a layout's folder come from: a video of the run's own belongs to the one or the other by its frames, which are not known yet."""
    clips = CONFIG.latents.clips and own_layout(CONFIG.clips.frames) == layout
    return {"records": CONFIG.latents.records and CONFIG.latents.layout == layout, "events": CONFIG.latents.events, "clips": clips}


def latent_root_flags(layout):
    """Return the flags that say where the videos of a folder's samples are."""
    sources, flags = latent_sources(layout), {}
    if sources["records"]:
        flags |= {"videos": LATENT_VIDEOS, "control_videos": LATENT_CONTROL_VIDEOS}
    if sources["events"]:
        flags |= {"event_table": CONFIG.events.table, "event_controls": CONTROLS.stage}
    if sources["clips"]:
        flags |= {"clip_dataset": RUN / "dataset", "clip_controls": CLIP_PLACES.controls.stage}
    return flags


def latent_set_flags(layout):
    """Return the flags that describe a folder's samples, its settings apart."""
    sources, flags = latent_sources(layout), latent_root_flags(layout)
    if sources["records"]:
        flags |= {"records": CONFIG.latents.records}
    if sources["events"]:
        flags |= {"event_work_shards": CONFIG.events.work_shards}
    if sources["clips"]:
        cut = {"split": CONFIG.clips.split, "count": CONFIG.clips.count, "first": CONFIG.clips.first, "shard_size": CONFIG.clips.clips_per_shard}
        flags |= {"clip_stage": CLIPS.stage, **{f"clip_{name}": value for name, value in cut.items()}}
    return flags


def latent_rows(layout):
    """Return a row for each sample that may belong into a layout's folder."""
    sources, rows = latent_sources(layout), []
    if sources["events"]:
        rows += [own_row(row[event_stage.KEY], "events", row.get("captions", "")) for held in EVENT_SHARDS.values() for row in held]
    if sources["clips"]:
        rows += [own_row(clip_uttid(CONFIG.clips.split, name, kind), "clips") for ids in CLIP_SHARDS.values() for name in ids for kind in CLIP_KINDS]
    if sources["records"]:
        settings = SetSettings(**CONFIG.latents.for_set(), layout=layout).records(LATENT_VIDEOS, LATENT_CONTROL_VIDEOS)
        own = [row[latent_stage.KEY] for row in rows]
        rows = [one.row() for one in record_members(read_records(Path(CONFIG.latents.records), settings), own)] + rows
    if not rows:
        raise DataError("bad_table", CONFIG.latents.records, "no record", "at least one", "add records, or take the key out")
    return check_ids(rows)


def latent_makers():
    """Return which jobs make the control videos that samples may be made of, and their clips."""
    jobs = []
    if CONFIG.latents.events:
        jobs += [("events", [row[event_stage.KEY] for row in held], [EVENT_CONTROLS[shard]]) for shard, held in EVENT_SHARDS.items()]
    if CONFIG.latents.clips:
        jobs += [
            (
                "clips",
                [clip_uttid(CONFIG.clips.split, name, kind) for name in names for kind in CLIP_KINDS],
                [CLIPS_COMPOSITED[shard], CLIP_VIDEOS[shard]],
            )
            for shard, names in CLIP_SHARDS.items()
        ]
    return Makers(jobs)


LATENT_MAKERS = latent_makers()


def latent_controls(rows):
    """Return the shard manifests of the control videos that samples are made of, and of their clips."""
    return LATENT_MAKERS.of(rows)


def latent_pattern(name, books="latents_books"):
    """Return the pattern of a step's shard manifests, of every layout.   books : the folder of the run that they are in."""
    return f"{RUN}/{books}/{CONFIG.latents.model}-{{layout}}/shards/{name}/{{shard}}.{{key}}.jsonl"
