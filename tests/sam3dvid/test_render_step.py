"""The step render_clips: what a folder and a row hold, what is made again, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.codes import CODES, HINTS
from sam3dvid.plan.catalogue import read_assets
from sam3dvid.plan.plan_step import plan_items, plan_step, stock_of
from sam3dvid.plan.planfile import read_plan, scene_digest
from sam3dvid.render.render_step import check_device, render_items, render_step
from sam3dvid.render.settings import RenderHost, RenderSettings
from sam3dvid.stage import PLAN_STEP, RENDER_RECORD, plans_place, render_of, renders_place
from shardwork.errors import DataError, Fault
from shardwork.place import the_manifest
from shardwork.run import Options, run_guard, run_shard
from tests.sam3dvid.stock import SMALL, pool_row, write_assets, write_pool

ROOT = Path(__file__).resolve().parents[2]
SHARD = "0000-of-0001"
CLIPS = ["00000000", "00000001"]
QUICK = RenderSettings(samples=1, denoise=False)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A dataset with assets and the plans of two clips."""
    folder = tmp_path_factory.mktemp("planned")
    write_assets(folder / "dataset")
    write_pool(folder / "pool", [pool_row("a", 512, 256)])
    assets, pool, place = read_assets(folder / "dataset", "eval"), read_pool(folder / "pool"), plans_place(folder / "plans")
    run_shard(plan_step(SMALL, stock_of("eval", assets, pool, folder / "dataset")), SHARD, plan_items(CLIPS, "eval", assets, pool, place), place, Options())
    return folder


@pytest.fixture(scope="module")
def finished(planned, tmp_path_factory):
    """The same, rendered."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copytree(planned, folder, dirs_exist_ok=True)
    return folder, run(folder)


@pytest.fixture
def world(planned, tmp_path):
    shutil.copytree(planned, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def rendered(finished, tmp_path):
    """A copy of a rendered run, and the rows that it had."""
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    return tmp_path, finished[1]


def places(folder):
    plans = plans_place(folder / "plans")
    return renders_place(folder / "renders", plans), plans


def items_in(folder, settings=QUICK, host=None):
    place, plans = places(folder)
    step = render_step(settings, host or RenderHost(), folder / "dataset")
    rows = the_manifest(plans, PLAN_STEP, SHARD)
    items = render_items(rows, "eval", place, plans, folder / "dataset")
    return step, [replace(item, fingerprint=step.fingerprint(item, 0)) for item in items]


def run(folder, workers=0, seconds=1800.0):
    place, plans = places(folder)
    step = render_step(QUICK, RenderHost(), folder / "dataset")
    assert step.hazard is not None
    step = replace(step, hazard=replace(step.hazard, seconds=seconds))
    return run_guard(step, SHARD, lambda rows: render_items(rows, "eval", place, plans, folder / "dataset"), PLAN_STEP, place, Options(workers=workers))


def in_a_process(code, folder):
    """Run a line of code in a fresh process: where Blender was loaded, a worker that is started finds parts of it first, and no step's own process loads it."""
    names = (
        "import sys; from pathlib import Path; from shardwork import command; from shardwork.jsonio import dumps; from tests.sam3dvid.test_render_step import *"
    )
    program = f"{names}\nif __name__ == '__main__':\n    {code}\n"
    (folder / "program.py").write_text(program)
    line = [sys.executable, str(folder / "program.py"), str(folder)]
    return subprocess.run(line, env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, capture_output=True, text=True, check=False)


def record_of(folder, clip_id):
    return json.loads((render_of(places(folder)[0], clip_id, "eval") / RENDER_RECORD).read_text())


def test_a_row_says_what_was_rendered(rendered):
    folder, rows = rendered
    for row in rows:
        plan = read_plan(folder / "plans" / "eval" / f"{row['id']}.json")
        assert (row["status"], row["split"], row["frames"], row["num_objects"]) == ("ok", "eval", 4, plan["num_objects"])


def test_the_record_names_settings_and_where_it_ran(rendered):
    noted = record_of(rendered[0], CLIPS[0])
    assert noted["settings"]["samples"] == 1
    assert noted["timing"]["device"]["kind"] == "CPU" and noted["timing"]["cpu_seconds"]["colours"] > 0


def test_no_path_of_the_machine_stands_in_a_record(rendered, finished):
    folder, _ = rendered
    text = json.dumps({key: value for key, value in record_of(folder, CLIPS[0]).items() if key != "timing"})
    assert str(folder) not in text and str(finished[0]) not in text and "/tmp" not in text


def test_rendered_in_a_worker_the_pictures_are_the_same(world, finished):
    done = in_a_process("print(*(row['pictures'] for row in run(Path(sys.argv[1]), workers=1)))", world)
    assert done.stdout.split() == [row["pictures"] for row in finished[1]]


def test_a_finished_clip_is_adopted_with_the_same_fields(rendered):
    folder, rows = rendered
    step, items = items_in(folder)
    for item, row in zip(items, rows, strict=True):
        fields = step.adopt(item)
        assert fields is not None and fields.items() <= row.items()


@pytest.mark.parametrize("name", ["rgba_fg/000.png", "mask_amodal/obj1/003.png", "depth/002.npz", RENDER_RECORD])
def test_a_changed_byte_is_not_adopted(rendered, name):
    folder, _ = rendered
    step, (item, _) = items_in(folder)
    path = item.outputs[0] / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert step.adopt(item) is None


