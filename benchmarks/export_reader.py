"""Read a shard of the training export with our reader and with webdataset's decoder: CPU seconds a clip, in turn, and whether the pixels are equal.

The shard is made here, of clips of 32 frames of 512 x 512 with the noise of a photo, unless one is named: python benchmarks/export_reader.py train-000000.tar
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import webdataset as wds
from PIL import Image

from sam3dvid.export_reader import iter_samples


def make_shard(folder: Path, clips: int) -> Path:
    """Write a shard of one clip of four objects under several ids."""
    from tests.sam3dvid.datasets import Clip, write_dataset
    from tests.sam3dvid.handmade_exports import clip_members, write_tar

    clip = Clip("train", "00000000", (0, 1, 2, 3), "ph_meadow_v0")
    write_dataset(folder / "dataset", (clip,), 32, 512)
    members = clip_members(folder / "dataset", clip.split, clip.clip_id)
    info = members[0][1].decode()
    every = []
    for number in range(clips):
        name = f"{number:08d}"
        every.append((f"{name}.json", info.replace('"clip_id": "00000000"', f'"clip_id": "{name}"').encode()))
        every += [(f"{name}.{member.partition('.')[2]}", data) for member, data in members[1:]]
    return write_tar(folder / "train-000000.tar", every)


def masks_as_they_are(key: str, data: bytes) -> np.ndarray | None:
    return np.asarray(Image.open(io.BytesIO(data))) if key.endswith(".png") else None


def ours(path: Path, frames: tuple[int, ...] | None = None) -> int:
    return sum(rgb.shape[0] > 0 for _, rgb, _, _ in iter_samples(path, frames))


def theirs(path: Path, *decoders: object) -> int:
    return sum("json" in sample for sample in wds.WebDataset(str(path), shardshuffle=False).decode(*decoders))


def theirs_stacked(path: Path) -> int:
    """As ours gives them: one array of frames, one of masks."""
    count = 0
    for sample in wds.WebDataset(str(path), shardshuffle=False).decode(masks_as_they_are, "rgb8"):
        np.stack([sample[f"rgb.{t:03d}.jpg"] for t in range(32)])
        np.stack([sample[f"visible.{t:03d}.png"] for t in range(32)])
        count += 1
    return count


def equal(path: Path) -> bool:
    other = wds.WebDataset(str(path), shardshuffle=False).decode(masks_as_they_are, "rgb8")
    for (clip_id, rgb, visible, info), sample in zip(iter_samples(path), other, strict=True):
        same = all(np.array_equal(rgb[t], sample[f"rgb.{t:03d}.jpg"]) and np.array_equal(visible[t], sample[f"visible.{t:03d}.png"]) for t in range(32))
        if not same or (clip_id, info) != (sample["__key__"], sample["json"]):
            return False
    return True


def seconds(read: Callable[[], int]) -> float:
    start = time.process_time()
    clips = read()
    return (time.process_time() - start) / clips


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shard", nargs="?", type=Path)
    parser.add_argument("--clips", type=int, default=6, help="of the shard that is made")
    parser.add_argument("--rounds", type=int, default=7, help="each way is tried so often, in turn; ratios are medians over the rounds")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.shard or make_shard(Path(folder), args.clips)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, equal pixels and JSON: {equal(path)}")
        ways: dict[str, Callable[[], int]] = {
            "ours": lambda: ours(path),
            "ours, 16 of 32 frames": lambda: ours(path, tuple(range(0, 32, 2))),
            'webdataset, decode("rgb8")': lambda: theirs(path, "rgb8"),
            "webdataset, masks kept": lambda: theirs(path, masks_as_they_are, "rgb8"),
            "webdataset, masks kept, stacked": lambda: theirs_stacked(path),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, read in ways.items():
                taken[name].append(seconds(read))
        for name, values in taken.items():
            ratio = statistics.median(other / own for other, own in zip(values, taken["ours"], strict=True))
            print(f"{name:34} {statistics.median(values):.3f} CPU s a clip, {ratio:.2f} x ours")


if __name__ == "__main__":
    main()
