"""A zip from elsewhere, unpacked with care: every byte checked, nothing outside its folder, no links, no bombs."""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from sam3dvid.codes import AssetRefused

MOST_MEMBERS, MOST_BYTES = 10_000, 4 << 30
_COPY_BYTES = 1 << 20


def unpack(packed: Path, folder: Path, where: str) -> dict[str, int]:
    """Unpack a zip into an empty folder and return relative name -> bytes of its files. A single folder around everything is left out.

    where : what messages name.   Raises AssetRefused: digest_mismatch for a zip that is cut or whose bytes are not those that it states,
    bad_answer for one that reaches outside its folder, holds links, names one file twice, or is far too large.
    """
    try:
        with zipfile.ZipFile(packed) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            names = _names(members, where)
            for member, name in zip(members, names, strict=True):
                _copy(archive, member, folder / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise AssetRefused("digest_mismatch", where, f"a zip that cannot be read: {error}", "a whole zip") from error
    return {name: member.file_size for name, member in sorted(zip(names, members, strict=True), key=lambda pair: pair[0])}


def _names(members: list[zipfile.ZipInfo], where: str) -> list[str]:
    """Return where each member goes. Raises AssetRefused (bad_answer)."""
    if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > MOST_BYTES:
        raise AssetRefused("bad_answer", where, f"{len(members)} files", f"at most {MOST_MEMBERS} files and {MOST_BYTES} bytes")
    paths = []
    for member in members:
        path = PurePosixPath(member.filename)
        bad = path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename or not path.parts
        if bad or stat.S_ISLNK(member.external_attr >> 16):
            raise AssetRefused("bad_answer", where, f"a member named {member.filename!r}", "plain files inside the zip's own folder")
        paths.append(path)
    tops = {path.parts[0] for path in paths}
    if len(tops) == 1 and all(len(path.parts) > 1 for path in paths) and not tops & {"meshes", "materials"}:
        paths = [PurePosixPath(*path.parts[1:]) for path in paths]
    names = [str(path) for path in paths]
    if len({name.casefold() for name in names}) != len(names):
        raise AssetRefused("bad_answer", where, "two members of one name", "one file a name")
    return names


def _copy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Write one member; reading it to its end checks its CRC, and it cannot grow beyond the size that was counted."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, open(target, "wb") as file:
        while block := source.read(_COPY_BYTES):
            file.write(block)
