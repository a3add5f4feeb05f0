"""Datasets for torch: the RGB and control pairs that latents are made from, and the latents as a trainer takes them.

A sample that cannot be read raises its error; it is never replaced by another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from shardwork.streams import stream
from vidlatents.encode import pixels
from vidlatents.read import Pair
from vidlatents.records import Sample, parse_name
from vidlatents.store import load_sample
from vidlatents.verify import sample_files

HISTORY = (16, 2, 1)
"""Latent frames of history, far to near, that the public trainer gives its model."""


class PairDataset(Dataset[dict[str, Any]]):
    """RGB and control pairs with the fields of seed 003, section 1.3.

    samples : at bucket size.   read : vidlatents.read.read_pair.   An item has uttid, video_metadata (num_frames, height, width), videos and
    control_videos ((T, 3, H, W) float32 in [-1, 1]), prompts (raw) and first_frames_images ((3, H, W) uint8).
    """

    def __init__(self, samples: Sequence[Sample], read: Callable[[Sample], Pair]) -> None:
        self.samples, self._read = list(samples), read
        self.buckets = [(sample.num_frame, sample.height, sample.width) for sample in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = self.samples[index]
        pair = self._read(sample)
        return {
            "uttid": sample.uttid,
            "video_metadata": {"num_frames": sample.num_frame, "height": sample.height, "width": sample.width},
            "videos": _video(pair.rgb),
            "control_videos": _video(pair.control),
            "prompts": sample.prompt,
            "first_frames_images": torch.from_numpy(np.ascontiguousarray(pair.rgb[0].transpose(2, 0, 1))),
        }


def _video(frames: NDArray[np.uint8]) -> torch.Tensor:
    """Return (T, 3, H, W) float32 in [-1, 1]."""
    return pixels(frames, torch.device("cpu"), torch.float32)[0].permute(1, 0, 2, 3).contiguous()


class LatentFile(NamedTuple):
    """A sample's file and what its name says."""

    path: Path
    uttid: str
    num_frame: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Window:
    """One section of a latent with what comes before it.

    x0 : (z, 1, h, w), the video's first latent frame, zero where the section is the first.   history : (z, 19, h, w), zero before the video begins.
    target : (z, t, h, w).
    """

    x0: torch.Tensor
    history: torch.Tensor
    target: torch.Tensor


def window(latent: torch.Tensor, section: int, history: Sequence[int] = HISTORY) -> Window:
    """Return one section of a latent of the layout `sections` as the public trainer cuts it.

    latent : (S, z, t, h, w).   section : 0 to S - 1.   history : latent frames, of which only the sum matters here.
    """
    sections, z, frames, height, width = latent.shape
    if not 0 <= section < sections:
        raise IndexError(f"section {section} of {sections}")
    line = latent.permute(1, 0, 2, 3, 4).reshape(z, sections * frames, height, width)
    line = torch.cat([line.new_zeros(z, sum(history), height, width), line], dim=1)
    start = section * frames
    first = latent[0, :, :1].clone() if section else torch.zeros_like(latent[0, :, :1])
    return Window(first, line[:, start : start + sum(history)].clone(), line[:, start + sum(history) : start + sum(history) + frames].clone())


