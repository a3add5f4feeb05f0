"""The audit of licences: the table, the text, and what a release refuses."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from sam3dvid.assets.audit import attribution, attribution_text, audit_rows, check_release, releasable
from sam3dvid.codes import AssetRefused
from sam3dvid.stage import ASSET_COLUMNS, ASSET_NOTES, assets_place
from shardwork.errors import Fault
from shardwork.run import write_manifest
from shardwork.shards import shard_of
from shardwork.tables import write_table

ROOT = Path(__file__).resolve().parents[2]


def row(name, license="CC-BY-4.0", **more):
    blank = dict.fromkeys((*ASSET_COLUMNS, *ASSET_NOTES), "")
    facts = {"asset_id": name, "path": "a.glb", "split": "train", "source": "objaverse", "source_name": f"The {name}", "license": license, "up_axis": "file"}
    return blank | facts | {"bytes": "1", "mtime_ns": "1"} | more


def made(name, status="ok"):
    return {"id": name, "status": status, "code": "ok" if status == "ok" else "flat_mesh", "mesh_sha256": name * 4}


MUG = row("mug", author="Google", source_url="https://host/mug", attribution="Copyright 2020 Google LLC.", split="eval", source="gso")


def test_only_finished_assets_are_used():
    rows = audit_rows([row("a"), row("b")], [made("a"), made("b", "upstream")], "")
    assert [found["asset_id"] for found in rows] == ["a"]


def test_a_row_has_the_licences_address_and_the_meshs_digest():
    (found,) = audit_rows([row("a", "CC-BY-SA-3.0")], [made("a")], "")
    assert (found["license_url"], found["mesh_sha256"], found["releasable"]) == ("https://creativecommons.org/licenses/by-sa/3.0/", "aaaa", "yes")


def test_an_attribution_names_title_author_source_licence_and_changes():
    assert attribution(MUG) == (
        '"The mug" by Google, https://host/mug, Creative Commons Attribution 4.0 International (https://creativecommons.org/licenses/by/4.0/); '
        "changed: scaled and moved into a unit cube, joined into one triangle mesh and voxelised. Copyright 2020 Google LLC."
    )


def test_a_missing_author_is_said_to_be_missing():
    assert "by an author whom its source does not name, objaverse," in attribution(row("a"))


def test_a_name_with_line_breaks_stays_on_one_line():
    assert "\n" not in attribution(row("a", source_name="x\n# y"))


@pytest.mark.parametrize(
    ("license", "allow", "answer"),
    [
        ("CC-BY-4.0", "", True),
        ("CC-BY-NC-4.0", "", True),
        ("CC-BY-ND-4.0", "", False),
        ("LicenseRef-unknown", "", False),
        ("", "", False),
        ("GPL-3.0-only", "", False),
        ("CC-BY-4.0", "CC0-1.0 CC-BY-4.0", True),
        ("CC-BY-NC-4.0", "CC0-1.0 CC-BY-4.0", False),
        ("LicenseRef-studio", "LicenseRef-studio", True),
        ("", "LicenseRef-unknown", True),
    ],
)
def test_a_release_holds_what_the_list_holds_and_without_one_what_is_known_to_be_free(license, allow, answer):
    assert releasable({"license": license}, allow) is answer


def test_a_release_is_refused_by_the_first_asset_and_the_count_of_others():
    with pytest.raises(AssetRefused, match=r"b: its licence is MIT, and 1 more assets like this, expected CC-BY-4\.0.*license_refused"):
        check_release([row("a"), row("b", "MIT"), row("c", "")], "CC-BY-4.0")
    check_release([row("a")], "CC-BY-4.0")


def test_the_text_groups_assets_by_licence_with_its_link():
    rows = audit_rows([MUG, row("a", "CC0-1.0"), row("b", "LicenseRef-unknown")], [made("mug"), made("a"), made("b")], "")
    text = attribution_text(rows)
    assert text.startswith("# Attribution\n\nThis dataset holds 3 3D assets of others. Each was scaled and moved")
    first, second, third = text.split("\n## ")[1:]
    assert first.startswith("Creative Commons Attribution 4.0 International\n\nSPDX: CC-BY-4.0. https://creativecommons.org/licenses/by/4.0/\n")
    assert "- The mug by Google, https://host/mug. Copyright 2020 Google LLC. (asset mug, eval)" in first
    assert second.startswith("Creative Commons Zero 1.0 Universal\n") and "(asset a, train)" in second
    assert third.startswith("LicenseRef-unknown\n") and "not part of a release" in third


def test_a_name_cannot_break_the_text():
    (found,) = audit_rows([row("a", source_name="[x](http://bad) <b>\n# y")], [made("a")], "")
    (line,) = [line for line in attribution_text([found]).splitlines() if line.startswith("- ")]
    assert line == r"- \[x\](http://bad) \<b\>\\n\# y, objaverse (asset a, train)"


def test_an_asset_that_the_table_lacks_is_a_mismatch():
    with pytest.raises(Fault, match="manifest_mismatch"):
        audit_rows([], [made("a")], "")


def test_the_script_reads_every_work_shard(tmp_path):
    table, names = [row(name) for name in "abc"], "abc"
    write_table(tmp_path / "t.csv", (*ASSET_COLUMNS, *ASSET_NOTES), table)
    place = assets_place(tmp_path / "voxels", tmp_path / "dataset")
    for shard in {shard_of(name, 2) for name in names}:
        ids = [name for name in names if shard_of(name, 2) == shard]
        write_manifest(place.manifest("voxelize_assets", shard, "k"), [made(name) for name in ids], ids)
    line = [sys.executable, str(ROOT / "scripts" / "write_asset_audit.py"), "--table=t.csv", "--stage=voxels", "--work-shards=2"]
    subprocess.run([*line, "--allow=MIT", "--csv=out/a.csv", "--text=out/ATTRIBUTION.md"], cwd=tmp_path, check=True, capture_output=True)
    with open(tmp_path / "out" / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(found["asset_id"], found["releasable"]) for found in rows] == [("a", "no"), ("b", "no"), ("c", "no")]
    assert "The b" in (tmp_path / "out" / "ATTRIBUTION.md").read_text()


def test_one_mesh_in_both_splits_is_refused_and_twice_in_one_is_not():
    same = {**made("b"), "mesh_sha256": made("a")["mesh_sha256"]}
    assert len(audit_rows([row("a"), row("b")], [made("a"), same], "")) == 2
    with pytest.raises(AssetRefused) as caught:
        audit_rows([row("a", split="eval"), row("b")], [made("a"), same], "")
    assert caught.value.code == "in_both_splits" and "a (eval)" in str(caught.value) and "b (train)" in str(caught.value)
