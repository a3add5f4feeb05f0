"""index.json: what an export holds, written last. Sealed with a digest of itself, so that a spoilt or edited one is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sam3dvid.codes import HINTS
from sam3dvid.conventions import CANONICAL_FROM_GLTF
from sam3dvid.export.pictures import LOSSLESS_DB
from sam3dvid.export.settings import LEAST_PSNR_DB, ExportSettings
from sam3dvid.export.shards import all_encoders, member_names
from sam3dvid.stage import EXPORT_INDEX, SPLITS
from shardwork.digests import sha256_file, unseal
from shardwork.errors import DataError
from shardwork.jsonio import Json, read_json
from shardwork.pack import Plan
from shardwork.tarball import Written

KIND = "sam3dvid.export"
FORMAT_VERSION = "0.1"
"""Of the export's format: seed 002, section 9."""
KEYS = frozenset(
    "kind format_version split plan clips_per_shard frames members_per_sample samples shards clips assets backgrounds voxels left_out releasable "
    "releasable_only release_licenses psnr conventions encoders".split()
)


def voxels_name(split: str) -> str:
    """Return the name of the file of voxels."""
    return f"voxels_{split}.npz"


def conventions() -> dict[str, Json]:
    """Return the format's conventions in words and formulas. Source: seed 002, sections 3 and 9."""
    return {
        "axes": {
            "camera": "OpenCV: x right, y down, z forward",
            "object": "canonical: z up, longest side of the bounding box 1, the box centred",
            "world": "right-handed, z up",
        },
        "mesh": {"canonical_from_gltf": CANONICAL_FROM_GLTF.tolist(), "note": "meshes are not exported; those of the dataset are glTF, y up"},
        "intrinsics": "u = K[0][0] x / z + K[0][2], v = K[1][1] y / z + K[1][2]; no distortion",
        "mask": "0 background, k object k; not anti-aliased",
        "matrices": "row-major nested lists, column vectors; every rotation is a 3x3 matrix, there are no quaternions",
        "names": "R_ab, t_ab, T_ab map coordinates of frame b into frame a; w world, c camera, o object",
        "pixel_centres": "at integers: pixel (u, v) covers u - 0.5 to u + 0.5",
        "pose": "x_c = R_co (s_co * x_o) + t_co, with R_co = R_cw R_wo, t_co = R_cw t_wo + t_cw, s_co = s_wo; T_cw maps world to camera",
        "rgb": "sRGB, JPEG",
        "units": "scene units of the clip, no metric scale; angles in no key",
        "voxels": "surface occupancy [i][j][k] along x, y, z; centre (index + 0.5) / 64 - 0.5; packed: C order, the first voxel in the highest bit",
    }


@dataclass(frozen=True, slots=True)
class Contents:
    """What the index says beside shards and plan.

    split : str.   frames : of every clip.   clips : id -> assets, background, releasable, refusals, fingerprint.   assets, backgrounds : id -> rights.
    left_out : id -> why a clip is not here.
    """

    split: str
    frames: int
    clips: Mapping[str, Mapping[str, Json]]
    assets: Mapping[str, Json]
    backgrounds: Mapping[str, Json]
    left_out: Mapping[str, list[str]]


def index_of(plan: Plan, packed: Mapping[str, Written], contents: Contents, settings: ExportSettings, voxels: Path) -> dict[str, Json]:
    """Return what index.json says, before it is sealed.   packed : every shard of the plan.   voxels : the file of voxels, which is there."""
    facts = {clip_id: fact for written in packed.values() for clip_id, fact in written.facts.items()}
    shards = [
        {
            "bytes": (written := packed[shard.name]).size_bytes,
            "clip_ids": [unit.id for unit in shard.units],
            "frames_below_40_db": sum(written.facts[unit.id]["frames_below_40_db"] for unit in shard.units),
            "members": written.members,
            "name": shard.name,
            "psnr_min_db": min(written.facts[unit.id]["psnr_min_db"] for unit in shard.units),
            "samples": len(shard.units),
            "sha256": written.sha256,
        }
        for shard in plan.shards
    ]
    return {
        "kind": KIND,
        "format_version": FORMAT_VERSION,
        "split": contents.split,
        "plan": plan.as_json(),
        "clips_per_shard": plan.per_shard,
        "frames": contents.frames,
        "members_per_sample": len(member_names("", contents.frames)),
        "samples": len(contents.clips),
        "shards": shards,
        "clips": {clip_id: {**clip, **facts[clip_id]} for clip_id, clip in contents.clips.items()},
        "assets": contents.assets,
        "backgrounds": contents.backgrounds,
        "voxels": {"assets": len(contents.assets), "bytes": voxels.stat().st_size, "name": voxels.name, "sha256": sha256_file(voxels)},
        "left_out": contents.left_out,
        "releasable": all(clip["releasable"] for clip in contents.clips.values()),
        "releasable_only": settings.releasable_only,
        "release_licenses": settings.release_licenses,
        "psnr": {
            "asked_db": LEAST_PSNR_DB,
            "equal_pixels_db": LOSSLESS_DB,
            "frames_below": sum(shard["frames_below_40_db"] for shard in shards),
            "min_db": min((shard["psnr_min_db"] for shard in shards), default=None),
        },
        "conventions": conventions(),
        "encoders": all_encoders(),
    }


def bad_index(where: object, found: str, expected: str) -> DataError:
    """Return the error for an index that is not what an export writes."""
    return DataError("bad_export", where, found, expected, HINTS["bad_export"])


def read_index(folder: Path) -> dict[str, Json]:
    """Return what the index of an export says. Raises DataError (bad_export, bad_json) for one that is missing, changed or of another kind."""
    path = folder / EXPORT_INDEX
    if not path.is_file():
        raise bad_index(path, "no such file", "the index that an export writes last into its folder, such as export/eval")
    found: dict[str, Json] | None = unseal(read_json(path))
    if found is None:
        raise bad_index(path, "not what its seal says: it was changed", "the index as it was written")
    if found.get("kind") != KIND or found.get("format_version") != FORMAT_VERSION:
        raise bad_index(path, f"kind {found.get('kind')!r}, version {found.get('format_version')!r}", f"{KIND!r}, version {FORMAT_VERSION!r}")
    if found.keys() != KEYS or found["split"] not in SPLITS:
        raise bad_index(path, f"the keys {', '.join(sorted(found.keys() ^ KEYS)) or 'of another split'}", "the keys of the format")
    return found
