"""Textures of an asset, decoded whole before Blender sees them: Blender shows a picture that it cannot read as plain pink, and says nothing."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from sam3dvid.backgrounds.images import DAMAGED
from sam3dvid.codes import AssetRefused

MAX_PIXELS = 178_956_970
"""A texture with more pixels is refused, as a decompression bomb is: Pillow's own limit, 13,377 x 13,377."""


class Parts:
    """The files that an asset may consist of: those that its table row names, which its fingerprint knows."""

    def __init__(self, sources: Sequence[Path]) -> None:
        self.main = sources[0]
        self._known = {path.resolve() for path in sources}

    def require(self, path: Path | None, name: str, code: str) -> Path:
        """Return a part's path. Raises AssetRefused: `code` if it is not there, missing_part if the asset's row does not name it."""
        if path is None or not path.is_file():
            raise AssetRefused(code, self.main.name, f"{name} is not there", "all files that the asset refers to")
        if path.resolve() not in self._known:
            raise AssetRefused("missing_part", self.main.name, f"{name} is not among the parts of its row", "a row that names it: make the table again")
        return path


@dataclass(slots=True)
class Textures:
    """The textures of one asset that were decoded and found whole.   digests : sha256 of their files, as hex."""

    where: str
    digests: set[str] = field(default_factory=set)

    def check(self, data: bytes, name: str) -> None:
        """Decode an encoded picture whole. Raises AssetRefused (unreadable_texture).   name : what to call it.

        A JPEG whose picture data are damaged but end with a proper mark passes: libjpeg fills in what is missing and tells Pillow nothing of it.
        """
        digest = hashlib.sha256(data).hexdigest()
        if digest in self.digests:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with Image.open(io.BytesIO(data)) as picture:
                    if picture.width * picture.height > MAX_PIXELS:
                        raise ValueError(f"{picture.width} x {picture.height} pixels")
                    picture.load()
        except (*DAMAGED, Image.DecompressionBombError) as error:
            found = f"{name}: {error}".replace("\n", " ")
            if "<_io.BytesIO" in found:  # Pillow names the buffer by its address, which differs in every run
                found = f"{name} is no picture that can be decoded ({len(data)} bytes)"
            raise AssetRefused("unreadable_texture", self.where, found, "a picture that can be decoded whole") from error
        self.digests.add(digest)
