"""What is written about a finished folder: its manifest, a description with models and settings, and what failed. All of it stands outside of the folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shardwork.errors import Fault
from shardwork.jsonio import Json, write_json, write_jsonl
from shardwork.place import Place
from shardwork.step import Fields
from vidlatents.card import Card
from vidlatents.encode_step import by_id
from vidlatents.models import kind_named
from vidlatents.plan import PlanSettings, ignored_by_trainer, same_video
from vidlatents.read import RESIZE_RULE
from vidlatents.settings import EncodeFlags
from vidlatents.stage import DATASET, FAILURES, MANIFEST, MANIFEST_VERSION
from vidlatents.verify import sample_files

AGAIN = "run the same command again: what is older than its plan is made anew"
STALE = "run the same command again: samples of other models are encoded anew"
ADOPTED_NOTE = "files found without a note were adopted: which autoencoder (a tiny one even), control video, seed and way of drawing they are of is not known"
TINY_NOTE = "made with tiny models of random weights: good for tests only, never for training"
SAME_NOTE = "samples have their RGB video for a control video"
PLANNED = ("bucket_key", "frames", "latent_shape", "notes", "start", "resized", "unread")
"""Fields of the plan that stand in a manifest's row too."""


class Models(NamedTuple):
    """Cards of the models that lie there.   vae : of the autoencoder.   text : of the text encoder."""

    vae: Card
    text: Card


@dataclass(frozen=True, slots=True)
class About:
    """What a folder is made with.   models : those that lie there now.   flags, plan : its settings, and what the trainer is known to read."""

    models: Models
    flags: EncodeFlags
    plan: PlanSettings


def write_books(planned: Sequence[Fields], encoded: Sequence[Fields], verified: Sequence[Fields], place: Place, about: About) -> Json:
    """Write manifest, description and failures of a folder; return the description.

    planned, encoded, verified : all rows of the folder's steps.
    Raises Fault (fault_stale) where a sample is of other models: the description would be of models that did not make it; or where a row is of an earlier plan.
    """
    check_follows(planned, encoded)
    check_follows(encoded, verified)
    plans, made = by_id(planned), by_id(encoded)
    passed = [row["id"] for row in verified if row["status"] == "ok" and made[row["id"]]["files"]]
    rows = sorted((_row(plans[item], made[item], about.plan) for item in passed), key=lambda row: str(row["file"]))
    check_models(rows, about.models)
    failed = failures(planned, encoded, verified)
    adopted, tiny = sum(row["adopted"] for row in rows), _tiny(rows)
    same = sum(same_video(plans[item]) for item in passed)
    notes = (TINY_NOTE if tiny else "", f"{adopted} {ADOPTED_NOTE}" if adopted else "", f"{same} {SAME_NOTE}" if same else "")
    folder = place.folders[0]
    facts = {
        **described(about.models, about.flags, about.plan),
        "adopted": adopted,
        "bytes": sum(row["bytes"] for row in rows),
        "codes": dict(Counter(str(row["code"]) for row in failed)),
        "dropped_frames": sum(row["dropped"] for row in rows),
        "encoded_frames": sum(row["used"] for row in rows),
        "failed": len(failed),
        "foreign": _foreign(folder, place, rows),
        "note": "; ".join(filter(None, notes)),
        "ignored_by_trainer": dict(Counter(reason for row in rows for reason in row["ignored"])),
        "samples": len(rows),
        "unread_frames": sum(row["unread"] for row in rows),
        "sources": dict(Counter(str(row["source"]) for row in rows)),
        "tiny": tiny,
    }
    write_jsonl(place.stage / MANIFEST, rows)
    write_jsonl(place.stage / FAILURES, failed)
    write_json(place.stage / DATASET, facts)
    return facts


def _row(plan: Fields, made: Fields, settings: PlanSettings) -> Fields:
    ((name, seen),) = made["files"].items()
    ignored = ignored_by_trainer(plan, settings)
    own = {key: value for key, value in made.items() if key not in ("status", "code", "files")}
    return {**{key: plan[key] for key in PLANNED}, **own, "ignored": ignored, "file": Path(name).name, "bytes": seen["bytes"]}


