"""Faults of what a clip's records say: cameras, objects, meta.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tests.sam3dvid.spoiled import (
    ASSET,
    CAMERAS,
    META,
    OBJECTS,
    ONE,
    OTHER,
    T1,
    THREE,
    Fault,
    add,
    drop,
    each,
    edit,
    extra,
    provenance,
    put,
    reseed,
    text,
)


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


def renumbered(root: Path) -> None:
    """Give a clip of eval a number whose seed is one of train's."""
    (root / ONE).rename(root / "clips/eval/01000000")
    edit("clips/eval/01000000/meta.json", lambda record: record.update(clip_id="01000000", seed=1_000_000))(root)
    text("manifest.jsonl", lambda old: old.replace("00000007", "01000000").replace('"seed":7', '"seed":1000000'))(root)


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
    Fault("reference a tenth of a millionth aside", add(META, ("reference_T_cw", 0, 3), 1e-7), T1, "reference_T_cw: "),
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
    Fault("eval clip with a seed of train's", renumbered, T1, "clips/eval/01000000/meta.json: clip_id: 01000000, expected ids below 01000000,"),
    Fault(
        "attempt beyond the cap",
        edit(META, lambda r: r.update(attempt=10_000, rejections=[{"attempt": one, "reason": "visibility"} for one in range(10_000)])),
        T1,
        "attempt: 10000, expected a whole number from 0 to 9999",
    ),
    Fault("arc retries beyond all caps", put(META, ("arc_retries",), 10_001), T1, "arc_retries: 10001, expected a whole number from 0 to 10000"),
    Fault("strong sun", put(META, ("light", "sun_strength"), 1000.5), T1, "light.sun_strength: 1000.5, expected a finite number from 0 to 1000"),
    Fault("dark shade", put(META, ("light", "ambient_strength"), -0.1), T1, "light.ambient_strength: -0.1, expected a finite number from 0 to 1000"),
    Fault("wide sun", put(META, ("light", "sun_angle_deg"), 180.5), T1, "light.sun_angle_deg: 180.5, expected a finite number from 0 to 180"),
    Fault("digest of the photo that is none", provenance(THREE, sha256="zz"), T1, 'provenance.sha256: "zz", expected text of the form [0-9a-f]{64}'),
    Fault("digest of the source that is none", provenance(THREE, source_sha256="A" * 64), T1, "provenance.source_sha256: "),
    Fault("path upwards in the provenance", provenance(THREE, file="../pool/a.jpg"), T1, 'provenance.file: the path "../pool/a.jpg"'),
    Fault("path upwards within a path", provenance(THREE, file="pool/../../a.jpg"), T1, "provenance.file: the path"),
    Fault("absolute path as a key", provenance(THREE, **{"/home/me/a.jpg": 1}), T1, 'provenance (a key): the absolute path "/home/me/a.jpg"'),
    Fault("absolute path among the authors", provenance(THREE, authors=["/home/me/a.jpg"]), T1, "provenance.authors[0]: the absolute path"),
    Fault("view of another panorama", put(META, ("background", "image_id"), "ph_street_v9"), T1, "image_id: ph_street_v9, expected ph_meadow_v and a number"),
    Fault("photo of another id", provenance(THREE, source="sa1b", split_key="sa_1"), T1, "image_id: ph_meadow_v0, expected sa_1, as its split_key"),
]
