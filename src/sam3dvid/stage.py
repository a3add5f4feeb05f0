"""What the workflow must know of assets and backgrounds before any is opened: tables, folders, versions. Standard library alone."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.assets.licenses import settled
from shardwork.branch import Branch, Stage, branch_of
from shardwork.errors import DataError
from shardwork.ids import is_id
from shardwork.jsonio import loads
from shardwork.place import Place
from shardwork.shards import parse_shard, shard_name
from shardwork.step import Source
from shardwork.tables import Row, read_table, whole_number

NORMALIZE_VERSION = 1
"""Raised when a change of code, or of a pinned Blender, changes the bytes of a normalised mesh; CHANGELOG says so."""
VOXELIZE_VERSION = 1
"""Raised when a change of code changes voxels or meta.json."""
AUDIT_VERSION = 1
"""Raised when a change of code changes the table of licences."""
POLYHAVEN_VERSION = 1
"""Raised when a change of code changes the views of a panorama."""
SA1B_VERSION = 1
"""Raised when a change of code changes which photos a pool holds, or what is refused."""
PLAN_VERSION = 2
"""Raised when a change of code changes the bytes of a plan."""
RENDER_VERSION = 1
"""Raised when a change of code, or of a pinned Blender, changes the pixels of a rendered clip; CHANGELOG says so."""
COMPOSITE_VERSION = 1
"""Raised when a change of code, or of a pinned OpenCV, changes the bytes of a clip's rgb or of its JSON files."""
VALIDATE_CLIPS_VERSION = 1
"""Raised when validation finds more than before, so that finished clips are looked at again."""
CLIP_MANIFEST_VERSION = 1
"""Raised when a change of code changes the dataset's manifest.jsonl or config.yaml."""
CLIP_CONTROLS_VERSION = 1
"""Raised when a change of code, or of a pinned encoder, changes the bytes of a clip's control videos."""
EXPORT_VERSION = 1
"""Raised when a change of code changes the bytes of an exported shard; libraries that encode are part of the plan themselves."""
SHIP_VERSION = 1
"""Raised when a change of code changes the bytes of a split that is shipped whole."""

ASSET_STEPS = ("normalize_assets", "voxelize_assets")
SPLITS = ("train", "eval")
UP_AXES = ("file", "Y", "Z")
"""Which axis of the source points up: as its format states it (glTF, FBX), or Y or Z (formats that state none: OBJ, PLY, STL)."""
STATED_UP = (".glb", ".gltf", ".fbx")
"""Formats whose files state which way is up."""
MESH_SUFFIXES = (".glb", ".gltf", ".obj", ".fbx", ".ply", ".stl")

ASSET_KEY = "asset_id"
ASSET_COLUMNS = (ASSET_KEY, "path", "split", "source", "source_name", "license", "up_axis", "bytes", "mtime_ns", "parts")
"""Columns of an asset table. source : gso, objaverse or another word.   source_name : its name there.   license : SPDX id where known.
parts : JSON list of [name, bytes, mtime_ns] of the further files (materials, textures, buffers), relative to the table as `path` is.
"""
MESH_COLUMNS = (ASSET_KEY, "path", "split", "up_axis", "bytes", "mtime_ns", "parts")
"""Those that decide the normalised mesh: a corrected licence makes no mesh again."""
ASSET_NOTES = ("source_url", "author", "attribution", "scores")
"""Optional columns: they enter meta.json and the audit. scores : JSON object, name -> number."""


def normalized_place(stage: Path) -> Place:
    """Return where normalised meshes are kept: {train,eval}/<id>.glb and sidecars/<id>.json.   stage : results/<run>/assets."""
    return Place(stage, tuple(stage / name for name in (*SPLITS, "sidecars")), _mesh_id_of)


def _mesh_id_of(name: str) -> str | None:
    stem, _, suffix = name.rpartition(".")
    return stem if suffix in ("glb", "json") and is_id(stem) else None


