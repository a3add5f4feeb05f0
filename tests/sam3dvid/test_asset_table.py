"""Folders to asset tables: layouts, licences and scores that sources state, renewal, and refusals."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sam3dvid.assets.facts import Scores, scan_facts
from sam3dvid.assets.folders import find_assets
from sam3dvid.stage import read_asset_table, sources_of
from shardwork.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
PBTXT = """model { file: "model.sdf" }
name: "ACE_Coffee_Mug"
description: "a mug, called \\"name: x\\""
authors { name: "Google" email: "a@b.c" }
legal {
  copyright: "Copyright 2020 Google LLC."
  license: "%s"
}
annotations { key: "license" value: "no" }
categories { first: "Mugs" name: "not the name" }
"""


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def scan(folder, name, license="Creative Commons Attribution 4.0 International"):
    put(folder / name / "meshes" / "model.obj", "mtllib model.mtl\nv 0 0 0\n")
    put(folder / name / "meshes" / "model.mtl", "map_Kd texture.png\n")
    put(folder / name / "materials" / "textures" / "texture.png", "png")
    put(folder / name / "thumbnails" / "0.jpg")
    if license:
        put(folder / name / "metadata.pbtxt", PBTXT % license)


def flat(folder, name, stem):
    put(folder / name / f"{stem}.obj", f"mtllib {stem}.mtl\n")
    put(folder / name / f"{stem}.mtl", "map_Kd texture.png\n")
    put(folder / name / "texture.png")
    put(folder / name / f"{name}.xml")
    put(folder / name / f"{name}_col.obj")
    put(folder / name / "visual" / f"{stem}_vis.msh")


def make(tmp_path, *flags, code=0):
    line = [sys.executable, str(ROOT / "scripts" / "make_asset_table.py"), "--out=table.csv", *flags]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stderr + done.stdout
    if code:
        return done.stderr
    return {row["asset_id"]: row for row in read_asset_table(tmp_path / "table.csv")}


def test_a_scan_as_published_has_its_texture_and_what_its_metadata_say(tmp_path):
    scan(tmp_path / "gso", "ACE_Coffee_Mug")
    (row,) = make(tmp_path, "--assets=gso").values()
    stated = {key: row[key] for key in ("path", "split", "source", "source_name", "license", "up_axis", "author", "attribution")}
    assert stated == {
        "path": "gso/ACE_Coffee_Mug/meshes/model.obj",
        "split": "eval",
        "source": "gso",
        "source_name": "ACE_Coffee_Mug",
        "license": "CC-BY-4.0",
        "up_axis": "Z",
        "author": "Google",
        "attribution": "Copyright 2020 Google LLC.",
    }
    names = [source.name for source in sources_of(row, tmp_path / "table.csv")]
    assert names == [row["path"], "gso/ACE_Coffee_Mug/materials/textures/texture.png", "gso/ACE_Coffee_Mug/meshes/model.mtl"]


def test_the_files_of_a_row_are_unchanged_as_the_table_describes_them(tmp_path):
    scan(tmp_path / "gso", "mug")
    (row,) = make(tmp_path, "--assets=gso").values()
    sources = sources_of(row, tmp_path / "table.csv")
    assert [source.change() for source in sources] == [None] * 3
    put(tmp_path / "gso" / "mug" / "materials" / "textures" / "texture.png", "changed")
    change = sources[1].change()
    assert change is not None and change.code == "source_changed"


def test_a_stated_licence_never_gives_way_to_the_default(tmp_path):
    scan(tmp_path / "gso", "a", "Creative Commons Attribution-NonCommercial 4.0 International")
    scan(tmp_path / "gso", "b", "ask us")
    scan(tmp_path / "gso", "c", "")
    rows = make(tmp_path, "--assets=gso", "--license=CC0-1.0")
    assert [rows[name]["license"] for name in "abc"] == ["CC-BY-NC-4.0", "LicenseRef-unknown", "CC0-1.0"]


def test_metadata_are_read_by_their_place_not_their_word(tmp_path):
    scan(tmp_path, "m", "MIT")
    facts = scan_facts(tmp_path / "m")
    assert (facts.source_name, facts.license, facts.author) == ("ACE_Coffee_Mug", "MIT", "Google")


def test_escaped_characters_in_metadata_are_read(tmp_path):
    put(tmp_path / "metadata.pbtxt", 'name: "na\\303\\257ve \\"x\\""')
    assert scan_facts(tmp_path).source_name == 'naïve "x"'


def test_flat_scans_are_named_by_their_obj_and_collision_meshes_are_none(tmp_path):
    flat(tmp_path / "libero", "black_bowl", "akita_black_bowl")
    flat(tmp_path / "libero", "plate", "model")
    rows = make(tmp_path, "--assets=libero", "--layout=gso")
    assert [(name, row["up_axis"], row["license"]) for name, row in rows.items()] == [("akita_black_bowl", "Z", "CC-BY-4.0"), ("plate", "Z", "CC-BY-4.0")]
    assert [part[0] for part in json.loads(rows["plate"]["parts"])] == ["libero/plate/model.mtl", "libero/plate/texture.png"]


def test_a_scan_among_other_files_lends_them_neither_its_licence_nor_its_axis(tmp_path):
    scan(tmp_path / "mixed", "mug", "")
    put(tmp_path / "mixed" / "other" / "vase.obj")
    put(tmp_path / "mixed" / "lamp.glb")
    rows = make(tmp_path, "--assets=mixed", "--up-axis=Y")
    stated = {name: (row["source"], row["license"], row["author"], row["split"]) for name, row in rows.items()}
    unknown = ("local", "LicenseRef-unknown", "", "train")
    assert stated == {"mug": ("gso", "CC-BY-4.0", "Google", "eval"), "vase": unknown, "lamp": unknown}


def test_a_mark_that_is_no_octal_digit_stands_for_itself_in_metadata(tmp_path):
    put(tmp_path / "metadata.pbtxt", 'name: "a\\8b"')
    assert scan_facts(tmp_path).source_name == "a8b"


def test_every_mesh_is_an_asset_where_files_are(tmp_path):
    for name in ("a.glb", "b.GLTF", "c.fbx", "uid/scene.gltf", "notes.txt", ".hidden.glb", "x.usdz", "eval/d.glb"):
        put(tmp_path / "files" / name)
    rows = make(tmp_path, "--assets=files", "--source=objaverse")
    assert {name: row["split"] for name, row in rows.items()} == {"a": "train", "b": "train", "c": "train", "uid": "train", "d": "eval"}
    assert {row["up_axis"] for row in rows.values()} == {"file"}


def test_meshes_that_are_not_read_are_named(tmp_path):
    put(tmp_path / "a.glb")
    put(tmp_path / "b.usdz")
    assert find_assets(tmp_path, "files").others == (tmp_path / "b.usdz",)


def test_an_axis_that_nothing_tells_must_be_named(tmp_path):
    put(tmp_path / "files" / "a.ply")
    assert "a.ply" in (error := make(tmp_path, "--assets=files", code=2)) and "[bad_argument]" in error
    assert not (tmp_path / "table.csv").exists()
    assert make(tmp_path, "--assets=files", "--up-axis=Y")["a"]["up_axis"] == "Y"


def test_two_assets_with_one_id_are_refused_and_both_named(tmp_path):
    for folder in ("x", "y"):
        put(tmp_path / "files" / folder / "a.glb")
    error = make(tmp_path, "--assets=files", code=2)
    assert "files/x/a.glb and files/y/a.glb" in error and "[duplicate_id]" in error
    assert list(make(tmp_path, "--assets=files", "--ids=path")) == ["x_a", "y_a"]


def test_a_name_that_is_no_id_gets_one_where_that_is_asked_for(tmp_path):
    put(tmp_path / "files" / "Crème brûlée.glb")
    assert list(make(tmp_path, "--assets=files")) == ["Crème brûlée"]
    (tmp_path / "table.csv").unlink()
    (name,) = make(tmp_path, "--assets=files", "--fix-ids")
    assert name == "Creme_brulee_" + hashlib.sha256("Crème brûlée".encode()).hexdigest()[:6]


def test_only_named_assets_are_taken(tmp_path):
    for name in "abc":
        put(tmp_path / "files" / f"{name}.glb")
    assert list(make(tmp_path, "--assets=files", "--only", "c", "a")) == ["a", "c"]
    assert "'z'" in make(tmp_path, "--assets=files", "--only=z", code=2)


def test_two_folders_make_one_table(tmp_path):
    scan(tmp_path / "gso", "mug")
    put(tmp_path / "files" / "a.glb")
    assert {name: row["source"] for name, row in make(tmp_path, "--assets", "gso", "files").items()} == {"a": "local", "mug": "gso"}


def test_a_renewed_table_keeps_ids_and_what_was_edited(tmp_path):
    path = put(tmp_path / "files" / "a.glb")
    make(tmp_path, "--assets=files")
    table = tmp_path / "table.csv"
    head, line = table.read_text().splitlines()
    table.write_text(f"{head},mine\n{line.replace('a,', 'kept,', 1).replace('train', 'eval')},x\n")
    path.write_text("more")
    put(tmp_path / "files" / "b.glb")
    rows = make(tmp_path, "--assets=files", "--license=MIT")
    assert [(row["asset_id"], row["split"], row["mine"], row["bytes"], row["license"]) for row in rows.values()] == [
        ("b", "train", "", "0", "MIT"),
        ("kept", "eval", "x", "4", "MIT"),
    ]


def test_a_row_whose_file_is_gone_stays_until_told_otherwise(tmp_path):
    put(tmp_path / "files" / "a.glb")
    gone = put(tmp_path / "files" / "b.glb")
    make(tmp_path, "--assets=files")
    gone.unlink()
    assert list(make(tmp_path, "--assets=files")) == ["a", "b"]
    assert list(make(tmp_path, "--assets=files", "--remove-gone")) == ["a"]


def test_what_a_download_says_stands_first(tmp_path):
    put(tmp_path / "dl" / "objects" / "x.glb", "x")
    record = {"file": "objects/x.glb", "sha256": "0" * 64, "source": "objaverse", "source_name": "A chair", "source_url": "https://sketchfab.com/3d-models/1"}
    put(tmp_path / "dl" / "fetched.jsonl", json.dumps({**record, "license": "by-nc", "author": "Ann"}) + "\n")
    (row,) = make(tmp_path, "--assets=dl", "--license=MIT", "--source=other").values()
    assert [row[key] for key in ("source", "source_name", "source_url", "license", "author")] == [*list(record.values())[2:], "CC-BY-NC-4.0", "Ann"]


def test_sketchfabs_version_is_not_put_on_another_sites_licence(tmp_path):
    put(tmp_path / "dl" / "x.glb", "x")
    record = {"file": "x.glb", "source": "objaverse", "source_url": "https://www.thingiverse.com/thing:1", "license": "Creative Commons - Attribution"}
    put(tmp_path / "dl" / "fetched.jsonl", json.dumps(record) + "\n")
    assert make(tmp_path, "--assets=dl")["x"]["license"] == "LicenseRef-unknown"


def test_a_download_list_of_another_form_is_refused(tmp_path):
    put(tmp_path / "dl" / "x.glb")
    put(tmp_path / "dl" / "fetched.jsonl", '{"path": "x.glb"}\n')
    assert "fetched.jsonl" in make(tmp_path, "--assets=dl", code=2)


UID = "8476c4170df24cf5bbe6967222d1a42d"
SHA = hashlib.sha256(b"mesh").hexdigest()


@pytest.mark.parametrize("name", ["any.glb", f"{SHA}.glb", f"{UID}.glb"])
def test_scores_are_joined_by_digest_or_sketchfabs_id(tmp_path, name):
    put(tmp_path / "files" / name, "mesh")
    put(tmp_path / "files" / "other.glb", "other")
    url = f"https://sketchfab.com/3d-models/{UID}"
    put(tmp_path / "scores.csv", f'sha256,file_identifier,aesthetic_score,captions\n{SHA},{url},5.75,"[""a, b""]"\n')
    rows = make(tmp_path, "--assets=files", "--metadata=scores.csv", "--source=objaverse")
    row = rows.pop(Path(name).stem)
    assert (row["scores"], row["source_url"], row["source_name"], row["license"]) == ('{"aesthetic":5.75}', url, UID, "LicenseRef-unknown")
    assert rows["other"]["scores"] == ""


def test_a_digest_that_a_download_states_is_joined_without_reading_the_file(tmp_path):
    path = put(tmp_path / "a.glb", "mesh")
    scores = Scores([put(tmp_path / "s.csv", f"sha256,aesthetic_score,license\n{SHA},6,MIT\n")])
    from sam3dvid.assets.facts import Facts

    found = scores.of(path, Facts(sha256=SHA), lambda path: pytest.fail("read"))
    assert found is not None and (dict(found.scores), found.license) == ({"aesthetic": 6.0}, "MIT")


def test_scores_are_renewed_in_an_old_row(tmp_path):
    put(tmp_path / "files" / f"{SHA}.glb", "mesh")
    for score in ("5.0", "7.25"):
        put(tmp_path / "s.csv", f"sha256,aesthetic_score\n{SHA},{score}\n")
        rows = make(tmp_path, "--assets=files", "--metadata=s.csv")
    assert rows[SHA]["scores"] == '{"aesthetic":7.25}'


@pytest.mark.parametrize("text", ["id,aesthetic_score\na,5\n", f"sha256,aesthetic_score\n{SHA},high\n", f"sha256,aesthetic_score\n{SHA},nan\n"])
def test_scores_of_another_form_are_refused(tmp_path, text):
    with pytest.raises(DataError, match="bad_table"):
        Scores([put(tmp_path / "s.csv", text)])


def test_a_blank_score_is_none(tmp_path):
    scores = Scores([put(tmp_path / "s.csv", f"sha256,aesthetic_score\n{SHA},\n")])
    assert scores.by_sha256[SHA].scores == {}


def test_a_folder_without_assets_is_refused(tmp_path):
    put(tmp_path / "files" / "a.txt")
    assert "[bad_table]" in make(tmp_path, "--assets=files", code=2)


def test_a_default_licence_that_means_nothing_is_refused(tmp_path):
    put(tmp_path / "files" / "a.glb")
    assert "[bad_argument]" in make(tmp_path, "--assets=files", "--license=cc by", code=2)


def test_a_link_to_a_file_beside_it_takes_nothing_of_its_name(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.glb").write_bytes(b"glTF")
    (tmp_path / "in" / "a.glb").symlink_to("b.glb")
    assert [asset.name for asset in find_assets(tmp_path / "in", "files").assets] == ["b"]


HEAD = "asset_id,path,split,source,source_name,license,up_axis,bytes,mtime_ns,parts\n"


@pytest.mark.parametrize(("written", "meant"), [("CC BY 4.0", "CC-BY-4.0"), ("CC0", "CC0-1.0"), ("GPL-3.0-only", "GPL-3.0-only"), ("", "LicenseRef-unknown")])
def test_a_licence_written_by_hand_is_read_as_its_id(tmp_path, written, meant):
    (row,) = read_asset_table(put(tmp_path / "t.csv", HEAD + f"a,a.glb,eval,mine,a,{written},file,1,2,[]\n"))
    assert row["license"] == meant


@pytest.mark.parametrize("written", ["CC-BY", "cc by", "my own", "all rights reserved"])
def test_a_licence_that_means_nothing_is_refused_by_name(tmp_path, written):
    with pytest.raises(DataError, match=r"'a': license is .*LicenseRef-NAME.*\[bad_table\]"):
        read_asset_table(put(tmp_path / "t.csv", HEAD + f"a,a.glb,eval,mine,a,{written},file,1,2,[]\n"))
