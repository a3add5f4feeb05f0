"""Which clips may be released: licences of their assets and of their backgrounds, through one allow-list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sam3dvid.assets.audit import releasable
from sam3dvid.assets.licenses import UNKNOWN, license_of
from sam3dvid.backgrounds.pool import SA1B, SA1B_LICENSE
from sam3dvid.codes import AssetRefused
from sam3dvid.export.clips import Clip, bad_clip
from sam3dvid.export.voxels import check_voxels, voxels_path
from sam3dvid.stage import asset_of
from shardwork.errors import DataError
from shardwork.jsonio import Json, read_json

ASSET_KEYS = ("source", "source_name", "source_url", "author", "attribution", "license")
"""Keys of an asset's meta.json that the index repeats, where they are."""


def asset_rights(dataset: Path, split: str, asset_id: str, allow: str) -> dict[str, Json]:
    """Return what an asset's meta.json says of its origin, the licence's text and whether it may be released. Raises AssetRefused (bad_asset)."""
    path = asset_of(dataset, asset_id, split) / "meta.json"
    try:
        meta = read_json(path)
    except FileNotFoundError as error:
        raise AssetRefused("bad_asset", path, "no such file", "an asset's record") from error
    except DataError as error:
        raise AssetRefused("bad_asset", path, error.found, error.expected) from error
    if not isinstance(meta, dict):
        raise AssetRefused("bad_asset", path, f"a {type(meta).__name__}", "an asset's record")
    told = {key: meta[key] for key in ASSET_KEYS if isinstance(meta.get(key), str) and meta[key]}
    name = told.get("license", UNKNOWN)
    return {**told, "license": name, "license_url": license_of(name).url, "releasable": releasable({"license": name}, allow)}


def background_rights(background: Mapping[str, Json], allow: str) -> dict[str, Json]:
    """Return a background's provenance and whether it may be released: SA-1B never, nor a photo whose origin is not told."""
    provenance = background.get("provenance")
    told: dict[str, Json] = dict(provenance) if isinstance(provenance, dict) else {}
    name = told.get("license")
    name = name if isinstance(name, str) and name else UNKNOWN
    research = told.get("source") == SA1B or name == SA1B_LICENSE or told.get("releasable") is False
    return {**told, "license": name, "license_url": license_of(name).url, "releasable": not research and releasable({"license": name}, allow)}


def refusals(assets: Mapping[str, Mapping[str, Json]], image_id: str, background: Mapping[str, Json]) -> list[str]:
    """Return why a clip may not be released, empty if it may.   assets : id -> rights of its assets."""
    found = [f"asset {asset_id}: {rights['license']}" for asset_id, rights in sorted(assets.items()) if not rights["releasable"]]
    return found + ([] if background["releasable"] else [f"background {image_id}: {background['license']}"])


@dataclass(slots=True)
class Rights:
    """Rights of the assets and backgrounds seen so far, so that each is looked up once.   allow : licences under which they may be released."""

    dataset: Path
    split: str
    allow: str
    assets: dict[str, dict[str, Json]] = field(default_factory=dict)
    backgrounds: dict[str, dict[str, Json]] = field(default_factory=dict)

    def of(self, clip: Clip) -> tuple[str, list[str]]:
        """Return the id of a clip's background, and why the clip may not be released. Raises AssetRefused (bad_asset, bad_clip)."""
        for asset_id in clip.assets:
            if asset_id not in self.assets:
                check_voxels(voxels_path(self.dataset, self.split, asset_id))
                self.assets[asset_id] = asset_rights(self.dataset, self.split, asset_id, self.allow)
        background = clip.given["background"]
        image_id = str(background.get("image_id", ""))
        rights = background_rights(background, self.allow)
        if self.backgrounds.setdefault(image_id, rights) != rights:
            raise bad_clip(clip.folder / "meta.json", f"another origin of background {image_id} than a clip before", "one origin an id")
        return image_id, refusals({asset_id: self.assets[asset_id] for asset_id in clip.assets}, image_id, rights)
