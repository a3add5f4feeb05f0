"""The step verify_latents, as `shardwork` runs it: every finished file is looked at, as far as the level says; one that is no sample is set aside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from shardwork.digests import xxh3_file
from shardwork.errors import Fault
from shardwork.place import Place
from shardwork.step import Fields, Item, Step, upstream
from vidlatents.codes import SampleRefused
from vidlatents.models import kind_named
from vidlatents.stage import ENCODE_STEP, VERIFY_STEP, VERIFY_VERSION, output_of
from vidlatents.verify import Entry, Look, verify_file

HINT_WRITTEN_SO = "the file was written so: raise `redo.latents` (or give --no-append), and report it if the same comes back"
"""What to do about a file that is as it was written and no sample all the same."""


def verify_step(level: str, model: str, layout: str) -> Step:
    """Return the step that verifies a file.   level : one of verify.LEVELS.   model : its kind's name.   layout : sections or whole."""
    settings = {"level": level, "model": model, "layout": layout}
    return Step(VERIFY_STEP, VERIFY_VERSION, settings, partial(_verify, level=level, model=model, layout=layout), guards=True)


def verify_items(rows: Sequence[Fields], place: Place) -> list[Item]:
    """Return an item for every row of a shard manifest of encode_latents; what earlier steps refused comes with its verdict."""
    items = []
    for row in rows:
        if row["status"] != "ok":
            items.append(Item(row["id"], None, verdict=upstream(row, ENCODE_STEP)))
        elif not row["files"]:
            items.append(Item(row["id"], None, verdict=row))
        else:
            ((name, seen),) = row["files"].items()
            path = output_of(place, Path(name).name)
            inputs = {"digest": seen["digest"], "bytes": seen["bytes"], "sha256": row["sha256"], "uttid": row["uttid"]}
            items.append(Item(row["id"], inputs, watched=(path,)))
    return items


def _verify(item: Item, level: str, model: str, layout: str) -> Fields:
    (path,), inputs = item.watched, item.inputs
    if (found := _not_as_written(path, inputs, level)) is not None:
        expected = f"{inputs['bytes']} bytes, digest {inputs['digest']} as written"
        raise Fault("fault_stale", path.name, found, expected, "run the same command again: it is made anew")
    look = Look(level, {path.name: Entry(inputs["bytes"], inputs["sha256"])}, kind_named(model), layout)
    for finding in verify_file(path, look):
        raise SampleRefused(finding.code, finding.file, finding.found, finding.expected, HINT_WRITTEN_SO, inputs["uttid"], path.name)
    return {"level": level}


def _not_as_written(path: Path, inputs: Fields, level: str) -> str | None:
    """Return what shows that a file is not the one that was written, or None: its size at any level, its digest at all but the first."""
    if not path.is_file():
        return "no such file"
    if (size := path.stat().st_size) != inputs["bytes"]:
        return f"{size} bytes"
    return "another digest" if level != "size" and xxh3_file(path) != inputs["digest"] else None
