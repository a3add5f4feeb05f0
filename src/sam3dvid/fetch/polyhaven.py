"""Poly Haven's public API: which panoramas there are, which are chosen, which file of each, and that file on disk, verified.

Source: https://api.polyhaven.com (GET /assets?type=hdris, GET /files/{id}); synthetic spec, section 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.agent import each
from sam3dvid.fetch.books import Failure
from sam3dvid.fetch.client import Client
from sam3dvid.fetch.download import measure
from sam3dvid.stage import hash_order
from shardwork.errors import DataError
from shardwork.jsonio import Json

API_URL, PAGE_URL = "https://api.polyhaven.com", "https://polyhaven.com"
CREDIT = "Powered by Poly Haven (https://polyhaven.com)"
"""What a program that uses the API shows. Source: Poly Haven's terms."""
LICENSE = "CC0-1.0"
_SLUG = re.compile(r"[A-Za-z0-9_-]{1,50}")
_SIZE = re.compile(r"([1-9][0-9]?)k")
_MD5 = re.compile(r"[0-9a-f]{32}")
_SUFFIXES = {"tonemapped": (".jpg", ".jpeg", ".png"), "exr": (".exr",), "hdr": (".hdr",)}
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Upstream:
    """One panorama's file as its source states it.

    slug : its id there.   authors : tuple of str.   kind : tonemapped, hdr, exr, or local (a file of a folder).   resolution : such as 8k, "" where
    there is only one.   url : where the file is.   bytes : int.   md5 : hex.   suffix : of the file, such as .jpg.   page : for people, "" if none.
    """

    slug: str
    authors: tuple[str, ...]
    kind: str
    resolution: str
    url: str
    bytes: int
    md5: str
    suffix: str
    page: str

    def as_json(self) -> dict[str, Json]:
        """Return the record as JSON."""
        return {**asdict(self), "authors": list(self.authors)}


@dataclass(frozen=True, slots=True)
class Selection:
    """What was chosen, in its order, and what was passed over: {slug: why}."""

    chosen: tuple[Upstream, ...]
    passed_over: dict[str, str]


class NoPanorama(AssetRefused):
    """The source lists an asset and has no file for it."""


def list_hdris(client: Client, base: str = API_URL) -> dict[str, tuple[str, ...]]:
    """Return slug -> authors of all panoramas. Slugs that the API's own rule forbids are left out. Raises AssetRefused (download_failed, bad_answer)."""
    url = f"{base}/assets?type=hdris"
    found = client.json(url)
    if not isinstance(found, dict) or not found or not all(isinstance(value, dict) for value in found.values()):
        raise AssetRefused("bad_answer", url, f"{type(found).__name__} {str(found)[:60]}", "an object of panoramas by slug")
    return {slug: _authors(value.get("authors")) for slug, value in found.items() if _SLUG.fullmatch(slug)}


def _authors(value: Json) -> tuple[str, ...]:
    """Return names sorted; the API gives {name: what of it}."""
    return tuple(sorted(map(str, value))) if isinstance(value, dict | list) else ()


def in_order(slugs: Iterable[str], salt: str) -> list[str]:
    """Return slugs by sha256(salt + slug): an order that no later panorama disturbs."""
    return sorted(slugs, key=lambda slug: (hash_order(salt, slug), slug))


def file_of(client: Client, slug: str, authors: tuple[str, ...], resolution: int, base: str = API_URL) -> Upstream:
    """Return the file to take of a panorama: the tone-mapped picture, else the largest HDR or EXR of at most `resolution` thousand pixels width.

    Raises NoPanorama (bad_answer) where there is none, AssetRefused (download_failed, bad_answer).
    """
    url, files = _files(client, slug, base)
    page = f"{PAGE_URL}/a/{slug}"
    if files.get("tonemapped") is not None:
        return _upstream(url, files["tonemapped"], slug, authors, "tonemapped", "", page)
    hdri = files.get("hdri")
    by_size: dict[str, Json] = hdri if isinstance(hdri, dict) else {}
    sizes = sorted((int(match[1]) for name in by_size if (match := _SIZE.fullmatch(name))), reverse=True)
    for size in sizes:
        of_size = by_size[f"{size}k"]
        for kind in ("hdr", "exr"):  # the HDR of one size is smaller, and 8 bits of either are wanted
            if size <= resolution and isinstance(of_size, dict) and of_size.get(kind) is not None:
                return _upstream(url, of_size[kind], slug, authors, kind, f"{size}k", page)
    raise NoPanorama("bad_answer", url, f"files {', '.join(sorted(files)) or 'none'}", f"tonemapped, or an HDR or EXR of at most {resolution}k")


def as_it_is_now(client: Client, then: Upstream, base: str = API_URL) -> Upstream | None:
    """Return what the source states today of a file that was chosen before, None if it has none of that kind any more. Raises AssetRefused."""
    url, files = _files(client, then.slug, base)
    entry = files.get("tonemapped")
    if then.kind != "tonemapped":
        sizes = files.get("hdri")
        kinds = sizes.get(then.resolution) if isinstance(sizes, dict) else None
        entry = kinds.get(then.kind) if isinstance(kinds, dict) else None
    return None if entry is None else _upstream(url, entry, then.slug, then.authors, then.kind, then.resolution, then.page)