def mesh_of(place: Place, asset_id: str, split: str) -> tuple[Path, Path]:
    """Return the normalised mesh and the sidecar of an asset."""
    return place.stage / split / f"{asset_id}.glb", place.stage / "sidecars" / f"{asset_id}.json"


def assets_place(stage: Path, dataset: Path) -> Place:
    """Return where finished assets are kept: assets/{train,eval}/<id>/ of the dataset, each a folder that is written whole.

    stage : results/<run>/voxels, for what is no part of the dataset (manifests, journals, quarantine).   dataset : results/<run>/dataset.
    """
    return Place(stage, tuple(dataset / "assets" / split for split in SPLITS), _folder_id_of, home=dataset)


def _folder_id_of(name: str) -> str | None:
    return name if is_id(name) else None


def asset_of(dataset: Path, asset_id: str, split: str) -> Path:
    """Return an asset's folder in the dataset."""
    return dataset / "assets" / split / asset_id


def read_asset_table(path: Path) -> list[Row]:
    """Return the rows of an asset table. Raises DataError (bad_table, duplicate_id) for what would fail later."""
    rows = read_table(path, ASSET_KEY, ASSET_COLUMNS[1:])
    if not rows:
        raise DataError("bad_table", path, "no rows", "at least one asset", "make the table from a folder that holds assets")
    for row in rows:
        where = f"{path}: {row[ASSET_KEY]!r}"
        if row["split"] not in SPLITS:
            raise DataError("bad_table", where, f"split is {row['split']!r}", " or ".join(SPLITS), "correct the split column")
        stated = Path(row["path"]).suffix.lower() in STATED_UP
        allowed = UP_AXES if stated else UP_AXES[1:]
        if row["up_axis"] not in allowed:
            raise DataError("bad_table", where, f"up_axis is {row['up_axis']!r}", " or ".join(allowed), "correct the up_axis column")
        whole_number(row, "bytes", where)
        whole_number(row, "mtime_ns", where)
        sources_of(row, path)
    return [_with_license(row, path) for row in rows]


def _with_license(row: Row, table: Path) -> Row:
    """Return a row with the SPDX id of its licence, which people may have written otherwise. Raises DataError (bad_table)."""
    if (found := settled(row["license"])) is None:
        where, hint = f"{table}: {row[ASSET_KEY]!r}", "write its id, LicenseRef-NAME for one of your own, or leave it empty if it is not known"
        raise DataError("bad_table", where, f"license is {row['license'][:60]!r}", "an SPDX id such as CC-BY-4.0", hint)
    return {**row, "license": found}


def sources_of(row: Row, table: Path) -> tuple[Source, ...]:
    """Return the files of an asset, its main file first. Raises DataError (bad_table)."""
    where = f"{table}: {row[ASSET_KEY]!r}"
    try:
        parts = loads(row["parts"] or "[]")
    except DataError as error:
        raise DataError("bad_table", where, f"parts: {error.found}", "a JSON list", "make the table again") from error
    sound = isinstance(parts, list) and all(
        isinstance(part, list) and len(part) == 3 and isinstance(part[0], str) and type(part[1]) is int and type(part[2]) is int for part in parts
    )
    if not sound:
        raise DataError("bad_table", where, "parts is of another form", "a JSON list of [name, bytes, mtime_ns]", "make the table again")
    return (Source.from_row(row, table), *(Source(table.parent / name, name, size, mtime) for name, size, mtime in parts))


POOL_KEYS = {"polyhaven": "slug", "sa1b": "image_id"}
"""Kind of a pool -> the id column of the table that it is built from."""
POOL_COLUMNS = {
    "polyhaven": ("slug", "path", "license", "source_url", "authors", "bytes", "mtime_ns"),
    "sa1b": ("image_id", "path", "license", "bytes", "mtime_ns"),
}
LONGEST_SLUG = 80
"""The id of a view is ph_<slug>_v<k>, and an id has at most 100 characters."""
ONE_SHARD = "0000-of-0001"
"""A pool is one work shard: it is frozen as a whole."""


