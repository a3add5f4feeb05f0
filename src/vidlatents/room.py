"""Whether the disk has room for what a step is about to write: asked once before the first sample, so that no run ends in the middle for want of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path

from shardwork.errors import DataError
from shardwork.place import Place
from shardwork.step import Fields, Item
from vidlatents.stage import output_of

EMBED_VALUES = 512 * 4096
"""Values of an embedding of Wan's text encoder, at most."""
VALUE_BYTES = {"float32": 4, "bfloat16": 2}
PICTURE_BYTES = 3
SPARE = 1.05


def samples_need(rows: Iterable[Fields], place: Place, text_dtype: str) -> dict[Path, int]:
    """Return folder -> bytes that the files of planned samples take which are not there yet.   rows : of plan_latents, those that are encoded."""
    sizes = {
        output_of(place, row["name"]): 8 * prod(row["latent_shape"]) + _embed_bytes(text_dtype) + PICTURE_BYTES * row["height"] * row["width"] for row in rows
    }
    return {place.home or place.stage: sum(size for path, size in sizes.items() if not path.exists())}


def embeddings_need(items: Sequence[Item], place: Place, text_dtype: str) -> dict[Path, int]:
    """Return folder -> bytes that the embeddings take which are not there yet, all of them long ones.   items : of encode_text."""
    return {place.folders[0]: sum(_embed_bytes(text_dtype) for item in items for path in item.outputs if not path.exists())}


def _embed_bytes(text_dtype: str) -> int:
    return EMBED_VALUES * VALUE_BYTES[text_dtype]


def check_room(needs: Mapping[Path, int]) -> None:
    """Raise DataError (E_DISK) unless every disk has room for all that its folders need.   needs : folder, there or not, -> bytes."""
    disks: dict[int, tuple[Path, int]] = {}
    for folder, needed in needs.items():
        there = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
        device = there.stat().st_dev
        disks[device] = there, disks.get(device, (there, 0))[1] + needed
    for there, needed in disks.values():
        if (free := shutil.disk_usage(there).free) < (asked := round(SPARE * needed)):
            found, expected = f"{free / 2**20:,.0f} MiB free", f"{asked / 2**20:,.0f} MiB for what is to be written"
            raise DataError("E_DISK", there, found, expected, "free disk space, then run the same command")
