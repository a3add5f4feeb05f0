"""Atomic files and folders: a final name never holds anything but a finished, checked result."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shardwork.errors import DataError, Fault

TEMP_SUFFIX = ".tmp"


def temp_path(final: Path) -> Path:
    """Return a fresh hidden name beside `final`; it keeps the final name readable and never ends in its suffix."""
    return final.with_name(f".{final.name}.{secrets.token_hex(6)}{TEMP_SUFFIX}")


def temp_owner(name: str) -> str | None:
    """Return the final name that the temporary `name` was made for, or None if it is not one of ours."""
    if not (name.startswith(".") and name.endswith(TEMP_SUFFIX)):
        return None
    owner, _, token = name[1 : -len(TEMP_SUFFIX)].rpartition(".")
    return owner if owner and len(token) == 12 else None


def fsync_path(path: Path) -> None:
    """Flush a file's or folder's contents to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each entry flushed to the disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync_path(folder.parent)


def publish(temp: Path, final: Path) -> None:
    """Rename a finished file or folder into its place and look again.

    Raises Fault (not_published) if the final name does not hold what was written.
    """
    before = temp.stat()
    os.replace(temp, final)
    fsync_path(final.parent)
    after = final.stat()
    if (before.st_ino, before.st_size) != (after.st_ino, after.st_size):
        raise Fault(
            "not_published",
            final,
            f"{after.st_size} bytes after the rename",
            f"the {before.st_size} bytes that were written",
            "another process wrote the same file, or the file system lost it: run the same command again",
        )


@contextmanager
def atomic_path(final: Path, check: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `final`; on success flush it, check it, rename it and look again.

    final : where the file shall stand; its folder is made.   check : called with the flushed temporary file, raises if it is wrong.
    On any error the temporary file is removed and `final` is left as it was.
    """
    make_folder(final.parent)
    temp = temp_path(final)
    try:
        yield temp
        fsync_path(temp)
        if check is not None:
            check(temp)
        publish(temp, final)
    finally:
        temp.unlink(missing_ok=True)


def check_apart(out: Path, sources: Iterable[Path]) -> None:
    """Raise DataError (bad_argument) if a file about to be written is one that it is made from, by whatever name or link.

    out : the file to write, which need not be there.   sources : the files that are read; one that is missing is nobody's loss.
    """
    if not out.exists():
        return
    for source in sources:
        if source.exists() and out.samefile(source):
            raise DataError("bad_argument", out, f"the same file as {source}, which is read", "another file", "choose another name for the file to write")


def write_bytes(final: Path, data: bytes) -> None:
    """Write a whole file atomically."""
    with atomic_path(final) as temp:
        temp.write_bytes(data)


def retract(path: Path) -> None:
    """Remove a file or link that says something is done, for good: after a power cut too."""
    if path.exists() or path.is_symlink():
        path.unlink(missing_ok=True)  # another process may have been first
        fsync_path(path.parent)


def fsync_tree(folder: Path) -> None:
    """Flush every file and folder below `folder`, and the folder itself."""
    for base, _, names in os.walk(folder, topdown=False):
        for name in names:
            fsync_path(Path(base, name))
        fsync_path(Path(base))


@contextmanager
def atomic_folder(final: Path, check: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a temporary folder beside `final`; on success flush it whole, check it, set an old one aside and rename once.

    final : where the folder shall stand.   check : called with the flushed temporary folder, raises if it is wrong.
    On any error the temporary folder is removed and `final` is left as it was.
    """
    make_folder(final.parent)
    temp, aside = temp_path(final), temp_path(final)
    temp.mkdir()
    try:
        yield temp
        fsync_tree(temp)
        if check is not None:
            check(temp)
        if final.exists():
            os.rename(final, aside)
        try:
            publish(temp, final)
        except BaseException:
            if aside.exists() and not final.exists():
                os.rename(aside, final)
            raise
    finally:
        shutil.rmtree(temp, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def remove_path(path: Path) -> None:
    """Remove a file, link or folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_or_copy(path: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the disk has no such thing. Raises OSError where the machine is at fault."""
    try:
        os.link(path, target)
    except OSError:  # another disk, or one that has no links; a full one fails again below
        shutil.copyfile(path, target)


def check_writable(folder: Path) -> None:
    """Raise DataError (unwritable) unless files can be made in `folder`, or in the nearest folder above it that exists. Leaves nothing behind."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        hint = "choose another results folder, or see its permissions and the disk"
        raise DataError("unwritable", folder, f"{nearest}: {error.strerror}", "a folder that files can be made in", hint) from error
