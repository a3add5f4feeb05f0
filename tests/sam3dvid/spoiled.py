"""Ways to spoil a valid dataset: each plants one fault, and says which suite must name it, and how."""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from shardwork.jsonio import dumps, write_json
from tests.sam3dvid.datasets import CLIPS, Clip, corner_mesh, glb_bytes, manifest_line, write_clip

THREE, ONE, OTHER = "clips/eval/00000000", "clips/eval/00000007", "clips/train/00000000"
"""Clips of three objects, one object, and two objects of the other split."""
ASSET = "assets/eval/corner_eval-1"


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

    tell : whether meta.json says so too. Depth goes with the mask.
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
        if amodal == 0:
            picture(f"{clip}/rgba_fg/{name}.png", np.zeros_like)(root)
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


def turn(radians: float) -> np.ndarray:
    return np.array([[math.cos(radians), -math.sin(radians), 0], [math.sin(radians), math.cos(radians), 0], [0, 0, 1]])


def roll(record: Any) -> None:
    for frame in record["frames"]:
        pose = np.array(frame["T_cw"])
        pose[:3] = turn(1e-3) @ pose[:3]
        frame["T_cw"] = pose.tolist()


def aside(record: Any) -> None:
    pose = np.array(record["frames"][1]["T_cw"])
    pose[0, 3] += 1e-4
    record["frames"][1]["T_cw"] = pose.tolist()


def swap_frames(record: Any) -> None:
    frames = record["frames"]
    frames[1]["T_cw"], frames[2]["T_cw"] = frames[2]["T_cw"], frames[1]["T_cw"]


def first_frame(root: Path) -> None:
    pose = json.loads((root / CAMERAS).read_text())["frames"][0]["T_cw"]
    put(META, ("reference_T_cw",), pose)(root)


def small_photo(record: Any) -> None:
    width, height = 512, 64
    focal = (width / 2) / math.tan(math.radians(65))
    K_bg = [[focal, 0.0, (width - 1) / 2], [0.0, focal, (height - 1) / 2], [0.0, 0.0, 1.0]]
    record["background"] |= {"width": width, "height": height, "K_bg": K_bg}


def same_mesh(root: Path) -> None:
    """Give an asset of train the mesh of one of eval, under its own name, with a right record."""
    content = (root / ASSET / "mesh.glb").read_bytes()
    folder = root / "assets/train/corner_train-0"
    (folder / "mesh.glb").write_bytes(content)
    edit("assets/train/corner_train-0/meta.json", lambda record: record["mesh"].update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest()))(root)


def mesh_bytes(content: bytes) -> Spoil:
    def spoil(root: Path) -> None:
        (root / ASSET / "mesh.glb").write_bytes(content)
        edit(f"{ASSET}/meta.json", lambda record: record["mesh"].update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest()))(root)

    return spoil


def two_arrays(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        array = archive.read("depth.npy")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("depth.npy", array)
        archive.writestr("other.npy", array)
    return out.getvalue()


def sixteen_bits(root: Path) -> None:
    Image.fromarray(np.zeros((64, 64), np.uint16)).save(root / ONE / "mask_visible/001.png")


def dated(root: Path) -> None:
    """Save a picture as renderers do: with the date beside it."""
    path, info = root / THREE / "rgba_fg/001.png", PngInfo()
    info.add_text("Date", "2026/10/28 12:00:00")
    with Image.open(path) as image:
        image.copy().save(path, pnginfo=info)


def clear_colour(root: Path) -> None:
    path = root / THREE / "rgb/001.png"
    with Image.open(path) as image:
        image.copy().save(path, transparency=(1, 2, 3))


def second_clip(split: str, photo: str, **changes: object) -> Spoil:
    """Return what writes one more whole clip, with its line in the manifest."""
    clip = Clip(split, "00000009", (0,), photo)

    def spoil(root: Path) -> None:
        write_clip(root, clip, 4, 64)
        edit(f"{clip.path}/meta.json", lambda record: record.update(changes))(root)
        lines = [*map(manifest_line, CLIPS), {**manifest_line(clip), **{key: value for key, value in changes.items() if key == "seed"}}]
        (root / "manifest.jsonl").write_text("".join(dumps(line) + "\n" for line in sorted(lines, key=lambda line: str(line["path"]))))

    return spoil


def chunk(kind: bytes, payload: bytes = b"", before: bytes = b"IDAT") -> Callable[[bytes], bytes]:
    """Return what puts one more chunk into a PNG file, before the first of a kind."""

    def change(content: bytes) -> bytes:
        at = content.index(before) - 4
        made = struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))
        return content[:at] + made + content[at:]

    return change


def parted(content: bytes) -> bytes:
    """Return a PNG file whose header comes twice."""
    return content[:33] + content[8:33] + content[33:]


def commented(content: bytes) -> bytes:
    return content[:-2] + b"\5\0hello"


def linked(path: str) -> Spoil:
    """Return what moves a file or folder out of the dataset and leaves a link."""

    def spoil(root: Path) -> None:
        outside = Path(tempfile.mkdtemp(dir=root.parent)) / "outside"
        shutil.move(root / path, outside)
        (root / path).symlink_to(outside)

    return spoil


def told(root: Path, asset: str) -> None:
    """Let an asset's record say what its files are."""
    folder = root / asset
    files = {key: (folder / name).read_bytes() for key, name in (("mesh", "mesh.glb"), ("voxels", "voxels.npy"))}
    sums = {key: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for key, content in files.items()}
    edit(f"{asset}/meta.json", lambda record: record.update(sums, num_voxels=int(np.load(folder / "voxels.npy").sum())))(root)


