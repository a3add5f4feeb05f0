"""Faults of a dataset's names, of its manifest, and of its JSON files as such."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tests.sam3dvid.spoiled import (
    ASSET,
    CAMERAS,
    META,
    OBJECTS,
    ONE,
    T1,
    THREE,
    Fault,
    Spoil,
    data,
    each,
    new,
    remove,
    text,
)


def linked(path: str) -> Spoil:
    """Return what moves a file or folder out of the dataset and leaves a link."""

    def spoil(root: Path) -> None:
        outside = Path(tempfile.mkdtemp(dir=root.parent)) / "outside"
        shutil.move(root / path, outside)
        (root / path).symlink_to(outside)

    return spoil


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