def pool_place(kind: str, stage: Path, pool: Path) -> Place:
    """Return where a pool's pictures are kept: {train,eval}/ph_<slug>_v<k>.jpg of a Poly Haven pool; photos stay where they are.

    stage : for all else, `books_of` the pool.
    """
    folders = tuple(pool / split for split in SPLITS) if kind == "polyhaven" else ()
    return Place(stage, folders, _slug_of, home=pool)


def books_of(pool: Path) -> Path:
    """Return where a pool's journal, manifest and quarantine lie: beside it, so that nothing but the pool stands in it, and no run takes another's."""
    return pool.with_name(pool.name + ".books")


def _slug_of(name: str) -> str | None:
    stem, _, suffix = name.rpartition(".")
    slug, _, _ = stem.removeprefix("ph_").rpartition("_v")
    return slug if suffix == "jpg" and stem.startswith("ph_") and is_id(slug) else None


def read_pool_table(kind: str, path: Path) -> list[Row]:
    """Return the rows of a table of panoramas or photos. Raises DataError (bad_table, duplicate_id)."""
    rows = read_table(path, POOL_KEYS[kind], POOL_COLUMNS[kind][1:])
    if not rows:
        raise DataError("bad_table", path, "no rows", "at least one picture", "make the table from a folder that holds pictures")
    for row in rows:
        where = f"{path}: {row[POOL_KEYS[kind]]!r}"
        whole_number(row, "bytes", where)
        whole_number(row, "mtime_ns", where)
    return rows


SELECTION = "selection.json"
"""The file that freezes a pool."""


def is_frozen(pool: Path) -> bool:
    """Return whether a frozen pool stands in a folder."""
    return (pool / SELECTION).is_file()


def check_pool(pool: Path) -> None:
    """Raise DataError (bad_pool) unless a frozen pool stands in a folder."""
    if not is_frozen(pool):
        hint = "make it with scripts/prepare_polyhaven.py, or name a table of panoramas on disk"
        raise DataError("bad_pool", pool, "no selection.json", "a frozen pool", hint)


def first_panoramas(rows: list[Row], salt: str, limit: int) -> list[Row]:
    """Return the panoramas that a pool takes: the first `limit` in the order of sha256(salt + slug), all for 0. Source: synthetic spec, section 4."""
    ordered = sorted(rows, key=lambda row: hash_order(salt, row["slug"]))
    return ordered[: limit or len(ordered)]


def hash_order(salt: str, slug: str) -> str:
    """Return what panoramas are ordered by when a pool takes the first of them: sha256(salt + slug)."""
    return hashlib.sha256((salt + slug).encode()).hexdigest()


def pool_branch(kind: str, rows: list[Row], stage: Path, pool: Path) -> Branch:
    """Return the branch of the pictures that a pool takes."""
    return branch_of(kind, rows, POOL_KEYS[kind], 1, (Stage(pool_place(kind, stage, pool), (f"build_{kind}_pool",)),))


def assets_branch(rows: list[Row], stage: Path, voxels: Path, dataset: Path, work_shards: int) -> Branch:
    """Return the branch of the rows of an asset table that the configuration's filter keeps."""
    normalized = normalized_place(stage)
    normalize, voxelize = ASSET_STEPS
    stages = (Stage(normalized, (normalize,)), Stage(assets_place(voxels, dataset), (voxelize,)))
    return branch_of("assets", rows, ASSET_KEY, work_shards, stages)


PLAN_STEP = "plan_clips"
SEED_BASES = {"eval": 0, "train": 1_000_000}
"""Split -> what is added to int(clip_id) to make the clip's seed."""
LONGEST_SHARD = 1000
"""Clips of a work shard, at most. Up to here no two cuts give a shard the same name, so that none takes the journal of another cut for its own."""
MOST_CLIPS = 1_000_000
"""Clips that a split may have: one more of eval would share its seed with one of train."""
CLIP_ID = re.compile(r"[0-9]{8}")


