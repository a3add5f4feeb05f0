"""A branch of the workflow: the stages that one table's items go through, as its report and its gate see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwork.place import Place, retract_manifests, sweep, the_manifest
from shardwork.shards import shard_of, split_rows
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
    """The items of a branch and its stages, in their order.   ids : the table's.   work_shards : how many work shards it is cut into."""

    name: str
    ids: tuple[str, ...]
    work_shards: int
    stages: tuple[Stage, ...]

    @property
    def live(self) -> tuple[str, ...]:
        """Return the names of the work shards that hold items."""
        return tuple(sorted({shard_of(item_id, self.work_shards) for item_id in self.ids}))

    def rows(self) -> list[tuple[str, list[Fields]]]:
        """Return each step with the rows of its shard manifests. Raises Fault (fault_stale) for one that is not there."""
        live = self.live
        return [(step, [row for shard in live for row in the_manifest(stage.place, step, shard)]) for stage in self.stages if stage.on for step in stage.steps]

    def sweep(self, prune: bool) -> list[tuple[Path, str]]:
        """Set aside what no row names, as `place.sweep` does, and return each path with the reason and where it went.

        Of a stage that is off, nothing may be found by a trainer; switched on again, it comes back without being made again.
        """
        swept = []
        for stage in self.stages:
            found = sweep(stage.place, stage.steps, self.live, prune) if stage.on else sweep(stage.place, (), (), False)
            reason = "no row of the table names it" if stage.on else "it is switched off"
            swept += [(path, f"{reason}: set aside in {stage.place.quarantine}") for path in found]
        return swept

    def look_again(self, ids: Sequence[str]) -> None:
        """Take away what says that the first step is done with these items' shards."""
        first = self.stages[0]
        for shard in {shard_of(item_id, self.work_shards) for item_id in ids}:
            retract_manifests(first.place, first.steps[0], shard)


def branch_of(name: str, rows: Sequence[Row], key: str, work_shards: int, stages: Sequence[Stage]) -> Branch:
    """Return the branch of a table's rows; ids in the order of its work shards."""
    shards = split_rows(rows, key, work_shards)
    return Branch(name, tuple(row[key] for rows_ in shards.values() for row in rows_), work_shards, tuple(stages))
