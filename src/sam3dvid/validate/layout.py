"""T1, names: every folder and file of the format is there, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from sam3dvid.validate.report import LAYOUT, Found
from shardwork.files import temp_owner

LISTED = 5
PICTURES = {"rgb": ".png", "rgba_fg": ".png", "mask_visible": ".png", "depth": ".npz"}
"""Folders of a clip that hold one file a frame, and its ending."""
AMODAL = "mask_amodal"
RECORDS = ("cameras.json", "objects.json", "meta.json")
ASSET_FILES = ("mesh.glb", "voxels.npy", "meta.json")
ROOT_FILES, ROOT_FOLDERS = ("manifest.jsonl", "config.yaml"), ("assets", "clips")


def listed(names: Iterable[str]) -> str:
    """Return names in order, the first few of many."""
    ordered = sorted(names)
    return ", ".join(ordered[:LISTED]) + (f" and {len(ordered) - LISTED} more" if len(ordered) > LISTED else "")


def names_in(root: Path, folder: str, found: Found) -> dict[str, bool] | None:
    """Return the names in a folder of the dataset, and whether each is a folder itself; None if there is no such folder.

    Links that lead out of the dataset are noted, unless they stand for whole folders of assets.   Raises OSError.
    """
    try:
        with os.scandir(root / folder) as entries:
            names, links = {}, []
            for entry in entries:
                names[entry.name] = _is_folder(entry)
                if entry.is_symlink():
                    links.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    for name in sorted(links):
        _look_at_link(found, root, folder, name, names[name])
    return names


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere: who opens it is told why
        return False


def _look_at_link(found: Found, root: Path, folder: str, name: str, is_folder: bool) -> None:
    """Note a link that leads to where a copy of the dataset would not have it. Assets may be linked as whole folders. Source: format v0.1, its update."""
    where = f"{folder}/{name}" if folder else name
    at = Path(where).parts
    if is_folder and at[0] == "assets" and len(at) <= 3:
        return
    target, homes = Path(os.path.realpath(root / where)), (Path(os.path.realpath(root)), Path(os.path.realpath(root / folder)))
    if not any(target.is_relative_to(home) for home in homes):
        found.add(LAYOUT, where, "a link that leads out of the dataset", "the file itself" if not is_folder else "the folder itself")


def look_at_names(found: Found, root: Path, folder: str, files: Collection[str] = (), folders: Collection[str] = ()) -> set[str]:
    """Return which of the wanted files and folders a folder holds; what is missing, too many or of the other kind is noted."""
    names = names_in(root, folder, found)
    where = folder or "the dataset"
    if names is None:
        found.add(LAYOUT, where, "missing" if not os.path.lexists(root / folder) else "not a folder", "a folder")
        return set()
    wanted = {**dict.fromkeys(files, False), **dict.fromkeys(folders, True)}
    if missing := wanted.keys() - names.keys():
        found.add(LAYOUT, where, f"no {listed(missing)}", _wanted(files, folders))
    note_extra(found, where, names.keys() - wanted.keys(), _wanted(files, folders))
    right = {name for name, kind in wanted.items() if names.get(name) is kind}
    for name in sorted(wanted.keys() & names.keys() - right):
        found.add(LAYOUT, f"{folder}/{name}" if folder else name, "a folder" if names[name] else "a file", "a folder" if wanted[name] else "a file")
    return right


def note_extra(found: Found, where: str, extra: Iterable[str], expected: str) -> None:
    """Note names that the format does not have; those that a stopped run left behind are called so."""
    left = {name for name in extra if temp_owner(name) is not None}
    if left:
        found.add(LAYOUT, where, f"temporary names of a run that was stopped: {listed(left)}", expected)
    if foreign := set(extra) - left:
        found.add(LAYOUT, where, f"extra names: {listed(foreign)}", expected)


def _wanted(files: Collection[str], folders: Collection[str]) -> str:
    names = [*(f"{name}/" for name in folders), *files]
    return listed(names) if len(names) <= LISTED + 3 else f"{names[0]} to {names[-1]} without a gap"


def frame_names(frames: int, suffix: str) -> list[str]:
    """Return the names of a clip's files of one kind: 000.png, 001.png and so on."""
    return [f"{t:03d}{suffix}" for t in range(frames)]


def look_at_clip_names(found: Found, root: Path, clip: str, frames: int | None, num_objects: int | None) -> set[str]:
    """Return the paths of the files of frames that are there, relative to the clip's folder; faults are noted.

    frames, num_objects : what the clip's JSON files say; None where they cannot be used: then no folder of frames is looked into.
    """
    here = look_at_names(found, root, clip, RECORDS, (*PICTURES, AMODAL))
    if frames is None or num_objects is None:
        return set()
    folders = {name: suffix for name, suffix in PICTURES.items() if name in here}
    if AMODAL in here:
        objects = [f"obj{k}" for k in range(1, num_objects + 1)]
        folders |= {f"{AMODAL}/{name}": ".png" for name in sorted(look_at_names(found, root, f"{clip}/{AMODAL}", folders=objects))}
    return {f"{folder}/{name}" for folder, suffix in folders.items() for name in look_at_names(found, root, f"{clip}/{folder}", frame_names(frames, suffix))}