def _tiny(rows: Sequence[Fields]) -> bool | None:
    """Return whether a sample is of a tiny model; None where none is known to be, and of some, adopted ones, it is not known."""
    if any(row["tiny"] for row in rows):
        return True
    return None if any(row["tiny"] is None for row in rows) else False


def _foreign(folder: Path, place: Place, rows: Sequence[Fields]) -> list[str]:
    """Return the .pt files that neither these rows nor the manifest of another file of records of the folder names."""
    named = {*place.others(), *(str(row["file"]) for row in rows)}
    return [name for name in (sample_files(folder) if folder.is_dir() else []) if name not in named]


def check_follows(earlier: Sequence[Fields], later: Sequence[Fields]) -> None:
    """Raise Fault (fault_stale) unless a step worked on what the step before it says now: what that one passed, and nothing else."""
    rows = by_id(later)
    if strange := sorted(rows.keys() - by_id(earlier).keys()):
        raise Fault("fault_stale", strange[0], rows[strange[0]]["code"], "a row of the step before", AGAIN)
    for row in earlier:
        if (found := rows.get(str(row["id"]))) is None or (found["status"] == "upstream") != (row["status"] != "ok"):
            said = found["code"] if found else "no row"
            raise Fault("fault_stale", row.get("uttid", row["id"]), said, f"what follows from {row['code']!r} of the step before", AGAIN)


def check_models(rows: Sequence[Fields], models: Models) -> None:
    """Raise Fault (fault_stale) unless all samples whose models are known are of those that lie there.   rows : of encode_latents."""
    for name, card in (("vae", models.vae), ("text_encoder", models.text)):
        counts = Counter(row[name] for row in rows if row[name] is not None)
        if counts.keys() - {card.short}:
            found = ", ".join(f"{count} samples of {short}" for short, count in sorted(counts.items()))
            raise Fault("fault_stale", name, found, f"all of {card.short}, which lies there now", STALE)


def failures(*steps: Sequence[Fields]) -> list[Fields]:
    """Return a row for each sample that was refused: its first verdict. uttid, path, code, found, expected, hint; step and code where an earlier stage refused.

    steps : rows of plan, encode and verify, in this order.
    """
    found: dict[str, Fields] = {}
    for rows in steps:
        for row in rows:
            if row["status"] != "ok":
                found.setdefault(str(row["id"]), {key: value for key, value in row.items() if key != "status"})
    return [found[item] for item in sorted(found)]


def described(models: Models, flags: EncodeFlags, plan: PlanSettings) -> Json:
    """Return what a folder is made with."""
    kind = kind_named(flags.model)
    settings = {**flags.settings(), "fallback_gib": flags.fallback_gib, "memory_gib": flags.memory_gib, "resize": RESIZE_RULE, "start": plan.start}
    return {
        "format": "one dictionary a file, <uttid>_<frames>_<height>_<width>.pt; see docs/latents_format.md",
        "model": {**models.vae.as_json(), "short": models.vae.short, "patch": kind.patch, "spatial": kind.spatial, "temporal": kind.temporal, "z": kind.z},
        "settings": settings,
        "text_encoder": {**models.text.as_json(), "short": models.text.short},
        "version": MANIFEST_VERSION,
    }


def lines(facts: Json, folder: Path) -> list[str]:
    """Return a description as lines for people; the last one says most."""
    shown = [f"warning: {name}: no sample of this dataset: a loader that reads every .pt takes it, or fails on it: take it away" for name in facts["foreign"]]
    shown += [f"note: {count} samples would be ignored by the public trainer ({reason})" for reason, count in sorted(facts["ignored_by_trainer"].items())]
    if facts["dropped_frames"]:
        shown.append(f"note: {facts['dropped_frames']} frames of buckets fill no window and are dropped")
    if facts["unread_frames"]:
        shown.append(f"note: {facts['unread_frames']} frames of videos or cuts lie outside their bucket and were not read")
    text = f"latents: {facts['samples']} samples in {folder} ({facts['settings']['model']}, {facts['settings']['layout']}), {facts['failed']} failed"
    return [*shown, f"{text}; {facts['note']}" if facts["note"] else text]
