"""The files of a folder as they were when they were looked at, so that what is copied later is what was judged."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shardwork.digests import digest_value, xxh3_file
from shardwork.errors import DataError
from shardwork.tarball import Member

Refusal = Callable[[Path, str, str], DataError]
"""Makes an error of where, found and expected."""


@dataclass(frozen=True, slots=True)
class Look:
    """A look at files of one folder.

    root : the dataset, resolved, which no link may leave.   folder : of a clip or an asset.   refuse : makes the error for a file that cannot be taken.
    """

    root: Path
    folder: Path
    refuse: Refusal

    def pin(self, names: Iterable[str]) -> str:
        """Return a digest of what the files are: sizes, times and inodes, of JSON the bytes. Raises what `refuse` makes."""
        return digest_value(self._seen(names))

    def members(self, names: Iterable[str], pinned: str, place: str) -> Iterator[Member]:
        """Yield the files as members of a tar below `place`. Raises DataError (member_changed) unless they are still what was pinned."""
        seen = self._seen(names)
        if digest_value(seen) != pinned:
            raise changed(self.folder)
        for name, size_bytes, mtime_ns, _, xxh3 in seen:
            yield Member(f"{place}/{name}", self.folder / name, size_bytes, xxh3, mtime_ns)

    def _seen(self, names: Iterable[str]) -> list[tuple[str, int, int, int, str | None]]:
        """Return name, size, time of change and inode of each file, and the digest of JSON."""
        paths = [(name, self.folder / name) for name in names]
        # a folder is looked up once, not for each file in it
        within = {folder: self._is_within(folder) for folder in {path.parent for _, path in paths}}
        for _, path in paths:
            if not (within[path.parent] and (not path.is_symlink() or self._is_within(path))):
                raise self.refuse(path, "a link that leads out of the dataset", "files within it")
        return [self._stat(name, path) for name, path in paths]

    def _is_within(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.root)  # unlike resolve, it takes links in a circle

    def _stat(self, name: str, path: Path) -> tuple[str, int, int, int, str | None]:
        try:
            seen = path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self.refuse(path, "no such file", "a file of the format") from error
        if not stat.S_ISREG(seen.st_mode):
            raise self.refuse(path, "no file", "a file of the format")
        if not seen.st_size:
            raise self.refuse(path, "an empty file", "a file of the format")
        return name, seen.st_size, seen.st_mtime_ns, seen.st_ino, xxh3_file(path) if name.endswith(".json") else None


def changed(where: Path) -> DataError:
    """Return the error for files that are no longer what was looked at."""
    hint = "let nothing write into the dataset meanwhile, then run the same command again"
    return DataError("member_changed", where, "files that changed after they were looked at", "a dataset that nothing writes to", hint)
