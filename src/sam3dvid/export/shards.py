"""One shard: the samples of its clips, streamed into a tar that webdataset writes. Memory holds one clip."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sam3dvid.export.clips import Clip, bad_clip, end_of, read_clip, sample_json
from sam3dvid.export.pictures import encoders, jpeg, mask_png, psnr_db, rgb_pixels
from sam3dvid.export.settings import LEAST_PSNR_DB
from shardwork.errors import DataError
from shardwork.files import atomic_path
from shardwork.jsonio import Json, dumps
from shardwork.pack import PlannedShard, Unit
from shardwork.tarball import Written

KEY = "__key__"
JSON_FIELD = "json"
MODE = 0o644


def tar_writer() -> tuple[Callable[..., Any], str]:
    """Return webdataset's writer of tars, and its version. Raises DataError (bad_argument) where it is not installed."""
    try:
        import webdataset
    except ImportError as error:
        hint = "pip install 'reelmill[clips]' (or: pip install webdataset==1.0.2)"
        raise DataError("bad_argument", "webdataset", "not installed", "the package that writes the tars", hint) from error
    return webdataset.TarWriter, str(webdataset.__version__)


def all_encoders() -> dict[str, Json]:
    """Return what makes the bytes of a shard: the libraries and their versions."""
    return {**encoders(), "tar": {"library": "webdataset", "version": tar_writer()[1]}}


def member_names(clip_id: str, frames: int) -> list[str]:
    """Return the names of a sample's members in their order: the JSON, the frames, the masks. TarWriter sorts them, and this is that order."""
    pictures = [*(f"rgb.{t:03d}.jpg" for t in range(frames)), *(f"visible.{t:03d}.png" for t in range(frames))]
    return [f"{clip_id}.{field}" for field in (JSON_FIELD, *pictures)]


class _Tee:
    """What TarWriter writes to: a file, with size and sha256 of what went into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256, self.size_bytes = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self.sha256.update(data)
        self.size_bytes += len(data)
        return len(data)


@dataclass(frozen=True, slots=True)
class ShardWriter:
    """Writes a shard of clips; called in another process, so it is picklable.   dataset : its folder.   split : which.   any_size : as in ExportSettings."""

    dataset: Path
    split: str
    any_size: bool

    def __call__(self, final: Path, shard: PlannedShard) -> Written:
        """Write a shard atomically, and return it with the facts of each clip.

        Raises AssetRefused (bad_clip) for a clip that cannot be exported, DataError (member_changed) for one that is not what was planned.
        """
        writer, _ = tar_writer()
        facts, members = {}, 0
        with atomic_path(final) as temp, open(temp, "wb") as file:
            tee = _Tee(file)
            with writer(tee, user="", group="", mode=MODE, mtime=0, encoder=False) as tar:
                for unit in shard.units:
                    sample, facts[unit.id] = self.sample(unit)
                    members += len(sample) - 1
                    tar.write(sample)
        return Written(tee.size_bytes, tee.sha256.hexdigest(), members, facts)

    def sample(self, unit: Unit) -> tuple[dict[str, Any], dict[str, Json]]:
        """Return a clip's sample as TarWriter takes it, and what was found on the way.

        unit : the clip's id; its inputs are the fingerprint and the encoders.   Returns the facts crc32 (8 hex digits for each member, in order),
        psnr_min_db, psnr_min_frame (the first that has it) and frames_below_40_db.
        """
        clip = read_clip(self.dataset, self.split, unit.id, self.any_size)
        sample: dict[str, Any] = {JSON_FIELD: dumps(sample_json(clip)).encode()}
        ends, psnr = [], []
        for field, name in clip.pictures():
            data = _read(clip, name)
            ends.append(end_of(data, len(data)))
            if field.startswith("rgb."):
                pixels = rgb_pixels(data, clip.folder / name, clip.width, clip.height)
                sample[field] = jpeg(pixels)
                psnr.append(psnr_db(pixels, sample[field]))
            else:
                sample[field] = mask_png(data, clip.folder / name, clip.width, clip.height, clip.num_objects)
        if (now := clip.fingerprint(ends)) != unit.inputs[0]:
            hint = "let nothing write into the dataset meanwhile, then run the command again with --replan: the clip has changed, so the plan has"
            raise DataError("member_changed", clip.folder, f"fingerprint {now[:8]}", f"{unit.inputs[0][:8]} as when the export was planned", hint)
        least = min(psnr)
        facts = {
            "crc32": "".join(f"{zlib.crc32(data):08x}" for data in sample.values()),
            "frames_below_40_db": sum(one < LEAST_PSNR_DB for one in psnr),
            "psnr_min_db": least,
            "psnr_min_frame": psnr.index(least),
        }
        return {KEY: unit.id, **sample}, facts


def _read(clip: Clip, name: str) -> bytes:
    path = clip.folder / name
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise bad_clip(path, "no such file", "a picture of the clip") from error
