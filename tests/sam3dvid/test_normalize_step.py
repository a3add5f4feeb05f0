"""The step: what its items depend on, what it writes, and when a finished mesh is taken as it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sam3dvid.assets.normalize_step import asset_items, normalize_step
from sam3dvid.codes import AssetRefused
from sam3dvid.settings import NormalizeSettings
from sam3dvid.stage import ASSET_COLUMNS, normalized_place, read_asset_table
from shardwork.tables import write_table
from tests.sam3dvid.meshfiles import l_shape, write_scene

pytest.importorskip("bpy", reason="Blender is not installed")


def row_of(path, **changes):
    stat = path.stat()
    row = dict.fromkeys(ASSET_COLUMNS, "") | {"asset_id": "a_1", "path": path.name, "split": "train", "source": "objaverse", "up_axis": "file", "parts": "[]"}
    return row | {"bytes": str(stat.st_size), "mtime_ns": str(stat.st_mtime_ns)} | changes


@pytest.fixture
def item(tmp_path):
    """Return what makes the one item of a table whose row has these changes."""
    path = write_scene(tmp_path / "secret folder name.glb")

    def make(settings=None, **changes):
        write_table(tmp_path / "assets.csv", ASSET_COLUMNS, [row_of(path, **changes)])
        (made,) = asset_items(read_asset_table(tmp_path / "assets.csv"), tmp_path / "assets.csv", normalized_place(tmp_path / "stage"))
        return replace(made, fingerprint=normalize_step(settings or NormalizeSettings()).fingerprint(made, 0))

    return make


def adopt(item):
    step = normalize_step(NormalizeSettings())
    assert step.adopt is not None
    return step.adopt(item)


def run(item, **settings):
    return normalize_step(NormalizeSettings(**settings)).run_item(item)


@pytest.mark.parametrize("changes", [{"up_axis": "Z"}, {"split": "eval"}, {"bytes": "7"}])
def test_what_changes_the_mesh_changes_the_fingerprint(item, changes):
    assert item().fingerprint != item(**changes).fingerprint


@pytest.mark.parametrize("changes", [{"license": "CC0-1.0"}, {"source_name": "other"}, {"source": "gso"}])
def test_what_does_not_change_the_mesh_does_not_change_the_fingerprint(item, changes):
    assert item().fingerprint == item(**changes).fingerprint


def test_a_setting_changes_the_fingerprint(item):
    assert item().fingerprint != item(NormalizeSettings(untextured="keep")).fingerprint


def test_the_mesh_and_its_sidecar_stand_where_the_stage_says(item, tmp_path):
    fields = run(item())
    stage = tmp_path / "stage"
    assert sorted(str(path.relative_to(stage)) for path in stage.rglob("*") if path.is_file()) == ["sidecars/a_1.json", "train/a_1.glb"]
    noted = json.loads((stage / "sidecars" / "a_1.json").read_text())
    assert fields == noted["record"] | {"split": "train", "up_axis": "file"} and "seal" in noted
    assert str(tmp_path) not in (stage / "sidecars" / "a_1.json").read_text()


def test_a_finished_mesh_is_adopted_with_the_same_fields(item):
    made = item()
    assert adopt(made) is None
    fields = run(made)
    assert adopt(made) == fields


@pytest.mark.parametrize("which", [0, 1])
def test_a_changed_byte_is_not_adopted(item, which):
    made = item()
    run(made)
    data = bytearray(made.outputs[which].read_bytes())
    data[len(data) // 2] ^= 1
    made.outputs[which].write_bytes(data)
    assert adopt(made) is None


def test_a_mesh_made_for_another_item_is_not_adopted(item):
    run(item())
    assert adopt(item(up_axis="Z")) is None


def test_a_verdict_names_the_asset_as_the_table_writes_it(item, tmp_path):
    write_scene(tmp_path / "secret folder name.glb", mesh=l_shape((255, 255, 255, 255)))
    with pytest.raises(AssetRefused, match="no_colour") as error:
        run(item())
    assert error.value.where == "secret folder name.glb"
