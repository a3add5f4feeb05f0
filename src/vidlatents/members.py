"""The members of a sample set, each with the id that the workflow knows it by. Standard library alone."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwork.digests import digest_value
from shardwork.errors import DataError
from shardwork.step import Fields, quarantined
from shardwork.tables import Row
from vidlatents.codes import SampleRefused
from vidlatents.records import Records, Sample, duplicates, folded, name_of
from vidlatents.sources import Own
from vidlatents.stage import KEY, item_id

Roots = Mapping[str, tuple[Path, Path]]
"""Source -> the folders that its videos and its control videos count from."""
FIELDS = ("uttid", "prompt", "bucket_key", "num_frame", "height", "width")


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a set.   id : of its item.   source : events, clips or records.   sample : None where `verdict` says what became of it."""

    id: str
    uttid: str
    source: str
    sample: Sample | None
    verdict: Fields | None = None

    def row(self) -> Row:
        """Return what decides the member's work shard and whether it is planned again."""
        found = [name_of(self.sample), self.sample.source] if self.sample else [(self.verdict or {}).get("code"), (self.verdict or {}).get("found")]
        return {"id": self.id, KEY: self.uttid, "source": self.source, "digest": digest_value(found)}


def own_row(uttid: str, source: str, about: str = "") -> Row:
    """Return the row of a member that this pipeline makes itself: its frames and size are not known before.   about : what else decides its plan."""
    return {"id": uttid, KEY: uttid, "source": source, "digest": digest_value(about)}


def own_members(own: Own, source: str) -> list[Member]:
    """Return the members of this pipeline's own. One of the other layout's folder passes without a file."""
    members = [Member(uttid, uttid, source, sample) for uttid, sample in own.samples]
    members += [Member(error.uttid, error.uttid, source, None, quarantined(error.uttid, error)) for error in own.refused]
    members += [Member(str(row["id"]), str(row["id"]), source, None, row) for row in own.upstream]
    passed: Fields = {"status": "ok", "code": "ok", "files": {}, "elsewhere": 1}
    return members + [Member(uttid, uttid, source, None, {**passed, "id": uttid}) for uttid in own.elsewhere]


class Makers:
    """Which jobs of earlier stages make the videos of the run's own members, looked up by a member's id: work shards are many, and so are members."""

    def __init__(self, jobs: Iterable[tuple[str, Iterable[str], Sequence[Path]]]) -> None:
        """Take the jobs.   jobs : (source, uttids that it makes videos of, its manifests), in their order; each uttid is looked at once."""
        self._manifests: list[Sequence[Path]] = []
        self._job: dict[tuple[str, str], int] = {}
        for source, uttids, manifests in jobs:
            self._job.update(dict.fromkeys(((source, uttid) for uttid in uttids), len(self._manifests)))
            self._manifests.append(manifests)

    def of(self, rows: Iterable[Row]) -> list[Path]:
        """Return the manifests that members are made from, in the order of the jobs.   rows : of members; those of records have none."""
        found = {self._job[at] for row in rows if (at := (row["source"], row["id"])) in self._job}
        return [path for job in sorted(found) for path in self._manifests[job]]


def record_members(records: Records, own: Collection[str] = ()) -> list[Member]:
    """Return a member for every record. One that was refused has its place in the file for a uttid; of records of one name none is taken.

    own : uttids of this pipeline's own samples in the folder. A record whose uttid differs from one of them in case or Unicode form alone is refused
    (E_DUP_OUTPUT) whatever its size: it is in another work shard, and their files may be one to a file system. One that is the same is in the same shard,
    where `refuse_shared_names` compares the files' names.
    """
    twice = {error.where: error for error in duplicates(records.samples)}
    near = {folded(uttid): uttid for uttid in own}
    exact = set(own)
    members = []
    for where, sample in records.samples:
        item = item_id(name_of(sample).removesuffix(".pt"))
        if error := twice.get(where):
            item = f"{item[:80]}_{item_id(where)[-19:]}"  # ids of one name must not meet
            members.append(Member(item, sample.uttid, "records", None, quarantined(item, error)))
        elif sample.uttid not in exact and (other := near.get(folded(sample.uttid))) is not None:
            error = SampleRefused("E_DUP_OUTPUT", where, f"uttid {sample.uttid!r} beside {other!r} of the run's own", "a name of its own", uttid=sample.uttid)
            members.append(Member(item, sample.uttid, "records", None, quarantined(item, error)))
        else:
            members.append(Member(item, sample.uttid, "records", sample))
    refused = [(item_id(error.where), error) for error in records.refused]
    return members + [Member(item, error.where, "records", None, quarantined(item, error)) for item, error in refused]


def refuse_shared_names(members: Iterable[Member]) -> list[Member]:
    """Return the members, a record refused (E_DUP_OUTPUT) whose file would have the name of one of this pipeline's own."""
    held = list(members)
    own = {folded(name_of(one.sample)): one for one in held if one.sample and one.source != "records"}
    return [_without_shared(one, own) for one in held]


def _without_shared(one: Member, own: Mapping[str, Member]) -> Member:
    if one.sample is None or one.source != "records" or (other := own.get(folded(name_of(one.sample)))) is None:
        return one
    found = f"{name_of(one.sample)!r} beside {other.source} {other.uttid!r}"
    error = SampleRefused("E_DUP_OUTPUT", one.uttid, found, "a name of its own", uttid=one.uttid)
    return Member(one.id, one.uttid, one.source, None, quarantined(one.id, error))


def check_ids(rows: Iterable[Row]) -> list[Row]:
    """Return rows whose ids all differ. Raises DataError (duplicate_id)."""
    held, seen = list(rows), dict[str, str]()
    for row in held:
        if (first := seen.get(row["id"])) is not None:
            found = f"twice in {first}" if first == row["source"] else f"in {first} and in {row['source']}"
            raise DataError("duplicate_id", repr(row["id"]), found, "one sample an id", "give each an id of its own")
        seen[row["id"]] = row["source"]
    return held


def fields_of(sample: Sample, source: str, roots: Roots) -> Fields:
    """Return a sample as a row can hold it: its videos relative to the roots of its source."""
    videos, controls = roots[source]
    return {
        **{name: getattr(sample, name) for name in FIELDS},
        "source": source,
        "video": os.path.relpath(sample.video, videos),
        "control": os.path.relpath(sample.control, controls),
        "cut": list(sample.cut) if sample.cut else None,
        "crop": list(sample.crop) if sample.crop else None,
    }


def sample_from(fields: Fields, roots: Roots, record: Fields | None = None) -> Sample:
    """Return the sample that `fields_of` wrote.   record : what it was read from."""
    videos, controls = roots[str(fields["source"])]
    cut, crop = fields["cut"], fields["crop"]
    return Sample(
        video=videos / fields["video"],
        control=controls / fields["control"],
        cut=(cut[0], cut[1]) if cut else None,
        crop=(crop[0], crop[1], crop[2], crop[3]) if crop else None,
        source=record or {},
        **{name: fields[name] for name in FIELDS},
    )