def _files(client: Client, slug: str, base: str) -> tuple[str, dict[str, Json]]:
    """Return the address and the tree of a panorama's files. Raises NoPanorama where the source does not know it (404), AssetRefused."""
    url = f"{base}/files/{quote(slug)}"
    try:
        files = client.json(url)
    except AssetRefused as error:
        if error.found.startswith("status 404"):
            raise NoPanorama("bad_answer", url, error.found, "a list of files") from error
        raise
    if not isinstance(files, dict):
        raise AssetRefused("bad_answer", url, type(files).__name__, "an object of files")
    return url, files


def _upstream(where: str, entry: Json, slug: str, authors: tuple[str, ...], kind: str, resolution: str, page: str) -> Upstream:
    url, size, md5 = (entry.get(key) for key in ("url", "size", "md5")) if isinstance(entry, dict) else (None, None, None)
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
        raise AssetRefused("bad_answer", where, f"{kind}: url {url!r}", "an http or https address")
    suffix = PurePosixPath(unquote(urlsplit(url).path)).suffix.lower()
    if suffix not in _SUFFIXES[kind]:
        raise AssetRefused("bad_answer", where, f"{kind}: a file named {suffix!r}", " or ".join(_SUFFIXES[kind]))
    if type(size) is not int or size <= 0 or not isinstance(md5, str) or not _MD5.fullmatch(md5.lower()):
        raise AssetRefused("bad_answer", where, f"{kind}: size {size!r}, md5 {md5!r}", "a size and an md5")
    return Upstream(slug, authors, kind, resolution, url, size, md5.lower(), suffix, page)


def select(client: Client, salt: str, limit: int, resolution: int, workers: int, base: str = API_URL) -> Selection:
    """Return the first `limit` panoramas in the salt's order that have a file; all of them if there are fewer, or for 0.

    What the source has no file for is passed over. Raises AssetRefused for any other trouble: a selection never depends on a server's bad day.
    """
    listed = list_hdris(client, base)
    order = in_order(listed, salt)
    limit = limit or len(order)
    chosen: dict[str, Upstream] = {}
    passed_over: dict[str, str] = {}
    while order and len(chosen) < limit:
        batch, order = order[: limit - len(chosen)], order[limit - len(chosen) :]
        for slug, found in each(client, lambda slug: file_of(client, slug, listed[slug], resolution, base), batch, workers):
            if isinstance(found, NoPanorama):
                passed_over[slug] = found.found
            elif isinstance(found, DataError):
                raise found
            else:
                chosen[slug] = found
    return Selection(tuple(chosen[slug] for slug in in_order(chosen, salt)), dict(sorted(passed_over.items())))


def refuse_changed(pool: Path, then: Upstream, now: Upstream) -> None:
    """Raise AssetRefused (pool_frozen) where a source holds another file than the one that was chosen. That it moved is no matter."""
    if (then.md5, then.bytes) != (now.md5, now.bytes):
        found = f"{then.slug} is {now.kind} of {now.bytes} bytes, md5 {now.md5}, at its source"
        raise AssetRefused("pool_frozen", pool, found, f"{then.kind} of {then.bytes} bytes, md5 {then.md5}, as the folder was made with")


def file_in(downloads: Path, upstream: Upstream) -> Path:
    """Return where a panorama is kept."""
    return downloads / f"{upstream.slug}{upstream.suffix}"


def missing(sources: Sequence[Upstream], downloads: Path) -> list[Upstream]:
    """Return the panoramas that are not on disk with the frozen size and md5."""

    def there(upstream: Upstream) -> bool:
        path = file_in(downloads, upstream)
        if not path.is_file() or path.stat().st_size != upstream.bytes:
            return False
        return measure(path).md5 == upstream.md5

    return [upstream for upstream in sources if not there(upstream)]


def check_upstream(client: Client, pool: Path, sources: Sequence[Upstream], lacking: Sequence[Upstream], workers: int, base: str, tell: Tell) -> None:
    """Raise AssetRefused (pool_frozen) where the source states another digest than the frozen one for any panorama.

    lacking : those not yet on disk. If there are none, a source that cannot be reached is no trouble: all that the pool needs is here.
    A panorama that the source no longer has is one either, as long as it is on disk.
    """
    try:
        list_hdris(client, base)
    except AssetRefused as error:
        if lacking:
            raise
        tell(f"not compared with its source, which does not answer: {error.found}")
        return
    for upstream, now in each(client, lambda one: as_it_is_now(client, one, base), sources, workers):
        if isinstance(now, Upstream):
            refuse_changed(pool, upstream, now)
        elif isinstance(now, DataError) and not isinstance(now, NoPanorama):
            if lacking:
                raise now
            tell(f"{upstream.slug} is not compared with its source: {now.found}")


def fetch_panoramas(client: Client, wanted: Sequence[Upstream], downloads: Path, workers: int, tell: Tell) -> list[Failure]:
    """Download panoramas into a folder, resuming what is there, and return those that did not come.

    tell : called with a line for each that is done.   OSError and Fault are let through.
    """
    failures, done = [], 0

    def fetch(upstream: Upstream) -> int:
        return client.download(upstream.url, file_in(downloads, upstream), upstream.bytes, upstream.md5).bytes

    for upstream, result in each(client, fetch, wanted, workers):
        if isinstance(result, DataError):
            failures.append(Failure.of(upstream.slug, upstream.url, result))
            tell(f"failed: {result}")
        else:
            done += 1
            tell(f"{done} of {len(wanted)}: {upstream.slug}, {result / 1e6:.1f} MB")
    return failures
