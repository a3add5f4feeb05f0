"""Licences as their sources write them, as SPDX ids where those are certain."""

from __future__ import annotations

from sam3dvid.assets.licenses import UNKNOWN, spdx


def spdx_of(name: str, url: str = "", source: str = "") -> str:
    """Return the SPDX id of a licence; its name as it stands where the id is not certain, "" where nothing is stated.

    url : where its text is, "" if not known; counts before the name.   source : sketchfab, whose names lack a version that is known. The same
    words mean an older version on Thingiverse.
    """
    for text in (url, name):
        if (found := spdx(text, "objaverse" if source == "sketchfab" else "")) != UNKNOWN:
            return found
    return " ".join(name.split())
