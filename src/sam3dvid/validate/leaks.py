"""T1, that nothing stands in both splits: no asset, mesh, shape, scan or model, picture, photo or panorama; and no seed or scene twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from sam3dvid.validate.assets import AssetFacts
from sam3dvid.validate.clips import ClipFacts
from sam3dvid.validate.report import LAYOUT, Found

Places = dict[str, str]
"""Split -> the first place there."""
DIGESTS = {"mesh": "mesh with sha256", "voxels": "voxel grid with sha256"}


def look_for_leaks(found: Found, clips: Sequence[ClipFacts], folders: Collection[tuple[str, str]], assets: Sequence[AssetFacts]) -> None:
    """Note what stands in both splits.   folders : (split, asset_id) of every asset's folder. Ids and names are the same in upper and in lower case."""
    where: dict[tuple[str, str], Places] = defaultdict(dict)
    for split, asset_id in sorted(folders):
        where["asset", asset_id.casefold()].setdefault(split, f"assets/{split}/{asset_id}")
    for asset in assets:
        for key, sha256 in asset.sha256.items():
            where[DIGESTS[key], sha256].setdefault(asset.split, f"assets/{asset.split}/{asset.asset_id}")
    for clip in clips:
        for kind, value in clip.background.keys.items() if clip.background is not None else ():
            where[kind, value.casefold()].setdefault(clip.split, clip.clip)
    for (kind, value), places in where.items():
        _note(found, kind, value, places)
    _look_for_names(found, assets)
    _look_for_addresses(found, clips)
    _look_for_seeds(found, clips)
    _look_for_copies(found, clips)


def _note(found: Found, kind: str, value: str, places: Places) -> None:
    if len(places) > 1:
        found.add(LAYOUT, places["train"], f"the {kind} {value} of {places['eval']}", "nothing in both splits")


def _look_for_names(found: Found, assets: Iterable[AssetFacts]) -> None:
    """Note what one source calls by one name in both splits, unless both are said to come from different addresses: many files are called scene.glb."""
    named: dict[tuple[str, str], list[AssetFacts]] = defaultdict(list)
    for asset in assets:
        if asset.source is not None and asset.source_name is not None:
            named[asset.source.casefold(), asset.source_name.casefold()].append(asset)
    for (source, name), ones in named.items():
        pairs = ((one, other) for one in ones if one.split == "eval" for other in ones if other.split == "train")
        same = next((pair for pair in pairs if not all(asset.source_url for asset in pair) or pair[0].source_url == pair[1].source_url), None)
        if same is not None:
            _note(found, f"{source} asset", name, {asset.split: f"assets/{asset.split}/{asset.asset_id}" for asset in same})


def _look_for_addresses(found: Found, clips: Iterable[ClipFacts]) -> None:
    """Note a photo's address in both splits, unless several photos of one split share it: then it is a collection's, and says nothing."""
    pages: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for clip in clips:
        if clip.background is not None and clip.background.source_url:
            name = clip.background.keys.get("panorama or photo", "")
            pages[clip.background.source_url.rstrip("/")][clip.split].setdefault(name, clip.clip)
    for url, splits in pages.items():
        if all(len(names) == 1 for names in splits.values()):
            _note(found, "photo from", url, {split: next(iter(names.values())) for split, names in splits.items()})


def _look_for_seeds(found: Found, clips: Iterable[ClipFacts]) -> None:
    seeds: dict[int, str] = {}
    for clip in clips:
        if clip.seed is not None and seeds.setdefault(clip.seed, clip.clip) != clip.clip:
            found.add(LAYOUT, f"{clip.clip}/meta.json: seed", f"{clip.seed}, as {seeds[clip.seed]} has", "a seed of its own")


def _look_for_copies(found: Found, clips: Iterable[ClipFacts]) -> None:
    """Note a clip with the very cameras and objects of another: a copy under another id."""
    scenes: dict[str, str] = {}
    for clip in clips:
        if clip.scene is not None and (first := scenes.setdefault(clip.scene, clip.clip)) != clip.clip:
            found.add(LAYOUT, clip.clip, f"the cameras and objects of {first}", "a scene of its own")
