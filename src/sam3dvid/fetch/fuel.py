"""Google Scanned Objects from Gazebo Fuel: which models there are, and each one's files.

Source: https://fuel.gazebosim.org/1.0/<owner>/models?page=N&per_page=100 (a list; Link and X-Total-Count headers; 404 after the last page),
/1.0/<owner>/models/<name>/<version>/<name>.zip.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from sam3dvid.assets.licenses import spdx_of
from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.books import Record
from sam3dvid.fetch.client import Client
from sam3dvid.fetch.unzip import unpack
from shardwork.digests import sha256_file
from shardwork.errors import DataError
from shardwork.files import atomic_folder, make_folder
from shardwork.jsonio import Json, read_json, write_json

BASE_URL, OWNER = "https://fuel.gazebosim.org", "GoogleResearch"
PER_PAGE, MOST_PAGES = 100, 1000
MAIN_FILE = "meshes/model.obj"
NOTE = "fuel.json"
"""What a model's folder holds beside its own files: where it came from, its licence, the size of each file."""
ZIP_LIMIT_BYTES = 2 << 30
_PICTURES = (".png", ".jpg", ".jpeg")
_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}")


@dataclass(frozen=True, slots=True)
class Model:
    """One model as the server lists it.   version : text for its address, "tip" where none is listed.   license : SPDX id where known, else its name."""

    name: str
    owner: str
    version: str
    license: str
    license_url: str

    def page_url(self, base: str) -> str:
        """Return the model's address."""
        return f"{base}/1.0/{quote(self.owner, safe='')}/models/{quote(self.name, safe='')}"

    def zip_url(self, base: str) -> str:
        """Return the address of all its files in one zip."""
        return f"{self.page_url(base)}/{self.version}/{quote(self.name, safe='')}.zip"


def list_models(client: Client, base: str = BASE_URL, owner: str = OWNER) -> list[Model]:
    """Return all models of an owner, sorted by name. Raises AssetRefused: download_failed, or bad_answer for a listing that is not whole."""
    found: dict[str, Model] = {}
    total = None
    for number in range(1, MOST_PAGES + 1):
        url = f"{base}/1.0/{quote(owner, safe='')}/models?page={number}&per_page={PER_PAGE}"
        try:
            page = client.page(url)
        except AssetRefused as error:
            if number > 1 and error.found.startswith("status 404"):
                break  # how this server says that there are no more
            raise
        if not isinstance(page.value, list):
            raise AssetRefused("bad_answer", url, type(page.value).__name__, "a list of models")
        models = [_model(url, entry, owner) for entry in page.value]
        new = {model.name: model for model in models if model.name not in found}
        found |= new
        total = page.total if page.total is not None else total
        if not new or (page.linked and not page.next_url):
            break
    if not found or (total is not None and len(found) < total):
        raise AssetRefused("bad_answer", f"{base}/1.0/{owner}/models", f"{len(found)} models", f"{total or 'some'} models, as it states")
    return [found[name] for name in sorted(found)]


def _model(where: str, entry: Json, owner: str) -> Model:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("."):
        raise AssetRefused("bad_answer", where, f"a model named {name!r}", "a name that a folder can have")
    version = entry.get("version")
    text, url = str(entry.get("license_name") or ""), str(entry.get("license_url") or "")
    stated = str(version) if type(version) is int and version > 0 else "tip"
    return Model(name, str(entry.get("owner") or owner), stated, spdx_of(text, url), url)


def fetch_model(client: Client, model: Model, out: Path, base: str = BASE_URL) -> Record:
    """Download a model and unpack it to `out/<name>`, whole or not at all.

    A model that is there already, with every file of the size that it was unpacked with, is kept; a folder of its name that is anything else is
    moved to `out/.aside`. A damaged zip is downloaded once more.
    Raises AssetRefused: download_failed, digest_mismatch, bad_answer (a zip that reaches outside its folder), missing_part, missing_texture.
    """
    kept = record_of(out / model.name)
    if kept is not None:
        return kept
    url, packed = model.zip_url(base), out / ".downloads" / f"{model.name}.zip"
    try:
        for last in (False, True):
            fetched = client.download(url, packed, limit_bytes=ZIP_LIMIT_BYTES)
            try:
                return _unpack(model, packed, out / model.name, base, url, fetched.sha256)
            except AssetRefused as error:
                if last or error.code != "digest_mismatch":
                    raise
    finally:
        packed.unlink(missing_ok=True)
    raise AssertionError("unreachable")


def _unpack(model: Model, packed: Path, folder: Path, base: str, url: str, sha256: str) -> Record:
    with atomic_folder(folder, lambda _: _set_aside(folder)) as temp:
        files = unpack(packed, temp, url)
        if MAIN_FILE not in files:
            raise AssetRefused("missing_part", url, f"{len(files)} files without {MAIN_FILE}", MAIN_FILE)
        if not any(name.lower().endswith(_PICTURES) and name.split("/")[0] in ("materials", "meshes") for name in files):
            raise AssetRefused("missing_texture", url, f"{len(files)} files without a texture", "a picture in materials/textures or meshes")
        record = Record(
            f"{model.name}/{MAIN_FILE}", sha256_file(temp / MAIN_FILE), "gso", model.name, model.page_url(base), model.license, _author(temp) or model.owner
        )
        source = {"url": url, "sha256": sha256, "version": model.version, "license_url": model.license_url}
        write_json(temp / NOTE, {"source": source, "files": files, "record": asdict(record)})
    return record


def _set_aside(folder: Path) -> None:
    """Move what stands in a model's place out of the way: it may be someone's work."""
    if not folder.exists():
        return
    aside = folder.parent / ".aside"
    make_folder(aside)
    number = next(number for number in itertools.count(1) if not (aside / f"{folder.name}.{number}").exists())
    os.rename(folder, aside / f"{folder.name}.{number}")


def _author(folder: Path) -> str:
    """Return the first author that metadata.pbtxt names, "" if it names none."""
    path = folder / "metadata.pbtxt"
    if not path.is_file():
        return ""
    found = re.search(r'authors\s*\{[^}]*?name:\s*"([^"\\]+)"', path.read_text(errors="replace"))
    return found[1] if found else ""


def record_of(folder: Path) -> Record | None:
    """Return the record of a model that is there whole, None if it is not: every file has the size that its note says."""
    try:
        note = read_json(folder / NOTE)
        record, files = Record(**note["record"]), dict(note["files"])
        whole = all((folder / name).stat().st_size == size for name, size in files.items())
    except (FileNotFoundError, NotADirectoryError, DataError, KeyError, TypeError, ValueError):
        return None
    return record if whole and record.file == f"{folder.name}/{MAIN_FILE}" else None


def records_in(out: Path) -> list[Record]:
    """Return the records of all models that are there whole."""
    folders = sorted(path for path in out.iterdir() if path.is_dir() and not path.name.startswith(".")) if out.is_dir() else []
    return [record for folder in folders if (record := record_of(folder)) is not None]