def voxels(change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    """Return what changes an asset's voxels, and lets its record say so."""

    def spoil(root: Path) -> None:
        np.save(root / ASSET / "voxels.npy", np.ascontiguousarray(change(np.load(root / ASSET / "voxels.npy"))))
        told(root, ASSET)

    return spoil


def one_less(grid: np.ndarray) -> np.ndarray:
    """Return voxels without the one that holds the mesh's first vertex."""
    grid[tuple(np.floor((np.clip(VERTICES[0], -0.5 + 1e-6, 0.5 - 1e-6) + 0.5) * 64).astype(int))] = False
    return grid


def one_more(grid: np.ndarray) -> np.ndarray:
    """Return voxels with one more, two beside an occupied one where none is."""
    grid[tuple(np.argwhere(grid & ~np.roll(grid, -1, 0) & ~np.roll(grid, -2, 0) & (np.arange(64) < 62)[:, None, None])[0] + [2, 0, 0])] = True
    return grid


def same_shape(root: Path) -> None:
    """Give an asset of train the voxels of one of eval, and its triangles in another order."""
    folder = root / "assets/train/corner_train-0"
    (folder / "mesh.glb").write_bytes(glb_bytes(VERTICES, TRIANGLES[::-1]))
    shutil.copy(root / ASSET / "voxels.npy", folder / "voxels.npy")
    normalization = json.loads((root / ASSET / "meta.json").read_text())["normalization"]
    put("assets/train/corner_train-0/meta.json", ("normalization",), normalization)(root)
    told(root, "assets/train/corner_train-0")


def soft(value: int) -> Callable[[np.ndarray], None]:
    """Return what gives every pixel without alpha a gray of this alpha."""

    def change(pixels: np.ndarray) -> None:
        pixels[pixels[..., 3] == 0] = (9, 9, 9, value)

    return change


def bare_inside(pixels: np.ndarray) -> None:
    """Take one pixel away whose neighbours all are solid."""
    solid = pixels[..., 3] == 255
    inner = np.logical_and.reduce([np.roll(solid, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    pixels[tuple(np.argwhere(inner)[0])] = 0


def linear_blend(root: Path) -> None:
    """Let the background shine through borders as if light, not colour, were mixed."""
    rgba = np.array(Image.open(root / THREE / "rgba_fg/001.png"))
    picture(f"{THREE}/rgb/001.png", lambda old: np.where(rgba[..., 3:] == 64, 255, old).astype(np.uint8))(root)


def dark_border(root: Path) -> None:
    """Let a bright border be darker in rgb than its own part of it."""
    edge = np.array(Image.open(root / THREE / "rgba_fg/001.png"))[..., 3:] == 64
    picture(f"{THREE}/rgb/001.png", lambda old: np.where(edge, 0, old).astype(np.uint8))(root)


def provenance(path: str, **changes: object) -> Spoil:
    return edit(f"{path}/meta.json", lambda record: record["background"]["provenance"].update(changes))


def reseed(clip: str, seed: int) -> Spoil:
    """Return what gives a clip another seed, in its line of the manifest too."""

    def line(old: str) -> str:
        lines = [json.loads(one) for one in old.splitlines()]
        return "".join(dumps({**one, "seed": seed} if one["path"] == clip else one) + "\n" for one in lines)

    return each(put(f"{clip}/meta.json", ("seed",), seed), text("manifest.jsonl", line))


def renumbered(root: Path) -> None:
    """Give a clip of eval a number whose seed is one of train's."""
    (root / ONE).rename(root / "clips/eval/01000000")
    edit("clips/eval/01000000/meta.json", lambda record: record.update(clip_id="01000000", seed=1_000_000))(root)
    text("manifest.jsonl", lambda old: old.replace("00000007", "01000000").replace('"seed":7', '"seed":1000000'))(root)


VERTICES, TRIANGLES = corner_mesh(1)
META, CAMERAS, OBJECTS = f"{THREE}/meta.json", f"{THREE}/cameras.json", f"{THREE}/objects.json"
T1, T2 = "T1", "T2"

NAMES = [
    Fault("no config", remove("config.yaml"), T1, "the dataset: no config.yaml"),
    Fault("empty config", text("config.yaml", lambda _: "\n"), T1, "config.yaml: no text"),
    Fault("no manifest", remove("manifest.jsonl"), T1, "the dataset: no manifest.jsonl"),
    Fault("config that is no YAML", text("config.yaml", lambda _: "a: [1\n"), T1, "config.yaml: no YAML (while parsing"),
    Fault("config that is a list", text("config.yaml", lambda _: "- a\n"), T1, "config.yaml: a list, expected a mapping in YAML"),
    Fault("config without a document", text("config.yaml", lambda _: "---\n"), T1, "config.yaml: a single value, expected a mapping"),
    Fault("clip outside the dataset", linked(ONE), T1, f"{ONE}: a link that leads out of the dataset"),
    Fault("frames outside the dataset", linked(f"{THREE}/rgb"), T1, f"{THREE}/rgb: a link that leads out of the dataset"),
    Fault("picture outside the dataset", linked(f"{THREE}/rgb/001.png"), T1, f"{THREE}/rgb/001.png: a link that leads out of the dataset"),
    Fault("mesh outside the dataset", linked(f"{ASSET}/mesh.glb"), T1, f"{ASSET}/mesh.glb: a link that leads out of the dataset"),
    Fault("manifest outside the dataset", linked("manifest.jsonl"), T1, "manifest.jsonl: a link that leads out of the dataset"),
    Fault("foreign file at the root", new("notes.txt"), T1, "the dataset: extra names: notes.txt"),
    Fault("foreign file among the assets", new("assets/eval/Thumbs.db"), T1, "assets/eval: extra names: Thumbs.db"),
    Fault("unknown split", new("clips/test/x"), T1, "clips: extra names: test"),
    Fault("clip id of seven digits", lambda root: (root / ONE).rename(root / "clips/eval/0000007"), T1, "clips/eval: extra names: 0000007"),
    Fault("temporary name", new(f"{THREE}/rgb/.001.png.0123456789ab.tmp"), T1, "temporary names of a run that was stopped: .001.png.0123456789ab.tmp"),
    Fault("temporary clip", new("clips/eval/.00000009.0123456789ab.tmp/x"), T1, "clips/eval: temporary names of a run that was stopped"),
    Fault("foreign file in a clip", new(f"{THREE}/log.txt"), T1, f"{THREE}: extra names: log.txt"),
    Fault("missing last frame", remove(f"{THREE}/rgb/003.png"), T1, f"{THREE}/rgb: no 003.png"),
    Fault("gap in the numbers", remove(f"{THREE}/depth/001.npz"), T1, f"{THREE}/depth: no 001.npz, expected 000.npz"),
    Fault(
        "one frame too many", lambda root: shutil.copy(root / THREE / "rgba_fg/003.png", root / THREE / "rgba_fg/004.png"), T1, "rgba_fg: extra names: 004.png"
    ),
    Fault("no amodal folder", lambda root: shutil.rmtree(root / THREE / "mask_amodal/obj2"), T1, f"{THREE}/mask_amodal: no obj2"),
    Fault("one amodal folder too many", new(f"{THREE}/mask_amodal/obj4/000.png"), T1, f"{THREE}/mask_amodal: extra names: obj4"),
    Fault("a folder for a file", each(remove(f"{ONE}/meta.json"), new(f"{ONE}/meta.json/x")), T1, f"{ONE}/meta.json: a folder"),
    Fault("missing voxels", remove(f"{ASSET}/voxels.npy"), T1, f"{ASSET}: no voxels.npy"),
]

MANIFEST = [
    Fault("line without a clip", text("manifest.jsonl", lambda old: old.replace("00000007", "00000008")), T1, "lines without a folder: clips/eval/00000008"),
    Fault("clip without a line", text("manifest.jsonl", lambda old: old.split("\n", 1)[1]), T1, f"no line for {THREE}"),
    Fault("lines out of order", text("manifest.jsonl", lambda old: "\n".join([*old.split()[::-1], ""])), T1, "lines sorted by path"),
    Fault("line twice", text("manifest.jsonl", lambda old: old.split("\n")[0] + "\n" + old), T1, f"more than one line for {THREE}"),
    Fault("extra key in a line", text("manifest.jsonl", lambda old: old.replace('"N":3', '"N":3,"a":1', 1)), T1, "manifest.jsonl:1: an extra key 'a'"),
    Fault("missing key in a line", text("manifest.jsonl", lambda old: old.replace('"N":3,', "", 1)), T1, "manifest.jsonl:1: no key 'N'"),
    Fault("other N in a line", text("manifest.jsonl", lambda old: old.replace('"N":3', '"N":2', 1)), T1, "manifest.jsonl:1: N: 2, expected 3"),
    Fault("other seed in a line", text("manifest.jsonl", lambda old: old.replace('"seed":7', '"seed":8', 1)), T1, "manifest.jsonl:2: seed: 8, expected 7"),
    Fault(
        "other span in a line", text("manifest.jsonl", lambda old: old.replace("32.5", "32.25", 1)), T1, "manifest.jsonl:1: arc_span_deg: 32.25, expected 32.5"
    ),
    Fault(
        "absolute path in a line",
        text("manifest.jsonl", lambda old: old.replace('"clips/', '"/clips/', 1)),
        T1,
        'manifest.jsonl:1: path: "/clips/eval/00000000"',
    ),
    Fault("carriage returns", text("manifest.jsonl", lambda old: old.replace("\n", "\r\n")), T1, "manifest.jsonl:1: a carriage return"),
    Fault("no last line feed", text("manifest.jsonl", str.rstrip), T1, "manifest.jsonl: no line feed at the end"),
]

JSON = [
    Fault("NaN in JSON", text(CAMERAS, lambda old: old.replace('"width": 64', '"width": NaN')), T1, f"{CAMERAS}: NaN is not JSON"),
    Fault("unsorted keys", text(META, lambda old: json.dumps(dict(reversed(json.loads(old).items()))) + "\n"), T1, "expected sorted keys"),
    Fault("key twice", text(CAMERAS, lambda old: old.replace('"height": 64', '"height": 64, "height": 64')), T1, "key 'height' stands twice"),
    Fault("cut JSON", data(OBJECTS, lambda old: old[: len(old) // 2]), T1, f"{OBJECTS}: "),
    Fault("JSON that is not UTF-8", data(META, lambda old: old.replace(b"paint", b"pa\xffnt")), T1, "is not UTF-8"),
    Fault("empty JSON", data(META, lambda _: b""), T1, f"{META}: "),
]

CAMERA = [
    Fault("other convention", put(CAMERAS, ("convention",), "opengl"), T1, 'convention: "opengl", expected "opencv"'),
    Fault("extra key of cameras", extra(CAMERAS), T1, "cameras.json: an extra key 'colour'"),
    Fault("half a pixel in K", add(CAMERAS, ("K", 0, 2), 0.5), T1, "cameras.json: K: "),
    Fault("K from the outer pixels' centres", put(CAMERAS, ("K", 0, 0), 31.5 / math.tan(math.radians(25))), T1, "cameras.json: K: "),
    Fault("width as text", put(CAMERAS, ("width",), "64"), T1, 'cameras.json: width: "64", expected a whole number'),
    Fault("frames out of order", put(CAMERAS, ("frames", 2, "t"), 3), T1, "frames[2].t: 3, expected 2"),
    Fault("last row", put(CAMERAS, ("frames", 1, "T_cw", 3), [0, 0, 0, 2]), T1, "frames[1].T_cw: the last row"),
    Fault("last row of a pose in the other order", put(CAMERAS, ("frames", 0, "T_cw", 3), [0, 0, 1, 0]), T1, "frames[0].T_cw: the last row"),
    Fault("3 x 4 pose", edit(CAMERAS, lambda record: record["frames"][1]["T_cw"].pop() and None), T1, "frames[1].T_cw: "),
    Fault("scaled camera", add(CAMERAS, ("frames", 3, "T_cw", 0, 0), 1e-6), T1, "expected a rotation to 1e-09"),
    Fault(
        "mirrored camera", edit(CAMERAS, lambda r: r["frames"][1]["T_cw"].__setitem__(0, [-x for x in r["frames"][1]["T_cw"][0]])), T1, "a determinant of -1"
    ),
    Fault("camera that looks aside", edit(CAMERAS, aside), T1, "T_cw of frame 1: the objects' centre at"),
    Fault("camera that rolls", edit(CAMERAS, roll), T1, "a camera that rolls"),
    Fault("two frames' poses exchanged", edit(CAMERAS, swap_frames), T1, "azimuth in frame"),
]

OBJECT = [
    Fault("no objects", edit(f"{ONE}/objects.json", lambda _: []), T1, f"{ONE}/objects.json: 0 objects"),
    Fault("k from 0", edit(OBJECTS, lambda entries: [entry.update(k=entry["k"] - 1) for entry in entries] and None), T1, "[0].k: 0, expected 1"),
    Fault("asset of the other split", put(OBJECTS, (0, "mesh"), "assets/train/corner_eval-0/mesh.glb"), T1, "[0].mesh: "),
    Fault("path with ..", put(OBJECTS, (0, "voxels"), "assets/eval/../eval/corner_eval-0/voxels.npy"), T1, "[0].voxels: "),
    Fault("absolute path", put(OBJECTS, (1, "mesh"), "/data/mesh.glb"), T1, '[1].mesh: "/data/mesh.glb"'),
    Fault("asset that is not there", lambda root: (root / ASSET).rename(root / "assets/eval/gone"), T1, "no asset corner_eval-1 in assets/eval"),
    Fault("id with a dot", put(OBJECTS, (0, "asset_id"), "corner.eval"), T1, '[0].asset_id: "corner.eval"'),
    Fault(
        "one asset twice",
        edit(OBJECTS, lambda entries: entries[1].update({key: entries[0][key] for key in ("asset_id", "mesh", "voxels")})),
        T1,
        "different assets in a clip",
    ),
    Fault("other source", put(OBJECTS, (0, "source"), "objaverse"), T1, "[0].source: objaverse, expected gso"),
    Fault("rotation not orthonormal", add(OBJECTS, (0, "R_wo", 0, 0), 1e-7), T1, "[0].R_wo: a determinant"),
    Fault(
        "mirrored object",
        edit(OBJECTS, lambda entries: entries[2].update(R_wo=[[-x for x in row] for row in entries[2]["R_wo"]])),
        T1,
        "[2].R_wo: a determinant of -1",
    ),
    Fault("three scales", put(OBJECTS, (0, "s_wo", 2), 0.75), T1, "[0].s_wo: the scales"),
    Fault("one scale", put(OBJECTS, (0, "s_wo"), 0.5), T1, "[0].s_wo: 0.5, expected finite numbers of shape (3,)"),
    Fault("scale out of range", put(f"{ONE}/objects.json", (0, "s_wo"), [1.5] * 3), T1, "[0].s_wo: the scale 1.5"),
    Fault("missing pose", edit(OBJECTS, lambda entries: entries[0].pop("t_wo") and None), T1, "[0]: no key 't_wo'"),
    Fault("shifted object", add(OBJECTS, (0, "t_wo", 0), 0.03), T1, "scene_center: "),
]

RECORD = [
    Fault("missing key of meta", drop(META, "light"), T1, "meta.json: no key 'light'"),
    Fault("extra key of meta", extra(META), T1, "meta.json: an extra key 'colour'"),
    Fault("other clip id", put(META, ("clip_id",), "00000001"), T1, 'clip_id: "00000001", expected "00000000"'),
    Fault("other N", put(META, ("num_objects",), 2), T1, "num_objects: 2, expected 3"),
    Fault("seed as a float", put(META, ("seed",), 0.0), T1, "seed: 0.0, expected a whole number"),
    Fault("start azimuth", add(META, ("start_azimuth_deg",), 0.001), T1, "start_azimuth_deg: 350.001, expected 350"),
    Fault("start elevation", add(META, ("start_elevation_deg",), 0.001), T1, "start_elevation_deg: 35.001, expected 35"),
    Fault("direction", put(META, ("arc_direction",), -1), T1, "arc_direction: -1, expected 1"),
    Fault("negative span", put(META, ("arc_span_deg",), -32.5), T1, "arc_span_deg: -32.5, expected a finite number from 10 to 70"),
    Fault(
        "other span",
        each(put(META, ("arc_span_deg",), 33.0), text("manifest.jsonl", lambda old: old.replace("32.5", "33.0", 1))),
        T1,
        "arc_span_deg: 33.0, expected 32.5",
    ),
    Fault("other drift", add(META, ("elevation_drift_deg",), 0.01), T1, "elevation_drift_deg: 4.51, expected 4.5"),
    Fault("radius", add(META, ("orbit_radius",), 1e-6), T1, "orbit_radius: "),
    Fault("other centre", add(META, ("scene_center", 2), 1e-6), T1, "scene_center: "),
    Fault("reference of the first frame", first_frame, T1, "reference_T_cw: "),
    Fault("sun below the horizon", put(META, ("light", "sun_direction"), [0.0, 0.6, -0.8]), T1, "a sun below the horizon"),
    Fault("sun of another length", put(META, ("light", "sun_direction"), [0.0, 0.6, 0.9]), T1, "light.sun_direction (its length)"),
    Fault("K of the background", add(META, ("background", "K_bg", 0, 2), 0.5), T1, "background.K_bg: "),
    Fault("no split key", edit(META, lambda r: r["background"]["provenance"].pop("split_key") and None), T1, "background.provenance: no key 'split_key'"),
    Fault("background of the other pool", put(META, ("background", "provenance", "pool"), "train"), T1, 'background.provenance.pool: "train", expected "eval"'),
    Fault("visibility of other length", edit(META, lambda r: r["visibility"]["visible_px"].pop() and None), T1, "visibility.visible_px: "),
    Fault(
        "pixels as floats",
        edit(META, lambda r: r["visibility"]["amodal_px"].__setitem__(0, [1.5, 2.0, 3.0])),
        T1,
        "visibility.amodal_px: numbers that are not whole",
    ),
    Fault("visible part above 1", put(META, ("visibility", "visible_frac", 0, 0), 1.5), T1, "visibility.visible_frac: numbers from"),
    Fault("rejections of fewer attempts", put(META, ("attempt",), 2), T1, "rejections: of attempts [0]"),
    Fault("absolute path in meta", put(META, ("background", "provenance", "source_file"), "/home/me/a.jpg"), T1, "provenance.source_file: the absolute path"),
]

ORIGIN = [
    Fault("seed of another number", reseed(ONE, 77), T1, f"{ONE}/meta.json: seed: 77, expected 7, which is 0 and the clip's number"),
    Fault("seed of train without its base", reseed(OTHER, 2), T1, f"{OTHER}/meta.json: seed: 2, expected 1000000"),
    Fault("eval clip with a seed of train's", renumbered, T1, "clips/eval/01000000/meta.json: clip_id: 01000000, expected ids below 01000000 in eval"),
    Fault(
        "attempt beyond the cap",
        edit(META, lambda r: r.update(attempt=50, rejections=[{"attempt": one, "reason": "visibility"} for one in range(50)])),
        T1,
        "attempt: 50, expected a whole number from 0 to 49",
    ),
    Fault("arc retries beyond all caps", put(META, ("arc_retries",), 5001), T1, "arc_retries: 5001, expected a whole number from 0 to 5000"),
    Fault("strong sun", put(META, ("light", "sun_strength"), 4.5), T1, "light.sun_strength: 4.5, expected a finite number from 2 to 4"),
    Fault("bright shade", put(META, ("light", "ambient_strength"), 0.6), T1, "light.ambient_strength: 0.6, expected a finite number from 0.2 to 0.5"),
    Fault("wide sun", put(META, ("light", "sun_angle_deg"), 3.0), T1, "light.sun_angle_deg: 3.0, expected a finite number from 2 to 2"),
    Fault("digest of the photo that is none", provenance(THREE, sha256="zz"), T1, 'provenance.sha256: "zz", expected text of the form [0-9a-f]{64}'),
    Fault("digest of the source that is none", provenance(THREE, source_sha256="A" * 64), T1, "provenance.source_sha256: "),
    Fault("path upwards in the provenance", provenance(THREE, file="../pool/a.jpg"), T1, 'provenance.file: the path "../pool/a.jpg"'),
    Fault("path upwards within a path", provenance(THREE, file="pool/../../a.jpg"), T1, "provenance.file: the path"),
    Fault("absolute path as a key", provenance(THREE, **{"/home/me/a.jpg": 1}), T1, 'provenance (a key): the absolute path "/home/me/a.jpg"'),
    Fault("absolute path among the authors", provenance(THREE, authors=["/home/me/a.jpg"]), T1, "provenance.authors[0]: the absolute path"),
    Fault("view of another panorama", put(META, ("background", "image_id"), "ph_street_v9"), T1, "image_id: ph_street_v9, expected ph_meadow_v and a number"),
    Fault("photo of another id", provenance(THREE, source="sa1b", split_key="sa_1"), T1, "image_id: ph_meadow_v0, expected sa_1, as its split_key"),
]

PICTURES = [
    Fault("mask value above N", picture(f"{THREE}/mask_visible/001.png", pixel(4)), T1, f"{THREE}/mask_visible/001.png: the value 4, expected 0 to 3"),
    Fault("gray amodal", picture(f"{THREE}/mask_amodal/obj1/001.png", pixel(128)), T1, "mask_amodal/obj1/001.png: the value 128, expected 0 and 255"),
    Fault("amodal of ones", picture(f"{ONE}/mask_amodal/obj1/000.png", lambda old: old // 255), T1, "mask_amodal/obj1/000.png: the value 1,"),
    Fault(
        "visible outside amodal",
        picture(f"{THREE}/mask_amodal/obj1/002.png", lambda old: np.zeros_like(old)),
        T1,
        "visible pixels of object 1 outside its silhouette",
    ),
    Fault(
        "rgb with alpha", picture(f"{THREE}/rgb/000.png", lambda old: np.dstack([old, old[..., :1]])), T1, "rgb/000.png: 8 bits of RGBA, expected 8 bits of RGB"
    ),
    Fault("gray rgb", picture(f"{THREE}/rgb/001.png", lambda old: old[..., 0]), T1, "rgb/001.png: 8 bits of gray"),
    Fault("16-bit mask", sixteen_bits, T1, "mask_visible/001.png: 16 bits of gray"),
    Fault("other size", picture(f"{THREE}/rgba_fg/001.png", lambda old: old[:63]), T1, "rgba_fg/001.png: 64 x 63 pixels, expected 64 x 64"),
    Fault("cut picture", data(f"{THREE}/rgb/001.png", lambda old: old[:-40]), T1, "rgb/001.png: cut short"),
    Fault("flipped bit", data(f"{THREE}/rgb/002.png", flip(60)), T1, "rgb/002.png: a wrong checksum of its part b'IDAT'"),
    Fault("bytes behind a picture", data(f"{THREE}/rgb/002.png", lambda old: old + b"x"), T1, "rgb/002.png: 1 bytes after its end"),
    Fault("date in a picture", dated, T1, "rgba_fg/001.png: a part b'tEXt' beside the pixels"),
    Fault("transparent colour", clear_colour, T1, "rgb/001.png: a part b'tRNS' beside the pixels"),
    Fault("resolution of a picture", data(f"{THREE}/rgb/001.png", chunk(b"pHYs", bytes(9))), T1, "rgb/001.png: a part b'pHYs' beside the pixels"),
    Fault("colour profile", data(f"{THREE}/rgb/001.png", chunk(b"gAMA", bytes(4))), T1, "rgb/001.png: a part b'gAMA' beside the pixels"),
    Fault("private part with a path", data(f"{THREE}/rgb/001.png", chunk(b"paTh", b"/home/me")), T1, "rgb/001.png: a part b'paTh' beside the pixels"),
    Fault("two headers", data(f"{THREE}/rgb/001.png", parted), T1, "rgb/001.png: the parts b'IHDR', b'IHDR', b'IDAT'"),
    Fault(
        "empty pixels behind a second header", data(f"{THREE}/rgb/001.png", chunk(b"IHDR", bytes(13), b"IEND")), T1, "rgb/001.png: the parts b'IHDR', b'IDAT'"
    ),
    Fault("hole within an object", picture(f"{THREE}/rgba_fg/001.png", bare_inside), T1, "rgba_fg/001.png: 1 pixels inside objects without alpha"),
    Fault("no foreground", picture(f"{THREE}/rgba_fg/001.png", np.zeros_like), T1, "pixels inside objects without alpha"),
    Fault("foreground everywhere", picture(f"{THREE}/rgba_fg/001.png", soft(255)), T1, "solid pixels away from every object"),
    Fault("haze everywhere", picture(f"{THREE}/rgba_fg/001.png", soft(3)), T1, "pixels away from every object, of"),
    Fault("white borders", linear_blend, T1, "rgb/001.png: "),
    Fault("dark borders", dark_border, T1, "pixels of borders in a colour that no background makes"),
    Fault("empty picture", data(f"{THREE}/rgba_fg/002.png", lambda _: b""), T1, "rgba_fg/002.png: begins with b''"),
    Fault("colour without alpha", picture(f"{THREE}/rgba_fg/000.png", pixel((9, 9, 9, 0))), T1, "rgba_fg/000.png: 1 pixels with a colour but without alpha"),
    Fault("premultiplied twice", picture(f"{ONE}/rgb/001.png", lambda old: (old * 0.8).astype(np.uint8)), T1, "rgb/001.png: "),
    Fault("depth of float64", depth(f"{THREE}/depth/001.npz", lambda old: old.astype(np.float64)), T1, "depth/001.npz: an array of"),
    Fault(
        "depth of float16",
        depth(f"{THREE}/depth/001.npz", lambda old: old.astype(np.float16)),
        T1,
        "depth/001.npz: float16 of shape (64, 64), expected float32",
    ),
    Fault("depth under another key", depth(f"{THREE}/depth/001.npz", lambda old: None, "z"), T1, "depth/001.npz: the arrays z.npy, expected one array"),
    Fault("two arrays", data(f"{THREE}/depth/001.npz", two_arrays), T1, "depth/001.npz: the arrays depth.npy, other.npy"),
    Fault("depth of 0 as background", depth(f"{THREE}/depth/002.npz", lambda old: np.nan_to_num(old)), T1, "pixels of the background with a depth"),
    Fault("infinite background", depth(f"{THREE}/depth/002.npz", pixel(np.inf)), T1, "1 pixels of the background with a depth"),
    Fault("hole in the depth", depth(f"{THREE}/depth/002.npz", inside(np.nan)), T1, "1 pixels of objects without depth"),
    Fault("negative depth", depth(f"{THREE}/depth/002.npz", inside(-2.0)), T1, "1 depths such as -2.0"),
    Fault("depth along the ray", depth(f"{THREE}/depth/002.npz", lambda old: old * 1.2), T1, "depth/002.npz: depths of object 1 from"),
    Fault("depth in another unit", depth(f"{ONE}/depth/002.npz", lambda old: old / 1000), T1, "depth/002.npz: depths of object 1 from 0.00"),
    Fault("bytes before a depth", data(f"{THREE}/depth/002.npz", lambda old: b"junk" + old), T1, "depth/002.npz: 4 bytes beside the array"),
    Fault("comment of a depth", data(f"{THREE}/depth/002.npz", commented), T1, "depth/002.npz: 5 bytes beside the array"),
    Fault("cut depth", data(f"{THREE}/depth/003.npz", lambda old: old[:-30]), T1, "depth/003.npz: cannot be read"),
    Fault(
        "flipped bit of a depth", data(f"{THREE}/depth/003.npz", lambda old: old[:200] + bytes([old[200] ^ 1]) + old[201:]), T1, "depth/003.npz: cannot be read"
    ),
    Fault("depth in Fortran order", depth(f"{THREE}/depth/003.npz", lambda old: np.asfortranarray(old)), T1, "depth/003.npz: Fortran order"),
]

ASSETS = [
    Fault(
        "solid voxels of another grid",
        lambda root: np.save(root / ASSET / "voxels.npy", np.ones((65, 65, 65), bool)),
        T1,
        "voxels.npy: bool of shape (65, 65, 65)",
    ),
    Fault("voxels of bytes", lambda root: np.save(root / ASSET / "voxels.npy", np.ones((64, 64, 64), np.uint8)), T1, "voxels.npy: uint8 of shape"),
    Fault("cut voxels", data(f"{ASSET}/voxels.npy", lambda old: old[:-7]), T1, "voxels.npy: 262137 bytes of values"),
    Fault("other voxels", data(f"{ASSET}/voxels.npy", lambda old: old[:-1] + bytes([1 - old[-1]])), T1, "num_voxels: "),
    Fault("mesh of another digest", data(f"{ASSET}/mesh.glb", flip(5)), T1, "mesh.sha256: "),
    Fault("cut mesh", data(f"{ASSET}/mesh.glb", lambda old: old[:-4]), T1, "mesh.glb: version 2, "),
    Fault("mesh that is moved", mesh_bytes(glb_bytes(VERTICES, TRIANGLES, translation=[0, 0, 1])), T1, "mesh.glb: a node with a translation"),
    Fault("mesh beyond the unit cube", mesh_bytes(glb_bytes(VERTICES + [0.01, 0, 0], TRIANGLES)), T1, "expected vertices within -0.5 and 0.5"),
    Fault("small scan", mesh_bytes(glb_bytes(VERTICES * 0.9, TRIANGLES)), T1, "mesh.glb: a longest side of 0.9"),
    Fault("scan that touches one face", mesh_bytes(glb_bytes(VERTICES - [2e-5, 0, 0], TRIANGLES)), T1, "mesh.glb: vertices from"),
    Fault("scan aside of the middle", mesh_bytes(glb_bytes(VERTICES + [0, 0.1, 0], TRIANGLES)), T1, "normalization.raw_bbox: a box from"),
    Fault("mesh with Y up", mesh_bytes(glb_bytes(VERTICES[:, [0, 2, 1]] * [1, -1, 1], TRIANGLES)), T1, "normalization.raw_bbox: a box from"),
    Fault(
        "mesh without triangles",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["meshes"][0].update(primitives=[]))),
        T1,
        "mesh.glb: no triangles",
    ),
    Fault(
        "mesh whose bounds lie",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["accessors"][0].update(min=[-0.5] * 3))),
        T1,
        "mesh.glb: min [-0.5",
    ),
    Fault("index of no vertex", mesh_bytes(glb_bytes(VERTICES, np.where(TRIANGLES == 3, 99, TRIANGLES))), T1, "mesh.glb: the index 99 of 24 vertices"),
    Fault("vertex that is NaN", mesh_bytes(glb_bytes(np.where(VERTICES[3] == VERTICES, np.nan, VERTICES), TRIANGLES)), T1, "mesh.glb: a vertex that is NaN"),
    Fault(
        "mesh out of the scene",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["scenes"][0].update(nodes=[]))),
        T1,
        "a scene that does not show the mesh",
    ),
    Fault(
        "mesh twice in the scene",
        mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["scenes"][0].update(nodes=[0, 0]))),
        T1,
        "node 0 is reached twice",
    ),
    Fault(
        "mesh in another file", mesh_bytes(glb_bytes(VERTICES, TRIANGLES, lambda scene: scene["buffers"][0].update(uri="a.bin"))), T1, "bytes outside the file"
    ),
    Fault("mesh without its bytes", mesh_bytes(glb_bytes(VERTICES, TRIANGLES)[:12] + b""), T1, "mesh.glb: "),
    Fault("voxels everywhere", voxels(np.ones_like), T1, "voxels.npy: 0 voxels empty where the surface is, "),
    Fault("mirrored voxels", voxels(lambda old: old[::-1]), T1, "voxels empty where the surface is, "),
    Fault("voxels with the axes of glTF", voxels(lambda old: old.transpose(0, 2, 1)), T1, "voxels empty where the surface is, "),
    Fault("voxels moved by one", voxels(lambda old: np.roll(old, 1, 1)), T1, "voxels empty where the surface is, "),
    Fault("one voxel too few", voxels(one_less), T1, "voxels.npy: 1 voxels empty where the surface is, 0 occupied"),
    Fault("one voxel too many", voxels(one_more), T1, "voxels.npy: 0 voxels empty where the surface is, 1 occupied"),
    Fault(
        "raw box of other proportions",
        edit(
            f"{ASSET}/meta.json",
            lambda r: (
                r["normalization"]["raw_bbox"][1].__setitem__(2, r["normalization"]["raw_bbox"][1][2] + 0.1)
                or r["normalization"]["offset"].__setitem__(2, -0.025)
            ),
        ),
        T1,
        "normalization.raw_bbox: a box from",
    ),
    Fault("no digest of the mesh", drop(f"{ASSET}/meta.json", "mesh"), T1, f"{ASSET}/meta.json: no key 'mesh'"),
    Fault("no digest of the voxels", drop(f"{ASSET}/meta.json", "voxels"), T1, f"{ASSET}/meta.json: no key 'voxels'"),
    Fault("source that is no word", put(f"{ASSET}/meta.json", ("source",), "my scans/"), T1, f'{ASSET}/meta.json: source: "my scans/"'),
    Fault("no licence", drop(f"{ASSET}/meta.json", "license"), T1, f"{ASSET}/meta.json: no key 'license'"),
    Fault("other scale", add(f"{ASSET}/meta.json", ("normalization", "scale"), 0.01), T1, "normalization.scale: 0.51, expected 0.5"),
    Fault("offset in raw units", put(f"{ASSET}/meta.json", ("normalization", "offset"), [-1.0, 0.0, 0.0]), T1, "normalization.offset: "),
]

LEAKS = [
    Fault(
        "asset in both splits", lambda root: shutil.copytree(root / ASSET, root / "assets/train/corner_eval-1"), T1, "the asset corner_eval-1 of assets/eval"
    ),
    Fault("mesh in both splits", same_mesh, T1, "assets/train/corner_train-0: the mesh with sha256"),
    Fault(
        "asset in both splits by another case",
        lambda root: shutil.copytree(root / ASSET, root / "assets/train/Corner_EVAL-1"),
        T1,
        "the asset corner_eval-1 of",
    ),
    Fault("shape in both splits", same_shape, T1, "assets/train/corner_train-0: the voxel grid with sha256"),
    Fault(
        "scan in both splits under another id",
        put("assets/train/corner_train-0/meta.json", ("source_name",), "Corner 1 of EVAL"),
        T1,
        "assets/train/corner_train-0: the gso asset corner 1 of eval of assets/eval/corner_eval-1",
    ),
    Fault(
        "address of a panorama in both splits",
        provenance(OTHER, source_url="https://polyhaven.com/a/meadow/"),
        T1,
        f"{OTHER}: the photo from https://polyhaven.com/a/meadow of {THREE}",
    ),
    Fault("panorama in both splits by another case", second_clip("train", "ph_MEADOW_v3"), T1, "the panorama or photo meadow of clips/eval/00000000"),
    Fault("panorama in both splits", second_clip("train", "ph_meadow_v3"), T1, "the panorama or photo meadow of clips/eval/00000000"),
    Fault("picture in both splits", second_clip("train", "ph_meadow_v1"), T1, "the image ph_meadow_v1 of clips/eval/00000007"),
    Fault("seed of two clips", second_clip("eval", "ph_meadow_v3", seed=7), T1, "seed: 7, as clips/eval/00000007 has"),
]

SEEN = [
    Fault("object that shows too little", masks(THREE, 1, 2, keep=7), T2, f"{THREE}: object 2 in frame 1: 7 visible pixels, expected at least 8"),
    Fault("object that vanishes", masks(THREE, 3, 1, keep=0), T2, f"{THREE}: object 1 in frame 3: 0 visible pixels"),
    Fault("object out of the picture", masks(ONE, 2, 1, keep=0, amodal=0), T2, f"{ONE}: object 1 in frame 2: 0.0000 of its 0 pixels"),
    Fault("object that is mostly hidden", masks(ONE, 0, 1, keep=15, amodal=151), T2, f"{ONE}: object 1 in frame 0: 0.0993 of its 151 pixels visible"),
    Fault("visible pixels told wrongly", add(META, ("visibility", "visible_px", 2, 1), 1), T2, f"{META}: visibility.visible_px[2][1]: "),
    Fault("amodal pixels told wrongly", add(META, ("visibility", "amodal_px", 0, 2), -1), T2, f"{META}: visibility.amodal_px[0][2]: "),
    Fault("visible part told wrongly", add(META, ("visibility", "visible_frac", 3, 0), -1e-6), T2, f"{META}: visibility.visible_frac[3][0]: "),
    Fault("background that leaves corners bare", edit(META, small_photo), T2, f"{THREE}: background in frame 0: a corner at"),
    Fault("spheres that meet", edit(OBJECTS, lambda entries: [entry.update(s_wo=[1.0] * 3) for entry in entries] and None), T2, "objects 1 and 2: 1.6"),
]

FAULTS = [*NAMES, *MANIFEST, *JSON, *CAMERA, *OBJECT, *RECORD, *ORIGIN, *PICTURES, *ASSETS, *LEAKS, *SEEN]
