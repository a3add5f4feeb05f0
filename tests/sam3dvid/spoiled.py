"""Ways to spoil a valid dataset in place, and what a planted fault is; the faults themselves stand beside this file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shardwork.jsonio import dumps, write_json

THREE, ONE, OTHER = "clips/eval/00000000", "clips/eval/00000007", "clips/train/00000000"
"""Clips of three objects, one object, and two objects of the other split."""
META, CAMERAS, OBJECTS = f"{THREE}/meta.json", f"{THREE}/cameras.json", f"{THREE}/objects.json"
ASSET = "assets/eval/corner_eval-1"
T1, T2 = "T1", "T2"

Spoil = Callable[[Path], object]
"""Changes a dataset in place."""


@dataclass(frozen=True)
class Fault:
    name: str
    spoil: Spoil
    suite: str
    text: str


def edit(path: str, change: Callable[[Any], Any]) -> Spoil:
    """Return what changes the value of a JSON file: in place, or to what `change` returns."""

    def spoil(root: Path) -> None:
        value = json.loads((root / path).read_text())
        changed = change(value)
        write_json(root / path, value if changed is None else changed)

    return spoil


def put(path: str, keys: tuple[Any, ...], value: Any) -> Spoil:
    """Return what sets one value within a JSON file."""

    def change(record: Any) -> None:
        for key in keys[:-1]:
            record = record[key]
        record[keys[-1]] = value

    return edit(path, change)


def add(path: str, keys: tuple[Any, ...], value: Any) -> Spoil:
    """Return what adds to one number within a JSON file."""

    def change(record: Any) -> None:
        for key in keys[:-1]:
            record = record[key]
        record[keys[-1]] += value

    return edit(path, change)


def drop(path: str, key: str) -> Spoil:
    return edit(path, lambda record: {name: value for name, value in record.items() if name != key})


def extra(path: str) -> Spoil:
    return edit(path, lambda record: {**record, "colour": 1})


def text(path: str, change: Callable[[str], str]) -> Spoil:
    return lambda root: (root / path).write_bytes(change((root / path).read_text()).encode())


def data(path: str, change: Callable[[bytes], bytes]) -> Spoil:
    return lambda root: (root / path).write_bytes(change((root / path).read_bytes()))


def remove(path: str) -> Spoil:
    return lambda root: (root / path).unlink()


def new(path: str) -> Spoil:
    def spoil(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")

    return spoil


def picture(path: str, change: Callable[[np.ndarray], np.ndarray | None]) -> Spoil:
    """Return what changes the pixels of a picture."""

    def spoil(root: Path) -> None:
        with Image.open(root / path) as image:
            pixels = np.array(image)
        changed = change(pixels)
        Image.fromarray(pixels if changed is None else changed).save(root / path)

    return spoil


def depth(path: str, change: Callable[[np.ndarray], np.ndarray | None], key: str = "depth") -> Spoil:
    def spoil(root: Path) -> None:
        values = np.load(root / path)["depth"]
        changed = change(values)
        np.savez_compressed(root / path, **{key: values if changed is None else changed})

    return spoil


def pixel(value: Any, at: tuple[int, int] = (0, 0)) -> Callable[[np.ndarray], None]:
    def change(pixels: np.ndarray) -> None:
        pixels[at] = value

    return change


def inside(value: float) -> Callable[[np.ndarray], None]:
    """Return what sets the first finite depth."""

    def change(values: np.ndarray) -> None:
        values[tuple(np.argwhere(np.isfinite(values))[0])] = value

    return change


def each(*spoils: Spoil) -> Spoil:
    def spoil(root: Path) -> None:
        for one in spoils:
            one(root)

    return spoil


def masks(clip: str, t: int, k: int, keep: int | None = None, amodal: int | None = None, tell: bool = True) -> Spoil:
    """Return what leaves an object only `keep` visible pixels, and gives it a silhouette of its visible pixels and others up to `amodal`.

    tell : whether meta.json says so too. Depth and colours go with the mask, colours with a silhouette that is given too.
    """

    def spoil(root: Path) -> None:
        name = f"{t:03d}"
        with Image.open(root / clip / f"mask_visible/{name}.png") as image:
            mask = np.array(image)
        own = np.argwhere(mask == k)
        gone = own[keep:] if keep is not None else own[:0]
        mask[tuple(gone.T)] = 0
        values = np.load(root / clip / f"depth/{name}.npz")["depth"]
        values[tuple(gone.T)] = np.nan
        path = root / clip / f"mask_amodal/obj{k}/{name}.png"
        with Image.open(path) as image:
            whole = np.array(image)
        if amodal is not None:
            whole[:] = 0
            whole[mask == k] = 255
            whole.reshape(-1)[np.flatnonzero(whole.reshape(-1) == 0)[: amodal - int((whole > 0).sum())]] = 255
        Image.fromarray(mask).save(root / clip / f"mask_visible/{name}.png")
        Image.fromarray(whole).save(path)
        np.savez_compressed(root / clip / f"depth/{name}.npz", depth=values)
        shown = (mask > 0) | (whole > 0) if amodal is not None else mask > 0
        picture(f"{clip}/rgba_fg/{name}.png", lambda old: np.where(shown[..., None], old, 0).astype(np.uint8))(root)
        if tell:
            visible, all_of_it = int((mask == k).sum()), int((whole > 0).sum())
            meta = json.loads((root / clip / "meta.json").read_text())
            for key, value in (("visible_px", visible), ("amodal_px", all_of_it), ("visible_frac", visible / all_of_it if all_of_it else 0.0)):
                meta["visibility"][key][t][k - 1] = value
            write_json(root / clip / "meta.json", meta)

    return spoil


def flip(byte: int) -> Callable[[bytes], bytes]:
    """Return what flips one bit of a byte counted from the end."""
    return lambda content: content[:-byte] + bytes([content[-byte] ^ 1]) + content[len(content) - byte + 1 :]


def mesh_bytes(content: bytes) -> Spoil:
    def spoil(root: Path) -> None:
        (root / ASSET / "mesh.glb").write_bytes(content)
        edit(f"{ASSET}/meta.json", lambda record: record["mesh"].update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest()))(root)

    return spoil


def told(root: Path, asset: str) -> None:
    """Let an asset's record say what its files are."""
    folder = root / asset
    files = {key: (folder / name).read_bytes() for key, name in (("mesh", "mesh.glb"), ("voxels", "voxels.npy"))}
    sums = {key: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for key, content in files.items()}
    edit(f"{asset}/meta.json", lambda record: record.update(sums, num_voxels=int(np.load(folder / "voxels.npy").sum())))(root)


def provenance(path: str, **changes: object) -> Spoil:
    return edit(f"{path}/meta.json", lambda record: record["background"]["provenance"].update(changes))


def reseed(clip: str, seed: int) -> Spoil:
    """Return what gives a clip another seed, in its line of the manifest too."""

    def line(old: str) -> str:
        lines = [json.loads(one) for one in old.splitlines()]
        return "".join(dumps({**one, "seed": seed} if one["path"] == clip else one) + "\n" for one in lines)

    return each(put(f"{clip}/meta.json", ("seed",), seed), text("manifest.jsonl", line))
