"""A disk that fills up while a file is written."""

import errno
import io
import os


def full_after(room):
    """Return an `open` for writing bytes, of files on a disk that takes `room` bytes of the first write and is full."""

    class FullDisk(io.FileIO):
        def write(self, data):
            super().write(memoryview(data)[:room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda path, mode: FullDisk(path, mode.replace("b", ""))
