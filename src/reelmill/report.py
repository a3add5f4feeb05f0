"""The report of a branch: what passed, what did not and why, for people and for the gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardwork.errors import Fault
from shardwork.gate import tally
from shardwork.jsonio import Json, read_jsonl

TOTALS = ("frames", "voxels", "clipped", "duration_seconds")
"""Numeric fields of a manifest row that are worth adding up."""


def summarise(branch: str, steps: Sequence[tuple[str, Sequence[Path]]], ids: Sequence[str]) -> Json:
    """Return the summary of a branch: items, passed, quarantined, codes, refused rows, totals.

    steps : (step name, its shard manifests), in order.   ids : the table's, each of which must have its row in every step.
    Raises Fault (manifest_mismatch) if one has none, or a manifest names an id that the table lacks.
    """
    for step, manifests in steps:
        found = sorted(row["id"] for path in manifests for row in read_jsonl(path))
        if found != sorted(ids):
            raise Fault("manifest_mismatch", step, f"{len(found)} rows", f"one for each of the table's {len(ids)} ids", "run the workflow again")
    first, last = steps[0][1], steps[-1][1]
    passed = {row["id"] for path in last for row in read_jsonl(path) if row["status"] == "ok"}
    rows = [row for path in first for row in read_jsonl(path) if row["id"] in passed]
    totals = {name: sum(row.get(name) or 0 for row in rows) for name in TOTALS}
    totals["bytes"] = sum(seen["bytes"] for row in rows for seen in row["files"].values())
    return {"branch": branch, **tally(steps).as_json(), "totals": totals}


def as_text(summary: Json) -> str:
    """Return a summary as lines for people; the refused items come last, each with its reason and what to do."""
    lines = [f"{summary['branch']}: {summary['passed']} of {summary['items']} passed, {summary['quarantined']} quarantined"]
    totals = summary["totals"]
    lines.append(f"  {totals['frames']:,} frames -> {totals['voxels']:,} voxels, {totals['bytes'] / 2**20:,.1f} MiB")
    if totals["clipped"]:
        lines.append(f"  {totals['clipped']:,} voxel values were beyond int16 and are clipped")
    for row in summary["refused"]:
        lines.append(f"  {row['id']}: {row['code']} ({row['step']}): {row['found']}, expected {row['expected']}: {row['hint']}")
    return "\n".join(lines) + "\n"