def clip_name(index: int) -> str:
    """Return the id of a split's clip number `index`, counted from 0."""
    return f"{index:08d}"


def seed_of(clip_id: str, split: str) -> int:
    """Return a clip's seed. Raises DataError (bad_argument) for a clip beyond those that a split may have."""
    if int(clip_id) >= MOST_CLIPS:
        raise DataError("bad_argument", f"clip {clip_id}", "a seed that another split may have", f"at most {MOST_CLIPS} clips in a split", "plan fewer")
    return SEED_BASES[split] + int(clip_id)


def is_clip_id(text: str) -> bool:
    """Return whether a text is a clip's id: 8 digits."""
    return CLIP_ID.fullmatch(text) is not None


def plans_place(stage: Path) -> Place:
    """Return where plans are kept: {train,eval}/<clip_id>.json.   stage : results/<run>/plans."""
    return Place(stage, tuple(stage / split for split in SPLITS), _clip_id_of)


def _clip_id_of(name: str) -> str | None:
    stem, _, suffix = name.rpartition(".")
    return stem if suffix == "json" and is_clip_id(stem) else None


def plan_of(place: Place, clip_id: str, split: str) -> Path:
    """Return the plan of a clip."""
    return place.stage / split / f"{clip_id}.json"


RENDER_STEP = "render_clips"
RENDER_RECORD = "render.json"
"""The file of a rendered clip's folder that is written last, sealed: what was rendered, the sha256 of every other file, and `timing`, the host's own."""


def renders_place(stage: Path, plans: Place) -> Place:
    """Return where rendered clips are kept: {train,eval}/<clip_id>/, each a folder that is written whole.

    stage : results/<run>/renders.   plans : the place of the plans that they are rendered from.
    """
    return Place(stage, tuple(stage / split for split in SPLITS), _clip_folder_id_of, plans)


def _clip_folder_id_of(name: str) -> str | None:
    return name if is_clip_id(name) else None


def render_of(place: Place, clip_id: str, split: str) -> Path:
    """Return the folder of a rendered clip."""
    return place.stage / split / clip_id


CLIP_STEPS = ("composite_clips", "validate_clips")
"""Steps that work in the dataset's clips, in their order."""
CLIP_CONTROLS_STEP = "render_clip_controls"
"""A further one, in a place of its own, where control videos are switched on."""
CLIP_CONTROLS = ("depth", "mask")
"""Kinds of control videos of a clip."""
MANIFEST, CONFIG = "manifest.jsonl", "config.yaml"
"""Files of a dataset beside its folders assets/ and clips/."""


def clips_place(stage: Path, dataset: Path) -> Place:
    """Return where finished clips are kept: clips/{train,eval}/<clip_id>/ of the dataset, each a folder that is written whole.

    stage : results/<run>/clips, for what is no part of the dataset (manifests, journals, quarantine).   dataset : results/<run>/dataset.
    """
    return Place(stage, tuple(dataset / "clips" / split for split in SPLITS), _clip_folder_id_of, home=dataset)


def clip_of(dataset: Path, clip_id: str, split: str) -> Path:
    """Return a clip's folder in the dataset."""
    return dataset / "clips" / split / clip_id


def clip_controls_place(stage: Path, clips: Place) -> Place:
    """Return where control videos of clips are kept: {train,eval}/<clip_id>.{depth,mask}.mkv and sidecars/{train,eval}/<clip_id>.json.

    stage : results/<run>/controls/clips.   clips : the place of the clips that they are made from.
    """
    folders = tuple(base / split for base in (stage, stage / "sidecars") for split in SPLITS)
    return Place(stage, folders, _clip_control_id_of, clips)


def _clip_control_id_of(name: str) -> str | None:
    stem, _, rest = name.partition(".")
    return stem if rest in (*(f"{kind}.mkv" for kind in CLIP_CONTROLS), "json") and is_clip_id(stem) else None


