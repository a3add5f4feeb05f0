"""The panoramas of a frozen selection, on disk and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.books import Failure
from sam3dvid.fetch.client import Client
from sam3dvid.fetch.crew import each
from sam3dvid.fetch.download import measure
from sam3dvid.fetch.frozen import refuse_changed
from sam3dvid.fetch.polyhaven import NoPanorama, Upstream, as_it_is_now, list_hdris
from shardwork.errors import DataError

Tell = Callable[[str], None]


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
