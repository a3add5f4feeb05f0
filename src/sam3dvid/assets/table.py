"""Assets in folders -> the rows of an asset table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sam3dvid.assets.facts import Facts, Scores, scan_facts
from sam3dvid.assets.folders import SCAN, FoundAsset
from sam3dvid.assets.licenses import UNKNOWN, spdx
from sam3dvid.assets.parts import parts_of
from sam3dvid.stage import ASSET_COLUMNS, ASSET_KEY, ASSET_NOTES, STATED_UP
from shardwork.digests import sha256_file
from shardwork.errors import DataError
from shardwork.jsonio import dumps
from shardwork.listing import name_in_table, refuse_collisions, size_and_time
from shardwork.tables import Row

COLUMNS = (*ASSET_COLUMNS, *ASSET_NOTES)
GSO = Facts(source="gso", license="CC-BY-4.0", author="Google")
"""What holds for every Google Scanned Object, also where a copy does not say so."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the table's maker says of assets of which nothing is stated; "" leaves it open.

    source : gso, objaverse or another word.   license : SPDX id.   up_axis : Y or Z, for formats that do not state it.
    ids : a new asset's id is its "name", or its "path" below the folder.
    """

    source: str = ""
    license: str = ""
    up_axis: str = ""
    ids: str = "name"

    def __post_init__(self) -> None:
        if self.license and spdx(self.license, self.source) == UNKNOWN != self.license:
            raise DataError("bad_argument", "--license", repr(self.license), "an SPDX id such as CC-BY-4.0", "name it with its version, or LicenseRef-NAME")


@dataclass(frozen=True, slots=True)
class Joined:
    """What is known beside the files.   fetched : resolved path -> what its download says.   scores : CSVs of scores, or None."""

    fetched: Mapping[Path, Facts] = field(default_factory=dict)
    scores: Scores | None = None


def asset_rows(found: Sequence[FoundAsset], table: Path, known: Sequence[Row], defaults: Defaults, joined: Joined) -> list[Row]:
    """Return a row for every asset, sorted by id, with all columns of `COLUMNS`.

    table : where the rows will stand; relative paths are written relative to its folder, absolute ones as they are.   known : rows of an earlier
    table; an asset whose file stands there keeps its id and what its row says, an unknown licence and scores aside, and rows of files elsewhere
    are kept as they are.
    Raises DataError: duplicate_id for assets with one id; bad_argument for a file whose upward axis nothing tells.
    """
    earlier = {(table.parent / row["path"]).resolve(): row for row in known}
    assets = {asset.path.resolve(): asset for asset in found}
    rows = [_asset_row(asset, table, earlier.pop(path, {}), defaults, joined) for path, asset in assets.items()]
    rows += earlier.values()
    refuse_collisions(rows, ASSET_KEY, "name assets by their path with --ids path, or rename files")
    return [{**dict.fromkeys(COLUMNS, ""), **row} for row in sorted(rows, key=lambda row: row[ASSET_KEY])]


def _asset_row(asset: FoundAsset, table: Path, old: Row, defaults: Defaults, joined: Joined) -> Row:
    facts = _facts_of(asset, defaults, joined)
    size, time = size_and_time(asset.path)
    row = {
        ASSET_KEY: asset.name if defaults.ids == "name" else "_".join(asset.path.relative_to(asset.root).with_suffix("").parts),
        "split": asset.split,
        "source": facts.source,
        "source_name": facts.source_name,
        "license": _license_of(facts, defaults),
        "source_url": facts.source_url,
        "author": facts.author,
        "attribution": facts.attribution,
        "scores": dumps(dict(facts.scores)) if facts.scores else "",
        **{name: value for name, value in old.items() if value not in ("", UNKNOWN)},
        "path": name_in_table(asset.path, table),
        "bytes": size,
        "mtime_ns": time,
        "parts": dumps(_parts(asset.path, table)),
    }
    if facts.scores:
        row["scores"] = dumps(dict(facts.scores))
    return row if "up_axis" in row else {**row, "up_axis": _up_axis(asset, defaults)}


def _facts_of(asset: FoundAsset, defaults: Defaults, joined: Joined) -> Facts:
    """Return all that is known of an asset: what its download says first, then its own files, the CSVs, and what holds for its source."""
    stated = joined.fetched.get(asset.path.resolve(), Facts())
    if asset.scan and asset.path.parts[-2:] == SCAN:
        stated = stated.over(scan_facts(asset.path.parent.parent))
    if joined.scores and (scored := joined.scores.of(asset.path, stated, sha256_file)):
        stated = stated.over(scored)
    source = stated.source or defaults.source or ("gso" if asset.scan else "local")
    if source == "gso":
        # a default licence stands in for none, a stated one never gives way to it
        stated = stated.over(Facts(license=defaults.license)).over(GSO)
    return Facts(source=source).over(stated).over(Facts(source_name=asset.name))


def _license_of(facts: Facts, defaults: Defaults) -> str:
    if not facts.license:
        return spdx(defaults.license, facts.source) if defaults.license else UNKNOWN
    # Objaverse holds other sites' files too, whose names of licences may mean other versions than Sketchfab's
    sketchfab = facts.source == "objaverse" and (not facts.source_url or "sketchfab.com" in facts.source_url)
    return spdx(facts.license, "objaverse" if sketchfab else "")


def _up_axis(asset: FoundAsset, defaults: Defaults) -> str:
    if asset.path.suffix.lower() in STATED_UP:
        return "file"
    if defaults.up_axis or asset.scan:
        return defaults.up_axis or "Z"
    raise DataError("bad_argument", "--up-axis", f"not given, and {asset.path} does not state it", "Y or Z", "look at the asset: which axis points up?")


def _parts(path: Path, table: Path) -> list[list[str | int]]:
    """Return [name, bytes, mtime_ns] of the further files of an asset that are there, sorted by name."""
    found: dict[str, list[str | int]] = {}
    for part in parts_of(path):
        if part.path is not None and part.path != path:
            name = os.path.normpath(name_in_table(part.path, table))
            found[name] = [name, *map(int, size_and_time(part.path))]
    return [found[name] for name in sorted(found)]
