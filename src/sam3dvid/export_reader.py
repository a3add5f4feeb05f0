"""Read the training export: samples from a shard, one after another, and voxels by asset. Needs NumPy and Pillow alone; this file may be copied away.

for clip_id, rgb, visible, info in iter_samples("export/train/train-000000.tar"): ...
"""

from __future__ import annotations

import errno
import io
import json
import math
import operator
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FRAMES = 32
"""Frames of a clip."""
GRID = (64, 64, 64)
"""Voxels of an asset along x, y and z."""
MEMBER = re.compile(r"(?P<clip>[A-Za-z0-9_-]+)\.(?:rgb\.(?P<rgb>[0-9]{3})\.jpg|visible\.(?P<visible>[0-9]{3})\.png|json)")
"""What a member of a shard is called: all up to the first dot is the clip's id."""
MEMBERS = {*(f"rgb.{t:03d}.jpg" for t in range(FRAMES)), *(f"visible.{t:03d}.png" for t in range(FRAMES)), "json"}
"""Members of a sample, less the clip's id and a dot: 65."""
MODES = {"rgb": ("JPEG", "RGB"), "visible": ("PNG", "L")}
"""Picture -> its format and Pillow's mode."""
NO_PICTURE = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)
"""What Pillow makes of damaged bytes in memory."""
NO_ARCHIVE = (
    *(ValueError, EOFError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, struct.error, TokenError),
)
"""What NumPy makes of a damaged NPZ file, and its reader of zips and headers below it."""
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BLOCK_BYTES = 1 << 20
LARGEST_MEMBER_BYTES = 1 << 30
"""No member is anywhere near: what says that it is larger is damaged, and reading so much at once would take the machine's memory."""
HINT = "copy the export again, or see what `python -m sam3dvid.export verify` says of it"

Picture = NDArray[np.uint8]
Sample = tuple[str, Picture, Picture, dict[str, Any]]
"""(clip_id, rgb, visible, info)."""


class ExportError(ValueError):
    """A shard or a voxels file that is not in order.   where : the file, and the member in it.   found, expected : what is wrong. Its text says what to do."""

    def __init__(self, where: str, found: str, expected: str, hint: str = HINT) -> None:
        super().__init__(f"{where}: {found}, expected {expected}: {hint}")
        self.where, self.found, self.expected = where, found, expected

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes, as from a data loader's worker."""
        return type(self), (self.where, self.found, self.expected)


def iter_samples(tar: str | os.PathLike[str], frames: Iterable[int] | Callable[[str], Iterable[int]] | None = None) -> Iterator[Sample]:
    """Yield the samples of a shard in its order, each decoded when it is asked for; one is in memory at a time.

    tar : path of the shard.   frames : which frames to decode, F indices from 0 to 31 in any order, the same for all clips or what a function says of each
    clip's id; None for all 32.
    Yields clip_id : str.   rgb : (F, 512, 512, 3) uint8, sRGB.   visible : (F, 512, 512) uint8, 0 = background, k = object k.   info : the sample's JSON,
    of all 32 frames whatever `frames` says. The arrays are the caller's own.
    Raises ExportError, with tar and member, for a sample that is incomplete, repeated or not in one piece, a member that no sample has, a picture or JSON that
    cannot be read, and a tar that ends early or in more zeros than its last record can hold. What stands before the fault is yielded. Raises OSError where
    the machine fails; for `frames` IndexError where no clip has them, and TypeError where they are no whole numbers, as those of np.linspace are not.
    A picture's bytes may be flipped so that it still decodes: that, only digests tell.   Source: format v0.1, 9.
    """
    if frames is None or not callable(frames):
        same = _chosen(range(FRAMES) if frames is None else frames)
        return _samples(os.fspath(tar), lambda clip_id: same)
    return _samples(os.fspath(tar), frames)


def _chosen(frames: Iterable[int]) -> tuple[int, ...]:
    chosen = tuple(operator.index(t) for t in frames)
    if any(not 0 <= t < FRAMES for t in chosen):
        raise IndexError(f"frames {list(chosen)}: a clip has frames 0 to {FRAMES - 1}")
    return chosen


def _samples(path: str, frames: Callable[[str], Iterable[int]]) -> Iterator[Sample]:
    with open(path, "rb") as file:
        done: set[str] = set()
        sample: _Sample | None = None
        for name, data in _members(path, file):
            match = MEMBER.fullmatch(name)
            if match is None or name.partition(".")[2] not in MEMBERS:
                raise ExportError(
                    f"{path}: {name}", "a member of no sample", f"<clip_id>.rgb.000.jpg to .{FRAMES - 1:03d}.jpg, .visible.000.png and so on, .json"
                )
            clip_id = match["clip"]
            if clip_id in done:
                raise ExportError(f"{path}: {name}", f"clip {clip_id} again, after its {len(MEMBERS)} members", "each clip once, in one piece")
            if sample is None:
                sample = _Sample(path, clip_id)
            sample.take(name, data)
            if sample.complete:
                yield sample.decode(_chosen(frames(clip_id)))
                done.add(clip_id)
                sample = None
        if sample is not None:
            raise ExportError(path, f"it ends after {len(sample.members)} members of clip {sample.clip_id}", f"{len(MEMBERS)}")


