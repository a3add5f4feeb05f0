"""Photos that stay where they are -> a frozen pool of rows, split by a hash of the image id."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sam3dvid.backgrounds.freeze import Freezer
from sam3dvid.backgrounds.images import read_photo
from sam3dvid.backgrounds.pool import RELEASABLE, SA1B, SA1B_LICENSE, both_sums, split_of
from sam3dvid.backgrounds.settings import PhotoSettings
from sam3dvid.conventions import BACKGROUND_HFOV_DEG
from sam3dvid.stage import SA1B_VERSION, pool_place
from shardwork.run import Options
from shardwork.step import Fields, Item, Source, Step
from shardwork.tables import Row


def build_sa1b_pool(
    rows: Sequence[Row], table: Path, pool: Path, stage: Path, settings: PhotoSettings, options: Options, max_refused: int | None = None
) -> list[Fields]:
    """Return a manifest row for every photo of a table after the pool is frozen. Each photo is decoded whole once; none is copied.

    rows : of `tables.read_photo_table`.   table : their file, which relative paths count from.   pool, stage, max_refused : as in `build_polyhaven_pool`.
    Raises as `build_polyhaven_pool`: above all pool_frozen for a folder that holds a pool of Poly Haven's views.
    """
    step = Step("build_sa1b_pool", SA1B_VERSION, asdict(settings), partial(_look, settings=settings))
    items = [_item(row, table, pool, settings) for row in rows]
    place = pool_place(SA1B, stage, pool)
    return Freezer(SA1B, pool, place, asdict(settings), credits_text, max_refused).build(step, items, options)


def _item(row: Row, table: Path, pool: Path, settings: PhotoSettings) -> Item:
    source = Source.from_row(row, table)
    file = row["path"] if Path(row["path"]).is_absolute() else os.path.relpath(source.path, pool)
    inputs = {"file": file, "license": row["license"], "split": split_of(settings.salt, row["image_id"], settings.eval_fraction)}
    return Item(row["image_id"], inputs, sources=(source,))


def _look(item: Item, settings: PhotoSettings) -> Fields:
    (source,), facts = item.sources, item.inputs
    height, width, _ = read_photo(source.path, settings, source.name).shape
    md5, sha256 = both_sums(source.path)
    license_id = facts["license"]
    name = source.path.name
    record = {"split": facts["split"], "file": name, "bytes": source.bytes, "sha256": sha256, "md5": md5, "width": width, "license": license_id}
    picture = {
        "image_id": item.id,
        "file": facts["file"],
        "width": width,
        "height": height,
        "bytes": source.bytes,
        "sha256": sha256,
        "virtual_hfov_deg": BACKGROUND_HFOV_DEG,
        "source": SA1B if license_id == SA1B_LICENSE else "photo",
        "source_url": "",
        "source_file": name,
        "source_width": width,
        "source_bytes": source.bytes,
        "source_sha256": sha256,
        "source_md5": md5,
        "license": license_id,
        "authors": [],
        "releasable": license_id in RELEASABLE,
        "projection": None,
        "pool": facts["split"],
        "split_key": item.id,
    }
    return {"source": {**record, "authors": [], "source_url": ""}, "pictures": [picture], "num_pictures": 1}


def credits_text(pictures: Sequence[Fields]) -> str:
    """Return what CREDITS.md says: how many photos under which licence."""
    lines = ["# Credits", ""]
    for license_id in sorted({picture["license"] for picture in pictures}):
        count = sum(picture["license"] == license_id for picture in pictures)
        use = "may be published" if license_id in RELEASABLE else "research only: clips with them must not be published"
        lines.append(f"- {count} photos, {license_id or 'licence not stated'}: {use}")
    return "\n".join(lines) + "\n"