def test_a_file_too_many_is_not_adopted(rendered):
    folder, _ = rendered
    step, (item, _) = items_in(folder)
    (item.outputs[0] / "rgba_fg" / "004.png").write_bytes(b"")
    assert step.adopt(item) is None


def test_a_file_too_few_is_not_adopted(rendered):
    folder, _ = rendered
    step, (item, _) = items_in(folder)
    (item.outputs[0] / "depth" / "001.npz").unlink()
    assert step.adopt(item) is None


def test_a_plan_names_the_meshes_that_it_shows(rendered):
    folder, _ = rendered
    assets = {asset.asset_id: asset.mesh_sha256 for asset in read_assets(folder / "dataset", "eval")}
    plan = read_plan(folder / "plans" / "eval" / f"{CLIPS[0]}.json")
    assert plan["meshes"] == {one["asset_id"]: assets[one["asset_id"]] for one in plan["objects"]}


def test_the_scene_is_what_a_plan_shows_its_meshes_included_and_not_what_it_was_drawn_from(rendered):
    plan = read_plan(rendered[0] / "plans" / "eval" / f"{CLIPS[0]}.json")
    assert scene_digest({**plan, "fingerprint": "another"}) == scene_digest(plan)
    assert scene_digest({**plan, "meshes": {**plan["meshes"], plan["objects"][0]["asset_id"]: "another"}}) != scene_digest(plan)
    assert scene_digest({**plan, "seed": plan["seed"] + 1}) != scene_digest(plan)


@pytest.mark.parametrize("changes", [{"samples": 2}, {"adaptive_threshold": 0.1}, {"bounces": 1}, {"denoise": True}, {"png_level": 1}])
def test_a_setting_makes_clips_again(world, changes):
    (_, before), (_, after) = items_in(world), items_in(world, replace(QUICK, **changes))
    assert all(one.fingerprint != other.fingerprint for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("changes", [{"device": "auto"}, {"threads": 1}, {"clip_seconds": 5.0}])
def test_how_a_machine_renders_makes_no_clip_again(world, changes):
    (_, before), (_, after) = items_in(world), items_in(world, host=RenderHost(**changes))
    assert before == after


def test_a_plan_that_changed_on_the_disk_is_made_again_and_not_rendered(world):
    path = world / "plans" / "eval" / f"{CLIPS[0]}.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":0', b'"seed":1'))
    with pytest.raises(Fault) as error:
        run(world)
    assert error.value.code == "fault_stale" and places(world)[1].manifests(PLAN_STEP, SHARD) == []


def test_a_mesh_that_is_not_what_the_plan_names_is_not_rendered(world):
    step, (item, _) = items_in(world)
    item.watched[1].write_bytes(b"other")
    with pytest.raises(Fault) as error:
        step.run_item(item)
    name = f"{item.watched[1].parent.name}/mesh.glb"
    assert (error.value.code, error.value.where) == ("bad_asset", name) and not item.outputs[0].exists()


def test_a_clip_without_a_plan_comes_with_its_verdict(world):
    place, plans = places(world)
    (item,) = render_items([{"id": CLIPS[0], "status": "quarantined", "code": "plan_exhausted"}], "eval", place, plans, world / "dataset")
    assert item.verdict == {"id": CLIPS[0], "status": "upstream", "code": "plan_exhausted", "step": PLAN_STEP}


def test_a_clip_that_takes_too_long_twice_is_refused(world):
    done = in_a_process("print(dumps(run(Path(sys.argv[1]), workers=1, seconds=0.01)))", world)
    assert [(row["status"], row["code"]) for row in json.loads(done.stdout)] == [("quarantined", "time_limit")] * 2
    assert "clip_seconds" in json.loads(done.stdout)[0]["hint"] and not list((world / "renders" / "eval").glob("*"))


def test_a_gpu_that_is_not_there_is_named_before_any_clip_starts(tmp_path):
    from sam3dvid.blender.clip_device import find_device

    if find_device("auto").kind != "CPU":
        pytest.skip("this machine has a GPU")
    done = in_a_process("command.run(lambda args: check_device(RenderHost(device='gpu')), command.parser('x'), [])", tmp_path)
    assert "[no_gpu]" in done.stderr and "OPTIX, CUDA" in done.stderr


def test_no_device_is_looked_for_unless_a_gpu_is_asked_for(monkeypatch):
    monkeypatch.setattr("sam3dvid.render.render_step.run_tasks", None)
    check_device(RenderHost(device="cpu"))
    check_device(RenderHost(device="auto"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [(RenderSettings, {"samples": 0}), (RenderSettings, {"png_level": 10}), (RenderSettings, {"denoise": 1}), (RenderSettings, {"adaptive_threshold": -0.1})]
    + [(RenderHost, {"device": "tpu"}), (RenderHost, {"threads": 0}), (RenderHost, {"clip_seconds": 0.0})],
)
def test_a_setting_out_of_range_is_refused(kind, values):
    with pytest.raises(DataError) as error:
        kind(**values)
    assert error.value.code == "bad_asset_setting"


@pytest.mark.parametrize("code", ["no_gpu", "time_limit", "blender_crashed"])
def test_the_codes_say_what_they_mean_and_what_to_do(code):
    assert CODES[code] and HINTS[code]
