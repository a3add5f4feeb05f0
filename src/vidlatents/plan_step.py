"""The step plan_latents, as `shardwork` runs it: every pair of videos decoded once and looked at, before a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from shardwork.errors import Fault
from shardwork.journal import look
from shardwork.step import Fields, Item, Step
from vidlatents.codes import SampleRefused
from vidlatents.members import Member, Roots, fields_of, sample_from
from vidlatents.plan import plan_sample, same_video
from vidlatents.prompts import prompt_digest
from vidlatents.read import probe_pair
from vidlatents.settings import SetSettings
from vidlatents.stage import PLAN_STEP, PLAN_VERSION


def plan_step(settings: SetSettings, roots: Roots) -> Step:
    """Return the step that looks at a pair.   roots : where the videos of each source are."""
    plan = settings.plan()
    said = {name: getattr(plan, name) for name in ("layout", "z", "spatial", "temporal", "start", "seed")}
    return Step(PLAN_STEP, PLAN_VERSION, said, partial(_plan, settings=settings, roots=roots))


def plan_items(members: Iterable[Member], roots: Roots) -> list[Item]:
    """Return an item for every member of a shard; what is decided already comes with its verdict."""
    items = []
    for one in members:
        if one.sample is None:
            items.append(Item(one.id, None, verdict=one.verdict))
        else:
            inputs = {"sample": fields_of(one.sample, one.source, roots), "record": one.sample.source}
            items.append(Item(one.id, inputs, watched=(one.sample.video, one.sample.control)))
    return items


def _plan(item: Item, settings: SetSettings, roots: Roots) -> Fields:
    fields = item.inputs["sample"]
    sample = sample_from(fields, roots, item.inputs["record"])
    how = settings.plan() if fields["source"] == "records" else replace(settings.plan(), start="first")  # only a record may begin where it is drawn
    try:
        found = plan_sample(sample, probe_pair(sample), how)
    except SampleRefused as error:
        raise SampleRefused(error.code, error.where, error.found, error.expected, error.hint, sample.uttid, error.path or fields["video"]) from error
    digests = {f"{name}_digest": digest_of(path) for name, path in (("video", sample.video), ("control", sample.control))}
    if same_video(digests):
        found["notes"] = [*found["notes"], "control: the very RGB video"]
    return {**found, **fields, **digests, "prompt_digest": prompt_digest(sample.prompt)}


def digest_of(path: Path) -> str:
    """Return the digest of a video, or of a folder of pictures. Raises Fault (fault_stale) where it is gone."""
    if (seen := look(path, True)) is None:
        raise Fault("fault_stale", path.name, "no such file", "the video that was planned with", "put it back, then run the same command")
    return str(seen["digest"])


def planned(rows: Sequence[Fields]) -> list[Fields]:
    """Return the rows of samples that can be encoded."""
    return [row for row in rows if row["status"] == "ok" and not row.get("elsewhere")]
