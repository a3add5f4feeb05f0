"""Pools of background pictures: what lies in a frozen one, and whether it is still what was frozen."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.codes import AssetRefused
from sam3dvid.stage import SELECTION
from shardwork.digests import BLOCK_BYTES, sha256_file
from shardwork.errors import DataError
from shardwork.ids import is_id
from shardwork.jsonio import Json, dumps, read_json, read_jsonl
from shardwork.step import Fields

FORMAT_VERSION = 1
SPLITS = ("eval", "train")
CREDITS = "CREDITS.md"
POLYHAVEN, SA1B = "polyhaven", "sa1b"
KINDS = (POLYHAVEN, SA1B)

CC0, SA1B_LICENSE = "CC0-1.0", "LicenseRef-SA-1B"
RELEASABLE = (CC0, "CC-BY-4.0", "CC-BY-3.0")
"""Licences whose pictures may stand in a published clip. SA-1B is for research only."""

ROW_KEYS = frozenset(
    "image_id file width height bytes sha256 virtual_hfov_deg source source_url source_file source_width source_bytes source_sha256 source_md5 "
    "license authors releasable projection pool split_key".split()
)
"""What every row of eval.jsonl and train.jsonl holds."""


@dataclass(frozen=True, slots=True)
class Panorama:
    """A panorama on disk.

    slug : its name at its source, an id.   path : JPEG, PNG, HDR or EXR.   bytes, mtime_ns : int, what it was when it was listed.
    md5 : what its source states, empty if nothing.
    """

    slug: str
    path: Path
    bytes: int
    mtime_ns: int
    source_url: str = ""
    license: str = CC0
    authors: tuple[str, ...] = ()
    md5: str = ""


@dataclass(frozen=True, slots=True)
class Pool:
    """A frozen pool.   folder : where it lies.   kind : polyhaven or sa1b.   eval, train : its rows, sorted by image_id.   selection : what was frozen."""

    folder: Path
    kind: str
    eval: tuple[Fields, ...]
    train: tuple[Fields, ...]
    selection: Mapping[str, Json]

    def picture(self, row: Fields) -> Path:
        """Return where the picture of a row lies."""
        return self.folder / str(row["file"])


def is_eval(salt: str, key: str, fraction: float) -> bool:
    """Return whether the picture or panorama of this id belongs to eval. Source: synthetic spec, section 4."""
    return int(hashlib.sha256(f"{salt}:{key}".encode()).hexdigest(), 16) % 10000 < round(fraction * 10000, 6)


def split_of(salt: str, key: str, fraction: float) -> str:
    """Return the split of an id: eval or train."""
    return "eval" if is_eval(salt, key, fraction) else "train"


def both_sums(path: Path) -> tuple[str, str]:
    """Return the md5 and the sha256 of a file's bytes, as hex."""
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            md5.update(block)
            sha256.update(block)
    return md5.hexdigest(), sha256.hexdigest()


def index_bytes(rows: Sequence[Fields]) -> bytes:
    """Return what eval.jsonl or train.jsonl holds for these rows."""
    return "".join(dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["image_id"])).encode()


def read_selection(folder: Path) -> dict[str, Json] | None:
    """Return what a folder's pool was frozen with, or None if it holds no frozen pool. Raises AssetRefused (bad_pool)."""
    path = folder / SELECTION
    if not path.exists():
        return None
    try:
        found = read_json(path)
    except DataError as error:
        raise AssetRefused("bad_pool", path, error.found, "the file that froze the pool") from error
    keys = {"format_version", "kind", "settings", "sources", "refused", "index"}
    if not isinstance(found, dict) or found.keys() != keys or found["format_version"] != FORMAT_VERSION or found["kind"] not in KINDS:
        raise AssetRefused("bad_pool", path, "another form", f"format_version {FORMAT_VERSION} with {', '.join(sorted(keys))}")
    return found


def read_pool(folder: Path) -> Pool:
    """Return a frozen pool. Looks at its index alone; `verify_pool` reads every picture.

    Raises AssetRefused (bad_pool) if the folder holds none, or its index is not what was frozen.
    """
    selection = read_selection(folder)
    if selection is None:
        raise AssetRefused("bad_pool", folder, f"no {SELECTION}", "a frozen pool", "build the pool first")
    rows = {split: _read_rows(folder, split, selection) for split in SPLITS}
    ids = [row["image_id"] for split in SPLITS for row in rows[split]]
    keys = [{row["split_key"] for row in rows[split]} for split in SPLITS]
    if len(ids) != len(set(ids)):
        raise AssetRefused("bad_pool", folder, "an image_id twice", "one row an image_id")
    if shared := keys[0] & keys[1]:
        raise AssetRefused("bad_pool", folder, f"{min(shared)} in both splits", "every source in one split")
    return Pool(folder, selection["kind"], tuple(rows["eval"]), tuple(rows["train"]), selection)


def _read_rows(folder: Path, split: str, selection: Mapping[str, Json]) -> list[Fields]:
    path = folder / f"{split}.jsonl"
    if not path.is_file():
        raise AssetRefused("bad_pool", path, "no such file", "the index of the split")
    if sha256_file(path) != selection["index"].get(path.name):
        raise AssetRefused("bad_pool", path, "another digest than was frozen", "the index as it was frozen")
    rows: list[Fields] = read_jsonl(path)
    for row in rows:
        if row.keys() != ROW_KEYS or row["pool"] != split or not is_id(row["image_id"]):
            raise AssetRefused("bad_pool", f"{path}: {row.get('image_id')!r}", "a row of another form", f"the keys {', '.join(sorted(ROW_KEYS))}")
    return rows


def verify_pool(folder: Path) -> Pool:
    """Return a frozen pool after every picture was read and found to have its bytes and sha256. Raises AssetRefused (bad_pool) for the first that has not."""
    pool = read_pool(folder)
    for row in (*pool.eval, *pool.train):
        if problem := picture_problem(pool.picture(row), row):
            raise AssetRefused("bad_pool", row["file"], problem, f"{row['bytes']} bytes, sha256 {row['sha256']}")
    return pool


def picture_problem(path: Path, row: Fields) -> str | None:
    """Return what is wrong with the picture of a row, or None. Reads it whole."""
    if not path.is_file():
        return "no such file"
    if (size := path.stat().st_size) != row["bytes"]:
        return f"{size} bytes"
    return None if (digest := sha256_file(path)) == row["sha256"] else f"sha256 {digest}"
