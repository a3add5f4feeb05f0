"""What the workflow must know of latents before any video is opened: versions, folders, ids, work shards. Standard library alone."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from shardwork.digests import digest_value
from shardwork.ids import is_id
from shardwork.place import Place
from shardwork.shards import split_rows
from shardwork.tables import Row
from vidlatents.records import Records, name_of, parse_name

PLAN_VERSION = 1
"""Raised when a change of code changes what a plan says of a sample."""
TEXT_VERSION = 1
"""Raised when a change of code changes an embedding's bytes."""
ENCODE_VERSION = 1
"""Raised when a change of code changes the bytes of a .pt file; CHANGELOG says so."""
VERIFY_VERSION = 1
"""Raised when verification finds more than before, so that finished files are looked at again."""

STEPS = ("plan_latents", "encode_text", "encode_latents", "verify_latents")
"""Steps of work shards, in their order."""
KEY = "uttid"
SOURCES = ("events", "clips", "records")
"""Where samples come from: control videos of events and of clips, and the user's own records."""
ROW_COLUMNS = (KEY, "source", "digest")
"""Columns that decide what is planned for a sample."""
LATENT_SUFFIX = ".pt"


def folder_of(model: str, layout: str) -> str:
    """Return the name of the folder of a model and layout: loaders read a flat folder, so each has its own."""
    return f"{model}-{layout}"


def latents_place(books: Path, folder: Path) -> Place:
    """Return where latents are kept: <uttid>_<frames>_<height>_<width>.pt in one flat folder, in which nothing else of ours may lie.

    books : for manifests, journals and quarantine, results/<run>/latents_books/<model>-<layout>.   folder : results/<run>/latents/<model>-<layout>.
    """
    return Place(books, (folder,), _id_of, home=folder)


def _id_of(name: str) -> str | None:
    return None if parse_name(name) is None else item_id(name.removesuffix(LATENT_SUFFIX))


def item_id(text: str) -> str:
    """Return the id under which shardwork knows a sample: the text itself where it is an id, else one near it with 12 digits of its sha256.

    text : the name of the sample's file without .pt; of a record that makes no sample its uttid, or its place in the file.
    """
    if is_id(text):
        return text
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()).strip("_")[:87]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "_".join(filter(None, (plain, digest)))


def record_rows(records: Records) -> list[Row]:
    """Return a row for every record: what its shard is made from. A record that was refused has its place for a uttid."""
    rows: list[Row] = [{KEY: sample.uttid, "source": "records", "digest": digest_value([name_of(sample), sample.source])} for _, sample in records.samples]
    return rows + [{KEY: error.where, "source": "records", "digest": digest_value([error.code, error.found])} for error in records.refused]


def deal_rows(rows: Iterable[Row], work_shards: int) -> Mapping[str, list[Row]]:
    """Return the rows of each work shard that holds any, by its name: sha256(uttid) mod work_shards, whatever else there is."""
    return split_rows(rows, KEY, work_shards)
