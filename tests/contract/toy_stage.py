"""A stage as small as one can be: each item's text in capitals, as a file or as a folder of two files."""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from shardwork import command, flags
from shardwork.errors import DataError
from shardwork.files import atomic_folder, write_bytes
from shardwork.place import Place
from shardwork.run import run_shard
from shardwork.shards import rows_of
from shardwork.step import Fields, Item, Source, Step
from shardwork.tables import read_table

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True)
arguments.add_argument("--kind", choices=("file", "folder"), required=True)
flags.add_shard_flags(arguments)


def capitals(item: Item) -> str:
    (source,) = item.sources
    text = source.path.read_text()
    if text == "BAD":
        raise DataError("toy_refused", source.name, "BAD", "another text", "write one")
    return f"{item.fingerprint}\n{text.upper()}"


def run_item(item: Item, kind: str) -> Fields:
    text, output = capitals(item), item.outputs[0]
    if kind == "file":
        write_bytes(output, text.encode())
    else:
        with atomic_folder(output) as temp:
            (temp / "sub").mkdir()
            (temp / "sub" / "text.txt").write_text(text)
            (temp / "length.txt").write_text(str(len(text)))
    return {"length": len(text)}


def adopt(item: Item, kind: str) -> Fields | None:
    text, output = capitals(item), item.outputs[0]
    if kind == "file":
        return {"length": len(text)} if output.is_file() and output.read_text() == text else None
    try:
        whole = (output / "sub" / "text.txt").read_text() == text and (output / "length.txt").read_text() == str(len(text))
    except OSError:
        return None
    return {"length": len(text)} if whole else None


def id_of(name: str) -> str | None:
    return name.removesuffix(".toy") if name.endswith(".toy") else None


def main(args) -> int:
    place = Place(args.stage, (args.stage / "out",), id_of)
    rows = rows_of(read_table(args.table, "id", ("path", "bytes", "mtime_ns")), "id", args.shard)
    items = [Item(row["id"], None, (place.folders[0] / f"{row['id']}.toy",), sources=(Source.from_row(row, args.table),)) for row in rows]
    step = Step("make_toy", 1, {"kind": args.kind}, partial(run_item, kind=args.kind), partial(adopt, kind=args.kind))
    run_shard(step, args.shard, items, place, flags.options_from(args))
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
