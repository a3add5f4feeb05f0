"""What a model is, from its files alone: no weights are loaded, so that a job with nothing to do costs nothing.

Weights that are cut into other files are another card: their samples are encoded again. Digests are kept with sizes and times of the files and the folder that
they lie in, and taken again where one differs: tar archives and images give the files of two models equal times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shardwork.digests import digest_value, seal, unseal, xxh3_file
from shardwork.errors import DataError, Fault
from shardwork.ids import HUB_ID
from shardwork.jsonio import Json, loads, read_json, write_json
from vidlatents.models import HUB, WEIGHTS, check_kind, config_digest, find_part, loaded, missing, vae_hub_of, weight_files

TINY_PARAMETERS = 20_000_000
"""Fewer parameters than a released autoencoder (127 and 705 million) or text encoder (5.7 billion) of Wan has: the weights are no real ones."""
TEXT_PARTS = (("text_encoder", "config.json"), ("tokenizer", "tokenizer_config.json"))
VAE_PARTS = (("vae", "config.json"),)
LONGEST_HEADER = 100 << 20


@dataclass(frozen=True, slots=True)
class Card:
    """What a model is.

    name : of its kind.   config : digest of its configuration.   weights : digest of its weights' files, and of the tokenizer's.   parameters : int.
    tiny : whether it is too small to be a released model, so that what it makes is good for tests only.
    """

    name: str
    config: str
    weights: str
    parameters: int
    tiny: bool

    def as_json(self) -> dict[str, Json]:
        """Return the fields for a fingerprint, manifest or report."""
        return asdict(self)

    @property
    def short(self) -> str:
        """Return 12 digits that tell this model from others."""
        return digest_value(self.as_json())[:12]


def local_part(where: str | Path, part: str, marker: str, hub: str, local_only: bool = False) -> Path:
    """Return the local folder of a part of a model; what a hub id names is downloaded.

    where, part, marker, hub : as of `models.find_part`.   Raises DataError (E_MODEL_MISSING).
    """
    path, subfolder = find_part(where, part, marker, hub)
    if subfolder is None:
        return Path(path)

    def fetch() -> str:
        from huggingface_hub import snapshot_download

        return str(snapshot_download(path, allow_patterns=[f"{subfolder}/*"], local_files_only=local_only))

    folder = Path(loaded(fetch, where, hub), subfolder)
    if not (folder / marker).is_file():
        raise missing(where, f"no {part}/{marker}", hub)
    return folder


def at_hand(where: str, parts: tuple[tuple[str, str], ...], hub: str, books: Path | None = None) -> str:
    """Return the folder of a model whose parts are all here: `where` itself, or of a hub id the snapshot of one commit, downloaded as far as it is missing.

    where : a local folder, a hub id, or a hub id with a commit, tag or branch behind an @.   parts : as VAE_PARTS.   books : where the commit is noted that a
    name stood for when it was first asked for: all jobs and all later runs take that one, whatever becomes of the branch. Raises DataError
    (E_MODEL_MISSING).
    """
    name, _, revision = where.partition("@")
    if Path(where).exists() or not HUB_ID.fullmatch(name):
        return where
    note = None if books is None else books / f"hub-{digest_value(where)[:16]}.json"
    commit = _noted_commit(note, where)

    def fetch() -> str:
        from huggingface_hub import snapshot_download

        patterns = [f"{part}/*" for part, _ in parts]
        return str(snapshot_download(name, revision=commit or revision or None, allow_patterns=patterns))

    folder = Path(loaded(fetch, where, hub))
    if note is not None and commit is None:
        _note(note, seal({"commit": folder.name, "where": where}))
    return str(folder)


def _noted_commit(note: Path | None, where: str) -> str | None:
    if note is None:
        return None
    try:
        noted = unseal(read_json(note))
    except (FileNotFoundError, DataError):
        return None
    return str(noted["commit"]) if noted is not None and noted["where"] == where else None


def _note(path: Path, value: Json) -> None:
    """Write a note that several jobs may write at once, each the same."""
    try:
        write_json(path, value)
    except Fault as fault:
        if fault.code != "not_published" or read_json(path) != value:
            raise


def stamp_of(where: str | Path, parts: tuple[tuple[str, str], ...]) -> list[list[Json]]:
    """Return names, sizes and times (ns) of a local model's files: other weights under the same name show in them, and none is read.

    parts : VAE_PARTS or TEXT_PARTS.   Empty for what is not there; a hub id says itself what it names.   Two folders may have one stamp, and a moved one keeps
    its own: who tells models apart by it says `where` too.
    """
    found: list[list[Json]] = []
    for number, (part, marker) in enumerate(parts):
        folder = next((one for one in (Path(where, part), Path(where)) if (one / marker).is_file()), None)
        found += _seen(_files(number, folder)) if folder else []
    return found


def _files(number: int, folder: Path) -> dict[str, Path]:
    return {f"{number}/{path.name}": path for path in sorted(folder.iterdir()) if path.is_file()}


def _seen(files: Mapping[str, Path]) -> list[list[Json]]:
    return [[key, stat.st_size, stat.st_mtime_ns] for key, path in files.items() for stat in [path.stat()]]


def vae_card(where: str | Path, kind: str, books: Path | None = None, *, local_only: bool = False) -> Card:
    """Return the card of a video autoencoder.

    kind : its name, as of `models.kind_named`.   books : a folder to keep it in.   Raises DataError (E_MODEL_MISSING, E_MODEL_KIND, bad_argument).
    """
    hub = vae_hub_of(kind)
    folder = local_part(where, *VAE_PARTS[0], hub, local_only)
    check_kind(_config(folder / VAE_PARTS[0][1], where, hub), kind, where)
    return _card(where, kind, VAE_PARTS, hub, books, local_only)


def text_card(where: str | Path, books: Path | None = None, *, hub: str = HUB["wan21"], local_only: bool = False) -> Card:
    """Return the card of a text encoder and its tokenizer.   hub : whose download is named where it is missing. Raises DataError (E_MODEL_MISSING)."""
    return _card(where, "umt5", TEXT_PARTS, hub, books, local_only)


def _card(where: str | Path, name: str, parts: tuple[tuple[str, str], ...], hub: str, books: Path | None, local_only: bool) -> Card:
    folders = [local_part(where, part, marker, hub, local_only) for part, marker in parts]
    files = {key: path for number, folder in enumerate(folders) for key, path in _files(number, folder).items()}
    # the folder as a digest, since no file of ours names a path of this machine
    seen: list[Json] = [[digest_value(str(folder.resolve())) for folder in folders], *_seen(files)]
    note = None if books is None else books / f"{name}-{digest_value(seen)[:16]}.json"
    if note is not None and (known := _noted(note, seen)) is not None:
        return known
    weights = weight_files(folders[0], where, hub)
    rest = [[key, xxh3_file(path)] for key, path in files.items() if path.suffix == WEIGHTS or key.startswith("1/")]
    parameters = sum(parameters_of(path, where, hub) for path in weights)
    card = Card(name, config_digest(_config(folders[0] / parts[0][1], where, hub)), digest_value(rest), parameters, parameters < TINY_PARAMETERS)
    if note is not None:
        _note(note, seal({"card": card.as_json(), "seen": seen}))
    return card


def _noted(path: Path, seen: list[Json]) -> Card | None:
    """Return the card that was noted for these very files in this very place, or None."""
    try:
        noted = unseal(read_json(path))
    except (FileNotFoundError, DataError):
        return None
    return Card(**noted["card"]) if noted is not None and noted["seen"] == seen else None


def _config(path: Path, where: str | Path, hub: str) -> Mapping[str, Any]:
    try:
        config = loads(path.read_bytes(), path)
    except DataError as error:
        raise missing(where, f"{path.name}: {error.found}", hub) from error
    if not isinstance(config, dict):
        raise missing(where, f"{path.name} is no JSON object", hub)
    return config


def parameters_of(path: Path, where: str | Path, hub: str) -> int:
    """Return how many numbers a file of safetensors holds. Raises DataError (E_MODEL_MISSING) for a damaged one."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length)) if length <= LONGEST_HEADER else None
        except ValueError:
            header = None
    if not isinstance(header, dict):
        raise missing(where, f"{path.name} is damaged", hub)
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
