"""Download objects of Objaverse-XL through the objaverse package, each verified and with its licence; what is complete is kept."""

import shutil
import sys
from pathlib import Path

import _src  # noqa: F401
from sam3dvid.codes import AssetRefused
from sam3dvid.fetch.agent import growing_waits
from sam3dvid.fetch.books import FAILED, FETCHED, Failure, read_fetched, write_failed, write_fetched
from sam3dvid.fetch.objaverse import Job, annotations_of, batches, fetch_batch, is_there, package
from sam3dvid.fetch.objects import described, read_ids, read_wanted, record_for, settle
from shardwork import command
from shardwork.errors import EXIT_OK, EXIT_SOME_FAILED, DataError
from shardwork.files import check_writable
from shardwork.locks import held_lock
from shardwork.progress import Progress

arguments = command.parser(__doc__)
what = arguments.add_mutually_exclusive_group(required=True)
what.add_argument("--metadata", type=Path, metavar="CSV", help="a table as TRELLIS-500K has: sha256, file_identifier, aesthetic_score")
what.add_argument("--ids", type=Path, metavar="FILE", help="a text file of objects, one a line: their addresses, or Sketchfab's 32 hex digits")
arguments.add_argument("--out", type=Path, default=Path("data/objaverse"), help="the folder; files are named by their sha256 (default: data/objaverse)")
arguments.add_argument("--min-aesthetic", type=float, default=5.5, help="leave out rows of the table with a lower score, or none; 0 takes all (default: 5.5)")
arguments.add_argument("--limit", type=command.whole(1), help="take so many, the first by sha256, or as the file names them (default: all)")
arguments.add_argument("--processes", type=command.whole(1), default=4, help="processes that the package starts (default: 4)")
arguments.add_argument("--batch", type=command.whole(1), default=64, help="objects in one call of the package (default: 64)")
arguments.add_argument("--tries", type=command.whole(1), default=3, help="calls for a batch before its objects are fetched one by one (default: 3)")


def fetch_source(job, source, wanted, batch, books) -> None:
    """Fetch the objects of one source and book what became of each. Raises AssetRefused (download_failed) where its annotations cannot be had."""
    annotations = annotations_of(job, source)
    known = described(annotations, wanted)
    fine, refused = settle(wanted, known)
    for one, error in refused.items():
        books.refuse(one, error)
    there = [one for one in fine if is_there(job, one)]
    for one in there:  # finished by a run that was killed before it wrote its books
        books.keep(one, known[one.identifier])
    fine = [one for one in fine if one not in there]
    annotations = annotations[annotations["fileIdentifier"].isin([one.identifier for one in fine])]  # the whole of it is gigabytes
    for group in batches(fine, batch):
        for one, result in fetch_batch(job, annotations, group):
            if isinstance(result, DataError):
                books.refuse(one, result)
            else:
                books.keep(one, known[one.identifier])
        books.write()


class Books:
    """What came and what did not, in the folder's own files."""

    def __init__(self, job, progress) -> None:
        self.job, self.progress = job, progress
        self.records = {record.file: record for record in read_fetched(job.out) if (job.out / record.file).is_file()}
        self.failures: list[Failure] = []

    def keep(self, one, annotation) -> None:
        record = record_for(one, self.job.final(one).name, annotation)
        self.records[record.file] = record
        self.progress.step()

    def refuse(self, one, error) -> None:
        self.failures.append(Failure.of(one.sha256 or one.identifier, one.identifier, error))
        self.progress.say(f"failed: {one.identifier}: {error}")
        self.progress.step()

    def write(self) -> None:
        write_fetched(self.job.out, self.records.values())
        write_failed(self.job.out / FAILED, self.failures)


def main(args) -> int:
    wanted, below = (read_ids(args.ids), 0) if args.ids else read_wanted(args.metadata, args.min_aesthetic)
    wanted = wanted[: args.limit]
    xl = package()
    if any(one.source == "github" for one in wanted) and shutil.which("git") is None:
        raise DataError("bad_argument", "git", "not installed here", "git, which objects of GitHub come by", "install git, or take out those objects")
    check_writable(args.out)
    with held_lock(args.out / ".lock", args.out, "folder"), Progress(len(wanted), "fetch_objaverse", "object") as progress:
        job = Job(xl, args.out, args.processes, args.tries, growing_waits(), progress.say)
        books = Books(job, progress)
        done = {record.source_url for record in books.records.values()}
        todo = [one for one in wanted if one.identifier not in done]
        for source in sorted({one.source for one in todo}):
            of_source = [one for one in todo if one.source == source]
            try:
                fetch_source(job, source, of_source, args.batch, books)
            except AssetRefused as error:
                if error.code != "download_failed":
                    raise
                for one in of_source:
                    books.refuse(one, error)
        books.write()
        records, failures = books.records, books.failures
    print(f"{args.out / FETCHED}: {len(records)} objects" + (f"; {below} rows are below the score {args.min_aesthetic}" if below else ""))
    if failures:
        print(f"{args.out / FAILED}: {len(failures)} failed, such as {failures[0].url}: {failures[0].found}; run the same command again to try them anew")
    return EXIT_SOME_FAILED if failures else EXIT_OK


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
