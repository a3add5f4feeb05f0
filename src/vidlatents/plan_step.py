"""The step plan_latents, as `shardwork` runs it: every pair of videos decoded once and looked at, before a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from shardwork.errors import Fault
from shardwork.journal import look
from shardwork.step import Fields, Item, Step
from vidlatents.codes import SampleRefused
from vidlatents.members import Member, Roots, fields_of, sample_from
from vidlatents.plan import plan_sample, same_video
from vidlatents.prompts import prompt_digest
from vidlatents.read import MISSING, Probe, check_pair, file_state, probe
from vidlatents.records import Sample
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
        found = plan_sample(sample, _probes(sample, fields, roots), how)
    except SampleRefused as error:
        raise SampleRefused(error.code, error.where, error.found, error.expected, error.hint, sample.uttid, error.path or fields["video"]) from error
    digests = {f"{name}_digest": digest_of(path) for name, path in (("video", sample.video), ("control", sample.control))}
    if same_video(digests):
        found["notes"] = [*found["notes"], "control: the very RGB video"]
    return {**found, **fields, **digests, "prompt_digest": prompt_digest(sample.prompt)}


def _probes(sample: Sample, fields: Fields, roots: Roots) -> tuple[Probe, Probe]:
    """Return what both videos of a sample are, which match. A refusal of one of them names its folder too: both often have one name.

    Raises SampleRefused as `read.probe` and `read.check_pair` do.
    """
    found = []
    for name, path, root in zip(("video", "control"), (sample.video, sample.control), roots[fields["source"]], strict=True):
        try:
            found.append(probe(path, MISSING[name]))
        except SampleRefused as error:
            where = Path(root.name, fields[name])
            raise SampleRefused(error.code, where, error.found, error.expected, error.hint, sample.uttid, fields[name]) from error
    video, control = found
    check_pair(sample, video, control)
    return video, control


def digest_of(path: Path) -> str:
    """Return the digest of a file, or of a folder of pictures. Raises Fault (fault_stale) where it is gone.

    As `read.probe`, one process does not read a file again while its size and time stay the same: many samples are cuts of one video.
    """
    return _digest_of(path) if (state := file_state(path)) is None else _digested(path, state)


@lru_cache(4096)
def _digested(path: Path, _state: tuple[int, ...]) -> str:
    return _digest_of(path)


def _digest_of(path: Path) -> str:
    if (seen := look(path, True)) is None:
        raise Fault("fault_stale", path.name, "no such file", "the video that was planned with", "put it back, then run the same command")
    return str(seen["digest"])


def planned(rows: Sequence[Fields]) -> list[Fields]:
    """Return the rows of samples that can be encoded."""
    return [row for row in rows if row["status"] == "ok" and not row.get("elsewhere")]
