"""Panoramas -> a frozen pool of perspective views, split by panorama."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from PIL import Image

from sam3dvid.backgrounds.freeze import Freezer
from sam3dvid.backgrounds.images import Rgb
from sam3dvid.backgrounds.panorama import read_reduced
from sam3dvid.backgrounds.pool import POLYHAVEN, RELEASABLE, Panorama, both_sums, picture_problem, read_pool, split_of
from sam3dvid.backgrounds.projection import prefilter_width, view
from sam3dvid.backgrounds.settings import PanoramaSettings
from sam3dvid.codes import AssetRefused
from sam3dvid.stage import LONGEST_SLUG, POLYHAVEN_VERSION, hash_order, pool_place
from shardwork.digests import sha256_file
from shardwork.errors import DataError
from shardwork.files import atomic_path
from shardwork.ids import is_id, suggest_id
from shardwork.run import Options
from shardwork.step import Fields, Item, Source, Step, quarantined


def build_polyhaven_pool(
    panoramas: Sequence[Panorama], pool: Path, stage: Path, settings: PanoramaSettings, options: Options, max_refused: int | None = None
) -> list[Fields]:
    """Return a manifest row for every selected panorama after the pool is frozen.

    panoramas : all there are; `settings.limit` takes the first in the order of sha256(salt + slug).   pool : its folder, with nothing else in it.
    stage : where journal, manifest and quarantine are kept, outside the pool.   A refused panorama is a row and not in the pool.
    max_refused : with more of them the pool is not frozen yet, so that they can be mended; None freezes it all the same.
    Raises AssetRefused (pool_frozen, bad_pool), DataError (duplicate_id, missing_file, source_changed of a frozen pool), Fault.
    """
    place = pool_place(POLYHAVEN, stage, pool)
    facts = {name: value for name, value in asdict(settings).items() if name != "limit"}
    step = Step("build_polyhaven_pool", POLYHAVEN_VERSION, facts, partial(_make, settings=settings), partial(_adopt, pool=pool))
    items = [_item(panorama, pool, settings) for panorama in select(panoramas, settings)]
    return Freezer(POLYHAVEN, pool, place, asdict(settings), credits_text, max_refused).build(step, items, options)


def select(panoramas: Sequence[Panorama], settings: PanoramaSettings) -> list[Panorama]:
    """Return the panoramas that a pool takes, in the order of sha256(salt + slug). Source: synthetic spec, section 4."""
    ordered = sorted(panoramas, key=lambda panorama: hash_order(settings.salt, panorama.slug))
    return ordered[: settings.limit] if settings.limit else ordered


def _item(panorama: Panorama, pool: Path, settings: PanoramaSettings) -> Item:
    split = split_of(settings.salt, panorama.slug, settings.eval_fraction)
    names = [f"ph_{panorama.slug}_v{k}" for k in range(settings.views)]
    fine = all(map(is_id, names))  # a slug may be an id and yet too long for its views to have one
    outputs = tuple(pool / split / f"{name}.jpg" for name in names) if fine else ()
    inputs = {
        "split": split,
        "source_url": panorama.source_url,
        "license": panorama.license,
        "authors": list(panorama.authors),
        "md5": panorama.md5,
    }
    source = Source(panorama.path, panorama.path.name, panorama.bytes, panorama.mtime_ns)
    verdict = quarantined(panorama.slug, _too_long(panorama.slug)) if is_id(panorama.slug) and not fine else None
    return Item(panorama.slug, inputs, outputs, sources=(source,), verdict=verdict)


def _too_long(slug: str) -> DataError:
    hint = f"name it {suggest_id(slug[:LONGEST_SLUG])!r} in the table (the file itself may keep its name)"
    return DataError("bad_id", repr(slug), f"{len(slug)} characters", f"at most {LONGEST_SLUG}, as its views are named after it", hint)


def _make(item: Item, settings: PanoramaSettings) -> Fields:
    (source,), facts = item.sources, item.inputs
    md5, sha256 = both_sums(source.path)
    if facts["md5"] and md5 != facts["md5"]:
        raise AssetRefused("digest_mismatch", source.name, f"md5 {md5}", f"{facts['md5']} as its source states")
    panorama, full_width = read_reduced(source.path, prefilter_width(settings.width, settings.hfov_deg), source.name)
    record = {
        "split": facts["split"],
        "file": source.name,
        "bytes": source.bytes,
        "sha256": sha256,
        "md5": md5,
        "width": full_width,
        "license": facts["license"],
        "source_url": facts["source_url"],
        "authors": facts["authors"],
    }
    pictures = []
    for k, path in enumerate(item.outputs):
        write_jpeg(path, view(panorama, settings.yaw_deg(k), settings.width, settings.height, settings.hfov_deg), settings.quality)
        pictures.append(_picture(item.id, k, path, record, settings))
    return {"source": record, "pictures": pictures, "num_pictures": len(pictures)}


def write_jpeg(path: Path, pixels: Rgb, quality: int) -> None:
    """Write pixels as JPEG with full chroma, atomically. The bytes depend on nothing but pixels, quality and Pillow's version."""
    with atomic_path(path) as temp:
        Image.fromarray(pixels).save(temp, format="JPEG", quality=quality, subsampling=0)


