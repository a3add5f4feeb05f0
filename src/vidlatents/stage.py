"""What the workflow must know of latents before any video is opened: versions, folders, ids, work shards. Standard library alone."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

from shardwork.branch import Branch, Stage
from shardwork.ids import is_id
from shardwork.place import Place
from shardwork.shards import split_rows
from shardwork.tables import Row
from vidlatents.records import parse_name

PLAN_STEP, TEXT_STEP, ENCODE_STEP, VERIFY_STEP = "plan_latents", "encode_text", "encode_latents", "verify_latents"
PLAN_VERSION = 1
"""Raised when a change of code changes what a plan says of a sample."""
TEXT_VERSION = 1
"""Raised when a change of code changes an embedding's bytes."""
ENCODE_VERSION = 1
"""Raised when a change of code changes the bytes of a .pt file, or what its row says; CHANGELOG says so."""
VERIFY_VERSION = 1
"""Raised when verification finds more than before, so that finished files are looked at again."""

MANIFEST_VERSION = 1
"""Raised when a change of code changes what is written beside a finished folder."""
MODEL_VERSION = 1
"""Raised when a change of code changes the weights of tiny models."""

STEPS = (PLAN_STEP, ENCODE_STEP, VERIFY_STEP)
"""Steps of a folder's work shards, in their order; between the first two the prompts of all folders are encoded, in one work shard."""
TEXT_SHARD = ONE_SHARD = "0000-of-0001"
TINY = "tiny"
"""Weights of this name are random and made on the spot."""
MANIFEST, DATASET, FAILURES = "manifest.jsonl", "dataset.json", "failures.jsonl"
"""Files about a finished folder; they stand among its books."""
KEY = "uttid"
SOURCES = ("events", "clips", "records")
"""Where samples come from: control videos of events and of clips, and the user's own records."""
ROW_COLUMNS = ("id", KEY, "source", "digest")
"""Columns that decide what is planned for a sample."""
LATENT_SUFFIX = ".pt"


def folder_of(model: str, layout: str) -> str:
    """Return the name of the folder of a model and layout: loaders read a flat folder, so each has its own."""
    return f"{model}-{layout}"


def plans_place(stage: Path) -> Place:
    """Return where plans are kept: in the rows of their manifests alone.   stage : results/<run>/latents_plans/<model>-<layout>."""
    return Place(stage, (), _no_id)


def _no_id(name: str) -> None:
    return None


def latents_place(books: Path, folder: Path, own: Collection[str] = ()) -> Place:
    """Return where latents are kept: <uttid>_<frames>_<height>_<width>.pt in one flat folder, in which nothing else of ours may lie.

    books : for manifests, journals and quarantine, results/<run>/latents_books/<model>-<layout>.   folder : results/<run>/latents/<model>-<layout>.
    own : ids of this pipeline's own samples, which are their uttids; the id of another is its file's name.
    """
    return Place(books, (folder,), partial(_id_of, own=own), home=folder)


def _id_of(name: str, own: Collection[str]) -> str | None:
    if (parsed := parse_name(name)) is None:
        return None
    return parsed[0] if parsed[0] in own else item_id(name.removesuffix(LATENT_SUFFIX))


def output_of(place: Place, name: str) -> Path:
    """Return a sample's file.   name : as of `records.name_of`."""
    return (place.home or place.stage) / name


def sidecar_of(notes: Path, item: str) -> Path:
    """Return the note of what a sample's file was made for: no such thing may stand in the file, nor beside it.

    notes : the one folder of notes that a folder of latents has, whatever records its samples come from.
    """
    return notes / f"{item}.json"


def text_place(books: Path) -> Place:
    """Return where embeddings are kept: embeds/<digest>.<encoder>.safetensors.   books : results/<run>/latents_books/text."""
    return Place(books, (books / "embeds",), _digest_of)


def _digest_of(name: str) -> str | None:
    digest, _, rest = name.partition(".")
    return digest if rest.endswith(".safetensors") and is_id(digest) else None


def embedding_of(place: Place, digest: str, encoder: str) -> Path:
    """Return the file of an embedding.   digest : of the cleaned prompt.   encoder : short digest of the text encoder."""
    return place.folders[0] / f"{digest}.{encoder}.safetensors"


def prompts_mark(texts: Place, planned: Path, text: Path) -> Path:
    """Return the mark that a manifest of encode_text has all prompts of a shard's plan.

    texts : of embeddings.   planned, text : the manifests, results/<run>/latents_plans/<model>-<layout>/shards/plan_latents/<shard>.<key>.jsonl and that of the
    text.
    """
    folder, (shard, made_for, _) = planned.parts[-4], planned.name.split(".")
    return texts.stage / "shards" / "prompts" / f"{folder}.{shard}.{made_for}.{text.name.split('.')[1]}"


def prompts_marks(texts: Place, folder: str = "*", shard: str = "*") -> list[Path]:
    """Return the marks of a shard, or of all, whatever plan and text were made for.   folder : <model>-<layout>."""
    return sorted((texts.stage / "shards" / "prompts").glob(f"{folder}.{shard}.*"))


def manifest_mark(place: Place, key: str) -> Path:
    """Return the mark of a folder's manifest: it stands for the key of files that bear fixed names.   key : digest of what they were written for."""
    return place.stage / ".manifest" / key


def latents_branch(layout: str, shards: Mapping[str, tuple[str, ...]], plans: Place, place: Place) -> Branch:
    """Return the branch of one folder.   shards : the ids of each work shard that holds any."""
    return Branch(f"latents_{layout}", shards, (Stage(plans, (PLAN_STEP,)), Stage(place, STEPS[1:])))


def item_id(text: str) -> str:
    """Return the id under which shardwork knows a sample: the text itself where it is an id, else one near it with 12 digits of its sha256.

    text : the name of the sample's file without .pt; of a record that makes no sample its uttid, or its place in the file.
    """
    if is_id(text):
        return text
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()).strip("_")[:87]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return "_".join(filter(None, (plain, digest)))


def deal_rows(rows: Iterable[Row], work_shards: int) -> Mapping[str, list[Row]]:
    """Return the rows of each work shard that holds any, by its name: sha256(uttid) mod work_shards, whatever else there is."""
    return split_rows(rows, KEY, work_shards)
