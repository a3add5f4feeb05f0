"""Which clips may be released: licences of their assets and of their backgrounds, through one allow-list."""

from __future__ import annotations

import re
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
    told = _told(background)
    name = _license_told(told)
    return {**told, "license": name, "license_url": license_of(name).url, "releasable": not background_refusal(background, allow)}


def background_refusal(background: Mapping[str, Json], allow: str) -> str:
    """Return why a background may not be released, the empty text if it may."""
    told = _told(background)
    name = _license_told(told)
    if _is_sa1b(told.get("source")) or _bare(name) == _bare(SA1B_LICENSE):
        return name if _bare(name) == _bare(SA1B_LICENSE) else f"from SA-1B, though it states {name}"
    # what is no plain yes is a no
    if told.get("releasable", True) is not True:
        return f"marked as not releasable, though it states {name}"
    return "" if releasable({"license": name}, allow) else name


def _told(background: Mapping[str, Json]) -> dict[str, Json]:
    provenance = background.get("provenance")
    return dict(provenance) if isinstance(provenance, dict) else {}


def _license_told(told: Mapping[str, Json]) -> str:
    name = told.get("license")
    return name if isinstance(name, str) and name else UNKNOWN


def _bare(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _is_sa1b(source: Json) -> bool:
    return isinstance(source, str) and _bare(source) == SA1B


def refusals(assets: Mapping[str, Mapping[str, Json]], image_id: str, background: str) -> list[str]:
    """Return why a clip may not be released, empty if it may.   assets : id -> rights of its assets.   background : as of `background_refusal`."""
    found = [f"asset {asset_id}: {rights['license']}" for asset_id, rights in sorted(assets.items()) if not rights["releasable"]]
    return found + ([f"background {image_id}: {background}"] if background else [])


def background_id(clip: Clip) -> str:
    """Return the id of a clip's background; one that has none is that clip's own."""
    image_id = clip.given["background"].get("image_id")
    return image_id if isinstance(image_id, str) and image_id else f"of clip {clip.clip_id}"


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
        image_id = background_id(clip)
        rights = background_rights(background, self.allow)
        if self.backgrounds.setdefault(image_id, rights) != rights:
            raise bad_clip(clip.folder / "meta.json", f"another origin of background {image_id} than a clip before", "one origin an id")
        used = {asset_id: self.assets[asset_id] for asset_id in clip.assets}
        return image_id, refusals(used, image_id, background_refusal(background, self.allow))