def load_voxels(npz: str | os.PathLike[str] | Mapping[str, NDArray[np.uint8]], asset_id: str) -> NDArray[np.bool_]:
    """Return the voxels of an asset: bool (64, 64, 64), surface occupancy, index [i, j, k] along (x, y, z) of the canonical frame.

    npz : path of voxels_<split>.npz, or what `open_voxels` returned for it, which spares finding its index each time.
    The centre of a voxel is (index + 0.5) / 64 - 0.5. Raises ExportError if the asset is not there or its bits are not those of a grid, OSError where the
    machine fails.   Source: format v0.1, 9.3.
    """
    if isinstance(npz, Mapping):
        return _voxels(npz, asset_id, "voxels")
    with open_voxels(npz) as archive:
        return _voxels(archive, asset_id, os.fspath(npz))


def open_voxels(npz: str | os.PathLike[str]) -> np.lib.npyio.NpzFile:
    """Return voxels_<split>.npz, open: a mapping of asset ids to packed bits, read when they are asked for. For one process alone: open it in each worker.

    Raises ExportError if it is no such file, OSError where the machine fails.
    """
    path = os.fspath(npz)
    try:
        archive = np.load(path)
    except NO_ARCHIVE as error:
        raise ExportError(path, f"cannot be read ({error})", "an NPZ file") from error
    except OSError as error:
        raise (_damage(path, error) or error) from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ExportError(path, "one array", "an NPZ file")
    return archive


