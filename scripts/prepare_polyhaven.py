"""Make a frozen background pool of Poly Haven's panoramas: choose, freeze, download, verify, cut views. Run it again to go on or to check."""

import argparse
import dataclasses
import re
import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.backgrounds.pool import Panorama
from sam3dvid.backgrounds.settings import PanoramaSettings
from sam3dvid.fetch.agent import MOST_WORKERS, new_client
from sam3dvid.fetch.books import FAILED, Failure, write_failed
from sam3dvid.fetch.frozen import choose, freeze, frozen, same_files
from sam3dvid.fetch.polyhaven import API_URL, CREDIT, LICENSE, check_upstream, fetch_panoramas, file_in, missing, select
from sam3dvid.stage import books_of
from shardwork import command
from shardwork.errors import EXIT_OK, EXIT_SOME_FAILED, DataError, print_error
from shardwork.files import check_writable
from shardwork.locks import held_lock
from shardwork.run import Options


def _resolution(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]?k", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no resolution such as 8k")
    return int(text[:-1])


arguments = command.parser(__doc__)
arguments.add_argument("--out", type=Path, default=Path("data/bg_pools_polyhaven"), help="the pool's folder (default: data/bg_pools_polyhaven)")
arguments.add_argument("--source", type=Path, metavar="DIR", help="take the panoramas of this folder (HDR, EXR, JPG) and use no network")
arguments.add_argument("--resolution", type=_resolution, default="8k", help="the largest HDR or EXR to take where there is no tone-mapped JPG (default: 8k)")
arguments.add_argument("--downloads", type=Path, metavar="DIR", help="where panoramas are kept (default: OUT_downloads, beside the pool)")
arguments.add_argument("--workers", type=command.whole(1), choices=range(1, MOST_WORKERS + 1), default=MOST_WORKERS, help="downloads at once (default: 4)")
arguments.add_argument("--processes", type=command.whole(0), default=1, help="processes that cut views; 0 works in this one (default: 1)")
arguments.add_argument("--api-url", default=API_URL, help=f"the server (default: {API_URL})")
command.add_settings(arguments, PanoramaSettings)
arguments.set_defaults(limit=200)  # as the seed's command; the library's own default is all


def say(text: str) -> None:
    """Print a line for the log."""
    print(text, file=sys.stderr, flush=True)


def panorama_of(upstream, path: Path) -> Panorama:
    """Return a panorama on disk with what its source states of it."""
    seen = path.stat()
    return Panorama(upstream.slug, path, seen.st_size, seen.st_mtime_ns, upstream.page, LICENSE, upstream.authors, upstream.md5)


def from_folder(args, settings, stated) -> list[Panorama]:
    """Return the panoramas of --source, frozen. Raises DataError."""
    selection, files = choose(args.source, settings.salt, settings.limit)
    then = frozen(args.out, stated)
    if then is None:
        freeze(args.out, stated, selection)
    else:
        same_files(args.out, then, selection)
    return [panorama_of(upstream, files[upstream.slug]) for upstream in selection.chosen]


def from_network(args, settings, stated, client) -> tuple[list[Panorama], list[Failure]]:
    """Return the panoramas of the frozen selection, or those that failed. Raises DataError."""
    base = args.api_url.rstrip("/")
    downloads = args.downloads or args.out.with_name(args.out.name + "_downloads")
    sources = frozen(args.out, stated)
    if sources is None:
        say(f"choosing {settings.limit or 'all'} panoramas")
        selection = select(client, settings.salt, settings.limit, args.resolution, args.workers, base)
        freeze(args.out, stated, selection)
        sources, wanted = selection.chosen, missing(selection.chosen, downloads)
        if len(sources) < settings.limit:
            say(f"the source has {len(sources)} panoramas, fewer than {settings.limit}")
    else:
        wanted = missing(sources, downloads)
        check_upstream(client, args.out, sources, wanted, args.workers, base, say)
    say(f"{len(sources)} panoramas frozen, {len(sources) - len(wanted)} on disk, {sum(one.bytes for one in wanted) / 1e9:.2f} GB to download")
    failures = fetch_panoramas(client, wanted, downloads, args.workers, say)
    return [] if failures else [panorama_of(upstream, file_in(downloads, upstream)) for upstream in sources], failures


def build(args, settings, panoramas, stage: Path) -> list[Failure]:
    """Cut the views and freeze the pool; return what was refused."""
    # as late as this: choosing and downloading need none of the packages that pictures need
    from sam3dvid.backgrounds.polyhaven_pool import build_polyhaven_pool

    rows = build_polyhaven_pool(panoramas, args.out, stage, settings, Options(workers=args.processes))
    urls = {panorama.slug: panorama.source_url for panorama in panoramas}
    return [Failure(row["id"], urls.get(row["id"], ""), row["code"], row["found"]) for row in rows if row["status"] != "ok"]


def main(args) -> int:
    settings = command.settings_from(args, PanoramaSettings)
    stated = {**dataclasses.asdict(settings), "resolution": "" if args.source else f"{args.resolution}k", "source": "folder" if args.source else "polyhaven"}
    stage = books_of(args.out)
    check_writable(args.out)
    print(CREDIT, flush=True)
    with held_lock(stage / ".lock", args.out, "pool"):
        failures: list[Failure] = []
        panoramas: list[Panorama] = []
        if args.source:
            panoramas = from_folder(args, settings, stated)
        else:
            with new_client() as client:
                try:
                    panoramas, failures = from_network(args, settings, stated, client)
                except DataError as error:
                    if error.code not in ("download_failed", "bad_answer"):
                        raise
                    print_error(error)
                    failures = [Failure.of("(the list of panoramas)", error.where, error)]
        if not failures:
            failures = build(args, settings, panoramas, stage)
        write_failed(stage / FAILED, failures)
    if failures:
        print(f"{stage / FAILED}: {len(failures)} failed, such as {failures[0].name}: {failures[0].found}")
        return EXIT_SOME_FAILED
    print(f"{args.out}: a pool of {len(panoramas)} panoramas, {settings.views} views each")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
