"""Where a stage keeps its files, and how files that must not be found among the good ones are put aside."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from shardwork.files import make_folder, remove_path, temp_owner
from shardwork.jsonio import read_jsonl


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a stage.

    stage : results/<run>/<stage>.   folders : those below it that hold published items.   id_of : the id in a file name, or None for a name
    that is none of the stage's.
    """

    stage: Path
    folders: tuple[Path, ...]
    id_of: Callable[[str], str | None]

    @property
    def quarantine(self) -> Path:
        """Where files go that must not be found among the good ones."""
        return self.stage / "quarantine"

    def aside(self, path: Path) -> Path:
        """Return where a published file or folder is set aside to."""
        return self.quarantine / path.relative_to(self.stage)

    def manifest(self, step: str, shard: str) -> Path:
        """Return the shard manifest of a step: the file that says the shard is done."""
        return self.stage / "shards" / step / f"{shard}.jsonl"

    def journal(self, step: str, shard: str) -> Path:
        """Return the journal of a step and shard."""
        return self.stage / ".journal" / step / f"{shard}.jsonl"


def set_aside(path: Path, place: Place) -> None:
    """Move a published file or folder into quarantine/, replacing what an earlier run put there."""
    target = place.aside(path)
    make_folder(target.parent)
    remove_path(target)
    os.rename(path, target)


def clear_temporary(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Delete the temporary files that killed processes left in a folder, where `is_ours` says so of the final name."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(".") and (owner := temp_owner(entry.name)) and is_ours(owner)]
    for name in left:
        remove_path(Path(name))


def sweep(place: Place, steps: Iterable[str], live: Collection[str], prune: bool) -> list[Path]:
    """Set aside published files that no manifest row names, delete what shards left that hold no item any more, and return the former.

    A trainer globs a folder and would train on them. Call it when every shard of every step is finished and none is being worked on.
    steps : names of the stage's steps.   live : names of the shards that hold items.   prune : delete what was set aside for ids that no row names.
    """
    manifests = [place.manifest(step, shard) for step in steps for shard in live]
    rows = [row for path in manifests for row in read_jsonl(path)]
    named = {place.stage / name for row in rows for name in row.get("files", ())}
    ids = {row["id"] for row in rows}
    stale = []
    for folder in place.folders:
        clear_temporary(folder, lambda name: place.id_of(name) is not None)
        for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
            if entry not in named and place.id_of(entry.name) is not None:
                stale.append(entry)
                set_aside(entry, place)
    if prune:
        for path in [path for folder in place.folders for path in place.aside(folder).glob("*") if place.id_of(path.name) not in {None, *ids}]:
            remove_path(path)
    for path in [*place.stage.glob("shards/*/*"), *place.stage.glob(".journal/*/*")]:
        if path.stem not in live:
            path.unlink(missing_ok=True)
    return stale
