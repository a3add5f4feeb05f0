"""Licences and sources of all assets that are used: a table, a text ready to publish, and what may be released. Standard library alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sam3dvid.assets.filters import check_licenses
from sam3dvid.assets.licenses import LICENSES, UNKNOWN, license_of
from sam3dvid.codes import AssetRefused
from sam3dvid.stage import ASSET_KEY, ASSET_STEPS
from shardwork.errors import Fault, plain
from shardwork.step import Fields
from shardwork.tables import Row

COLUMNS = (ASSET_KEY, "split", "source", "source_name", "author", "license", "license_url", "source_url", "attribution", "mesh_sha256", "releasable")
"""Columns of the audit table. attribution : one line that names author, title, source, licence and changes.   releasable : yes or no."""
CHANGES = "scaled and moved into a unit cube, joined into one triangle mesh and voxelised"
MARKS = re.compile(r"([\\`*_\[\]<>|#])")
"""Characters that Markdown would read as more than themselves."""


def audit_rows(table: Sequence[Row], made: Sequence[Fields], allow: str) -> list[Row]:
    """Return an audit row for every finished asset, sorted by split and id.

    table : rows of the asset table.   made : rows of the shard manifests of voxelize_assets; what was refused is not used and has no row.
    allow : as for `releasable`.   Raises Fault (manifest_mismatch) for an asset that is not in the table, AssetRefused (in_both_splits) for a mesh
    that stands in train and in eval.
    """
    described = {row[ASSET_KEY]: row for row in table}
    rows = []
    for record in made:
        if record["status"] != "ok":
            continue
        if record["id"] not in described:
            raise Fault("manifest_mismatch", record["id"], f"a row of {ASSET_STEPS[1]}", "an asset of the table", "run the workflow again")
        rows.append(_audit_row(described[record["id"]], record, allow))
    rows.sort(key=lambda row: (row["split"], row[ASSET_KEY]))
    first: dict[str, Row] = {}
    for row in rows:
        other = first.setdefault(row["mesh_sha256"], row)
        if other["split"] != row["split"]:
            found = f"the mesh of {row[ASSET_KEY]} ({row['split']}) too"
            raise AssetRefused("in_both_splits", f"{other[ASSET_KEY]} ({other['split']})", found, "objects that never cross splits")
    return rows


def _audit_row(row: Row, record: Fields, allow: str) -> Row:
    name = row["license"] or UNKNOWN
    told = {key: row.get(key, "") for key in ("source", "author", "source_url", "attribution")}
    found = {**told, ASSET_KEY: row[ASSET_KEY], "license": name, "split": row["split"], "source_name": row["source_name"] or row[ASSET_KEY]}
    return {
        **found,
        "attribution": attribution(found),
        "license_url": license_of(name).url,
        "mesh_sha256": record["mesh_sha256"],
        "releasable": "yes" if releasable(found, allow) else "no",
    }


def attribution(row: Row) -> str:
    """Return one line that names an asset's title, author, source, licence and changes, with the notice that its source asks for.

    row : source_name, author, source, source_url, license and attribution (the notice) of an asset.   Source: CC BY 4.0, section 3(a)(1).
    """
    asked = license_of(row["license"])
    author = row["author"] or "an author whom its source does not name"
    link = f" ({asked.url})" if asked.url else ""
    notice = f" {row['attribution'].rstrip('.')}." if row["attribution"] else ""
    return plain(f'"{row["source_name"]}" by {author}, {row["source_url"] or row["source"]}, {asked.name}{link}; changed: {CHANGES}.{notice}')


def releasable(row: Row, allow: str) -> bool:
    """Return whether an asset may be part of a release.

    row : with `license`.   allow : SPDX ids separated by blanks; empty: every licence that is known and lets changed copies be passed on.
    Raises AssetRefused (bad_asset_setting) for what is no SPDX id.
    """
    allowed = check_licenses(allow)
    name = row["license"] or UNKNOWN
    return name in allowed if allowed else name in LICENSES and LICENSES[name].changes


def check_release(rows: Sequence[Row], allow: str) -> None:
    """Raise AssetRefused (license_refused) unless every asset may be released; it names the first and counts the rest.

    rows : with asset_id and license.   allow : as for `releasable`.
    """
    refused = [row for row in rows if not releasable(row, allow)]
    if refused:
        more = f", and {len(refused) - 1} more assets like this" if len(refused) > 1 else ""
        expected = allow if allow.split() else "a known licence that lets changed copies be passed on"
        raise AssetRefused("license_refused", refused[0][ASSET_KEY], f"its licence is {refused[0]['license'] or UNKNOWN}{more}", expected)


def attribution_text(rows: Sequence[Row]) -> str:
    """Return the text of ATTRIBUTION.md: all assets, grouped by licence.   rows : of `audit_rows`."""
    lines = ["# Attribution", "", f"This dataset holds {len(rows)} 3D assets of others. Each was {CHANGES}; that is all that was changed in them."]
    for name in sorted({row["license"] for row in rows}):
        asked, group = license_of(name), [row for row in rows if row["license"] == name]
        lines += ["", f"## {asked.name}" if name in LICENSES else f"## {name}", ""]
        lines.append(f"SPDX: {name}. {asked.url}".rstrip())
        if any(row["releasable"] == "no" for row in group):
            lines.append("Assets under this licence are not part of a release.")
        lines += ["", *(_entry(row) for row in group)]
    return "\n".join(lines) + "\n"


def _entry(row: Row) -> str:
    author = f" by {_marked(row['author'])}" if row["author"] else ""
    where = row["source_url"] if row["source_url"] and not MARKS.search(row["source_url"].replace("_", "")) else _marked(row["source_url"] or row["source"])
    notice = row["attribution"].partition(f"changed: {CHANGES}.")[2].strip()
    return f"- {_marked(row['source_name'])}{author}, {where}{'. ' + _marked(notice) if notice else ''} (asset {row[ASSET_KEY]}, {row['split']})"


def _marked(text: str) -> str:
    return MARKS.sub(r"\\\1", plain(text))
