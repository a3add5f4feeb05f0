"""A rendered clip's folder, as render_clips publishes it: its record, and its files compared with the digests in there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.codes import stale
from sam3dvid.stage import RENDER_RECORD
from shardwork.digests import unseal
from shardwork.errors import DataError
from shardwork.jsonio import Json, read_json

ELSEWHERE = ("blender_version", "files", "visible_px", "amodal_px")
"""Keys of a render's record that meta.json says elsewhere, or not at all."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A render's folder.

    blender_version : what rendered it.   about : further provenance, such as settings and what was read back.   timing : what depends on the host.
    files : name relative to the folder -> sha256.
    """

    folder: Path
    blender_version: str
    about: dict[str, Json]
    timing: dict[str, Json]
    files: dict[str, str]

    def read(self, name: str) -> bytes:
        """Return a file's bytes. Raises Fault (fault_stale) unless they are those that were rendered."""
        path = self.folder / name
        data = path.read_bytes() if path.is_file() else b""
        if (found := hashlib.sha256(data).hexdigest()) != self.files[name]:
            raise stale(f"{self.folder.name}/{name}", f"sha256 {found}" if path.is_file() else "no such file", f"{self.files[name]} as rendered")
        return data


def frame_names(frames: int, num_objects: int) -> list[str]:
    """Return the names of the files of a render, sorted."""
    pictures = [f"{folder}/{t:03d}.png" for folder in ("rgba_fg", "mask_visible") for t in range(frames)]
    silhouettes = [f"mask_amodal/obj{k}/{t:03d}.png" for k in range(1, num_objects + 1) for t in range(frames)]
    return sorted([*pictures, *silhouettes, *(f"depth/{t:03d}.npz" for t in range(frames))])


def read_render(folder: Path) -> Rendered:
    """Return a render. Its files are compared when they are read.

    Raises Fault (fault_stale) for a folder without a whole record, OSError where the machine is at fault.
    """
    path = folder / RENDER_RECORD
    where = f"{folder.name}/{RENDER_RECORD}"
    if not path.is_file():
        raise stale(where, "no such file", "a finished render")
    try:
        noted = unseal(read_json(path))
    except DataError as error:
        raise stale(where, error.found, "a sealed record") from error
    if noted is None:
        raise stale(where, "another form, or changed", "a sealed record")
    record = noted["record"]
    about = {"settings": noted["settings"], **{key: value for key, value in record.items() if key not in ELSEWHERE}}
    return Rendered(folder, record["blender_version"], about, dict(noted["timing"]), dict(record["files"]))
