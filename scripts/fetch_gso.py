"""Download Google Scanned Objects from Gazebo Fuel, with their licences; what is complete is kept."""

import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.fetch.agent import MOST_WORKERS, each, new_client
from sam3dvid.fetch.books import FAILED, FETCHED, Failure, read_names, write_failed, write_fetched
from sam3dvid.fetch.fuel import BASE_URL, OWNER, fetch_model, list_models, records_in
from shardwork import command
from shardwork.errors import EXIT_OK, EXIT_SOME_FAILED, DataError
from shardwork.files import check_writable
from shardwork.locks import held_lock
from shardwork.progress import Progress

arguments = command.parser(__doc__)
arguments.add_argument("--out", type=Path, default=Path("data/gso"), help="the folder; each model gets one of its name (default: data/gso)")
arguments.add_argument("--limit", type=command.whole(1), help="take so many models, the first by name (default: all)")
arguments.add_argument("--names", type=Path, metavar="FILE", help="take the models that a text file names, one a line")
arguments.add_argument("--workers", type=command.whole(1), choices=range(1, MOST_WORKERS + 1), default=MOST_WORKERS, help="downloads at once (default: 4)")
arguments.add_argument("--base-url", default=BASE_URL, help=f"the server (default: {BASE_URL})")


def wanted_of(models, names, limit):
    """Return the models to take and a failure for each name that is not listed."""
    if names is not None:
        listed = {model.name: model for model in models}
        unknown = [Failure(name, "", "download_failed", f"no such model of {OWNER}") for name in names if name not in listed]
        models = [listed[name] for name in names if name in listed]
    else:
        unknown = []
    return models[:limit], unknown


def main(args) -> int:
    base = args.base_url.rstrip("/")
    names = read_names(args.names) if args.names else None
    check_writable(args.out)
    with held_lock(args.out / ".lock", args.out, "folder"), new_client() as client:
        try:
            models, failures = wanted_of(list_models(client, base), names, args.limit)
        except DataError as error:
            models, failures = [], [Failure.of("(the list of models)", base, error)]
        with Progress(len(models), "fetch_gso", "model") as progress:
            for model, result in each(client, lambda one: fetch_model(client, one, args.out, base), models, args.workers):
                if isinstance(result, DataError):
                    failures.append(Failure.of(model.name, model.zip_url(base), result))
                    progress.say(f"failed: {result}")
                progress.step()
        records = records_in(args.out)
        write_fetched(args.out, records)
        write_failed(args.out / FAILED, failures)
    print(f"{args.out / FETCHED}: {len(records)} models")
    if failures:
        print(f"{args.out / FAILED}: {len(failures)} failed, such as {failures[0].name}: {failures[0].found}; run the same command again to try them anew")
    return EXIT_SOME_FAILED if failures else EXIT_OK


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
