"""Write what a release of event voxels says of itself: manifests, scales, quarantine table and description."""

import sys
from pathlib import Path

import _src  # noqa: F401
from eventvox.manifest import manifest_rows, read_verdicts
from eventvox.manifest_settings import ManifestSettings
from eventvox.manifest_write import Release, library_versions, write_release_files
from eventvox.settings import VoxelSettings
from eventvox.stage import KEY, SPLITS, checksums_of, events_place, read_video_table, release_mark, release_marks, shards_of
from shardwork import command
from shardwork.files import retract, write_bytes
from shardwork.shards import split_rows

arguments = command.parser(__doc__)
arguments.add_argument("--table", type=Path, required=True, help="the video table (CSV)")
arguments.add_argument("--stage", type=Path, required=True, help="the events stage's folder, results/RUN/events")
arguments.add_argument("--work-shards", type=command.whole(1), required=True, help="how many work shards the table is cut into")
arguments.add_argument("--release", type=Path, required=True, help="the release's folder, results/RUN/events_release")
arguments.add_argument("--key", default="by-hand", help="name of the mark that is left in the stage's folder: a digest of what the release is made for")
command.add_settings(arguments, ManifestSettings)
command.add_settings(arguments, VoxelSettings)


def main(args) -> int:
    table, place = read_video_table(args.table), events_place(args.stage)
    settings = command.settings_from(args, ManifestSettings)
    verdicts = read_verdicts(place, split_rows(table, KEY, args.work_shards), [row[KEY] for row in table])
    rows = manifest_rows(table, verdicts, settings)
    libraries = library_versions([record for record, _ in verdicts.passed.values()])
    # what was built on the old description must not be taken for built on the new one, whatever the files' times say
    for old in (*release_marks(place), *(shards_of(args.release, split) for split in SPLITS), checksums_of(args.release)):
        retract(old)
    write_release_files(args.release, Release(rows, verdicts.refused, libraries, settings, command.settings_from(args, VoxelSettings)))
    write_bytes(release_mark(place, args.key), f"{args.key}\n".encode())
    print(f"write_event_manifest: {len(rows)} videos, {len(verdicts.refused)} quarantined", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main, arguments))