def _voxels(archive: Mapping[str, NDArray[np.uint8]], asset_id: str, where: str) -> NDArray[np.bool_]:
    if asset_id not in archive:
        raise ExportError(
            where, f"no asset {asset_id}", "an asset of the split's clips", "take asset_id from a sample's objects; for all ids: list(open_voxels(npz))"
        )
    count = int(np.prod(GRID))
    try:
        packed = array_of(archive, asset_id) if isinstance(archive, np.lib.npyio.NpzFile) else archive[asset_id]
    except NO_ARCHIVE as error:
        raise ExportError(f"{where}: {asset_id}", f"cannot be read ({error})", "an array") from error
    except OSError as error:
        raise (_damage(f"{where}: {asset_id}", error) or error) from error
    if not isinstance(packed, np.ndarray):
        raise ExportError(f"{where}: {asset_id}", "no array", f"uint8 of shape ({count // 8},)")
    if packed.dtype != np.uint8 or packed.shape != (count // 8,):
        raise ExportError(f"{where}: {asset_id}", f"{packed.dtype} of shape {packed.shape}", f"uint8 of shape ({count // 8},)")
    return np.unpackbits(packed, bitorder="big").reshape(GRID).view(np.bool_)


def array_of(archive: np.lib.npyio.NpzFile, asset_id: str) -> Any:
    """Return a member of an open NPZ file, which a damaged one need not have as an array. Raises one of NO_ARCHIVE, OSError."""
    members = {info.filename: info for info in archive.zip.infolist()} if archive.zip is not None else {}
    info = members.get(f"{asset_id}.npy")
    if info is not None and info.compress_type not in PACKINGS:
        raise ValueError(f"packed by method {info.compress_type}")
    return archive[asset_id]


def _damage(where: str, error: OSError) -> ExportError | None:
    """Return the refusal that an error stands for where damaged offsets made it: a place before the file's start, a packing that does not hold."""
    return ExportError(where, f"cannot be read ({error})", "a whole NPZ file") if error.errno in (None, errno.EINVAL) else None


class _Header(tarfile.TarInfo):
    """A member's header whose size is looked at before anything of that size is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        _look_at_size(header.size)
        return header


def _look_at_size(size: int) -> None:
    if not 0 <= size <= LARGEST_MEMBER_BYTES:
        raise tarfile.ReadError(f"a size of {size} bytes")


def iter_members(tar: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of every member of a shard in its order, whatever sample it is of; one is in memory at a time.

    Raises ExportError for a tar that is not whole, OSError where the machine fails.
    """
    with open(tar, "rb") as file:
        yield from _members(os.fspath(tar), file)


def _members(path: str, file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of each member of a tar. Raises ExportError unless it is whole: tarfile takes one that was cut between two members for complete."""
    name = "its first member"
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=_Header) as tar:
            while (member := tar.next()) is not None:
                name = member.name
                _look_at_size(member.size)  # again: further headers may have given it another
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    raise ExportError(f"{path}: {name}", "no regular file", "files alone")
                yield name, content.read()
            end = tar.offset
    except ExportError:
        raise
    except (tarfile.TarError, OverflowError, ValueError) as error:
        raise ExportError(path, f"cannot be read at or after {name} ({error})", "a whole tar") from error
    file.seek(end)
    block, zeros = file.read(BLOCK_BYTES), 0
    while block and not any(block):
        zeros += len(block)
        block = file.read(BLOCK_BYTES)
    if block or zeros < 2 * tarfile.BLOCKSIZE:
        raise ExportError(path, f"no end of a tar after {name}: it was cut, is damaged, or goes on", "zeros after the last member, as a finished tar has")
    if zeros >= 2 * tarfile.BLOCKSIZE + tarfile.RECORDSIZE:
        # so a file looks whose blocks were never written, as after a power cut
        raise ExportError(path, f"{zeros} zeros after {name}: what stood there is lost", f"less than {2 * tarfile.BLOCKSIZE + tarfile.RECORDSIZE}")


@dataclass(slots=True)
class _Sample:
    """What was read of a sample.   path : the shard.   members : name less the clip's id -> bytes."""

    path: str
    clip_id: str
    members: dict[str, bytes] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.members) == len(MEMBERS)

    def take(self, name: str, data: bytes) -> None:
        clip_id, _, member = name.partition(".")
        if clip_id != self.clip_id:
            missing = MEMBERS - self.members.keys()
            raise ExportError(
                f"{self.path}: {name}",
                f"another clip after {len(self.members)} members of clip {self.clip_id}, without {min(missing)}",
                f"the {len(MEMBERS)} members of a clip in one piece",
            )
        if member in self.members:
            raise ExportError(f"{self.path}: {name}", "this member again", "each member once")
        self.members[member] = data

    def decode(self, frames: Sequence[int]) -> Sample:
        info = self._info()
        rgb = self._pictures("rgb", "jpg", frames)
        visible = self._pictures("visible", "png", frames)
        if visible.shape != rgb.shape[:3]:
            raise ExportError(f"{self.path}: {self.clip_id}", f"masks of {visible.shape[1:]} px", f"{rgb.shape[1:3]} px, as the frames have")
        return self.clip_id, rgb, visible, info

    def _info(self) -> dict[str, Any]:
        where = f"{self.path}: {self.clip_id}.json"
        try:
            info = json.loads(self.members["json"], parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_no_key_twice)
        except (ValueError, RecursionError) as error:
            raise ExportError(where, f"cannot be read ({error})", "strict JSON") from error
        if not isinstance(info, dict) or info.get("clip_id") != self.clip_id:
            raise ExportError(where, "not this clip's", f"an object with clip_id {self.clip_id}")
        return info

    def _pictures(self, kind: str, suffix: str, frames: Sequence[int]) -> Picture:
        """Return the pictures of one kind, decoded into one array. Frames that are asked for twice are decoded twice."""
        pictures: Picture | None = None
        for index, t in enumerate(frames):
            name = f"{kind}.{t:03d}.{suffix}"
            with self._open(name, *MODES[kind]) as image:
                shape = (image.height, image.width, *((3,) if kind == "rgb" else ()))
                if pictures is None:
                    pictures = np.empty((len(frames), *shape), np.uint8)
                if shape != pictures.shape[1:]:
                    raise ExportError(f"{self.path}: {self.clip_id}.{name}", f"{shape[:2]} px", f"{pictures.shape[1:3]} px, as the frames before")
                try:
                    pictures[index] = np.asarray(image)
                except NO_PICTURE as error:
                    raise self._unreadable(name, error) from error
        return np.empty((0, 0, 0, 3)[: 4 if kind == "rgb" else 3], np.uint8) if pictures is None else pictures

    def _open(self, name: str, form: str, mode: str) -> Image.Image:
        try:
            image = Image.open(io.BytesIO(self.members[name]), formats=[form])
        except NO_PICTURE as error:
            raise self._unreadable(name, error) from error
        if image.mode != mode:
            raise ExportError(f"{self.path}: {self.clip_id}.{name}", f"a picture of mode {image.mode}", f"{form} of mode {mode}")
        return image

    def _unreadable(self, name: str, error: BaseException) -> ExportError:
        return ExportError(f"{self.path}: {self.clip_id}.{name}", f"cannot be decoded ({error})", "a whole picture")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond the largest number")
    return number


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
