"""The gate: count every item once over all steps, and say which were refused and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardwork.errors import DataError
from shardwork.jsonio import Json
from shardwork.step import Fields


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the items of one branch. items, passed : int.   refused : quarantined rows, each with `step`, sorted by id."""

    items: int
    passed: int
    refused: tuple[Fields, ...]

    def as_json(self) -> Json:
        """Return the tally as plain values."""
        codes = Counter(row["code"] for row in self.refused)
        return {"items": self.items, "passed": self.passed, "quarantined": len(self.refused), "codes": dict(codes), "refused": list(self.refused)}


LOOK_AGAIN = frozenset(
    (
        *("missing_file", "source_changed", "too_large", "invalid_hdf5", "time_limit", "blender_crashed"),
        *("E_CONTROL_MISSING", "E_DECODE", "E_FRAMES_SHORT", "E_FRAME_MISMATCH", "E_OOM", "E_SIZE_MISMATCH", "E_VIDEO_MISSING"),
    )
)
"""Verdicts that the world outside may change without a word in the table: when the gate fails, their shards are looked at again in the next run.
Where it passes all the same, `verify: full` does so."""


def tally(steps: Iterable[tuple[str, Sequence[Fields]]]) -> Tally:
    """Return the tally of a branch.

    steps : (step name, rows of its manifests) in the order of the steps. An item's verdict is its first quarantined row; rows `upstream` only repeat one.
    """
    passed: dict[str, bool] = {}
    refused: dict[str, Fields] = {}
    for step, rows in steps:
        for row in rows:
            passed[row["id"]] = row["status"] == "ok"
            if row["status"] == "quarantined":
                refused.setdefault(row["id"], {**row, "step": step})
    return Tally(len(passed), sum(passed.values()), tuple(refused[key] for key in sorted(refused)))


def check_gate(branch: str, summary: Json, max_quarantined: int) -> None:
    """Raise DataError (too_many_quarantined) if a summary holds more quarantined items than allowed."""
    if summary["quarantined"] > max_quarantined:
        raise DataError(
            "too_many_quarantined",
            branch,
            f"{summary['quarantined']} of {summary['items']} items quarantined",
            f"at most {max_quarantined}",
            "everything else is built; mend their sources, take them out of the table if there is one, or raise max_quarantined",
        )