def clip_controls_of(place: Place, clip_id: str, split: str) -> tuple[Path, ...]:
    """Return the control videos of a clip, in the order of CLIP_CONTROLS, and their sidecar."""
    videos = (place.stage / split / f"{clip_id}.{kind}.mkv" for kind in CLIP_CONTROLS)
    return (*videos, place.stage / "sidecars" / split / f"{clip_id}.json")


def clip_manifest_mark(place: Place, key: str) -> Path:
    """Return the mark of a dataset's manifest: a file that says for what it was written. It stands outside the dataset, whose files bear fixed names.

    place : of the clips.   key : digest of the configuration and of the shard manifests, as in the name of a shard manifest.
    """
    return place.stage / ".manifest" / key


EXPORT_INDEX = "index.json"
"""The file of an export that is written last."""


def export_index(folder: Path) -> Path:
    """Return the index of an export.   folder : of the export of one split."""
    return folder / EXPORT_INDEX


def shipped(folder: Path, split: str) -> list[Path]:
    """Return the files of a split that is shipped whole: the tar, and its sha256 for `sha256sum -c`."""
    return [folder / f"{split}.tar", folder / f"{split}.tar.sha256"]


def clip_shards(clips: int, clips_per_shard: int, first: int = 0) -> dict[str, list[str]]:
    """Return the clip ids of every work shard that has some: `clips_per_shard` in a row to each, the first and the last may have fewer.

    clips : how many there are, from number `first` on. A shard's name counts those of a split that has all it may have: more clips leave the names of
    those before.
    Raises DataError (bad_argument) for more clips a shard than LONGEST_SHARD.
    """
    if clips_per_shard > LONGEST_SHARD:
        raise DataError("bad_argument", "--clips-per-shard", str(clips_per_shard), f"at most {LONGEST_SHARD}", "make the shards smaller")
    most, end = -(-MOST_CLIPS // clips_per_shard), first + clips
    return {
        shard_name(number, most): [clip_name(index) for index in range(max(first, number * clips_per_shard), min(end, (number + 1) * clips_per_shard))]
        for number in range(first // clips_per_shard, -(-end // clips_per_shard))
    }


def clips_of(shard: str, clips: int, clips_per_shard: int, first: int = 0) -> list[str]:
    """Return the clip ids of one work shard. Raises DataError (bad_argument) for a name that is no shard's of this cut."""
    parse_shard(shard)
    shards = clip_shards(clips, clips_per_shard, first)
    if shard not in shards:
        expected = f"one of {len(shards)}, {next(iter(shards), 'none')} and on"
        raise DataError("bad_argument", "--shard", repr(shard), expected, "see the line that snakemake -p prints")
    return shards[shard]


@dataclass(frozen=True, slots=True)
class ClipPlaces:
    """Where the files of clips are, from plan to control video."""

    plans: Place
    renders: Place
    clips: Place
    controls: Place


def clip_places(plans: Path, renders: Path, clips: Path, dataset: Path, controls: Path) -> ClipPlaces:
    """Return where the files of clips are.   plans, renders, clips, controls : stages, below results/<run>.   dataset : results/<run>/dataset."""
    planned = plans_place(plans)
    rendered, finished = renders_place(renders, planned), clips_place(clips, dataset)
    return ClipPlaces(planned, rendered, finished, clip_controls_place(controls, finished))


def clips_branch(places: ClipPlaces, clips: int, clips_per_shard: int, first: int, controls: bool) -> Branch:
    """Return the branch of the clips of a split.   controls : whether control videos are made."""
    shards = {shard: tuple(ids) for shard, ids in clip_shards(clips, clips_per_shard, first).items()}
    stages = (
        Stage(places.plans, (PLAN_STEP,)),
        Stage(places.renders, (RENDER_STEP,)),
        Stage(places.clips, CLIP_STEPS),
        Stage(places.controls, (CLIP_CONTROLS_STEP,), controls),
    )
    return Branch("clips", shards, stages)
