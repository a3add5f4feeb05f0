"""A file that other libraries read, which keeps the error of a read that fails. FFmpeg takes one for the end of the file or for damage, HDF5 for damage."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any


class WatchedFile(io.FileIO):
    """A file opened for reading. It takes no lock, since HDF5's own fails on network file systems.

    error : the first OSError, or None.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.error: OSError | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes, or note why not."""
        try:
            return super().read(-1 if size is None else size) or b""
        except OSError as error:
            self.error = self.error or error
            raise

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer, or note why not."""
        try:
            return super().readinto(buffer) or 0
        except OSError as error:
            self.error = self.error or error
            raise

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move, or note why not."""
        try:
            return super().seek(offset, whence)
        except OverflowError as error:  # beyond 63 bits
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from error
        except OSError as error:
            if error.errno != errno.EINVAL:  # a place that a damaged file names, not the machine's fault
                self.error = self.error or error
            raise

    def raise_error(self, said: Exception | None = None) -> None:
        """Raise the fault of the machine that stands behind what a library says, if there is one."""
        if self.error is not None:
            raise self.error
        if isinstance(said, MemoryError):
            raise said