def _picture(slug: str, k: int, path: Path, record: Fields, settings: PanoramaSettings) -> Fields:
    return {
        "image_id": path.stem,
        "file": f"{record['split']}/{path.name}",
        "width": settings.width,
        "height": settings.height,
        "bytes": path.stat().st_size,
        "sha256": sha256_file(path),
        "virtual_hfov_deg": settings.hfov_deg,
        "source": POLYHAVEN,
        "source_url": record["source_url"],
        "source_file": record["file"],
        "source_width": record["width"],
        "source_bytes": record["bytes"],
        "source_sha256": record["sha256"],
        "source_md5": record["md5"],
        "license": record["license"],
        "authors": record["authors"],
        "releasable": record["license"] in RELEASABLE,
        "projection": {"hfov_deg": settings.hfov_deg, "kind": "perspective", "pitch_deg": 0.0, "roll_deg": 0.0, "view": k, "yaw_deg": settings.yaw_deg(k)},
        "pool": record["split"],
        "split_key": slug,
    }


def _adopt(item: Item, pool: Path) -> Fields | None:
    """Return the fields of views that are, to the byte, what a frozen pool says; its settings and sources were compared before."""
    try:
        frozen = read_pool(pool)
    except AssetRefused:
        return None
    rows = {row["image_id"]: row for row in (*frozen.eval, *frozen.train) if row["split_key"] == item.id}
    if item.id not in frozen.selection["sources"] or rows.keys() != {path.stem for path in item.outputs}:
        return None
    if any(picture_problem(path, rows[path.stem]) for path in item.outputs):
        return None
    return {"source": frozen.selection["sources"][item.id], "pictures": [rows[path.stem] for path in item.outputs], "num_pictures": len(rows)}


def credits_text(pictures: Sequence[Fields]) -> str:
    """Return what CREDITS.md says: the source, the authors, the licences."""
    lines = ["# Credits", ""]
    if any("polyhaven.com" in picture["source_url"] for picture in pictures):
        lines += ["Powered by [Poly Haven](https://polyhaven.com), whose assets are CC0 (https://polyhaven.com/license).", ""]
    seen = {picture["split_key"]: picture for picture in sorted(pictures, key=lambda picture: picture["image_id"])}
    for slug, picture in sorted(seen.items()):
        by = f" by {', '.join(picture['authors'])}" if picture["authors"] else ""
        at = f" <{picture['source_url']}>" if picture["source_url"] else ""
        lines.append(f"- {slug}{by}, {picture['license'] or 'licence not stated'}{at}")
    return "\n".join(lines) + "\n"
