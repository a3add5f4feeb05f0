"""Make the video table of a folder, or bring an existing one up to date."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.annotations import join_annotations, read_actions, read_captions
from eventvox.stage import ANNOTATION_COLUMNS, COLUMNS, KEY, SPLITS
from eventvox.videolist import HEADER_COLUMNS, find_videos, video_rows
from shardwork import command
from shardwork.ids import is_id, suggest_id
from shardwork.listing import is_gone
from shardwork.tables import read_table, write_table

arguments = command.parser(__doc__)
arguments.add_argument("--videos", type=Path, required=True, help="the folder; subfolders train/ and validation/ name the split")
arguments.add_argument("--split", choices=SPLITS, default="train", help="the split of videos outside such subfolders (default: train)")
arguments.add_argument("--out", type=Path, required=True, help="the table (CSV); an existing one is renewed and keeps its ids and splits")
arguments.add_argument("--ids", choices=("stem", "path"), default="stem", help="what a new video is named by (default: its file's stem)")
arguments.add_argument("--fix-ids", action="store_true", help="write a usable id for every video whose name is none")
arguments.add_argument("--remove-gone", action="store_true", help="take out rows whose file is no longer there; otherwise they stay")
arguments.add_argument("--no-headers", action="store_true", help="do not open the videos: quicker, but estimate then knows only their sizes")
arguments.add_argument("--captions", type=Path, nargs="+", metavar="FILE", help="captions to join by id, in ActivityNet Captions' form (JSON or .gz)")
arguments.add_argument("--actions", type=Path, metavar="FILE", help="action labels to join by id, in ActivityNet's form (JSON or .gz)")


def tell_annotations(joined) -> None:
    """Print what became of the annotations."""
    print(f"annotations: {joined.matched} videos found, {len(joined.without)} without, {len(joined.unused)} annotated ids without a video")
    if joined.prefixed:
        print(f"  {len(joined.prefixed)} found only with v_ put before or taken off, such as {joined.prefixed[0]!r}; the ids stay as they are")
    for flag, count in joined.flags.items():
        print(f"  {flag}: {count}")


def main(args) -> int:
    captions = read_captions(args.captions) if args.captions else None
    actions = read_actions(args.actions) if args.actions else None
    known = read_table(args.out, KEY, COLUMNS[1:]) if args.out.exists() else []
    found = find_videos(args.videos, args.split)
    rows = video_rows(found, args.out, known, not args.no_headers, args.ids)
    gone = [row for row in rows if is_gone(row, args.out)]
    if args.remove_gone:
        rows = [row for row in rows if not is_gone(row, args.out)]
    odd = [row for row in rows if not is_id(row[KEY])]
    if args.fix_ids:
        rows = sorted(({**row, KEY: row[KEY] if is_id(row[KEY]) else suggest_id(row[KEY])} for row in rows), key=lambda row: row[KEY])
    joined = join_annotations(rows, captions, actions) if args.captions or args.actions else None
    rows = list(joined.rows) if joined else rows
    extra = [name for name in (known[0] if known else {}) if name not in (*COLUMNS, *HEADER_COLUMNS)]
    extra += [name for name in ANNOTATION_COLUMNS if joined and name not in extra]
    write_table(args.out, (*COLUMNS, *HEADER_COLUMNS, *extra), [{**dict.fromkeys(extra, ""), **row} for row in rows])

    before, after = {row[KEY]: row for row in known}, {row[KEY]: row for row in rows}
    changed = sum(row["bytes"] != before[key]["bytes"] or row["mtime_ns"] != before[key]["mtime_ns"] for key, row in after.items() if key in before)
    print(f"{args.out}: {len(rows)} videos: {len(after.keys() - before)} new, {changed} changed, {len(gone)} gone")
    if gone:
        print("rows whose file is gone " + ("are taken out" if args.remove_gone else f"stay, such as {gone[0][KEY]}: --remove-gone takes them out"))
    if joined:
        tell_annotations(joined)
    elif set(ANNOTATION_COLUMNS) & set(extra) and (new := after.keys() - before):
        print(f"{len(new)} new videos have no annotations yet: give --captions and --actions again to join them")
    if found.others:
        print(f"{len(found.others)} other files are left out, such as {found.others[0].name}")
    if odd:
        what = "got usable ids" if args.fix_ids else "have no usable id and will be quarantined (bad_id): --fix-ids gives them one, or edit the table"
        print(f"{len(odd)} videos {what}, such as {odd[0]['path']} -> {suggest_id(odd[0][KEY])}")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
