"""The report of a branch: what passed, what did not and why, for people and for the gate."""

from __future__ import annotations

from collections.abc import Sequence

from shardwork.errors import DataError, plain
from shardwork.gate import tally
from shardwork.ids import is_id
from shardwork.jsonio import Json
from shardwork.step import Fields

TOTALS = {
    "frames": "frames",
    "voxels": "voxels",
    "num_triangles": "triangles",
    "num_voxels": "occupied voxels",
    "num_pictures": "pictures",
    "num_objects": "objects",
    "attempt": "rejected attempts",
    "used": "frames encoded",
    "dropped": "frames dropped",
    "unread": "frames not read",
    "elsewhere": "in the folder of the other layout",
    "tiny": "made with tiny random models, for tests only",
    "adopted": "",
    "clipped": "",
    "duration_seconds": "",
}
"""Numeric fields of a manifest row that are worth adding up, and what a person calls them; empty where the line of totals leaves them out."""


def summarise(branch: str, steps: Sequence[tuple[str, Sequence[Fields]]], ids: Sequence[str]) -> Json:
    """Return the summary of a branch: items, passed, quarantined, codes, refused rows, totals.

    steps : (step name, rows of its manifests), in order.   ids : the table's, each of which must have its row in every step.
    Raises DataError (manifest_mismatch) unless every step has one row for each id, and every item passed or is refused by name.
    """
    for step, rows in steps:
        if sorted(row["id"] for row in rows) != sorted(ids):
            raise _mismatch(step, f"{len(rows)} rows", f"one for each of the table's {len(ids)} ids")
    counts = tally(steps)
    if counts.passed + len(counts.refused) != len(ids):
        raise _mismatch(branch, f"{counts.passed} passed and {len(counts.refused)} refused", f"{len(ids)} in all")
    passed = {row["id"] for row in steps[-1][1] if row["status"] == "ok"}
    first = [row for row in steps[0][1] if row["id"] in passed]
    totals: dict[str, Json] = {}
    for _, rows in steps:
        for name in TOTALS.keys() - totals.keys():
            if values := [row[name] for row in rows if row["id"] in passed and row.get(name) is not None]:
                totals[name] = sum(values)
    totals["bytes"] = _bytes_of(first)
    for step, rows in steps[1:]:
        if published := [row for row in rows if row["id"] in passed and row["files"]]:
            totals[step] = {"items": len(published), "bytes": _bytes_of(published)}
    return {"branch": branch, **counts.as_json(), "totals": totals}


def _bytes_of(rows: Sequence[Fields]) -> int:
    return sum(seen["bytes"] for row in rows for seen in row["files"].values())


def _mismatch(where: str, found: str, expected: str) -> DataError:
    return DataError("manifest_mismatch", where, found, expected, "the table or a manifest changed meanwhile: run the workflow again")


def as_text(summary: Json) -> str:
    """Return a summary as lines for people; the refused items come last, each with its reason and what to do."""
    lines = [f"{summary['branch']}: {summary['passed']} of {summary['items']} passed, {summary['quarantined']} quarantined"]
    totals = summary["totals"]
    counts = " -> ".join(f"{totals[name]:,} {words}" for name, words in TOTALS.items() if words and name in totals)
    size = f", {totals['bytes'] / 2**20:,.1f} MiB" if totals["bytes"] else ""  # of steps whose files stand in lines of their own there are none
    lines.append(f"  {counts or 'nothing'}{size}")
    lines += [f"  {step}: {of['items']:,} files, {of['bytes'] / 2**20:,.1f} MiB" for step, of in totals.items() if isinstance(of, dict)]
    if totals.get("clipped"):
        lines.append(f"  {totals['clipped']:,} voxel values were beyond int16 and are clipped")
    if totals.get("adopted"):
        lines.append(f"  {totals['adopted']:,} files were found without a note and adopted: of which autoencoder, and whether it was a tiny one, is not known")
    for row in summary["refused"]:
        name = row["id"] if is_id(row["id"]) else repr(row["id"])
        lines.append(f"  {name}: {row['code']} ({row['step']}): {row['found']}, expected {row['expected']}: {row['hint']}")
    return "".join(plain(line) + "\n" for line in lines)