class LatentDataset(Dataset[dict[str, Any]]):
    """Stored samples of the layout `sections`, with the fields that the public trainer's model takes.

    folder : a flat folder of .pt files.   least_frames : shorter samples are left out, as the public trainer does below 121.   seed : of the choice of
    sections, which is a function of (seed, epoch, file name).   An item has uttid, bucket_key, num_frame, height, width, x0_latents, history_latents,
    target_latents, control_history_latents, control_target_latents, prompt_embeds, prompt_attention_masks, prompt_raws.
    Raises ValueError for a .pt file that is no sample, and, when an item is taken, for one of the layout `whole`.
    """

    def __init__(self, folder: Path, least_frames: int = 121, seed: int = 0) -> None:
        self.seed, self.epoch = seed, 0
        self.files: list[LatentFile] = []
        for name in sample_files(folder):
            parsed = parse_name(name)
            if parsed is None:
                raise ValueError(f"{folder / name}: no sample: take it away (python -m vidlatents verify names all such files)")
            if parsed[1] >= least_frames:
                self.files.append(LatentFile(folder / name, *parsed))
        self.buckets = [(file.num_frame, file.height, file.width) for file in self.files]

    def set_epoch(self, epoch: int) -> None:
        """Choose other sections in another epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> dict[str, Any]:
        file = self.files[index]
        stored = load_sample(file.path)
        if stored["vae_latent"].ndim != 5:
            raise ValueError(f"{file.path}: a latent of the shape {tuple(stored['vae_latent'].shape)}: only the layout sections is cut into windows")
        sections = stored["vae_latent"].shape[0]
        section = int(stream(self.seed, "section", self.epoch, file.path.name).integers(sections))
        video, control = window(stored["vae_latent"], section), window(stored["control_latent"], section)
        return {
            "uttid": file.uttid,
            "bucket_key": self.buckets[index],
            "num_frame": file.num_frame,
            "height": file.height,
            "width": file.width,
            "x0_latents": video.x0,
            "history_latents": video.history,
            "target_latents": video.target,
            "control_history_latents": control.history,
            "control_target_latents": control.target,
            "prompt_embeds": stored["prompt_embed"],
            "prompt_attention_masks": stored["prompt_attention_mask"],
            "prompt_raws": stored["prompt_raw"],
        }


class BucketBatches(Sampler[list[int]]):
    """Batches of one bucket each, so that their tensors can be stacked.

    buckets : one for each item.   shuffle : another order in each epoch, a function of (seed, epoch) alone.
    rank, ranks : every rank gets a share of as many batches: a rank that has one more would wait for the others for ever.
    even : "repeat" the first batches until all ranks have as many, or "drop" the last ones; torch's DistributedSampler does the same to samples.
    Raises ValueError for another word.
    """

    def __init__(
        self, buckets: Sequence[Hashable], batch_size: int, *, shuffle: bool = False, seed: int = 0, rank: int = 0, ranks: int = 1, even: str = "repeat"
    ) -> None:
        if even not in ("repeat", "drop"):
            raise ValueError(f"even: {even!r}: repeat or drop")
        self.buckets, self.batch_size, self.shuffle, self.seed = list(buckets), batch_size, shuffle, seed
        self.rank, self.ranks, self.even, self.epoch = rank, ranks, even, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._batches())

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches())

    def _batches(self) -> list[list[int]]:
        rng = stream(self.seed, "batches", self.epoch)
        order = rng.permutation(len(self.buckets)).tolist() if self.shuffle else list(range(len(self.buckets)))
        groups: dict[Hashable, list[int]] = {}
        for index in order:
            groups.setdefault(self.buckets[index], []).append(index)
        batches = [group[at : at + self.batch_size] for group in groups.values() for at in range(0, len(group), self.batch_size)]
        if self.shuffle:
            batches = [batches[index] for index in rng.permutation(len(batches))]
        over = len(batches) % self.ranks
        if over and self.even == "drop":
            batches = batches[:-over]
        elif over:
            batches += list(islice(cycle(batches), self.ranks - over))
        return batches[self.rank :: self.ranks]


def collate(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a batch: tensors stacked, dicts joined key by key, everything else as a list."""
    batch: dict[str, Any] = {}
    for key, first in items[0].items():
        values = [item[key] for item in items]
        if isinstance(first, torch.Tensor):
            batch[key] = torch.stack(values)
        elif isinstance(first, dict):
            batch[key] = collate(values)
        else:
            batch[key] = values
    return batch


def make_loader(
    dataset: PairDataset | LatentDataset,
    batch_size: int,
    *,
    workers: int = 0,
    shuffle: bool = False,
    seed: int = 0,
    rank: int = 0,
    ranks: int = 1,
    even: str = "repeat",
) -> DataLoader[dict[str, Any]]:
    """Return a DataLoader of batches of one bucket each; its `batch_sampler.set_epoch` chooses the epoch. Other arguments as of BucketBatches."""
    batches = BucketBatches(dataset.buckets, batch_size, shuffle=shuffle, seed=seed, rank=rank, ranks=ranks, even=even)
    draws = torch.Generator().manual_seed(seed)  # what workers start from: without it, the process's own stream would be used
    return DataLoader(dataset, batch_sampler=batches, collate_fn=collate, num_workers=workers, generator=draws)
