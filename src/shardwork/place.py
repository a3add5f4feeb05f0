"""Where a stage keeps its files, and how files that must not be found among the good ones are put aside."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shardwork.errors import DataError, Fault
from shardwork.files import make_folder, remove_path, retract, temp_owner
from shardwork.jsonio import read_jsonl
from shardwork.step import Fields

UNNAMED = "nothing that is made now has this name"
"""Why a file of an earlier run is set aside: its item is gone, refused, or makes a file of another name. It comes back with the item."""
NUMBER = re.compile(r"\.[0-9]+$")
"""What an older file of one name in quarantine/ ends in."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a stage.

    stage : results/<run>/<stage>.   folders : those below it that hold published items.   id_of : the id in a file name, or None for a name
    that is none of the stage's.   before : the place of the stage whose files this one works on, if it is another.   home : where published
    items stand if not in `stage`, such as a dataset's folder, in which nothing else may lie.   others : returns the names of published items that another
    stage has in the same `home`, each with what says so: they are never set aside for want of a row here.
    """

    stage: Path
    folders: tuple[Path, ...]
    id_of: Callable[[str], str | None]
    before: Place | None = None
    home: Path | None = None
    others: Callable[[], Mapping[str, str]] = dict

    @property
    def quarantine(self) -> Path:
        """Where files go that must not be found among the good ones."""
        return self.stage / "quarantine"

    def aside(self, path: Path) -> Path:
        """Return where a published file or folder is set aside to: one of the stage before in that stage's own quarantine."""
        home = self.home or self.stage
        if self.before is not None and not path.is_relative_to(home):
            return self.before.aside(path)
        return self.quarantine / path.relative_to(home)

    def manifest(self, step: str, shard: str, key: str) -> Path:
        """Return the shard manifest of a step: the file that says the shard is done.

        key : digest of what the shard was made for (its rows, settings, versions). It is part of the name, so that a change asks for another file:
        what is up to date then shows in the files alone, whatever becomes of Snakemake's own records.
        """
        return self.stage / "shards" / step / f"{shard}.{key}.jsonl"

    def manifests(self, step: str, shard: str) -> list[Path]:
        """Return the manifests there are of a step and shard: one, or none while it is not finished."""
        return sorted((self.stage / "shards" / step).glob(f"{shard}.*.jsonl"))

    def journal(self, step: str, shard: str) -> Path:
        """Return the journal of a step and shard."""
        return self.stage / ".journal" / step / f"{shard}.jsonl"


def read_manifest(path: Path) -> list[Fields]:
    """Return the rows of a shard manifest. One that is damaged is taken away, so that the same command makes it again.

    Raises Fault (fault_stale) if it is not there or not whole.
    """
    try:
        rows: list[Fields] = read_jsonl(path)
        if all(isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("id", "status", "code")) for row in rows):
            return rows
        found = "rows without id, status and code"
    except FileNotFoundError:
        found = "no such file"
    except DataError as error:
        found = error.found
    path.unlink(missing_ok=True)
    raise Fault("fault_stale", path, found, "a whole shard manifest", "run the workflow again: it is made anew")


def retract_manifests(place: Place, step: str, shard: str) -> None:
    """Take away what says that a step is done with a shard: the same command then looks at it again."""
    for path in place.manifests(step, shard):
        retract(path)


def the_manifest(place: Place, step: str, shard: str) -> list[Fields]:
    """Return the rows of the one manifest of a step and shard. Raises Fault (fault_stale)."""
    found = place.manifests(step, shard)
    if len(found) == 1:
        return read_manifest(found[0])
    retract_manifests(place, step, shard)
    where = place.manifest(step, shard, "*")
    raise Fault("fault_stale", where, f"{len(found)} files", "one shard manifest", "run the workflow again: it is made anew")


def move(path: Path, target: Path) -> None:
    """Rename a file or folder, or copy it where the target is on another disk."""
    try:
        os.rename(path, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.move(path, target)


def set_aside(path: Path, place: Place) -> None:
    """Move a published file or folder into quarantine/. What an earlier run put there gets a number, the newest keeps the name."""
    target = place.aside(path)
    make_folder(target.parent)
    if target.exists() or target.is_symlink():
        number = next(n for n in range(1, 1 << 30) if not target.with_name(f"{target.name}.{n}").exists())
        os.rename(target, target.with_name(f"{target.name}.{number}"))
    move(path, target)


def clear_temporary(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Delete the temporary files that killed processes left in a folder, where `is_ours` says so of the final name."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(".") and (owner := temp_owner(entry.name)) and is_ours(owner)]
    for name in left:
        remove_path(Path(name))


def sweep(place: Place, steps: Iterable[str], live: Collection[str], prune: bool) -> list[Path]:
    """Set aside published files that neither a manifest row nor others name, delete what shards left that hold no item any more, and return the former.

    A trainer globs a folder and would train on them. Call it when every shard of every step is finished and none is being worked on.
    steps : names of the stage's steps.   live : names of the shards that hold items.   prune : delete what was set aside for ids that no row names.
    """
    rows = [row for step in steps for shard in live for row in the_manifest(place, step, shard)]
    named = {Path(os.path.normpath(place.stage / name)) for row in rows for name in row.get("files", ())}
    ids = {row["id"] for row in rows}
    stale, others = [], place.others()
    for folder in place.folders:
        clear_temporary(folder, lambda name: place.id_of(name) is not None)
        for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
            if entry not in named and entry.name not in others and place.id_of(entry.name) is not None:
                stale.append(entry)
                set_aside(entry, place)
    if prune:
        for path in [path for folder in place.folders for path in place.aside(folder).glob("*") if place.id_of(NUMBER.sub("", path.name)) not in {None, *ids}]:
            remove_path(path)
    for path in [*place.stage.glob("shards/*/*"), *place.stage.glob(".journal/*/*")]:
        if path.name.partition(".")[0] not in live and not path.is_dir():
            path.unlink(missing_ok=True)
    return stale
