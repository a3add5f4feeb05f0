"""A branch of the workflow: the stages that one table's items go through, as its report and its gate see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwork.place import UNNAMED, Place, retract_manifests, sweep, the_manifest
from shardwork.shards import split_rows
from shardwork.step import Fields
from shardwork.tables import Row


@dataclass(frozen=True, slots=True)
class Stage:
    """The steps that work in one place.   on : False where the configuration switches them off, so that none of their files may be found."""

    place: Place
    steps: tuple[str, ...]
    on: bool = True


@dataclass(frozen=True, slots=True)
class Branch:
    """The items of a branch and its stages, in their order.   shards : the ids of each work shard that holds any."""

    name: str
    shards: Mapping[str, tuple[str, ...]]
    stages: tuple[Stage, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of all items, shard by shard."""
        return tuple(item_id for ids in self.shards.values() for item_id in ids)

    def rows(self) -> list[tuple[str, list[Fields]]]:
        """Return each step with the rows of its shard manifests. Raises Fault (fault_stale) for one that is not there."""
        steps = [(stage.place, step) for stage in self.stages if stage.on for step in stage.steps]
        return [(step, [row for shard in self.shards for row in the_manifest(place, step, shard)]) for place, step in steps]

    def sweep(self, prune: bool) -> list[tuple[Path, str]]:
        """Set aside what no row names, as `place.sweep` does, and return each path with the reason and where it went.

        Of a stage that is off, nothing may be found by a trainer; switched on again, it comes back without being made again.
        """
        swept = []
        for stage in self.stages:
            found = sweep(stage.place, stage.steps, self.shards, prune) if stage.on else sweep(stage.place, (), (), False)
            reason = UNNAMED if stage.on else "it is switched off"
            swept += [(path, f"{reason}: set aside in {stage.place.quarantine}") for path in found]
        return swept

    def look_again(self, ids: Collection[str]) -> None:
        """Take away what says that the first step is done with these items' shards."""
        first = self.stages[0]
        for shard in [shard for shard, held in self.shards.items() if not set(ids).isdisjoint(held)]:
            retract_manifests(first.place, first.steps[0], shard)


def branch_of(name: str, rows: Iterable[Row], key: str, work_shards: int, stages: Sequence[Stage]) -> Branch:
    """Return the branch of a table's rows, dealt out to work shards by their ids."""
    shards = split_rows(rows, key, work_shards)
    return Branch(name, {shard: tuple(row[key] for row in held) for shard, held in shards.items()}, tuple(stages))
