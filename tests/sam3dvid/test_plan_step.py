"""The step plan_clips and its program: which clips a shard holds, what makes plans again, what is refused before anything starts."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh

from sam3dvid.backgrounds.pool import read_pool
from sam3dvid.codes import CODES, HINTS, AssetRefused
from sam3dvid.plan.catalogue import KEPT_MESHES, Meshes, assets_digest, read_assets
from sam3dvid.plan.plan_step import plan_items, plan_step, stock_of
from sam3dvid.plan.planfile import read_plan
from sam3dvid.plan.settings import PlanSettings
from sam3dvid.stage import assets_place, clip_shards, clips_of, plan_of, plans_place
from shardwork.errors import DataError, Fault
from shardwork.jsonio import dumps
from shardwork.run import Options, run_shard
from tests.sam3dvid.stock import SMALL, pool_row, write_assets, write_mesh, write_pool

ROOT = Path(__file__).resolve().parents[2]
CLIPS = [f"{index:08d}" for index in range(6)]


@pytest.fixture
def world(tmp_path):
    write_assets(tmp_path / "dataset")
    write_pool(tmp_path / "pool", [pool_row("b", 512, 256), pool_row("a", 512, 256), pool_row("c", 512, 256, split="train")])
    return tmp_path


def items_in(world, split="eval", clips=CLIPS):
    assets, pool, place = read_assets(world / "dataset", split), read_pool(world / "pool"), plans_place(world / "plans")
    return plan_step(SMALL, stock_of(split, assets, pool, world / "dataset")), plan_items(clips, split, assets, pool, place), place


def run(world, clips=CLIPS, workers=0):
    step, items, place = items_in(world, clips=clips)
    return run_shard(step, "0000-of-0001", items, place, Options(workers=workers))


def published(world):
    return {path.name: path.read_bytes() for path in (world / "plans" / "eval").iterdir()}


def program(world, *flags):
    sizes = [f"--frames={SMALL.frames}", f"--width={SMALL.width}", f"--height={SMALL.height}"]
    where = [f"--dataset={world / 'dataset'}", f"--pool={world / 'pool'}", f"--stage={world / 'plans'}"]
    line = [sys.executable, str(ROOT / "scripts" / "plan_clips.py"), *where, "--split=eval", *sizes, *flags]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_a_shard_holds_so_many_clips_in_a_row():
    shards = clip_shards(7, 3)
    assert shards == {"0000-of-333334": CLIPS[:3], "0001-of-333334": [*CLIPS[3:]], "0002-of-333334": ["00000006"]}
    assert clip_shards(9, 3).keys() == shards.keys(), "more clips leave the names of the shards before"


def test_a_shard_of_another_cut_is_refused():
    with pytest.raises(DataError) as error:
        clips_of("0001-of-250000", 7, 3)
    assert error.value.code == "bad_argument"


def test_a_manifest_row_says_what_the_plan_holds(world):
    rows = run(world)
    for row in rows:
        plan = read_plan(world / "plans" / "eval" / f"{row['id']}.json")
        assert row["assets"] == [one["asset_id"] for one in plan["objects"]]
        assert (row["num_objects"], row["seed"], row["image_id"]) == (plan["num_objects"], int(row["id"]), plan["background"]["image_id"])
        assert sum(row["rejected_by"].values()) == plan["attempt"] == row["attempt"]


def test_a_plan_is_one_line_of_json_with_sorted_keys(world):
    run(world)
    for data in published(world).values():
        assert data.endswith(b"}\n") and data.count(b"\n") == 1
        assert data.decode() == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")) + "\n"


def test_other_workers_shards_and_processes_write_the_same_bytes(world):
    run(world)
    here = published(world)
    for name in here:
        (world / "plans" / "eval" / name).unlink()
    for shard, workers in (("0001-of-333334", 2), ("0000-of-333334", 1)):
        done = program(world, "--clips=6", "--clips-per-shard=3", f"--shard={shard}", f"--workers={workers}")
        assert done.returncode == 0, done.stderr
    assert published(world) == here


def test_clips_from_a_number_on_keep_their_shards():
    assert clip_shards(5, 3, first=2) == {"0000-of-333334": ["00000002"], "0001-of-333334": CLIPS[3:], "0002-of-333334": ["00000006"]}


def test_no_two_cuts_give_a_shard_the_same_name():
    """A shard of another cut that bore the name would set aside, as ids that no table has, the clips that were its own."""
    assert len({next(iter(clip_shards(1, per_shard))) for per_shard in range(1, 1001)}) == 1000
    with pytest.raises(DataError, match="bad_argument"):
        clip_shards(1, 1001)


def test_another_cut_loses_no_plan(world):
    for per_shard in (2, 4):
        for shard, clip_ids in clip_shards(per_shard * 2, per_shard).items():
            step, items, place = items_in(world, clips=clip_ids)
            run_shard(step, shard, items, place, Options(workers=0))
    assert sorted(published(world)) == [f"{index:08d}.json" for index in range(8)]


def test_an_asset_whose_folder_is_gone_is_an_error_and_not_one_fewer(world):
    write_assets(world / "five", count=5)
    for split in ("eval", "train"):
        manifest = assets_place(world / "voxels", world / "five").manifest("voxelize_assets", f"000{len(split) % 2}-of-0002", "0" * 16)
        manifest.parent.mkdir(parents=True, exist_ok=True)
        ids = [f"box_{index}" for index in range(5)] if split == "eval" else []
        manifest.write_text("".join(dumps({"code": "", "id": name, "split": "eval", "status": "ok"}) + "\n" for name in ids))
    assert len(read_assets(world / "five", "eval", world / "voxels")) == 5
    shutil.rmtree(world / "five" / "assets" / "eval" / "box_2")
    with pytest.raises(AssetRefused, match=r"box_2.*bad_asset"):
        read_assets(world / "five", "eval", world / "voxels")


def test_a_picture_that_left_the_pool_is_an_error_before_anything_starts(world):
    pool = read_pool(world / "pool")
    pool.picture(pool.eval[0]).unlink()
    with pytest.raises(AssetRefused, match=r"no such file.*bad_pool"):
        stock_of("eval", read_assets(world / "dataset", "eval"), pool, world / "dataset")


def test_a_longer_list_of_clips_changes_no_plan(world):
    few = {row["id"]: row for row in run(world, clips=CLIPS[:3])}
    before = published(world)
    many = {row["id"]: row for row in run(world)}
    assert published(world).items() >= before.items() and few.items() <= many.items()


def test_a_changed_mesh_makes_every_plan_again(world):
    run(world)
    before = published(world)
    write_mesh(world / "dataset" / "assets" / "eval" / "box_3", trimesh.creation.icosphere(2, 0.5))
    run(world)
    after = published(world)
    assert before.keys() == after.keys() and all(before[name] != after[name] for name in before)


def test_a_changed_pool_makes_every_plan_again(world):
    _, before, _ = items_in(world)
    write_pool(world / "pool", [pool_row("a", 512, 256)])
    _, after, _ = items_in(world)
    assert all(one.inputs != other.inputs for one, other in zip(before, after, strict=True))


def test_a_picture_of_the_other_split_makes_no_plan_again(world):
    _, before, _ = items_in(world)
    write_pool(world / "pool", [pool_row("b", 512, 256), pool_row("a", 512, 256), pool_row("d", 512, 256, split="train")])
    _, after, _ = items_in(world)
    assert [one.inputs for one in before] == [one.inputs for one in after]


def test_backgrounds_of_a_plan_are_those_of_its_split(world):
    assert {row["image_id"] for row in run(world)} <= {"a", "b"}
    write_assets(world / "dataset", split="train")
    step, items, place = items_in(world, "train")
    rows = run_shard(step, "0000-of-0001", items, place, Options(workers=0))
    assert {row["image_id"] for row in rows} == {"c"}
    assert plan_of(place, CLIPS[0], "train").is_file()


def test_fewer_assets_than_a_clip_may_hold_are_an_error_before_anything_starts(world):
    write_assets(world / "few", count=3)
    done = program(world, f"--dataset={world / 'few'}", "--clips=6", "--clips-per-shard=6", "--shard=0000-of-166667")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "3 finished assets, expected at least 4" in done.stderr and "[too_few_assets]" in done.stderr
    assert not (world / "plans").exists()


def test_a_pool_without_pictures_of_the_split_is_an_error_before_anything_starts(world):
    write_pool(world / "pool", [pool_row("c", split="train")])
    done = program(world, "--clips=6", "--clips-per-shard=6", "--shard=0000-of-166667")
    assert done.returncode == 2 and "[no_backgrounds]" in done.stderr
    assert not (world / "plans").exists()


def test_an_asset_without_its_record_is_named(world):
    (world / "dataset" / "assets" / "eval" / "box_1" / "meta.json").unlink()
    with pytest.raises(AssetRefused, match=r"box_1/meta\.json.*\[bad_asset\]"):
        read_assets(world / "dataset", "eval")


def test_a_record_of_another_asset_is_named(world):
    folder = world / "dataset" / "assets" / "eval"
    (folder / "box_1" / "meta.json").write_bytes((folder / "box_2" / "meta.json").read_bytes())
    with pytest.raises(AssetRefused, match=r"asset_id 'box_2', expected 'box_1'"):
        read_assets(world / "dataset", "eval")


def test_a_mesh_that_changed_since_it_was_recorded_is_a_fault_and_no_verdict(world):
    path = world / "dataset" / "assets" / "eval" / "box_0" / "mesh.glb"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(Fault) as fault:
        run(world)
    assert fault.value.code == "fault_stale" and "box_0/mesh.glb" in str(fault.value)


def test_a_mesh_that_is_gone_is_a_fault_and_no_verdict(world):
    (world / "dataset" / "assets" / "eval" / "box_0" / "mesh.glb").unlink()
    with pytest.raises(Fault) as fault:
        run(world)
    assert fault.value.code == "fault_stale"


def test_meshes_that_are_kept_do_not_grow_in_number(world):
    write_assets(world / "many", count=KEPT_MESHES + 3)
    assets = read_assets(world / "many", "eval")
    shape_of = Meshes(world / "many", "eval")
    for asset in (*assets, assets[-1]):
        shape_of(asset)
    assert list(shape_of.kept) == [asset.asset_id for asset in assets[-KEPT_MESHES:]]


def test_digest_of_the_assets_is_another_with_one_fewer(world):
    assets = read_assets(world / "dataset", "eval")
    assert assets_digest(assets) != assets_digest(assets[:-1])


@pytest.mark.parametrize("change", [{"asset_id": "box_9"}, {"source": "gso"}, {"mesh_sha256": "0" * 64}], ids=lambda change: next(iter(change)))
def test_digest_of_the_assets_changes_with_each_fact_of_one_that_plans_hold(world, change):
    *others, last = read_assets(world / "dataset", "eval")
    assert assets_digest([*others, dataclasses.replace(last, **change)]) != assets_digest([*others, last])


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"split":"eval"}\n'])
def test_a_plan_that_is_not_whole_is_refused(world, damage):
    run(world, clips=CLIPS[:1])
    path = world / "plans" / "eval" / f"{CLIPS[0]}.json"
    path.write_bytes(damage)
    with pytest.raises(AssetRefused) as error:
        read_plan(path)
    assert error.value.code == "bad_plan"


def test_a_plan_with_one_changed_number_is_refused(world):
    run(world, clips=CLIPS[:1])
    path = world / "plans" / "eval" / f"{CLIPS[0]}.json"
    plan = json.loads(path.read_bytes())
    plan["objects"][0]["t_wo"][0] = np.nextafter(plan["objects"][0]["t_wo"][0], 9)
    path.write_text(json.dumps(plan, sort_keys=True))
    with pytest.raises(AssetRefused, match="bad_plan"):
        read_plan(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("frames", 1),
        ("height", 63),
        ("planned_visible_px", 0),
        ("planned_visible_frac", 1.5),
        ("sun_strength_max", 1.9),
        ("sun_angle_deg", 181.0),
        ("max_attempts", 0),
        ("width", 64.5),
        ("ambient_strength_min", float("nan")),
    ],
)
def test_a_setting_out_of_range_is_refused(name, value):
    with pytest.raises(AssetRefused) as error:
        PlanSettings(**{"width": 64, "height": 64, name: value} if name != "width" else {name: value})
    assert error.value.code == "bad_asset_setting"


def test_least_pixels_of_smaller_frames_shrink_with_the_area():
    assert [PlanSettings(width=side, height=side).planned_px for side in (512, 256, 64)] == [528, 132, 8]


def test_every_code_has_a_meaning_and_a_hint_and_no_hint_is_without_a_code():
    assert CODES.keys() == HINTS.keys()


@pytest.mark.parametrize("code", ["bad_asset", "too_few_assets", "no_backgrounds", "plan_exhausted", "bad_plan"])
def test_each_code_of_plans_is_a_sentence_and_its_hint_the_rest_of_one(code):
    assert re.fullmatch(r"[A-Z].{20,}\.", CODES[code])
    assert re.fullmatch(r"[a-z].{20,}[^.]", HINTS[code])


# Documentation


def test_the_lines_on_reading_a_plan_find_the_objects_centres_and_their_fewest_pixels(world):
    (code,) = [part.partition("```")[0] for part in (ROOT / "docs/clips_planning.md").read_text().split("```python\n")[1:]]
    path = world / "results" / "demo" / "plans" / "eval" / "00000025.json"
    path.parent.mkdir(parents=True)
    run(world)
    plan = next(plan for plan in map(json.loads, published(world).values()) if plan["num_objects"] > 1)
    path.write_text(json.dumps(plan))
    (world / "block.py").write_text(code + "print(json.dumps([uv.tolist(), least.tolist()]))\n")
    done = subprocess.run([sys.executable, "block.py"], cwd=world, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    uv, least = json.loads(done.stdout)
    for t, frame in enumerate(plan["cameras"]["frames"]):
        for k, one in enumerate(plan["objects"]):
            x, y, z = (sum(a * b for a, b in zip(row, [*one["t_wo"], 1.0], strict=True)) for row in frame["T_cw"][:3])
            # f = 32 / tan(25 deg), c = 31.5 in frames of 64 x 64
            assert uv[t][k] == pytest.approx([32 / math.tan(math.radians(25)) * along / z + 31.5 for along in (x, y)], abs=1e-9)
    assert least == [min(frame[k] for frame in plan["visibility"]["visible_px"]) for k in range(plan["num_objects"])]
