"""Single flipped bits of an NPZ file, each of which NumPy or its reader of zips answers by an error of another kind."""

from __future__ import annotations

import io
import zipfile

NPZ_FLIPS = ("array's header", "text of the array's header", "method of packing", "flag of a cipher", "version that is needed", "place of the list")


def flipped_npz(data: bytes, place: str) -> bytes:
    """Return the file with one bit of its first member or of the list of members flipped."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = archive.infolist()[0].filename.encode()
    start = 30 + len(name) + int.from_bytes(data[28:30], "little")
    listed = data.index(b"PK\x01\x02")
    at, bit = {
        "array's header": (start + 8, 0x40),  # its length
        "text of the array's header": (start + 10, 0x04),  # its opening brace
        "method of packing": (listed + 10, 0x04),
        "flag of a cipher": (listed + 8, 0x01),
        "version that is needed": (listed + 6, 0x80),
        "place of the list": (data.rindex(b"PK\x05\x06") + 16 + 2, 0x80),
    }[place]
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
